"""Cut texts into tokens by a Hugging Face tokenizer; find its special tokens."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maskevidence.core.errors import InputError

NO_WORD = -1
_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_MAX_RESIDUES = 64
_PROBE = "MKTA"
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese
_NO_BLANKS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
SPACED = "the tokenizer wants spaces between residues; sequences without spaces got them"


class Pieces(NamedTuple):
    """The tokens of a text or part of a text, without special tokens.

    `word` and `bytes_each` have an entry per token; they are None if the tokenizer does not know.
    """

    ids: list[int]
    word: list[int] | None
    bytes_each: list[int] | None
    n_bytes: int | None

    def part(self, start: int, stop: int) -> "Pieces":
        """The tokens from `start` to before `stop`."""
        word = None if self.word is None else self.word[start:stop]
        each = None if self.bytes_each is None else self.bytes_each[start:stop]
        return Pieces(self.ids[start:stop], word, each, None if each is None else sum(each))


NOTHING = Pieces([], [], [], 0)


class Frame(NamedTuple):
    """The special tokens around a text, or around and between two texts."""

    before: list[int]
    between: list[int]
    after: list[int]

    @property
    def n_tokens(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


def tokenize(tokenizer: Any, texts: Sequence[str]) -> list[Pieces]:
    """Cut each text into tokens by a plain call of the tokenizer, without special tokens.

    Special tokens that a text spells out are treated as text. Spaces between the letters of a protein are no
    bytes.
    """
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {position} is {type(text).__name__}, not text; leave it out")
    pieces = _cut(tokenizer, texts)
    spelled = spelled_special(tokenizer)
    if spelled is None:
        return pieces
    special = special_ids(tokenizer)
    for position, text in enumerate(texts):
        if spelled.search(text) or not special.isdisjoint(pieces[position].ids):
            pieces[position] = _as_text(tokenizer, text, spelled, special)
    return pieces


def special_ids(tokenizer: Any) -> set[int]:
    """The ids of a tokenizer's special tokens, except the unknown token."""
    return {*getattr(tokenizer, "all_special_ids", ())} - {getattr(tokenizer, "unk_token_id", None)}


def spelled_special(tokenizer: Any) -> re.Pattern[str] | None:
    """A pattern for special tokens spelled out in a text; None if there are no special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    names = {*tokenizer.all_special_tokens, *(token.content for token in added if token.special)}
    if not names:
        return None
    return re.compile("(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")")


def _as_text(tokenizer: Any, text: str, spelled: re.Pattern[str], special: set[int]) -> Pieces:
    """Cut a text that spells out special tokens; these are split into smaller pieces.

    A tokenizer written in Python cannot split a special token and cut the rest as ever, and a unigram model
    has the special tokens in its vocabulary: there the text is cut around them, and they into characters.
    """
    if getattr(tokenizer, "is_fast", False):
        whole = _cut(tokenizer, [text], split=True)[0]
        if special.isdisjoint(whole.ids):
            return whole
    parts = []
    for number, part in enumerate(spelled.split(text)):
        if number % 2 == 0:
            parts += _cut(tokenizer, [part])
            continue
        as_one = _cut(tokenizer, [part], split=True)[0]
        parts += [as_one] if special.isdisjoint(as_one.ids) else _cut(tokenizer, list(part), split=True)
    return join_pieces(parts)


def _cut(tokenizer: Any, texts: Sequence[str], *, split: bool = False) -> list[Pieces]:
    """Cut each text into tokens; with `split`, spelled-out special tokens are split, too."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    residues = reads_residues(tokenizer)
    if residues and wants_spaces(tokenizer):
        texts = [with_spaces(text) for text in texts]
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=fast,
        split_special_tokens=split,
        verbose=False,
    )
    pieces = []
    for position, (text, ids) in enumerate(zip(texts, encoded["input_ids"], strict=True)):
        letters = "".join(text.split()) if residues else text
        n_bytes = n_bytes_of(letters)
        if residues and len(ids) == len(letters):
            pieces.append(Pieces(list(ids), list(range(len(ids))), list(map(n_bytes_of, letters)), n_bytes))
            continue
        if not fast:
            found = _starts(text, tokenizer.convert_ids_to_tokens(ids), tokenizer.unk_token)
            each = None if found is None else _bytes_each(text, found, n_bytes, residues)
            pieces.append(Pieces(list(ids), None, each, n_bytes))
            continue
        word = [NO_WORD if w is None else w for w in encoded.word_ids(position)]
        starts = [start for start, _ in encoded["offset_mapping"][position]]
        word = _words_apart(text, starts, word) if without_blanks(text) else word
        pieces.append(Pieces(list(ids), word, _bytes_each(text, starts, n_bytes, residues), n_bytes))
    return pieces


def n_bytes_of(text: str) -> int:
    """The number of UTF-8 bytes of a text."""
    return len(text.encode("utf-8", errors="replace"))


def _bytes_each(text: str, starts: list[int], n_bytes: int, residues: bool) -> list[int]:
    """Bytes from each token's first character to the next token's; the first token starts at 0."""
    if not starts:
        return []
    edges = np.maximum.accumulate(np.array([0, *starts[1:], len(text)]))
    if n_bytes != len(text):
        width = [0 if residues and character.isspace() else n_bytes_of(character) for character in text]
        edges = np.cumsum([0, *width])[edges]
    return np.diff(edges).tolist()


def _starts(text: str, tokens: list[str], unknown: str | None) -> list[int] | None:
    """The start of each token, if the known tokens spell the text but for unknown parts in between.

    Example:
        >>> _starts("MKaaT", ["M", "K", "<unk>", "T"], "<unk>"), _starts("MKT", ["m", "k", "t"], None)
        ([0, 1, 2, 4], None)
    """
    starts, end, open_ended = [], 0, False
    for token in tokens:
        if token == unknown:
            start, width = end, 0 if open_ended else 1
        else:
            word = token.removeprefix("##")
            start, width = text.find(word, end), len(word)
            if start < 0 or (not open_ended and text[end:start].strip()):
                return None
        starts.append(start)
        end, open_ended = start + width, token == unknown
    return starts


def without_blanks(text: str) -> bool:
    """Whether a text has letters of a script that puts no blanks between words."""
    return not text.isascii() and _NO_BLANKS.search(text) is not None


def _words_apart(text: str, starts: list[int], word: list[int]) -> list[int]:
    """Group tokens into words; in scripts without blanks, the parts of each character are a word."""
    first = [text[start:].lstrip()[:1] or " " for start in starts]
    numbers, number = [], 0
    for k, sign in enumerate(first):
        apart = (
            k and (_NO_BLANKS.match(sign) or _NO_BLANKS.match(first[k - 1])) and starts[k] != starts[k - 1]
        )
        own = apart and not unicodedata.category(sign).startswith("M")
        number += bool(k and (word[k] != word[k - 1] or own))
        numbers.append(NO_WORD if word[k] == NO_WORD else number)
    return numbers


def join_pieces(texts: Sequence[Pieces]) -> Pieces:
    """Join texts into one; bytes of texts without a token, such as empty lines, count for the next token."""
    ids: list[int] = []
    word: list[int] = []
    each: list[int] = []
    waiting = 0
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
    complete = len(each) == len(ids)
    counts = [text.n_bytes for text in texts]
    n_bytes = None if None in counts else sum(count or 0 for count in counts)
    return Pieces(ids, word if len(word) == len(ids) else None, each if complete else None, n_bytes)


def unknown_in(pieces: Sequence[Pieces], unknown: int) -> Counter[str]:
    """Count unknown tokens, and their bytes where known: one token may stand for many letters."""
    counts = Counter[str](tokens=sum(piece.ids.count(unknown) for piece in pieces))
    counts["all_tokens"] = sum(len(piece.ids) for piece in pieces)
    counts["without_bytes"] = sum(piece.bytes_each is None for piece in pieces)
    of_unknown = (zip(p.ids, p.bytes_each or [], strict=False) for p in pieces if unknown in p.ids)
    counts["bytes"] = sum(n for each in of_unknown for number, n in each if number == unknown)
    counts["all_bytes"] = sum(sum(piece.bytes_each or []) for piece in pieces)
    return counts


def n_unknown(counts: Counter[str]) -> tuple[int, int, str]:
    """How much of some texts is unknown, of how much, in bytes, or in tokens if need be; see `unknown_in`."""
    unit = "bytes" if counts["tokens"] and not counts["without_bytes"] else "tokens"
    return counts[unit], counts[f"all_{unit}"], unit


def spelled_texts(
    tokenizer: Any, texts: Sequence[str], cut: Sequence[Pieces]
) -> tuple[list[str], Counter[str]]:
    """The texts as their tokens tell them: a tokenizer may lose capitals, accents, blanks, unknown letters.

    Also in how many texts what is lost. Blanks count where a text has some: none are lost of a molecule.
    """
    residues, spelled, lost = reads_residues(tokenizer), [], Counter[str]()
    for text, pieces in zip(texts, cut, strict=True):
        letters, told = "".join(text.split()), text.strip()
        if residues and tokenizer.unk_token_id not in pieces.ids:
            spelled.append(letters)
            continue
        for clean in (False, True):  # blanks before a comma that the tokenizer's decoder knows are not lost
            read = tokenizer.decode(pieces.ids, clean_up_tokenization_spaces=clean).strip()
            if read == told:
                break
        found = "".join(read.split())
        spelled.append(found if letters == told or residues else read)
        if found != letters:
            lost["capital letters" if found == letters.lower() else "letters or accents"] += 1
        elif read != told and letters != told:
            lost["blanks"] += 1
    return spelled, lost


def reads_residues(tokenizer: Any) -> bool:
    """Whether the tokens are residues of proteins: amino acids as capital letters, and signs."""
    if len(tokenizer) > _MAX_RESIDUES:
        return False
    words = {word for word in tokenizer.get_vocab() if len(word) == 1 or not word.startswith(("<", "["))}
    return set(_AMINO_ACIDS) <= words and all(len(word) == 1 and not word.islower() for word in words)


def wants_spaces(tokenizer: Any) -> bool:
    """Whether a tokenizer of residues needs spaces between them, as ProtBERT's does."""
    together, apart = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("".join(_PROBE), " ".join(_PROBE))
    )
    return len(together) < len(apart) == len(_PROBE)


def with_spaces(text: str) -> str:
    """Put spaces between the letters of a sequence, unless the text has spaces already.

    Example:
        >>> with_spaces("MKT"), with_spaces("M K T")
        ('M K T', 'M K T')
    """
    return text if len(text.split()) > 1 else " ".join(text.strip())


def frame_of(tokenizer: Any, *, pair: bool) -> Frame:
    """The special tokens that a tokenizer puts around one text or two."""
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
    """Check that a token's segment equals the number of separators before it."""
    encoded = tokenizer("a", "b")
    before = np.cumsum(np.array(encoded["input_ids"]) == separator_id)
    before[1:], before[0] = before[:-1].copy(), 0
    if "token_type_ids" in encoded and before.tolist() != list(encoded["token_type_ids"]):
        raise InputError("the tokenizer numbers the two texts of a pair in its own way; score one column")
