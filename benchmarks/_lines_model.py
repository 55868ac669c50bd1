"""A small ModernBERT that has read a play, for questions about its lines."""

from pathlib import Path

import torch
import transformers

import maskevidence as me
from _questions import lines_to_train_on
from maskevidence.integrations.huggingface import Recipe, train_masked_lm, word_pieces

BLOCK, VOCABULARY, WIDTH, LAYERS = 64, 2048, 64, 2
DESIGN = me.FixedRate(0.4, 1)  # leaves the plateau of word frequencies sooner than random sizes do
RECIPE = Recipe(steps=4000, batch_size=8, learning_rate=1e-3, warmup=100)


def lines_model(folder: Path, *, bfloat16: bool) -> me.models.MaskedLM:
    """The model in a folder; if there is none, it is trained first, in one to two minutes of a core."""
    if not folder.exists():
        lines = lines_to_train_on()
        tokenizer = word_pieces(lines, VOCABULARY)
        torch.manual_seed(0)
        config = transformers.ModernBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=2,
            layer_types=["full_attention"] * LAYERS,
            max_position_embeddings=BLOCK,
            pad_token_id=tokenizer.pad_token_id,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            bos_token_id=None,
            eos_token_id=None,
        )
        model = me.models.MaskedLM(transformers.ModernBertForMaskedLM(config), tokenizer)
        train_masked_lm(model, model.tokens(lines, block_size=BLOCK), DESIGN, RECIPE, device="cpu")
        model.save(folder)
    return me.models.MaskedLM.from_pretrained(folder, bfloat16=bfloat16)
