"""Texts as tokens of a masked language model: special tokens and prompts are context, all else is scored."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from itertools import islice, pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from maskevidence.core.errors import InputError, UnknownTokensWarning
from maskevidence.core.packed_tokens import PackedTokens
from maskevidence.core.show.words import RESIDUES, count
from maskevidence.core.support.progress import Advance, silent
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import Tokens
from maskevidence.texts.pieces import (
    NO_WORD,
    NOTHING,
    SPACED,
    Frame,
    Pieces,
    check_segments,
    frame_of,
    join_pieces,
    n_bytes_of,
    n_unknown,
    reads_residues,
    spelled_special,
    spelled_texts,
    tokenize,
    unknown_in,
    wants_spaces,
    with_spaces,
)
from maskevidence.texts.text_options import Long


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


class Joining(NamedTuple):
    """Blocks of texts joined by the tokenizer's end-of-text token; all of their tokens are scored."""

    # whether each block begins and ends with the tokenizer's special tokens, which are scored, too
    ends: bool = False
    visible: int = 0  # how many first tokens of a block are context


@dataclass(frozen=True)
class Encoding:
    """How texts become observations; see `MaskedLM.encode` for the options it shares."""

    second: Sequence[str] | None = None  # second texts of pairs
    context: Sequence[str] | None = None  # texts that stand before the scored ones
    context_pair: bool = False  # whether a context and its text are framed as the two of a pair
    ids: Sequence[int] | None = None  # whole numbers that masks are keyed by
    long: Long = "error"  # what happens to texts that are too long
    block_size: int | None = None  # tokens of a block of running text; None for one observation per text
    most_blocks: int | None = None  # the first ones alone
    # the longest text that the model reads, special tokens included; None if there is no limit
    max_tokens: int | None = None
    separator_id: int | None = None  # the token that ends a segment, if the model numbers segments
    # encode texts of which the tokenizer does not know a large share of the tokens
    allow_unknown: bool = False
    # how the texts of a block are joined; None for running text between special tokens
    joining: Joining | None = None
    lines: Sequence[int] | None = None  # of the texts in their file, for errors; None if that has no lines
    names: Sequence[str] | None = None  # of the texts, for errors; None if they have none

    @property
    def pair(self) -> bool:
        """Whether the first text is scored, too."""
        return self.second is not None

    def place(self, row: Row) -> str:
        """The place of a row's text in its file."""
        place = f"row {row.number}" if self.lines is None else f"line {self.lines[row.source]}"
        return place if self.names is None else f"{place} ({self.names[row.source]!r})"

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
        if self.context_pair and self.context is None:
            raise InputError("pair=True belongs to a context (--pair to --context-field); give one")
        if self.second is not None and self.context is not None:
            raise InputError("a pair of texts takes no context field; join the two columns first")
        if self.block_size is not None and (self.second is not None or self.context is not None):
            raise InputError(
                "blocks are made of one running text; leave out the second column or context field"
            )
        if self.second is not None and self.long == "split":
            raise InputError("a pair of texts cannot be split; truncate it, or score one column")


def shortened_rows(rows: list[Row], frame: Frame, options: Encoding, counts: Counter[str]) -> list[Row]:
    """The rows, each within the model's positions; `counts` adds up what was done, for `_note_on_length`."""
    if options.max_tokens is None:
        return rows
    room = options.max_tokens - frame.n_tokens
    too_long = [row for row in rows if row.n_tokens > room]
    if too_long and options.long == "error":
        row = too_long[0]
        raise InputError(
            f"the text in {options.place(row)} has {row.n_tokens + frame.n_tokens} tokens, special tokens "
            f"included, the model reads {options.max_tokens}; choose --long split or --long truncate, or "
            "--block-size"
        )
    shorter = [part for row in rows for part in _parts(row, room, options)] if too_long else rows
    before, after = (
        sum(row.n_tokens if options.pair else len(row.main.ids) for row in some) for some in (rows, shorter)
    )
    counts.update(long=len(too_long), texts=len(rows), parts=len(shorter), before=before, after=after)
    return shorter


def _note_on_length(counts: Counter[str], options: Encoding) -> list[str]:
    """A sentence on the texts that were split or truncated, if there are any."""
    if not counts["long"]:
        return []
    what = (
        f"{counts['long']:,} of {counts['texts']:,} texts were longer than the model's {options.max_tokens} "
        "tokens"
    )
    if options.long == "split":
        return [f"{what} and were split; there are {counts['parts']:,} observations, renumbered from 0"]
    lost = counts["before"] - counts["after"]
    return [f"{what} and were truncated; {lost:,} of {counts['before']:,} tokens are not scored"]


def _parts(row: Row, room: int, options: Encoding) -> list[Row]:
    """Return a row unchanged if it fits; else truncate it, or split it into nearly equal parts."""
    n_first, n_main = len(row.first.ids), len(row.main.ids)
    if row.n_tokens <= room:
        return [row]
    if options.pair:  # the longer one is cut until both fit
        keep = min(n_first, max(room - n_main, (room + 1) // 2))
        return [row._replace(first=row.first.part(0, keep), main=row.main.part(0, room - keep))]
    if n_first >= room:
        raise InputError(
            f"the context in {options.place(row)} has {n_first} tokens and leaves no room for "
            f"the text in {options.max_tokens}; shorten it"
        )
    if options.long == "truncate":
        return [row._replace(main=row.main.part(0, room - n_first))]
    n_parts = -(-n_main // (room - n_first))
    edges = np.linspace(0, n_main, n_parts + 1).round().astype(int).tolist()
    return [row._replace(main=row.main.part(start, end)) for start, end in pairwise(edges)]


def room_in_block(frame: Frame, options: Encoding) -> int:
    """The number of tokens of a block, without special ones."""
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


def _first(texts: list[Pieces], options: Encoding) -> list[Pieces]:
    """The first texts, whose tokens fill as many blocks as are read."""
    if options.most_blocks is None:
        return texts
    ends = np.cumsum([len(text.ids) for text in texts])
    return texts[: 1 + int(np.searchsorted(ends, options.most_blocks * (options.block_size or 0)))]


def blocks(texts: list[Pieces], frame: Frame, options: Encoding, notes: list[str]) -> list[Row]:
    """The tokens of all texts one after the other, cut into blocks; adds what is left out to `notes`.

    Raises:
        InputError: a block size that the model does not read, or that no block fills.
    """
    room = room_in_block(frame, options)
    running = join_pieces(texts)
    n_blocks, left = divmod(len(running.ids), room)
    if n_blocks == 0:
        special = f", {frame.n_tokens} of them special" if frame.n_tokens else ""
        raise InputError(
            f"the texts have {len(running.ids)} tokens, too few for a block of {room + frame.n_tokens}"
            f"{special}; give a smaller --block-size"
        )
    if n_blocks >= (most := options.most_blocks or n_blocks + 1):
        n_blocks = most
    elif left:
        notes.append(f"the last {left} of {len(running.ids):,} tokens fill no block and are not scored")
    source = np.repeat(np.arange(len(texts)), [len(text.ids) for text in texts])
    starts = range(0, n_blocks * room, room)
    return [
        Row(NOTHING, running.part(start, start + room), int(source[start]), number)
        for number, start in enumerate(starts)
    ]


def joined_blocks(
    tokenizer: Any, texts: list[Pieces], joining: Joining, options: Encoding, notes: list[str]
) -> list[Row]:
    """Blocks of texts with an end-of-text token after each.

    The tokens are the first ids of the encoded names, as the repositories of MDLM and SEDD read them: of a
    tokenizer that puts a token before each text, such as BERT's, both are that token.
    """
    names = (tokenizer.bos_token or tokenizer.cls_token, tokenizer.eos_token or tokenizer.sep_token)
    if names[1] is None or (names[0] is None and joining.ends):
        raise InputError("the tokenizer has no end-of-text token to join texts with; leave --recipe out")
    before, after = (Pieces([tokenizer.encode(name or names[1])[0]], [0], [0], 0) for name in names)
    frame = Frame(before.ids, [], after.ids) if joining.ends else Frame([], [], [])
    if joining.visible >= (options.block_size or 0):
        raise InputError(
            f"block_size={options.block_size} leaves no token to score after the first {joining.visible}; "
            "give more"
        )
    rows = blocks([join_pieces([text, after]) for text in texts], frame, options, notes)
    if joining.ends:
        rows = [row._replace(main=join_pieces([before, row.main, after])) for row in rows]
    n = joining.visible
    return [row._replace(first=row.main.part(0, n), main=row.main.part(n, len(row.main.ids))) for row in rows]


AS_ONE_TEXT = (
    "a prompt and its text are one text with a blank between them, as in the lm-evaluation-harness; --pair "
    "(pair=True) puts the separator of pairs there"
)
AS_A_PAIR = "a prompt and its text are framed as a pair, and cut into tokens each by itself"
_LARGE_SHARE = 0.05  # of unknown letters: a warning
_TOO_LARGE_SHARE = 0.2
_TRIED = 100  # texts
TEXTS_AT_ONCE = 2**13  # encoded together where their tokens are packed


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as a masked language model reads them."""

    tokens: Tokens  # the token ids; special tokens and prompts are context
    # shape (B, D); the number of the word that a maskable token is a part of, -1 elsewhere; None if the
    # tokenizer does not know
    words: Int64[Tensor, "B D"] | None
    # the position of the text that an observation comes from, the first one of a block
    source: Int64[np.ndarray, " B"]
    notes: tuple[str, ...] = ()  # what was split, truncated, left out or unknown, one sentence each


def encode_texts(tokenizer: Any, texts: Sequence[str], options: Encoding | None = None) -> EncodedTexts:
    """Encode texts as tokens; see `MaskedLM.encode`."""
    options = options or Encoding()
    options.check(texts)
    frame = frame_of(tokenizer, pair=options.pair or options.context_pair)
    notes, told = list[str](), _Told(tokenizer, options)
    if options.joining is not None:
        cut, frame = _first(tokenize(tokenizer, texts), options), Frame([], [], [])
        texts = texts[: len(cut)]
        rows = joined_blocks(tokenizer, cut, options.joining, options, notes)
        numbers = np.arange(len(rows))
    elif options.block_size is not None:
        room_in_block(frame, options)  # refuses a block size before the texts are tokenized
        cut = _first(tokenize(tokenizer, texts), options)
        texts = texts[: len(cut)]
        rows = blocks(cut, frame, options, notes)
        numbers = np.arange(len(rows))
    else:
        if frame.between and options.separator_id is not None:
            check_segments(tokenizer, options.separator_id)
        whole = _rows(tokenizer, texts, options)
        cut = [row.main for row in whole]
        cut = [row.first for row in whole] + cut if options.context or options.second else cut
        rows = shortened_rows(whole, frame, options, told.lengths)
        split = len(rows) > len(texts)
        numbers = np.arange(len(rows)) if split else np.array([row.number for row in rows], dtype=np.int64)
    columns = [column for column in (options.context, texts, options.second) if column is not None]
    every = [text for column in columns for text in column]
    told.add(rows, every, cut)
    notes += told.notes()
    tokens, words = _assembled(rows, frame, numbers, pad_of(tokenizer), score_first=options.pair)
    source = np.array([row.source for row in rows], dtype=np.int64)
    if options.block_size is None:  # where a block of running text ends depends on the tokenizer
        tokens = replace(tokens, text=torch.from_numpy(_hashes(columns)[source]))
    tokens = replace(tokens, spelled=torch.full((len(rows),), told.spelled))
    return EncodedTexts(tokens, words, source, tuple(notes))


class PackedTexts(NamedTuple):
    """Single texts as `EncodedTexts`, with the tokens in a file."""

    tokens: PackedTokens
    source: Int64[np.ndarray, " B"]
    notes: tuple[str, ...]


def pack_texts(
    tokenizer: Any, texts: Sequence[str], options: Encoding, advance: Advance = silent
) -> PackedTexts:
    """Encode single texts some at a time, so that the tokens of few of them are in memory.

    Args:
        texts: read by slices, so that they can lie in a file, too.
        options: no pairs, contexts or blocks.
        advance: called with the number of texts that were encoded since its last call.
    """
    options.check(texts)
    frame, told, sources = frame_of(tokenizer, pair=False), _Told(tokenizer, options), []

    def parts() -> Iterator[Tokens]:
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts[first : first + TEXTS_AT_ONCE]
            whole = _rows(tokenizer, some, replace(options, ids=range(first, first + len(some))), first)
            rows = shortened_rows(whole, frame, options, told.lengths)
            told.add(rows, some, [row.main for row in whole])
            ids = np.arange(len(rows))
            tokens, _ = _assembled(rows, frame, ids, pad_of(tokenizer), score_first=False)
            source = np.array([row.source for row in rows], dtype=np.int64)
            sources.append(source)
            yield replace(tokens, text=torch.from_numpy(_hashes([some])[source - first]))
            advance(len(some))

    packed = PackedTokens(parts(), pad_of(tokenizer))
    notes = told.notes()
    packed.spelled = told.spelled
    return PackedTexts(packed, np.concatenate(sources), tuple(notes))


def pad_of(tokenizer: Any) -> int:
    """The id of the padding token; 0 without one."""
    pad = getattr(tokenizer, "pad_token_id", None)
    return 0 if pad is None else int(pad)


def _hashes(columns: Sequence[Sequence[str]]) -> Int64[np.ndarray, " n_texts"]:
    """A hash of each text with its second text and its context."""
    return np.array([_hash("\x1f".join(parts)) for parts in zip(*columns, strict=True)], dtype=np.int64)


def _hash(text: str) -> int:
    return _number(digest(text.encode(errors="replace")))


def _number(hexadecimal: str) -> int:
    return int(hexadecimal[:14], 16)


def _rows(tokenizer: Any, texts: Sequence[str], options: Encoding, first_text: int = 0) -> list[Row]:
    """One row per text, of any length; `first_text` is the position of the first among all."""
    firsts, mains = (options.context, texts) if options.second is None else (texts, options.second)
    numbers = range(len(texts)) if options.ids is None else options.ids
    if options.context is not None and not options.context_pair:
        both = _after_contexts(tokenizer, options.context, texts)
    else:
        first = [NOTHING] * len(texts) if firsts is None else tokenize(tokenizer, firsts)
        both = list(zip(first, tokenize(tokenizer, mains), strict=True))
    rows = [
        Row(before, main, source, int(number))
        for (before, main), source, number in zip(both, count_from(first_text), numbers, strict=False)
    ]
    for row in rows:
        if not row.main.ids or (options.pair and not row.first.ids):
            raise InputError(f"the text in {options.place(row)} is empty; leave such rows out (--skip-empty)")
    return rows


def _after_contexts(
    tokenizer: Any, contexts: Sequence[str], texts: Sequence[str]
) -> list[tuple[Pieces, Pieces]]:
    """Tokenize each context and its text as one text, with a blank in between.

    As in the lm-evaluation-harness, the blank and a token across the border belong to the text.
    """
    if reads_residues(tokenizer):  # each residue is a token, and no blanks are
        return list(zip(tokenize(tokenizer, contexts), tokenize(tokenizer, texts), strict=True))
    kept = [context.rstrip() for context in contexts]
    after = [
        (context[len(own) :] or ("" if text[0].isspace() else " ")) + text if own and text else text
        for own, context, text in zip(kept, contexts, texts, strict=True)
    ]
    whole = tokenize(tokenizer, [own + text for own, text in zip(kept, after, strict=True)])
    both = []
    for own, text, rest, cut, alone in zip(kept, texts, after, whole, tokenize(tokenizer, kept), strict=True):
        if cut.bytes_each is None:  # the common beginning is the context's
            same = [a == b for a, b in zip(cut.ids, alone.ids, strict=False)]
            n = [*same, False].index(False)
        else:
            n_own, ends = n_bytes_of(own), np.cumsum(cut.bytes_each)
            blank = n_bytes_of(rest) - n_bytes_of(rest.lstrip())
            within = (ends - cut.bytes_each < n_own) & (ends <= n_own + blank)
            n = int(within.sum())
        main = cut.part(n, len(cut.ids))._replace(n_bytes=n_bytes_of(text))
        both.append((cut.part(0, n)._replace(n_bytes=n_bytes_of(own)), main))
    return both


class _Told:
    """Counts behind the notes on encoded texts, summed over parts of the texts."""

    def __init__(self, tokenizer: Any, options: Encoding) -> None:
        self.tokenizer, self.options = tokenizer, options
        self.lengths, self.lost, self._unknown = Counter[str](), Counter[str](), Counter[str]()
        self._first_unknown: str | None = None  # the place of the first text with an unknown token
        self._not_capital: list[str] = []  # some of the texts with small letters
        self._n_texts = self._n_special = 0
        self._special = ""  # the first special token that a text spells out
        self._residues = reads_residues(tokenizer)
        self._wants_spaces = self._residues and wants_spaces(tokenizer)
        self._spaced = False
        self._spelled = hashlib.sha256()

    def add(self, rows: list[Row], texts: Sequence[str], cut: Sequence[Pieces]) -> None:
        """Add some texts: their rows, the texts themselves, and the tokens of each."""
        number = getattr(self.tokenizer, "unk_token_id", None)
        if number is not None:
            with_unknown = (row for row in rows if number in row.main.ids or number in row.first.ids)
            if self._first_unknown is None and (row := next(with_unknown, None)) is not None:
                self._first_unknown = self.options.place(row)
            pieces = [text for row in rows for text in (row.first, row.main)]
            self._unknown.update(unknown_in(pieces, number))
        left = _TRIED - len(self._not_capital)
        self._not_capital += list(islice((text for text in texts if text.upper() != text), left))
        pattern = spelled_special(self.tokenizer)
        found = [] if pattern is None else list(filter(None, map(pattern.search, texts)))
        self._special = self._special or (found[0][0] if found else "")
        self._n_special += len(found)
        self._spaced |= self._wants_spaces and any(with_spaces(text) != text for text in texts)
        read, lost = spelled_texts(self.tokenizer, texts, cut)
        self._spelled.update(("\x1f" * bool(self._n_texts) + "\x1f".join(read)).encode(errors="replace"))
        self.lost.update(lost)
        self._n_texts += len(texts)

    @property
    def spelled(self) -> int:
        """A hash of what all tokens spell."""
        return _number(self._spelled.hexdigest())

    def notes(self) -> list[str]:
        """The notes, one sentence each; see `_on_unknown` for what is refused."""
        notes = _note_on_length(self.lengths, self.options)
        if self._first_unknown is not None:
            notes.append(self._on_unknown(self._first_unknown))
        if self._n_special:
            notes.append(
                f"special tokens, such as {self._special}, are spelled in {count(self._n_special, 'text')}: "
                "they are read as text"
            )
        if self._residues:
            notes += [RESIDUES, SPACED] if self._spaced else [RESIDUES]
        if self.options.context is not None:
            notes.append(AS_A_PAIR if self.options.context_pair else AS_ONE_TEXT)
        if self.lost:
            listed = ", ".join(f"{what} are lost in {n:,}" for what, n in self.lost.items())
            notes.append(
                f"the tokens do not spell the texts: {listed} of {self._n_texts:,}; bits per byte do not "
                "count these"
            )
        return notes

    def _on_unknown(self, place: str) -> str:
        """Note the share of text that the tokenizer does not know; refuse too large a share."""
        tokenizer, residues = self.tokenizer, self._residues
        n, n_all, unit = n_unknown(self._unknown)
        share, small = n / n_all, _capitals_help(tokenizer, self._not_capital, tokenizer.unk_token_id)
        what = (
            f"{n:,} of {n_all:,} {'letters' if residues and unit == 'bytes' else unit} ({share:.2%}) are "
            f"{tokenizer.unk_token}, first in {place}: the tokenizer does not "
            f"know {'small letters' if small else 'what they stand for'}"
        )
        if (share > _TOO_LARGE_SHARE or (residues and small)) and not self.options.allow_unknown:
            own = "give the model's own tokenizer, or --pattern if its vocab.txt has whole words"
            remedy = "write residues as capital letters" if residues else own
            remedy = "make them capital ones with --upper (text.upper())" if small else remedy
            raise InputError(f"{what}; {remedy}, or allow it with --allow-unknown (allow_unknown=True)")
        what += "; --upper makes them capital ones" if small else ""
        if share > _LARGE_SHARE:
            warnings.warn(f"{what}; check that it is the model's own", UnknownTokensWarning, stacklevel=5)
        return what


def _capitals_help(tokenizer: Any, some: Sequence[str], unknown: int) -> bool:
    """Whether less of some texts with small letters is unknown in capital letters."""
    both = [some, [text.upper() for text in some]] if some else []
    counts = [n_unknown(unknown_in(tokenize(tokenizer, each), unknown))[0] for each in both]
    return counts != sorted(counts)


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
