"""The texts of the study: what models are trained and scored on, and the sentences that are classified."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from _table_sets import Labels, data_folder
from maskevidence.texts.text_files import read_texts
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.new_bert import SIZES, new_bert, word_pieces
from maskevidence.core.tokens import Tokens

SOURCES = {  # of the text to train on, 2.5 million characters
    "glue/qnli:validation": ("question", "sentence"),
    "glue/mrpc:train": ("sentence1", "sentence2"),
    "glue/mrpc:test": ("sentence1", "sentence2"),
}
HELD_OUT = 0.05
BLOCKS = 128  # of held-out text, and of other text
SENTENCES, SHORTEST, LONGEST = 24, 10, 20  # words, of the sentences whose orders are drawn
TASKS = ("cola", "sst2")


class Corpus(NamedTuple):
    """Text as tokens.

    Attributes:
        tokenizer: 2,048 word pieces, made from the training part.
        train: blocks of 64 tokens.
        held_out: 128 blocks of held-out text of the same kind.
        elsewhere: 128 blocks of tiny Shakespeare.
        sentences: 24 held-out sentences.
    """

    tokenizer: Any
    train: Tokens
    held_out: Tokens
    elsewhere: Tokens
    sentences: Tokens


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    """The text, in an order that is the same for all models; a sentence that occurs twice is used once."""
    rows, seen = [], set()
    for source, columns in SOURCES.items():
        for row in zip(*read_texts(source, columns).fields, strict=True):
            new = [text for text in dict.fromkeys(row) if text not in seen]
            seen.update(new)
            rows.append(new)
    order = np.random.default_rng(26).permutation(len(rows))
    n_held_out = round(HELD_OUT * len(rows))
    held_out, train = ([text for row in part for text in rows[row]] for part in np.split(order, [n_held_out]))
    tokenizer = word_pieces(train, SIZES["small"].vocabulary_size)
    model, size = new_bert(tokenizer), SIZES["small"].block_size
    some = [text for text in held_out if SHORTEST <= len(text.split()) <= LONGEST][:SENTENCES]
    other = read_texts("tiny-shakespeare")["text"]
    return Corpus(
        tokenizer,
        model.tokens(train, block_size=size),
        model.tokens(held_out, block_size=size)[:BLOCKS],
        model.tokens(other[: len(other) // 10], block_size=size, allow_unknown=True)[:BLOCKS],
        model.tokens(some, long="truncate"),
    )


class Sentences(NamedTuple):
    """Sentences of a task with their classes, 0 or 1."""

    tokens: Tokens
    labels: Labels

    def part(self, rows: Labels) -> "Sentences":
        """The sentences at these positions."""
        return Sentences(self.tokens[torch.from_numpy(rows)], self.labels[rows])


@lru_cache(maxsize=4)
def task(name: str) -> Sentences:
    """All training sentences of CoLA or SST-2, cut at 64 tokens."""
    file = data_folder() / "glue" / name / "train-00000-of-00001.parquet"
    columns = pq.read_table(file, columns=["sentence", "label"]).to_pydict()
    tokens = _reader().tokens(columns["sentence"], long="truncate", allow_unknown=True)
    return Sentences(tokens, np.array(columns["label"], dtype=np.int64))


def drawn(name: str, seed: int, counts: Sequence[int]) -> list[Sentences]:
    """Disjoint random parts of a task with these numbers of sentences."""
    everything = task(name)
    order = np.random.default_rng([seed, len(name)]).permutation(len(everything.labels))
    parts = np.split(order[: sum(counts)], np.cumsum(counts)[:-1])
    return [everything.part(rows) for rows in parts]


def _reader() -> MaskedLM:
    return new_bert(corpus().tokenizer)
