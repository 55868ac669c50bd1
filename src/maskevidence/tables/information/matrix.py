"""Mutual information of all pairs of columns, or of columns and a target, with shared models and masks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64

from maskevidence.core.errors import InputError
from maskevidence.core.model import as_tokens
from maskevidence.core.scores.ask import Asker, MaskedRows
from maskevidence.core.show.parts import Page, Table, Value, ValueRows
from maskevidence.core.show.pictures import ColourGrid
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import count, digits_for, p_text, typeset
from maskevidence.core.support.files import csv_text
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.kernel_gaussian import KernelGaussian
from maskevidence.tables.information.gains import FOLDS, Fitted, TableRows, fitted
from maskevidence.tables.information.information_result import (
    GIVEN_OTHERS,
    NOT_CAUSE,
    p_values,
    variance_of_fits,
)

RATE = 0.05
ONE_WIDTH = (
    "kernels have one bandwidth for all pairs: of curves the numbers are low, and `me.information` finds more"
)
ALONE, GIVEN = "alone", "given all others"
_ARRAYS = ("nats", "standard_error", "p_values", "found")
_Numbers = Float64[np.ndarray, " D"]
_NUMBERS = 2**22  # of a batch of rows
_MOST_LISTED = 20  # pairs on a page


@dataclass(frozen=True, repr=False)
class InformationMatrix(Shown):
    """The mutual information of all pairs of columns, or of each column and a target, in nats.

    Attributes:
        names: of the D columns.
        target: the column that is told about; None for all pairs.
        nats: shape (D, D), symmetric, NaN on the diagonal; with a target (2, D), of each column alone and
            given all others, NaN for the target.
        standard_error: same shape; of the rows and of the fits.
        p_values: same shape; one-sided, of "not above 0".
        found: same shape; whether a number is above 0, on average at most `rate` of these falsely.
        rate: the false discovery rate.
        n_rows: the number of rows.
        model: the MODEL word or class.
        notes: one sentence each.
    """

    names: tuple[str, ...]
    target: str | None
    nats: TableRows
    standard_error: TableRows
    p_values: TableRows
    found: Bool[np.ndarray, "n D"]
    rate: float
    n_rows: int
    model: str
    notes: tuple[str, ...]

    def columns(self) -> Columns:
        """One row for each pair, or for each column alone and given all others; highest first."""
        row, column = np.nonzero(_once(self.nats, self.target))
        order = np.argsort(-self.nats[row, column], kind="stable")
        row, column = row[order], column[order]
        firsts = self.names if self.target is None else (ALONE, GIVEN)
        named: dict[str, Any] = {"column": [self.names[k] for k in column]}
        named["other" if self.target is None else "given"] = [firsts[k] for k in row]
        for name in _ARRAYS:
            named[name] = getattr(self, name)[row, column].tolist()
        return Columns(named)

    def page(self) -> Page:
        """A page with the highest numbers; numbers that are not significantly above 0 are left out."""
        table = self.columns().values
        known = self.standard_error[self.standard_error > 0]
        digits = digits_for(float(np.median(known)) if len(known) else None)
        pairs = f"{count(len(table['nats']), 'pair')} of columns"
        headline = f"{sum(table['found'])} of {pairs} have information on each other"
        if self.target is not None:
            alone, given = self.found.sum(1).tolist()
            others = count(len(self.names) - 1, "column")
            headline = f"{alone} of {others} tell about {self.target}, and {given} given all others"
        lines = [
            [column, other, f"{typeset(nats, digits)} ± {error:.{digits}f}", p_text(p)]
            for column, other, nats, error, p, found in zip(*table.values(), strict=True)
            if found
        ]
        listed = lines[:_MOST_LISTED]
        title = f"The highest {len(listed)}" if len(lines) > len(listed) else ""
        heads = ["column", "and" if self.target is None else "given", "nats", "p"]
        parts = [Table(heads, listed, title, words=(0, 1))] if listed else []
        rate = f"false discovery rate {100 * self.rate:g} % (Benjamini-Hochberg); the others are not above 0"
        notes = (rate, *self.notes)
        return Page(
            f"InformationMatrix({headline})", headline, "", parts, notes, about="Information by masking"
        )

    def picture(self) -> tuple[ColourGrid | ValueRows, str]:
        """The matrix, without numbers where not significantly above 0; with a target, intervals."""
        if self.target is None:
            kept = np.where(self.found, self.nats, np.nan)
            reach = float(np.nanmax(kept, initial=0.0)) or 1.0
            words = "mutual information  (nats); grey: not above 0"
            return ColourGrid(kept, self.names, self.names, words, reach=reach), "Pairs of columns"
        values = []
        for k in np.argsort(-np.nan_to_num(self.nats[0], nan=-np.inf), kind="stable"):
            for row, group in enumerate((ALONE, GIVEN)):
                nats, width = float(self.nats[row, k]), 1.96 * float(self.standard_error[row, k])
                if not np.isnan(nats):
                    ends = (nats - width, nats + width)
                    values.append(Value(self.names[k], nats, ends, group=group, number=row))
        label = f"information on {self.target}  (nats)"
        return ValueRows(values, label, zero=True), f"What tells about {self.target}"

    def to_csv(self) -> str:
        """The lines of `columns`."""
        values = self.columns().values
        return csv_text(list(values), zip(*values.values(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        blank, known = np.isnan(self.nats), dict[str, Any]()
        for name, value in vars(self).items():
            array = np.where(blank, np.array(None), value).tolist() if name in _ARRAYS else value
            known[name] = list(value) if isinstance(value, tuple) else array
        return known

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> "InformationMatrix":
        """The result that `to_dict` gave."""
        made = {each.name: known[each.name] for each in fields(cls)}
        made |= {name: np.array(made[name], dtype=np.float64) for name in _ARRAYS}
        made["found"] = made["found"] == 1
        return cls(**made | {name: tuple(made[name]) for name in ("names", "notes")})


def information_matrix(
    model: object,
    data: object,
    target: Any = None,
    *,
    rate: float = RATE,
    folds: int = FOLDS,
    seed: int = 0,
) -> InformationMatrix:
    """Estimate the mutual information of all pairs of columns, or of each column and a target, nats.

    One pass for each row and column, with only this column visible, asks for all other columns; the number of
    a pair is the mean of both directions. With a target t, a column j tells I(t; j) alone, and given all
    others I(t; j | rest) = E[log p(t | all) - log p(t | all but j)]. Models, folds and errors are those of
    `information`; a pair takes the rows that have both cells.

    Args:
        model: a MODEL word or a fitted model of rows.
        data: shape (N, D), NaN where a value is missing.
        target: a column, by name or position.
        rate: the false discovery rate, in (0, 1).
        folds: parts of the rows, 3 or more.
        seed: of the folds and the fits.

    Raises:
        InputError: a rate outside (0, 1), fewer than two columns, or data that `information` refuses.

    Source:
        Benjamini and Hochberg (1995), Controlling the False Discovery Rate.

    Example:
        >>> import maskevidence as me
        >>> x = np.random.default_rng(0).normal(size=(500, 3))
        >>> x[:, 2] += x[:, 0]
        >>> me.information_matrix("gaussian", x).found.tolist()
        [[False, False, True], [False, False, False], [True, False, False]]
    """
    if not 0 < rate < 1:
        raise InputError(f"rate={rate}; give a share of false discoveries in (0, 1), such as 0.05")
    fit = fitted(model, data, None, (folds, seed), target=target, pairs=target is None)
    names = fit.table.columns
    if len(names) < 2:
        raise InputError(f"{fit.table.name} has one column; give two or more")
    kernels = len(names) > 2 and isinstance(fit.folds[0].model, KernelGaussian)
    nats, error, p, found = discovered(fit, rate)
    about_all = [GIVEN_OTHERS] if fit.target is not None else [ONE_WIDTH] if kernels else []
    return InformationMatrix(
        names=names,
        target=fit.target,
        nats=nats,
        standard_error=error,
        p_values=p,
        found=found,
        rate=rate,
        n_rows=len(fit.table),
        model=fit.name,
        notes=(*fit.notes, NOT_CAUSE, *about_all),
    )


def discovered(
    fit: Fitted, rate: float = RATE
) -> tuple[TableRows, TableRows, TableRows, Bool[np.ndarray, "n D"]]:
    """The information of all pairs, or on the target, its errors and p-values, and what is above 0."""
    values: Any = _of_pairs
    if fit.target is not None:
        place = fit.table.columns.index(fit.target)
        values = partial(_of_target, target=place, known=fit.mask([]), given=True)
    nats, error, p = _numbers(fit, values)
    once, found = _once(nats, fit.target), np.zeros(nats.shape, dtype=bool)
    found[once] = _discoveries(p[once], rate)
    return nats, error, p, found if fit.target is not None else found | found.T


def _once(nats: TableRows, target: Any) -> Bool[np.ndarray, "n D"]:
    """The indices of the entries, each pair once."""
    known = ~np.isnan(nats)
    return np.triu(known, 1) if target is None else known


def _discoveries(p: Float64[np.ndarray, " n"], rate: float) -> Bool[np.ndarray, " n"]:
    """Which hypotheses are rejected at a false discovery rate (Benjamini and Hochberg).

    Example:
        >>> _discoveries(np.array([0.01, 0.9, 0.08, 0.03]), 0.1).tolist()
        [True, False, False, True]
    """
    below = np.sort(p) <= rate * np.arange(1, len(p) + 1) / max(len(p), 1)
    return p <= (np.sort(p)[np.flatnonzero(below)[-1]] if below.any() else -1.0)


def of_next(fit: Fitted, target: int, known: Sequence[int]) -> tuple[_Numbers, _Numbers, _Numbers]:
    """I(target; j | known) for each column j, with error and p-value.

    Returns:
        Shape (D,) each; NaN for the target and the known columns.
    """
    made = _numbers(fit, partial(_of_target, target=target, known=fit.mask(known), given=False))
    nats, error, p = (each[0] for each in made)
    return nats, error, p


def _of_target(
    model: Any, rows: TableRows, target: int, known: Bool[np.ndarray, " D"], *, given: bool
) -> Iterator[Float64[np.ndarray, "n m D"]]:
    """log p(target | known, j) - log p(target | known) of each row; NaN where a cell is missing.

    If given, also log p(target | all) - log p(target | all but j).
    """
    seen, place = ~np.isnan(rows), np.arange(rows.shape[1])
    values, alone = np.full((len(rows), 1 + given, len(place)), np.nan), place == target

    def ask(visible: Bool[np.ndarray, "m D"]) -> Float64[np.ndarray, "n m"]:
        """log p(target | visible) for several sets of columns; the others are hidden and not asked."""
        told, at_once = [], max(1, _NUMBERS // rows.size)
        for first in range(0, len(visible), at_once):
            some = np.where(visible[first : first + at_once, None] | alone, rows, np.nan)
            flat = some.reshape(-1, len(place))
            told.append(_asked(model, flat, ~np.isnan(flat) & alone)[:, target].reshape(some.shape[:2]))
        return np.concatenate(told).T

    others = np.flatnonzero(~known & ~alone)
    each = place == others[:, None]
    values[:, 0, others] = ask(known | each) - ask(known[None])
    if given:
        values[:, 1, others] = ask(~alone[None]) - ask(~(alone | each))
    values[:, :, others] = np.where(seen[:, None, others], values[:, :, others], np.nan)
    yield values


def _numbers(
    fit: Fitted, values: Callable[[Any, TableRows], Iterator[Float64[np.ndarray, "n m D"]]]
) -> tuple[TableRows, TableRows, TableRows]:
    """Means of rows seen and not seen in the fits, their standard errors, and p-values of rows not seen."""
    of_folds, gaps = [], []
    for fold in fit.folds:
        rows = fit.table.values[fold.out]
        held_out = list(values(fold.model, rows))
        of_folds.append(_moments(held_out))
        if fold.other is not None:
            seen = values(fold.other, rows)
            gaps.append(_moments([out - saw for out, saw in zip(held_out, seen, strict=True)]))
    n, mean, variance = (np.stack(each) for each in zip(*of_folds, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        total, whole = n.sum(0), np.nansum(n * mean, axis=0) / n.sum(0)
        spread = np.nansum(n * (variance + (mean - whole) ** 2), axis=0) / (total - 1)
        of_rows, of_fits, df, nats = spread / total, np.zeros_like(spread), total - 1, whole
        if gaps:
            of_gaps = [np.stack(each) for each in zip(*gaps, strict=True)]
            of_fits, nats = variance_of_fits(*of_gaps), whole - np.nansum(n * of_gaps[1], axis=0) / total / 2
            df = (of_rows + of_fits) ** 2 / (of_rows**2 / df + of_fits**2 / (len(gaps) - 1))
        error = np.sqrt(of_rows + of_fits)
        p = p_values(whole, error, df)
    return nats, *(np.where(total > 1, each, np.nan) for each in (error, p))


def _moments(parts: list[Float64[np.ndarray, "_ m D"]]) -> tuple[Any, TableRows, TableRows]:
    """The number, mean and variance of values over rows, without NaN."""
    n = sum((~np.isnan(part)).sum(0) for part in parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sum(np.nansum(part, axis=0) for part in parts) / n
        return n, mean, sum(np.nansum((part - mean) ** 2, axis=0) for part in parts) / n


def _of_pairs(model: Any, rows: TableRows) -> Iterator[Float64[np.ndarray, "n D D"]]:
    """log p(k | j) - log p(k) of each row, the mean of both directions, some rows at a time."""
    place = np.arange(rows.shape[1])
    for some in np.array_split(rows, 1 + len(rows) * len(place) ** 2 // _NUMBERS):
        seen = ~np.isnan(some)
        told = np.stack([_asked(model, some, seen & seen[:, [k]] & (place != k)) for k in place], axis=1)
        told -= _asked(model, some, seen)[:, None]
        yield (told + told.transpose(0, 2, 1)) / 2


def _asked(model: Any, rows: TableRows, hidden: Bool[np.ndarray, "n D"]) -> TableRows:
    """log p of the hidden cells of each row given its other cells, nats; NaN elsewhere."""
    answers, row = np.full(rows.shape, np.nan), np.flatnonzero(hidden.any(1))
    if len(row):
        tokens = as_tokens(model, Tokens.from_array(rows, empty_rows=True))
        masks = torch.from_numpy(hidden[row])
        contexts = MaskedRows(tokens, row, hidden.sum(1)[row], masks.__getitem__)
        for answer in Asker(model).conditionals(contexts):
            answers[row[answer.part]] = answer.log_probs.double().cpu().numpy()
    return np.where(hidden, answers, np.nan)
