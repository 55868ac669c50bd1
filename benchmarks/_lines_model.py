"""A small ModernBERT that has read a play, for questions about its lines."""

from pathlib import Path

import maskevidence as me
from _questions import lines_to_train_on
from _timing import is_quick
from maskevidence.huggingface import Recipe, TrainerOptions, train_masked_lm, word_pieces
from maskevidence.texts.new_bert import new_modern_bert

BLOCK, VOCABULARY = 64, 2048
DESIGN = me.FixedRate(0.4, 1)  # leaves the plateau of word frequencies sooner than random sizes do
STEPS, WARMUP = (2, 1) if is_quick() else (4000, 100)
RECIPE = Recipe(steps=STEPS, batch_size=8, learning_rate=1e-3, warmup=WARMUP)


def lines_model(folder: Path, *, bfloat16: bool) -> me.models.MaskedLM:
    """The model in a folder; if there is none, it is trained first, in one to two minutes of a core."""
    if not folder.exists():
        lines = lines_to_train_on()
        tokenizer = word_pieces(lines, VOCABULARY)
        model = new_modern_bert(tokenizer, positions=BLOCK)
        tokens = model.tokens(lines, block_size=BLOCK)
        train_masked_lm(model, tokens, DESIGN, RECIPE, TrainerOptions(device="cpu"))
        model.save(folder)
    return me.models.MaskedLM.from_pretrained(folder, bfloat16=bfloat16)
