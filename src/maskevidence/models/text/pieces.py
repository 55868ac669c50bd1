"""Texts cut into tokens by a tokenizer of Hugging Face, and the special tokens it puts around them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maskevidence.errors import InputError

NO_WORD = -1


class Pieces(NamedTuple):
    """The tokens of one text, or of a part of it, without special tokens.

    `word` and `bytes_each` have an entry per token; they are None if the tokenizer does not know.
    """

    ids: list[int]
    word: list[int] | None
    bytes_each: list[int] | None
    n_bytes: int | None

    def part(self, start: int, stop: int) -> "Pieces":
        """The tokens from `start` up to `stop`."""
        word = None if self.word is None else self.word[start:stop]
        each = None if self.bytes_each is None else self.bytes_each[start:stop]
        return Pieces(self.ids[start:stop], word, each, None if each is None else sum(each))


NOTHING = Pieces([], [], [], 0)


class Frame(NamedTuple):
    """The special tokens around one text, or around and between two."""

    before: list[int]
    between: list[int]
    after: list[int]

    @property
    def n_tokens(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


def tokenize(tokenizer: Any, texts: Sequence[str]) -> list[Pieces]:
    """The tokens of each text; special tokens that a text spells out are treated as text.

    Raises:
        InputError: something other than text.
    """
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
            pieces.append(Pieces(list(ids), None, None, n_bytes))
            continue
        word = [NO_WORD if w is None else w for w in encoded.word_ids(position)]
        starts = [start for start, _ in encoded["offset_mapping"][position]]
        pieces.append(Pieces(list(ids), word, _bytes_each(text, starts, n_bytes), n_bytes))
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


def frame_of(tokenizer: Any, *, pair: bool) -> Frame:
    """The special tokens that a tokenizer puts around one text, or around two.

    Raises:
        InputError: a tokenizer that changes the texts themselves.
    """
    texts = ("a", "b") if pair else ("a",)
    rest = list(tokenizer(*texts)["input_ids"])
    gaps = []
    for text in texts:
        inner = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        where = next((i for i in range(len(rest)) if rest[i : i + len(inner)] == inner), None)
        if not inner or where is None:
            raise InputError(
                "the tokenizer does not put special tokens around a text; give tokens, not texts"
            )
        gaps.append(rest[:where])
        rest = rest[where + len(inner) :]
    return Frame(gaps[0], gaps[1] if pair else [], rest)


def check_segments(tokenizer: Any, separator_id: int) -> None:
    """Raise an InputError unless the segment of a token is the number of separators before it."""
    encoded = tokenizer("a", "b")
    before = np.cumsum(np.array(encoded["input_ids"]) == separator_id)
    before[1:], before[0] = before[:-1].copy(), 0
    if "token_type_ids" in encoded and before.tolist() != list(encoded["token_type_ids"]):
        raise InputError("the tokenizer numbers the two texts of a pair in its own way; score one column")
