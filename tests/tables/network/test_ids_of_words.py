"""A table with a column of words keeps the ids and the names of its rows."""

import numpy as np

import maskevidence as me
from maskevidence.data import Table


def test_rows_of_a_table_with_words_keep_ids_and_names() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.integers(2, size=60), rng.normal(size=60)])
    names = tuple(f"row {k}" for k in range(60))
    table = Table("t", values, ("w", "x"), np.arange(60), labels=names, levels={"w": ("a", "b")})
    network = me.models.MaskedNetwork(n_features=2, width=8).fit(table, epochs=1)
    late = table.take(np.array([40, 7, 59]))
    estimate = me.estimate_evidence(network, late, me.EverySize(2))
    assert estimate.ids.tolist() == [7, 40, 59]
    assert estimate.names == ["row 7", "row 40", "row 59"]
