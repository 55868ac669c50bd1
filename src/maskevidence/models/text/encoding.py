"""Texts as tokens: special tokens and prompts as context, long texts split or cut, running text in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.support.choices import Long
from maskevidence.tokens import Tokens

NO_WORD = -1


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as a masked language model reads them.

    Attributes:
        tokens: the token ids; special tokens and prompts are context.
        words: shape (B, D); the number of the word that a maskable token is a part of, -1 elsewhere; None
            where the tokenizer does not know.
        source: shape (B,); the position of the text that an observation comes from, the first one of a block.
        notes: what was split, cut or left out, one sentence each.
    """

    tokens: Tokens
    words: Int64[Tensor, "B D"] | None
    source: Int64[np.ndarray, " B"]
    notes: tuple[str, ...] = ()


class _Pieces(NamedTuple):
    """The tokens of one text, or of a part of it, without special tokens.

    `word` and `bytes_each` have an entry per token; they are None where the tokenizer does not know.
    """

    ids: list[int]
    word: list[int] | None
    bytes_each: list[int] | None
    n_bytes: int | None

    def part(self, start: int, stop: int) -> "_Pieces":
        word = None if self.word is None else self.word[start:stop]
        each = None if self.bytes_each is None else self.bytes_each[start:stop]
        return _Pieces(self.ids[start:stop], word, each, None if each is None else sum(each))


_NOTHING = _Pieces([], [], [], 0)


class _Row(NamedTuple):
    """One observation: a first text (of a pair, or a prompt), which may be empty, and a main one."""

    first: _Pieces
    main: _Pieces
    source: int


class _Frame(NamedTuple):
    """The special tokens around one text, or around and between two."""

    before: list[int]
    between: list[int]
    after: list[int]

    @property
    def n_tokens(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


def encode_texts(
    tokenizer: Any,
    texts: Sequence[str],
    *,
    second: Sequence[str] | None = None,
    context: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    max_tokens: int | None = None,
    long: Long = "error",
    block_size: int | None = None,
    separator_id: int | None = None,
) -> EncodedTexts:
    """See `MaskedLM.encode`.

    Args:
        max_tokens: the longest text that the model reads, special tokens included.
        separator_id: of the token that ends a segment, where the model numbers the segments by it.
    """
    _check_options(texts, second, context, ids, long, block_size)
    positions = np.arange(len(texts)) if ids is None else np.asarray(ids, dtype=np.int64)
    frame = _frame(tokenizer, pair=second is not None or context is not None)
    notes: list[str] = []
    if block_size is not None:
        rows = _blocks(_tokenize(tokenizer, texts), frame, block_size, max_tokens, notes)
    else:
        if frame.between and separator_id is not None:
            _check_segments(tokenizer, separator_id)
        firsts = texts if second is not None else context
        mains = texts if second is None else second
        rows = [
            _Row(first, main, source)
            for source, (first, main) in enumerate(
                zip(
                    [_NOTHING] * len(mains) if firsts is None else _tokenize(tokenizer, firsts),
                    _tokenize(tokenizer, mains),
                    strict=True,
                )
            )
        ]
        _check_empty(rows, positions, both=second is not None)
        rows = _fitted(rows, positions, frame, max_tokens, long, second is not None, notes)
    renumbered = block_size is not None or (long == "split" and len(rows) > len(texts))
    source = np.array([row.source for row in rows], dtype=np.int64)
    numbers = np.arange(len(rows)) if renumbered else positions[source]
    pad = getattr(tokenizer, "pad_token_id", None)
    tokens, words = _assemble(rows, frame, numbers, 0 if pad is None else int(pad), second is not None)
    return EncodedTexts(tokens, words, source, tuple(notes))


def _check_options(
    texts: Sequence[str],
    second: Sequence[str] | None,
    context: Sequence[str] | None,
    ids: Sequence[int] | None,
    long: Long,
    block_size: int | None,
) -> None:
    if isinstance(texts, str) or not len(texts):
        raise InputError("there is no list of texts; give one with a text or more")
    if long not in ("error", "split", "truncate"):
        raise InputError(f"long={long!r}; give 'error', 'split' or 'truncate'")
    for name, others in (("second", second), ("context", context), ("ids", ids)):
        if others is not None and len(others) != len(texts):
            raise InputError(
                f"there are {len(texts)} texts and {len(others)} of {name}; give as many of each"
            )
    if second is not None and context is not None:
        raise InputError("a pair of texts takes no context field; join the two columns first")
    if block_size is not None and (second is not None or context is not None):
        raise InputError("blocks are made of one running text; leave out the second column or context field")
    if second is not None and long == "split":
        raise InputError("a pair of texts cannot be split; truncate it, or score one column")


def _tokenize(tokenizer: Any, texts: Sequence[str]) -> list[_Pieces]:
    """Each text's tokens; a special token written out in a text is text."""
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {position} is {type(text).__name__}, not text; leave it out")
    fast = bool(getattr(tokenizer, "is_fast", False))
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=fast,
        split_special_tokens=True,
        verbose=False,
    )
    pieces = []
    for position, (text, ids) in enumerate(zip(texts, encoded["input_ids"], strict=True)):
        n_bytes = len(text.encode("utf-8", errors="replace"))
        if not fast:
            pieces.append(_Pieces(list(ids), None, None, n_bytes))
            continue
        word = [NO_WORD if w is None else w for w in encoded.word_ids(position)]
        starts = [start for start, _ in encoded["offset_mapping"][position]]
        pieces.append(_Pieces(list(ids), word, _bytes_each(text, starts, n_bytes), n_bytes))
    return pieces


def _bytes_each(text: str, starts: list[int], n_bytes: int) -> list[int]:
    """Bytes from each token's first character up to the next one's; the first begins at the text's start."""
    if not starts:
        return []
    edges = np.maximum.accumulate(np.array([0, *starts[1:], len(text)]))
    if n_bytes > len(text):
        width = [0, *(len(character.encode("utf-8", errors="replace")) for character in text)]
        edges = np.cumsum(width)[edges]
    return np.diff(edges).tolist()


def _frame(tokenizer: Any, *, pair: bool) -> _Frame:
    """The special tokens that the tokenizer puts around one text or two."""
    one, other = "a", "b"
    given = tokenizer(one, other) if pair else tokenizer(one)
    rest = list(given["input_ids"])
    gaps = []
    for text in (one, other) if pair else (one,):
        inner = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        where = next((i for i in range(len(rest)) if rest[i : i + len(inner)] == inner), None)
        if not inner or where is None:
            raise InputError(
                "the tokenizer does not put special tokens around a text; give tokens, not texts"
            )
        gaps.append(rest[:where])
        rest = rest[where + len(inner) :]
    return _Frame(gaps[0], gaps[1] if pair else [], rest)


def _check_segments(tokenizer: Any, separator_id: int) -> None:
    """Raise unless the segment of a token is the number of separators before it."""
    given = tokenizer("a", "b")
    before = np.cumsum(np.array(given["input_ids"]) == separator_id)
    before[1:], before[0] = before[:-1].copy(), 0
    if "token_type_ids" in given and before.tolist() != list(given["token_type_ids"]):
        raise InputError("the tokenizer numbers the two texts of a pair in its own way; score one column")


def _check_empty(rows: list[_Row], positions: Int64[np.ndarray, " N"], *, both: bool) -> None:
    for row in rows:
        if not row.main.ids or (both and not row.first.ids):
            raise InputError(f"the text in row {positions[row.source]} is empty; leave such rows out")


def _fitted(
    rows: list[_Row],
    positions: Int64[np.ndarray, " N"],
    frame: _Frame,
    max_tokens: int | None,
    long: Long,
    pair: bool,
    notes: list[str],
) -> list[_Row]:
    """The rows, each within the model's positions."""
    if max_tokens is None:
        return rows
    room = max_tokens - frame.n_tokens
    too_long = [row for row in rows if len(row.first.ids) + len(row.main.ids) > room]
    if not too_long:
        return rows
    if long == "error":
        row = too_long[0]
        length = len(row.first.ids) + len(row.main.ids) + frame.n_tokens
        raise InputError(
            f"the text in row {positions[row.source]} has {length} tokens, special tokens included, the "
            f"model reads {max_tokens}; choose --long split or --long truncate, or --block-size"
        )
    fitted: list[_Row] = []
    for row in rows:
        n_first, n_main = len(row.first.ids), len(row.main.ids)
        if n_first + n_main <= room:
            fitted.append(row)
        elif pair:  # the longer one is cut until both fit
            keep = min(n_first, max(room - n_main, (room + 1) // 2))
            fitted.append(_Row(row.first.part(0, keep), row.main.part(0, room - keep), row.source))
        elif n_first >= room:
            raise InputError(
                f"the context in row {positions[row.source]} has {n_first} tokens and leaves no place for "
                f"the text among {max_tokens}; shorten it"
            )
        else:
            n_parts = -(-n_main // (room - n_first)) if long == "split" else 1
            edges = np.linspace(0, n_main, n_parts + 1).round().astype(int).tolist()
            ends = edges[1:] if long == "split" else [room - n_first]
            fitted += [
                _Row(row.first, row.main.part(start, end), row.source)
                for start, end in zip(edges[:-1], ends, strict=True)
            ]
    before, after = (
        sum(len(row.main.ids) + (len(row.first.ids) if pair else 0) for row in some)
        for some in (rows, fitted)
    )
    what = f"{len(too_long):,} of {len(rows):,} texts were longer than the model's {max_tokens} tokens"
    if long == "split":
        notes.append(f"{what} and were split; there are {len(fitted):,} observations, numbered anew")
    else:
        notes.append(f"{what} and were truncated; {before - after:,} of {before:,} tokens are not scored")
    return fitted


def _blocks(
    texts: list[_Pieces], frame: _Frame, block_size: int, max_tokens: int | None, notes: list[str]
) -> list[_Row]:
    """The tokens of all texts one after the other, cut into blocks of one size."""
    room = block_size - frame.n_tokens
    if room < 1:
        raise InputError(
            f"block_size={block_size} has no place beside {frame.n_tokens} special tokens; give more"
        )
    if max_tokens is not None and block_size > max_tokens:
        raise InputError(
            f"block_size={block_size}, but the model reads {max_tokens} tokens; give at most that"
        )
    source = np.repeat(np.arange(len(texts)), [len(text.ids) for text in texts])
    ids: list[int] = []
    word: list[int] = []
    each: list[int] = []
    waiting = 0  # bytes of texts without a token, such as empty lines, count with the next token
    for text in texts:
        if not text.ids:
            waiting += text.n_bytes or 0
            continue
        ids += text.ids
        first_word = word[-1] + 1 if word else 0
        word += [first_word + number for number in text.word or []]
        if text.bytes_each:
            each += [text.bytes_each[0] + waiting, *text.bytes_each[1:]]
        waiting = 0
    known = len(each) == len(ids)
    running = _Pieces(ids, word if known else None, each if known else None, None)
    n_blocks, left = divmod(len(ids), room)
    if n_blocks == 0:
        raise InputError(
            f"the texts have {len(ids)} tokens, too few for a block of {room} (and {frame.n_tokens} special "
            "tokens); give a smaller --block-size"
        )
    if left:
        notes.append(f"the last {left} of {len(ids):,} tokens fill no block and are not scored")
    return [
        _Row(_NOTHING, running.part(i * room, (i + 1) * room), int(source[i * room])) for i in range(n_blocks)
    ]


def _assemble(
    rows: list[_Row], frame: _Frame, ids: Int64[np.ndarray, " B"], pad: int, score_first: bool
) -> tuple[Tokens, Int64[Tensor, "B D"] | None]:
    """The rows padded to their longest."""
    width = max(len(row.first.ids) + len(row.main.ids) for row in rows) + frame.n_tokens
    shape = (len(rows), width)
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
        ids=torch.from_numpy(ids.astype(np.int64)),
        n_bytes=torch.from_numpy(n_bytes) if know_bytes else None,
    )
    return tokens, torch.from_numpy(words) if know_words else None
