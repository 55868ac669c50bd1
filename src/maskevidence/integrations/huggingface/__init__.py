"""Masked training with transformers: the collator, the trainer, the callback, and a training from start to
end."""

from maskevidence.integrations.huggingface.callback import EvidenceCallback
from maskevidence.integrations.huggingface.collator import MaskSizeCollator
from maskevidence.integrations.huggingface.recipe import Recipe, Trained, train_masked_lm
from maskevidence.integrations.huggingface.trainer import EvidenceTrainer, evidence_loss
from maskevidence.models.text.loading import load_tokenizer
from maskevidence.models.text.new_bert import new_bert, word_pieces

__all__ = [
    "EvidenceCallback",
    "EvidenceTrainer",
    "MaskSizeCollator",
    "Recipe",
    "Trained",
    "evidence_loss",
    "load_tokenizer",
    "new_bert",
    "train_masked_lm",
    "word_pieces",
]
