"""Texts as tokens of a masked language model: special tokens and prompts are context, all else is scored."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from maskevidence.errors import InputError, UnknownTokensWarning
from maskevidence.models.text.pieces import (
    NO_WORD,
    NOTHING,
    SPACED,
    Frame,
    check_segments,
    frame_of,
    reads_residues,
    tokenize,
    wants_spaces,
    with_spaces,
)
from maskevidence.models.text.text_lengths import Encoding, Row, blocks, room_in_block, shortened
from maskevidence.show.words import RESIDUES
from maskevidence.tokens import Tokens

_LARGE_SHARE = 0.05  # of unknown tokens: a warning
_TOO_LARGE_SHARE = 0.2


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as a masked language model reads them.

    Attributes:
        tokens: the token ids; special tokens and prompts are context.
        words: shape (B, D); the number of the word that a maskable token is a part of, -1 elsewhere; None
            if the tokenizer does not know.
        source: shape (B,); the position of the text that an observation comes from, the first one of a block.
        notes: what was split, truncated, left out or unknown, one sentence each.
    """

    tokens: Tokens
    words: Int64[Tensor, "B D"] | None
    source: Int64[np.ndarray, " B"]
    notes: tuple[str, ...] = ()


def encode_texts(tokenizer: Any, texts: Sequence[str], options: Encoding | None = None) -> EncodedTexts:
    """Encode texts as tokens; see `MaskedLM.encode`."""
    options = options or Encoding()
    options.check(texts)
    frame = frame_of(tokenizer, pair=options.pair or options.context is not None)
    notes: list[str] = []
    if options.block_size is not None:
        room_in_block(frame, options)  # refuses a block size before the texts are tokenized
        rows = blocks(tokenize(tokenizer, texts), frame, options, notes)
        numbers = np.arange(len(rows))
    else:
        if frame.between and options.separator_id is not None:
            check_segments(tokenizer, options.separator_id)
        rows = shortened(_rows(tokenizer, texts, options), frame, options, notes)
        split = len(rows) > len(texts)
        numbers = np.arange(len(rows)) if split else np.array([row.number for row in rows], dtype=np.int64)
    _count_unknown(tokenizer, rows, options, notes)
    if reads_residues(tokenizer):
        notes.append(RESIDUES)
        if wants_spaces(tokenizer) and any(with_spaces(text) != text for text in texts):
            notes.append(SPACED)
    pad = getattr(tokenizer, "pad_token_id", None)
    tokens, words = _assembled(rows, frame, numbers, 0 if pad is None else int(pad), score_first=options.pair)
    source = np.array([row.source for row in rows], dtype=np.int64)
    if options.block_size is None:  # where a block of running text ends depends on the tokenizer
        tokens = replace(tokens, text=torch.from_numpy(_hashes(texts, options)[source]))
    return EncodedTexts(tokens, words, source, tuple(notes))


def _hashes(texts: Sequence[str], options: Encoding) -> Int64[np.ndarray, " n_texts"]:
    """A hash of each text with its second text and its context."""
    columns = [column for column in (options.context, texts, options.second) if column is not None]
    joined = ("\x1f".join(parts).encode(errors="replace") for parts in zip(*columns, strict=True))
    return np.array([int.from_bytes(hashlib.sha256(text).digest()[:7]) for text in joined], dtype=np.int64)


def _rows(tokenizer: Any, texts: Sequence[str], options: Encoding) -> list[Row]:
    """One row per text, of any length.

    Raises:
        InputError: an empty text.
    """
    firsts, mains = (options.context, texts) if options.second is None else (texts, options.second)
    first = [NOTHING] * len(texts) if firsts is None else tokenize(tokenizer, firsts)
    numbers = range(len(texts)) if options.ids is None else options.ids
    rows = [
        Row(before, main, source, int(number))
        for before, main, source, number in zip(
            first, tokenize(tokenizer, mains), range(len(texts)), numbers, strict=True
        )
    ]
    for row in rows:
        if not row.main.ids or (options.pair and not row.first.ids):
            raise InputError(f"the text in row {row.number} is empty; leave such rows out")
    return rows


def _count_unknown(tokenizer: Any, rows: list[Row], options: Encoding, notes: list[str]) -> None:
    """Add the share of tokens that the tokenizer does not know to `notes`, unless it is 0.

    Raises:
        InputError: a share above 20 %, unless it is allowed.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is None:
        return
    n_unknown: int = sum(text.ids.count(unknown) for row in rows for text in (row.first, row.main))
    n_tokens = sum(row.n_tokens for row in rows)
    if n_unknown == 0:
        return
    share = n_unknown / n_tokens
    what = (
        f"{n_unknown:,} of {n_tokens:,} tokens ({share:.2%}) are {tokenizer.unk_token}: the tokenizer does "
        "not know what they stand for"
    )
    if share > _TOO_LARGE_SHARE and not options.allow_unknown:
        residues = "write residues as capital letters, with spaces if the model needs them"
        remedy = residues if reads_residues(tokenizer) else "give the model's own tokenizer"
        raise InputError(f"{what}; {remedy}, or allow it with --allow-unknown (allow_unknown=True)")
    if share > _LARGE_SHARE:
        warnings.warn(f"{what}; check that it is the model's own", UnknownTokensWarning, stacklevel=4)
    notes.append(what)


def _assembled(
    rows: list[Row], frame: Frame, ids: Int64[np.ndarray, " B"], pad: int, *, score_first: bool
) -> tuple[Tokens, Int64[Tensor, "B D"] | None]:
    """The rows padded to the longest one, and the words of their tokens."""
    shape = (len(rows), max(row.n_tokens for row in rows) + frame.n_tokens)
    values = np.full(shape, pad, dtype=np.int64)
    maskable, present = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    words = np.full(shape, NO_WORD, dtype=np.int64)
    know_words = all(row.main.word is not None and row.first.word is not None for row in rows)
    n_bytes = np.zeros(len(rows), dtype=np.int64)
    know_bytes = all(row.main.n_bytes is not None and row.first.n_bytes is not None for row in rows)
    for i, row in enumerate(rows):
        line = [*frame.before, *row.first.ids, *frame.between, *row.main.ids, *frame.after]
        values[i, : len(line)] = line
        present[i, : len(line)] = True
        start = len(frame.before)
        for text, scored in ((row.first, score_first), (row.main, True)):
            end = start + len(text.ids)
            if scored:
                maskable[i, start:end] = True
                n_bytes[i] += text.n_bytes or 0
                if text.word is not None:
                    words[i, start:end] = np.array(text.word, dtype=np.int64) + words[i].max() + 1
            start = end + len(frame.between)
    tokens = Tokens(
        values=torch.from_numpy(values),
        maskable=torch.from_numpy(maskable),
        context=torch.from_numpy(present & ~maskable),
        ids=torch.from_numpy(ids),
        n_bytes=torch.from_numpy(n_bytes) if know_bytes else None,
    )
    return tokens, torch.from_numpy(words) if know_words else None
