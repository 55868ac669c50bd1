"""The model that a table decides: the MODEL word `auto`."""

from collections.abc import Callable

import numpy as np

from maskevidence.core.show.words import plus_minus
from maskevidence.core.table import Table, with_values
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import AUTO, COUNTS, KERNELS, NETWORK, TAKE_WORDS, fit_table, parse_model
from maskevidence.tables.choosing.choosing import first_candidate, first_filler, with_holes
from maskevidence.tables.network.masked_network import MaskedNetwork

ROWS_OF_NETWORK = 1_000  # a network is a candidate above
_MOST_ROWS = 2_000  # that decide
_FOLDS = 3
_EPOCHS_OF_NETWORK = 20  # after which it is told whether it is fitted at all


def auto_word(
    table: Table, *, network: bool = True, counts: bool = True, fills: bool = False, seed: int = 0
) -> tuple[str, tuple[str, ...]]:
    """The MODEL word that `auto` stands for on a table, and the notes that say why.

    A table of numbers alone gets kernel-gaussian. With words, the models that take words are compared in 3
    folds of at most 2,000 random rows, by evidence as in `select` or by how they fill. Above 1,000 rows,
    masked-net is fitted to all folds but one for 20 epochs, a small part of its fit, and chosen if the rows
    of that fold are then more probable than by the best of the others, or their hidden cells better filled.

    Args:
        table: the rows that the model may be fitted to.
        network: whether masked-net may be chosen, whose whole fit takes seconds to minutes.
        counts: whether mixture-transition may be chosen.
        fills: whether the model is to fill holes: that which fills hidden cells of their columns best.
        seed: of the rows, folds and masks.

    Example:
        >>> auto_word(Table("t", np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), np.arange(2)))[0]
        'kernel-gaussian'
    """
    if not table.levels:
        return KERNELS, (f"{AUTO}: {KERNELS}, since all columns are numbers",)
    rows = table.take(np.flatnonzero(with_values(table.values)))
    taken = {NETWORK: network and len(rows) > ROWS_OF_NETWORK, COUNTS: counts}
    words = [word for word in TAKE_WORDS if taken.get(word, True)]
    some = rows.take(np.sort(np.random.default_rng(seed).permutation(len(rows))[:_MOST_ROWS]))
    if len(words) == 1 or len(some) < _FOLDS:
        return words[0], (f"{AUTO}: {words[0]}",)
    holed = [table.columns[j] for j in with_holes(table.values)] if fills else []
    if holed:
        first, why = first_filler(some, words, holed, seed, folds=_FOLDS, epochs=_EPOCHS_OF_NETWORK)
        return first, (f"{AUTO}: {first}, {why}",)
    first, why, ahead = first_candidate(some, words, seed, folds=_FOLDS, epochs=_EPOCHS_OF_NETWORK)
    if ahead is None:
        return first, (f"{AUTO}: {first}, {why}",)
    trial = f"after {_EPOCHS_OF_NETWORK} epochs on one of {_FOLDS} folds"
    apart = plus_minus(abs(ahead.difference), ahead.standard_error, 2)
    if ahead.difference < 0:
        return NETWORK, (f"{AUTO}: {NETWORK}, {apart} nats per row ahead of {first} {trial}",)
    return first, (f"{AUTO}: {first}, {why}, and {NETWORK} {apart} nats {trial}",)


def to_fill(build: Callable[[int], TableModel], table: Table) -> Callable[[int], TableModel]:
    """A builder of the model, which, if it is a network, learns the table's columns with holes alone.

    That takes a fraction of the time if at most half of the columns have holes; with more, it learns all.
    """
    holed = with_holes(table.values)

    def built(n_features: int) -> TableModel:
        model = build(n_features)
        if isinstance(model, MaskedNetwork) and 0 < 2 * len(holed) <= n_features:
            model.columns_to_fill = holed
        return model

    return built


def fitted_to(word: str, table: Table) -> TableModel:
    """The model of a MODEL word, fitted to its rows with a value; a saved model as it is."""
    rows = table.take(np.flatnonzero(with_values(table.values)))
    build, saved = parse_model(auto_word(rows, fills=True)[0] if word == AUTO else word)
    if build is None:
        return saved
    return fit_table(to_fill(build, rows) if word == AUTO else build, rows, rows, empty_rows=True)[0]
