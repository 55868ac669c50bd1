"""One rate as a bound: the bias by size against all masks, its sign, and the claims of the entry."""

import itertools
import math

import numpy as np
import pytest
import torch

from paper import rate_bound
from paper.rate_bound import RATES, bias_by_size, crossing

D = 5


def exact_bias(covariance: np.ndarray) -> np.ndarray:
    """D·E S(x; M) − E log p(x) by M of a normal x, from block matrices and all masks of a size."""
    of_size = np.zeros(D)
    for size in range(1, D + 1):
        for hidden in itertools.combinations(range(D), size):
            rest = [j for j in range(D) if j not in hidden]
            block = covariance[np.ix_(hidden, hidden)]
            if rest:
                cross = covariance[np.ix_(hidden, rest)]
                block = block - cross @ np.linalg.solve(covariance[np.ix_(rest, rest)], cross.T)
            entropies = 0.5 * np.log(2 * np.pi * np.e * np.diag(block))
            of_size[size - 1] -= D * entropies.mean() / math.comb(D, size)
    return of_size + 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]


def test_the_bias_is_that_of_all_masks_and_changes_its_sign_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_bound, "N_FEATURES", D)
    loadings = torch.randn(D, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).numpy()
    exact = exact_bias(loadings @ loadings.T + rate_bound.NOISE * np.eye(D))
    assert bias_by_size(2, 3, 4000) == pytest.approx(exact, abs=0.05)
    assert (np.diff(exact) < 0).all()
    assert exact.sum() == pytest.approx(0, abs=1e-9)  # Eq. 2: the mean over sizes is log p
    assert (exact[: crossing(exact)] > 0).all()
    assert (exact[crossing(exact) :] < 0).all()


def test_its_claims_can_fail() -> None:
    falling = np.linspace(5, -9, 20) + np.zeros((2, 1))
    assert [claim.holds for claim in rate_bound._claims(2, falling, short=False)] == [True, True, True]
    twice = np.where(np.arange(20) % 2, -1.0, 1.0) * np.arange(1, 21) + np.zeros((2, 1))
    assert [claim.holds for claim in rate_bound._claims(2, twice, short=False)] == [False, False, False]
    assert [claim.holds for claim in rate_bound._claims(2, falling, short=True)] == [None, None, None]


def test_the_entry_draws_and_writes_every_size() -> None:
    figure = rate_bound.rate_bound((4, 44), orders=20)
    assert len(figure.rows) == 3 * 2 * rate_bound.N_FEATURES
    assert RATES == (0.15, 0.25)
    assert figure.draw is not None
    assert len(figure.draw().axes[0].get_lines()) == 3 * 3 + 1 + len(RATES)
