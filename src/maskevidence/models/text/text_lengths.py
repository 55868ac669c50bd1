"""Texts brought to lengths that a model reads: long ones split or truncated, running text cut into blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, get_args

import numpy as np

from maskevidence.errors import InputError
from maskevidence.models.text.pieces import NOTHING, Frame, Pieces, joined
from maskevidence.support.choices import Long


class Row(NamedTuple):
    """One observation: a first text (of a pair, or a prompt), which may be empty, and a main one.

    `source` is the position of the text in the list of texts, `number` the observation id of the text.
    """

    first: Pieces
    main: Pieces
    source: int
    number: int

    @property
    def n_tokens(self) -> int:
        """The number of tokens, without special ones."""
        return len(self.first.ids) + len(self.main.ids)


@dataclass(frozen=True)
class Encoding:
    """How texts become observations; see `MaskedLM.encode` for the options it shares.

    Attributes:
        second: second texts of pairs.
        context: texts that stand before the scored ones.
        ids: whole numbers that masks are keyed by.
        long: what happens to texts that are too long.
        block_size: tokens of a block of running text; None for one observation per text.
        max_tokens: the longest text that the model reads, special tokens included; None if there is no limit.
        separator_id: the token that ends a segment, if the model numbers segments.
        allow_unknown: encode texts of which the tokenizer does not know a large share of the tokens.
    """

    second: Sequence[str] | None = None
    context: Sequence[str] | None = None
    ids: Sequence[int] | None = None
    long: Long = "error"
    block_size: int | None = None
    max_tokens: int | None = None
    separator_id: int | None = None
    allow_unknown: bool = False

    @property
    def pair(self) -> bool:
        """Whether the first text is scored, too."""
        return self.second is not None

    def check(self, texts: Sequence[str]) -> None:
        """Raise an InputError unless the options fit each other and the texts."""
        if isinstance(texts, str) or not len(texts):
            raise InputError("there is no list of texts; give one with a text or more")
        if self.long not in get_args(Long):
            raise InputError(f"long={self.long!r}; give 'error', 'split' or 'truncate'")
        for name, others in (("second", self.second), ("context", self.context), ("ids", self.ids)):
            if others is not None and len(others) != len(texts):
                raise InputError(
                    f"there are {len(texts)} texts and {len(others)} of {name}; give as many of each"
                )
        if self.second is not None and self.context is not None:
            raise InputError("a pair of texts takes no context field; join the two columns first")
        if self.block_size is not None and (self.second is not None or self.context is not None):
            raise InputError(
                "blocks are made of one running text; leave out the second column or context field"
            )
        if self.second is not None and self.long == "split":
            raise InputError("a pair of texts cannot be split; truncate it, or score one column")


def shortened(rows: list[Row], frame: Frame, options: Encoding, notes: list[str]) -> list[Row]:
    """The rows, each within the model's positions; adds a sentence on what was done to `notes`.

    Raises:
        InputError: a row that is too long and may not be shortened, or a prompt that leaves no room.
    """
    if options.max_tokens is None:
        return rows
    room = options.max_tokens - frame.n_tokens
    too_long = [row for row in rows if row.n_tokens > room]
    if not too_long:
        return rows
    if options.long == "error":
        row = too_long[0]
        raise InputError(
            f"the text in row {row.number} has {row.n_tokens + frame.n_tokens} tokens, special tokens "
            f"included, the model reads {options.max_tokens}; choose --long split or --long truncate, or "
            "--block-size"
        )
    shorter = [part for row in rows for part in _parts(row, room, options)]
    what = (
        f"{len(too_long):,} of {len(rows):,} texts were longer than the model's {options.max_tokens} tokens"
    )
    if options.long == "split":
        notes.append(f"{what} and were split; there are {len(shorter):,} observations, renumbered from 0")
    else:
        before, after = (
            sum(row.n_tokens if options.pair else len(row.main.ids) for row in some)
            for some in (rows, shorter)
        )
        notes.append(f"{what} and were truncated; {before - after:,} of {before:,} tokens are not scored")
    return shorter


def _parts(row: Row, room: int, options: Encoding) -> list[Row]:
    """A row as it is if it fits, truncated, or split into parts of nearly equal length."""
    n_first, n_main = len(row.first.ids), len(row.main.ids)
    if row.n_tokens <= room:
        return [row]
    if options.pair:  # the longer one is cut until both fit
        keep = min(n_first, max(room - n_main, (room + 1) // 2))
        return [row._replace(first=row.first.part(0, keep), main=row.main.part(0, room - keep))]
    if n_first >= room:
        raise InputError(
            f"the context in row {row.number} has {n_first} tokens and leaves no room for "
            f"the text in {options.max_tokens}; shorten it"
        )
    if options.long == "truncate":
        return [row._replace(main=row.main.part(0, room - n_first))]
    n_parts = -(-n_main // (room - n_first))
    edges = np.linspace(0, n_main, n_parts + 1).round().astype(int).tolist()
    return [row._replace(main=row.main.part(start, end)) for start, end in pairwise(edges)]


def room_in_block(frame: Frame, options: Encoding) -> int:
    """The number of tokens of a block, without special ones.

    Raises:
        InputError: a block size that the model does not read, or that special tokens fill.
    """
    block_size = options.block_size or 0
    room = block_size - frame.n_tokens
    if room < 1:
        raise InputError(
            f"block_size={block_size} leaves no room beside {frame.n_tokens} special tokens; give more"
        )
    if options.max_tokens is not None and block_size > options.max_tokens:
        raise InputError(
            f"block_size={block_size}, but the model reads {options.max_tokens} tokens; give at most that"
        )
    return room


def blocks(texts: list[Pieces], frame: Frame, options: Encoding, notes: list[str]) -> list[Row]:
    """The tokens of all texts one after the other, cut into blocks; adds what is left out to `notes`.

    Raises:
        InputError: a block size that the model does not read, or that no block fills.
    """
    room = room_in_block(frame, options)
    running = joined(texts)
    n_blocks, left = divmod(len(running.ids), room)
    if n_blocks == 0:
        raise InputError(
            f"the texts have {len(running.ids)} tokens, too few for a block of {room} (and "
            f"{frame.n_tokens} special tokens); give a smaller --block-size"
        )
    if left:
        notes.append(f"the last {left} of {len(running.ids):,} tokens fill no block and are not scored")
    source = np.repeat(np.arange(len(texts)), [len(text.ids) for text in texts])
    starts = range(0, n_blocks * room, room)
    return [
        Row(NOTHING, running.part(start, start + room), int(source[start]), number)
        for number, start in enumerate(starts)
    ]
