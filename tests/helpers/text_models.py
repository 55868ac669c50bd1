"""A small tokenizer and a small BERT with random weights, for tests of texts."""

from pathlib import Path
from typing import Any

import torch

SENTENCES = [
    "the rain falls on the roof and the dog sleeps",
    "a cat and a dog",
    "who is it that sings in the sun?",
    "unbelievable, said the cat",
    "rain",
]
WORDS = """
[PAD] [UNK] [CLS] [SEP] [MASK] the a and rain dog cat sun roof on in is it who that sings said falls
sleeps un ##believ ##able ##s ? , . here cafe
"""


def small_tokenizer() -> Any:
    """A tokenizer with some whole words, a few pieces and every letter."""
    from transformers import BertTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = list(dict.fromkeys([*WORDS.split(), *letters, *(f"##{letter}" for letter in letters), "[", "]"]))
    vocabulary = {word: number for number, word in enumerate(words)}
    return BertTokenizerFast(vocab=vocabulary, do_lower_case=True)


def small_bert(tokenizer: Any, **options: Any) -> Any:
    """A BERT with random weights large enough that its predictions differ between tokens."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    config.update(options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.15)
    return model


def save_bert(folder: Path, **options: Any) -> Path:
    """Save a small BERT and its tokenizer as transformers does."""
    tokenizer = small_tokenizer()
    small_bert(tokenizer, **options).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows_of(encoded: Any) -> list[list[int]]:
    """The tokens of each row of encoded texts."""
    present = encoded.tokens.maskable | encoded.tokens.context
    return [encoded.tokens.values[row, present[row]].tolist() for row in range(len(present))]
