"""Hashes of the rows that a model was fitted to, by which they are found again."""

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.tokens import Tokens

_KEPT = 1_000  # the smallest hashes, a random sample of rows
_UNIQUE = 0.9  # fewest distinct hashes, as a share of rows; below it, many rows are equal
_NOTED, _FEWEST = 0.2, 3  # share and number of matching rows that are noted
_DIGITS = 14  # hexadecimal digits of a 53-bit hash
_ROWS_AT_ONCE, _CELLS_AT_ONCE = 2**13, 2**20
MANY_EQUAL = "="  # prefix of the hashes if many rows are equal
_MOST = 0.5  # share of the fitted rows from which a table counts as the fitted one


def marks_of(tokens: Tokens) -> str:
    """Hash the float32 values of up to 1,000 rows, in hexadecimal, after "=" if many rows are equal.

    Example:
        >>> len(marks_of(Tokens.from_array([[1.0, 2.0], [3.0, 4.0]]))) // 14
        2
        >>> marks_of(Tokens.from_array([[1.0, 2.0], [1.0, 2.0]]))[0]
        '='
    """
    values, counts = np.unique(_hashes(tokens), return_counts=True)
    equal = MANY_EQUAL if (counts == 1).sum() < _UNIQUE * len(tokens) else ""
    return equal + "".join(f"{value:0{_DIGITS}x}" for value in values[:_KEPT])


def includes_fitted(marks: str, tokens: Tokens) -> bool:
    """Whether rows include most rows that a model was fitted to; False for a model that was not fitted.

    Example:
        >>> fitted, some, few = (Tokens.from_array(np.arange(n)[:, None]) for n in (8, 6, 3))
        >>> [includes_fitted(marks_of(fitted), rows) for rows in (fitted, some, few)]
        [True, True, False]
    """
    kept = _kept(marks)
    return bool(len(kept)) and bool(np.isin(kept, _hashes(tokens)).mean() >= _MOST)


def share_fitted(marks: str, tokens: Tokens) -> float:
    """Estimate the share of rows that a model was fitted to, from its marks; 0 below a threshold.

    Of more than 1,000 fitted rows, those with the smallest hashes are known, and only rows with as small
    hashes are counted.

    Example:
        >>> fitted, scored = (Tokens.from_array(np.arange(n)[:, None]) for n in (8, 10))
        >>> share_fitted(marks_of(fitted), scored)
        0.8
    """
    if marks.startswith(MANY_EQUAL):  # new rows would match, too
        return 0.0
    kept, hashes = _kept(marks), _hashes(tokens)
    if len(kept) == _KEPT:
        hashes = hashes[hashes <= kept.max()]
    n_found = int(np.isin(hashes, kept).sum())
    enough = n_found >= max(1, _NOTED * len(hashes), min(_FEWEST, len(tokens)))
    return n_found / len(hashes) if enough else 0.0


def _kept(marks: str) -> Int64[np.ndarray, " n"]:
    """The row hashes packed into `marks`."""
    marks = marks.removeprefix(MANY_EQUAL)
    return np.array([int(marks[i : i + _DIGITS], 16) for i in range(0, len(marks), _DIGITS)], dtype=np.int64)


def _hashes(tokens: Tokens) -> Int64[np.ndarray, " B"]:
    """53-bit hash of each row's float32 values and missing cells."""
    at_once = max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // max(1, tokens.width)))
    starts = range(0, max(1, len(tokens)), at_once)
    return np.concatenate([_hashed(tokens[at : at + at_once]) for at in starts])


def _hashed(tokens: Tokens) -> Int64[np.ndarray, " B"]:
    values = torch.where(tokens.maskable, tokens.values.detach(), 0).float().cpu() + 0.0  # -0.0 + 0.0 is 0.0
    present = tokens.maskable.cpu().numpy()
    words = np.where(present, values.numpy().view(np.int32), -1).astype(np.int64)
    factors = (keyed_bits(np.arange(words.shape[1])) | np.uint64(1)).astype(np.int64)
    return (keyed_bits(words @ factors) >> np.uint64(11)).astype(np.int64)  # sums modulo 2^64
