# pip install 'maskevidence[hf]'
from pathlib import Path

from transformers import TrainingArguments

import maskevidence as me
from maskevidence.integrations.huggingface import EvidenceCallback, EvidenceTrainer, MaskSizeCollator

bert, texts = me.models.MaskedLM.from_pretrained("my-bert"), Path("texts.txt").read_text().splitlines()
arguments = TrainingArguments("runs/trained", num_train_epochs=1, max_grad_norm=512, logging_steps=1)
features, collator = [dict(bert.tokenizer(text)) for text in texts[10:]], MaskSizeCollator(bert.tokenizer)
trainer = EvidenceTrainer(bert.network, arguments, train_dataset=features, data_collator=collator)
trainer.add_callback(EvidenceCallback(trainer, bert.tokens(texts[:10])))
trainer.train()
