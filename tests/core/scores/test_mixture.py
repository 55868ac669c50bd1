"""The order mixture from the conditionals of all masks: equal to the mean over all orders."""

import itertools
import math

import numpy as np
import pytest

from maskevidence.core.errors import InputError
from maskevidence.core.scores.score_masks import order_mixture


def by_enumeration(log_conditionals: np.ndarray, subset: int) -> float:
    """log f of one subset, from every order of its tokens."""
    places = [j for j in range(log_conditionals.shape[1]) if subset >> j & 1]
    logs = []
    for order in itertools.permutations(places):
        hidden, total = subset, 0.0
        for j in order:
            total += log_conditionals[hidden, j]
            hidden &= ~(1 << j)
        logs.append(total)
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


@pytest.mark.parametrize("n", range(1, 8))
def test_it_equals_the_mean_over_all_orders(n: int) -> None:
    rng = np.random.default_rng(n)
    log_conditionals = rng.normal(-2.0, 1.5, size=(2**n, n))
    found = order_mixture(log_conditionals)
    for subset in range(1, 2**n) if n < 6 else [2**n - 1, 2**n - 2, 5]:
        assert found[subset] == pytest.approx(by_enumeration(log_conditionals, subset), abs=1e-10)
    assert found[0] == 0.0


def test_several_observations_at_once_and_entries_that_are_not_read() -> None:
    rng = np.random.default_rng(0)
    log_conditionals = rng.normal(-700.0, 400.0, size=(2, 3, 16, 4))  # far below the smallest double
    visible = (np.arange(16)[:, None] >> np.arange(4)) & 1 == 0
    unread = np.where(visible, np.nan, log_conditionals)
    found = order_mixture(unread)
    assert found.shape == (2, 3, 16)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[1, 2], order_mixture(log_conditionals[1, 2]))


@pytest.mark.parametrize("shape", [(7, 3), (1, 0), (3, 8, 2)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"give \(\.\.\., 2\^n, n\)"):
        order_mixture(np.zeros(shape))
