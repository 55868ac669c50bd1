"""Whole numbers at every door that takes counts: numpy's are taken, halves and truth values are not."""

from collections.abc import Callable

import numpy as np
import pytest

import maskevidence as me

X = me.models.PPCA(n_features=4, n_components=1, seed=1).sample(60)
MODEL = me.models.Gaussian(n_features=4).fit(X)
DOORS: dict[str, Callable[..., object]] = {
    "masks_per_size": lambda n: me.EverySize(n),
    "draws of sizes": lambda n: me.RandomSize(n),
    "orders": lambda n: me.Orderings(n),
    "max_passes": lambda n: me.Precise(0.1, max_passes=n),
    "epochs": lambda n: me.fit(me.models.PPCA(4, 1), X, me.RandomSize(1, 1), epochs=n),
    "batch_size": lambda n: me.fit(me.models.PPCA(4, 1), X, me.RandomSize(1, 1), epochs=1, batch_size=n),
    "samples": lambda n: me.Elbo(n),
    "folds of select": lambda n: me.select(X, ["ppca", "gaussian"], [1], folds=n),
    "batch_size of estimate_evidence": lambda n: me.estimate_evidence(MODEL, X, batch_size=n),
    "n": lambda n: MODEL.sample(n),
    "draws": lambda n: MODEL.draw_missing(X[:3], n),
    "folds": lambda n: me.wrong_cells("gaussian", X, folds=n),
    "n_features": lambda n: me.models.PPCA(n, 1),
    "n_components": lambda n: me.models.PPCA(9, n),
    "width": lambda n: me.models.MaskedNetwork(4, n),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_whole_number_of_numpy_is_one_and_others_are_not(door: str) -> None:
    """Three wordings in 14 doors: numpy's were refused, 2.5 ended in a TypeError of torch, True was 1."""
    DOORS[door](np.int64(4))
    for wrong in (2.5, 3.0, True, "4"):
        with pytest.raises(me.InputError, match="give a whole number"):
            DOORS[door](wrong)


def test_a_design_keeps_plain_numbers_which_json_can_hold() -> None:
    assert type(me.EverySize(np.int64(3)).settings()["masks_per_size"]) is int
