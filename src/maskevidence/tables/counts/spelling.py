"""How words are written: a distribution over strings for unseen words, and typing errors."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

Words = Sequence[str]
_Floats = Float64[np.ndarray, " _"]
_Ints = Int64[np.ndarray, " _"]

_ORDER = 4  # signs of an n-gram
_BEFORE = 2.0  # signs that the shorter context counts for (Dirichlet prior)
_OTHER = 1.1e6  # signs of Unicode, among which an unseen one is drawn
_COMMON = 4  # cells with a word that may be misspelt
_MOST_COMMON = 2000  # such words
_WORK = 4e8  # comparisons of signs
_CHUNK = 2**23  # of them at once
_SLIP = 0.05  # the probability of another sign
_SWEEPS = 30
_FEWEST = 20  # repeated words, by which the parts are weighed
_FEWEST_PAIRS = 3  # words that have it
_KINDS = {"a": 26, "A": 26, "9": 10}  # how many signs a letter of a format stands for


def log_new(words: Words, counts: _Ints, near: "Near") -> _Floats:
    """log p_new of each word: its log-probability as a word that is new to the column, nats.

    p_new is a mixture of four distributions over strings, weighed by EM: interpolated n-grams of signs; the
    formats of the column, such as "9.9 a", with equal probabilities of all letters or digits; its common
    words, mistyped; and any signs of the column. All are learned from the other words (leave-one-out), each
    word once, and a word that occurs once the less the fewer words occur twice: it may be a typing error.

    Args:
        words: the different words of a column.
        counts: how many cells hold each; 0 for words that are known without a cell.
        near: their `neighbours`.

    Example:
        >>> words = [*(f"AB-{k}" for k in range(100, 150)), "AB-777", "xyz!"]
        >>> counts = np.array([2] * 50 + [0, 0])
        >>> known, strange = log_new(words, counts, neighbours(words, counts))[50:]
        >>> bool(known > strange + 1)
        True
    """
    share = _trust(counts)
    mistyped = near.log_mistyped(counts)
    parts = np.stack([_log_ngrams(words, share), _log_formats(words, share), mistyped, log_any(words)])
    judges = counts > 1 if (counts > 1).sum() >= _FEWEST else counts > 0
    log_weights = np.log(np.full((len(parts), 1), 1 / len(parts)))
    for _ in range(_SWEEPS if judges.any() else 0):
        joint = parts[:, judges] + log_weights
        share_of = np.exp(joint - np.logaddexp.reduce(joint, axis=0)).mean(1, keepdims=True)
        log_weights = np.log((share_of + 1e-2) / (1 + 1e-2 * len(parts)))
    return np.logaddexp.reduce(parts + log_weights, axis=0)


def log_any(words: Words) -> _Floats:
    """The log-probability of each word if all characters of the column, and the end, are equally probable."""
    n_signs = 1 + len({sign for word in words for sign in word})
    return -np.log(n_signs) * np.array([len(word) + 1 for word in words], dtype=np.float64)


def _trust(counts: _Ints) -> _Floats:
    """The weight of each word in the fit; words that occur twice tell how many single ones are right."""
    once, twice = (counts == 1).sum(), (counts == 2).sum()
    return np.where(counts == 1, min(1.0, 2 * (twice + 1) / max(once, 1)), (counts > 1).astype(np.float64))


def _log_ngrams(words: Words, share: _Floats) -> _Floats:
    """Σ log p(sign | the 3 before it), each order interpolated with the next one, without the word itself.

    p_k(c | h) = (n(hc) + 2 p_{k-1}(c | h')) / (n(h) + 2), with h' the context h without its first sign.
    """
    lengths = np.array([len(word) + 1 for word in words])
    of_word = np.repeat(np.arange(len(words)), lengths)
    text = np.array([ord(sign) + 2 for word in words for sign in (*word, "\x00")], dtype=np.int64)
    ends = np.cumsum(lengths)
    text[ends - 1] = 1
    signs, code = np.unique(text, return_inverse=True)
    place = np.arange(len(text)) - np.repeat(ends - lengths, lengths)
    weight, n_signs = share[of_word], len(signs) + 1
    p = np.full(len(text), 1 / n_signs)
    context, n_context = np.zeros(len(text), dtype=np.int64), 1
    unseen = np.zeros(len(text), dtype=bool)
    for order in range(_ORDER):
        if order:
            before = np.where(place >= order, np.roll(code, order) + 1, 0)
            # contexts, with this character added, are numbered again
            _, context = np.unique(context * (n_signs + 1) + before, return_inverse=True)
            n_context = int(context.max(initial=0)) + 1
        joint = context * n_signs + code
        _, gram = np.unique(joint, return_inverse=True)
        of_gram, of_context = np.bincount(gram, weight), np.bincount(context, weight, n_context)
        own_gram, own_context = (_own(of_word, each, weight) for each in (gram, context))
        n_gram, n = of_gram[gram] - own_gram, of_context[context] - own_context
        p = (np.maximum(n_gram, 0) + _BEFORE * p) / (np.maximum(n, 0) + _BEFORE)
        if not order:
            unseen = n_gram <= 1e-9
    p = np.where(unseen, p / _OTHER, p)
    return np.bincount(of_word, np.log(p), len(words))


def _own(of_word: _Ints, key: _Ints, weight: _Floats) -> _Floats:
    """The contribution of each position's own word to the count of its key."""
    _, both = np.unique(of_word * (int(key.max(initial=0)) + 1) + key, return_inverse=True)
    return np.bincount(both, weight)[both]


def _log_formats(words: Words, share: _Floats) -> _Floats:
    """The log share of other words with the same format, plus that of the letters and digits within it."""
    formats = [letter_shape(word) for word in words]
    total = Counter[str]()
    for form, weight in zip(formats, share.tolist(), strict=True):
        total[form] += weight
    n = max(share.sum(), 1e-300)
    others = np.array([total[form] for form in formats]) - share
    letters = np.array([sum(np.log(_KINDS.get(sign, 1)) for sign in form) for form in formats])
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(others, 0) / np.maximum(n - share, 1e-300)) - letters


def letter_shape(word: str) -> str:
    """The format of a word: A for a capital, a for a small letter, 9 for a digit.

    Example:
        >>> letter_shape("12.0 oz")
        '99.9 aa'
    """
    return re.sub("[0-9]", "9", re.sub("[a-z]", "a", re.sub("[A-Z]", "A", word)))


class Near(NamedTuple):
    """Pairs of a word and a common word that it may be a misspelling of."""

    word: _Ints
    meant: _Ints
    log_typed: Float64[np.ndarray, " _"]  # log of the probability that this is typed for the other, wrongly
    n_words: int

    def log_mistyped(self, counts: _Ints) -> _Floats:
        """log Σ_v p(v) p(word | v, mistyped), over the other common words v."""
        found = np.full(self.n_words, -np.inf)
        p = np.log(np.maximum(counts, 1) / max(1, counts.sum()))
        np.logaddexp.at(found, self.word, p[self.meant] + self.log_typed)
        return found


def neighbours(words: Words, counts: _Ints) -> Near:
    """For each word the common ones from which it differs by a sign more or less, or by half of its signs.

    Half of the typing errors are one random edit: another sign, one more, or one less. In the other half each
    sign is another one with a probability of .05.

    Example:
        >>> found = neighbours(["birmingham", "birminxham", "birmingam"], np.array([9, 1, 1]))
        >>> sorted(zip(found.word.tolist(), found.meant.tolist()))
        [(1, 0), (2, 0)]
    """
    common = np.argsort(-counts, kind="stable")[: min(_MOST_COMMON, int((counts >= _COMMON).sum()))]
    length = np.array([len(word) for word in words], dtype=np.int64)
    total = max(1, int(length.sum()))
    common = common[: max(1, int(_WORK / total))]
    n_signs = max(2, len({sign for word in words for sign in word}))
    empty = np.zeros(0, dtype=np.int64)
    parts: list[tuple[np.ndarray, ...]] = [(empty, empty, np.zeros(0))]
    for size in np.unique(length[length > 1]).tolist():
        these = np.flatnonzero(length == size)
        for other in (size - 1, size, size + 1):
            meant = common[length[common] == other]
            if len(meant) and other > 1:
                parts += _near(words, these, meant, n_signs)
    word, right, log_typed = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(word, kind="stable")
    return Near(word[order], right[order], log_typed[order], len(words))


def habits(words: Words, counts: _Ints) -> Near:
    """Second writings of a column's words: "0.05%" for "0.05", where many words have the same signs more.

    Signs at the end or start that at least three words have more than another word each, all in fewer cells
    than these, are a habit of writing if none is a letter or a digit. The probability of a habit is its share
    of the words that have any.

    Example:
        >>> words = ["0.04", "0.05", "0.06", "0.04%", "0.05%", "0.06%"]
        >>> found = habits(words, np.array([9, 8, 7, 3, 4, 3]))
        >>> found.word.tolist(), found.meant.tolist(), found.log_typed.round(1).tolist()
        ([3, 4, 5], [0, 1, 2], [-0.3, -0.3, -0.3])
    """
    place = {word: k for k, word in enumerate(words) if counts[k]}
    pairs: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for k, word in enumerate(words):
        for rest, at_end in ((re.sub(r"[\W_]+$", "", word), True), (re.sub(r"^[\W_]+", "", word), False)):
            if rest != word and rest in place:
                more = word.removeprefix(rest) if at_end else word.removesuffix(rest)
                pairs.setdefault((more, at_end), []).append((k, place[rest]))
    kept = [np.array(some) for some in pairs.values() if len(some) >= _FEWEST_PAIRS]
    kept = [some for some in kept if counts[some[:, 0]].sum() < counts[some[:, 1]].sum()]
    word, meant = np.concatenate([np.zeros((0, 2), dtype=np.int64), *kept]).T
    share = np.repeat([len(some) for some in kept], [len(some) for some in kept])
    order = np.argsort(word, kind="stable")
    log_share = np.log(share / (len(np.unique(word)) + 1))
    return Near(word[order], meant[order], log_share[order], len(words))


def _near(words: Words, these: _Ints, meant: _Ints, n_signs: int) -> list[tuple[np.ndarray, ...]]:
    """Pair the words of one length with the common words of one length."""
    size, other = len(words[these[0]]), len(words[meant[0]])
    right, found = _signs(words, meant, other), list[tuple[np.ndarray, ...]]()
    n_edits = other * (n_signs - 1) + (other + 1) * n_signs + other
    for some in np.array_split(these, 1 + len(these) * len(meant) * size // _CHUNK):
        written = _signs(words, some, size)
        if size == other:
            n_other = (written[:, None] != right[None]).sum(2)
            close = (n_other > 0) & (n_other <= max(1, size // 2))
            n_other = n_other[close]
            slips = n_other * np.log(_SLIP / (n_signs - 1)) + (size - n_other) * np.log1p(-_SLIP)
            edited = np.where(n_other == 1, -np.log(n_edits), -np.inf)
            typed = np.log(0.5) + np.logaddexp(slips, edited)
        else:
            close = _one_more(written, right) if size > other else _one_more(right, written).T
            typed = np.full(int(close.sum()), np.log(0.5) - np.log(n_edits))
        row, column = np.nonzero(close)
        found.append((some[row], meant[column], typed))
    return found


def _signs(words: Words, some: _Ints, size: int) -> np.ndarray:
    """The characters of words of one length."""
    text = "".join(words[k] for k in some.tolist())
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).reshape(len(some), size)


def _one_more(long: np.ndarray, short: np.ndarray) -> Bool[np.ndarray, "_ _"]:
    """Which of the long words are a short one with one sign more."""
    size = short.shape[1]
    before = np.logical_and.accumulate(long[:, None, :size] == short[None], axis=2).sum(2)
    after = np.logical_and.accumulate(long[:, None, :0:-1] == short[None, :, ::-1], axis=2).sum(2)
    return before + after >= size


def rough_shape(word: str) -> str:
    """The format of a word, with runs of equal signs shortened to one.

    Example:
        >>> rough_shape("12.0 oz"), rough_shape("Bad Aibling")
        ('9.9 a', 'Aa Aa')
    """
    return re.sub(r"(.)\1+", r"\1", letter_shape(word))
