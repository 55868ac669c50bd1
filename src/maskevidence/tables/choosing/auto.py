"""The model that a table decides: the MODEL word `auto`."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.core.errors import NumericalError
from maskevidence.core.support.folds import folds_of
from maskevidence.core.support.progress import progress
from maskevidence.core.support.spread import with_values
from maskevidence.core.table import Table
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import AUTO, KERNELS, NETWORK, TAKE_WORDS, parse_model
from maskevidence.tables.choosing.choosing import ranked_candidates
from maskevidence.tables.fitting import declared, fit_table

ROWS_OF_NETWORK = 1_000  # a network is a candidate above
_MOST_ROWS = 2_000  # that decide
_FOLDS = 3
_DESIGN = "random-size:4"
_HIDDEN_SHARE = 0.2  # of the cells of held-out rows, to choose a model that fills


def auto_word(
    table: Table, *, to_fill: bool = False, network: bool = True, seed: int = 0
) -> tuple[str, tuple[str, ...]]:
    """The MODEL word that `auto` stands for on a table, and the notes that say why.

    A table of numbers alone gets kernel-gaussian. With words, the models that take words are compared in 3
    folds of at most 2,000 random rows, masked-net only above 1,000 rows: by the evidence of `select`; or, to
    fill a table, by a fifth of the cells of held-out rows, which are hidden and filled.

    Args:
        table: the rows that the model may be fitted to.
        to_fill: whether the model is to fill holes.
        network: whether masked-net may be chosen, whose fit takes seconds to minutes.
        seed: of the rows, folds, masks and hidden cells.

    Example:
        >>> auto_word(Table("t", np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), np.arange(2)))[0]
        'kernel-gaussian'
    """
    if not table.levels:
        return KERNELS, (f"{AUTO}: {KERNELS}, since all columns are numbers",)
    rows = table.take(np.flatnonzero(with_values(table.values)))
    words = [word for word in TAKE_WORDS if word != NETWORK or (network and len(rows) > ROWS_OF_NETWORK)]
    some = rows.take(np.sort(np.random.default_rng(seed).permutation(len(rows))[:_MOST_ROWS]))
    if len(words) == 1 or len(some) < _FOLDS:
        return words[0], (f"{AUTO}: {words[0]}",)
    if to_fill:
        lost = errors_of_filling(some, words, seed)
        best, *others = sorted(words, key=lambda word: lost[word])
        why = f"which fills hidden cells best, with {lost[best]:.0%} of the error of mean and commonest word"
        behind = ", ".join(f"{word} {lost[word]:.0%}" for word in others)
        return best, (f"{AUTO}: {best}, {why}; {behind}",)
    ranked = ranked_candidates(some, words, folds=_FOLDS, design=_DESIGN, seed=seed)
    first, *rest = ranked
    behind = ", ".join(f"{each.name} {first.log_evidence - each.log_evidence:.3g}" for each in rest)
    why = f"the highest held-out evidence of {len(some):,} rows"
    return first.name, (f"{AUTO}: {first.name}, {why}; nats per row behind it: {behind}",)


def errors_of_filling(table: Table, words: Sequence[str], seed: int = 0) -> dict[str, float]:
    """The error of each MODEL word on hidden cells, relative to filling by mean and commonest word.

    A fifth of the cells of each fold is hidden, and filled by models of the other folds. The error of a
    column is the mean square of a number, and the share of wrong words or yes/no; its ratio to that of the
    column's mean or commonest value is averaged over the columns.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 1)) + [0, 1]
        >>> lost = errors_of_filling(Table("t", x, ("a", "b"), np.arange(60)), ["kernel-gaussian"])
        >>> bool(lost["kernel-gaussian"] < 0.5)
        True
    """
    rng = np.random.default_rng(seed)
    hidden = ~np.isnan(table.values) & (rng.random(table.values.shape) < _HIDDEN_SHARE)
    parts = folds_of(table.values, _FOLDS, rng)
    filled = {word: np.full(table.values.shape, np.nan) for word in words}
    plain = np.full(table.values.shape, np.nan)
    discrete = np.array([name in table.levels or _n_values(table, name) == 2 for name in table.columns])
    with progress("fills", len(parts) * len(words), parts=True) as advance:
        for rows in parts:
            train = np.delete(table.values, rows, axis=0)
            train = train[with_values(train)]
            holed = np.where(hidden[rows], np.nan, table.values[rows])
            plain[rows] = [_plain(column, of) for column, of in zip(train.T, discrete, strict=True)]
            for word in words:
                build, _ = parse_model(word)
                assert build is not None
                model = declared(build(len(table.columns)), table, table.columns)
                with suppress(NumericalError):  # its error is then infinite
                    filled[word][rows] = model.fit(train).impute(holed).values
                advance(1)
    scale = _errors(table.values, plain, hidden, discrete)
    kept = scale > 0
    if not kept.any():
        return dict.fromkeys(words, 1.0)
    lost = {word: _errors(table.values, each, hidden, discrete)[kept] for word, each in filled.items()}
    return {word: float(np.nan_to_num(each / scale[kept], nan=np.inf).mean()) for word, each in lost.items()}


def _errors(
    truth: Float64[np.ndarray, "N D"],
    filled: Float64[np.ndarray, "N D"],
    hidden: Bool[np.ndarray, "N D"],
    discrete: Bool[np.ndarray, " D"],
) -> Float64[np.ndarray, " D"]:
    """Mean square error of numbers, share wrong of discrete columns; 0 for a column without hidden cells."""
    errors = np.zeros(truth.shape[1])
    for j in np.flatnonzero(hidden.any(0)):
        right, ours = truth[hidden[:, j], j], filled[hidden[:, j], j]
        if discrete[j]:  # the mean of a yes/no is rounded to the nearer value
            values = np.unique(truth[~np.isnan(truth[:, j]), j])
            nearest = values[np.abs(ours[:, None] - values).argmin(1)]
            errors[j] = np.mean(nearest != right)
        else:
            errors[j] = np.mean((ours - right) ** 2)
    return errors


def _plain(column: Float64[np.ndarray, " N"], discrete: bool) -> float:
    """The mean of a number, the commonest value of a discrete column; NaN without a value."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if not len(values):
        return np.nan
    return float(values[counts.argmax()] if discrete else np.nanmean(column))


def _n_values(table: Table, name: str) -> int:
    column = table.values[:, table.columns.index(name)]
    return len(np.unique(column[~np.isnan(column)]))


def fitted_to(word: str, table: Table) -> TableModel:
    """The model of a MODEL word to fill a table, fitted to its rows with a value; a saved model as it is."""
    rows = table.take(np.flatnonzero(with_values(table.values)))
    build, saved = parse_model(auto_word(rows, to_fill=True)[0] if word == AUTO else word)
    return saved if build is None else fit_table(build, rows, rows, empty_rows=True)[0]
