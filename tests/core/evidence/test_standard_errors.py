"""Standard errors: against loops over the definitions, against SciPy, and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

import oracles
from maskevidence.core.evidence.standard_errors import (
    Drops,
    ErrorSums,
    MeanWithErrors,
    cell_variances,
    student_t_quantile,
    t_half_width,
    totals_of_cells,
)
from maskevidence.core.masks.design import Summation


def of_contributions(
    contribution: np.ndarray, observation: np.ndarray, summation: Summation, n_replicates: int, *, joint: bool
) -> MeanWithErrors:
    """The mean of all masks at once."""
    sums = ErrorSums(n_replicates, joint=joint)
    sums.add(contribution, observation, summation)
    return sums.mean_with_errors()


def flat(contribution: np.ndarray, *, joint: bool) -> MeanWithErrors:
    """The mean of an array (observation, stratum, replicate)."""
    observation, stratum, replicate = (grid.ravel() for grid in np.indices(contribution.shape))
    summation = Summation(np.ones(contribution.size), stratum, replicate)
    return of_contributions(contribution.ravel(), observation, summation, contribution.shape[2], joint=joint)


@pytest.mark.parametrize("joint", [False, True])
@given(shape=st.tuples(st.integers(2, 5), st.integers(1, 4), st.integers(2, 4)), seed=st.integers(0, 10**6))
def test_errors_equal_the_definitions(joint: bool, shape: tuple[int, int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * rng.lognormal(size=shape[:2])[:, :, None]
    cells = {index: float(values[index]) for index in np.ndindex(*shape)}
    mean, mask_variance, data_variance = oracles.mean_with_errors(cells, shape[2], joint)
    found = flat(values, joint=joint)
    assert found.mean == pytest.approx(mean, rel=1e-12)
    assert found.mask_se**2 == pytest.approx(mask_variance, rel=1e-9)
    assert (found.data_se or 0.0) ** 2 == pytest.approx(data_variance, rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6))
def test_errors_of_ragged_strata_equal_the_definitions(seed: int) -> None:
    """Observations with different strata, in any order, and several masks in a cell."""
    rng = np.random.default_rng(seed)
    rows = [
        (i, s, r, rng.normal())
        for i, n_strata in enumerate(rng.integers(1, 4, size=4))
        for s in range(n_strata)
        for r in range(3)
        for _ in range(rng.integers(1, 3))
    ]
    cells: dict[tuple[int, int, int], float] = {}
    for i, s, r, value in rows:
        cells[i, s, r] = cells.get((i, s, r), 0.0) + value
    shuffled = [rows[k] for k in rng.permutation(len(rows))]
    observation, stratum, replicate = (np.array([row[c] for row in shuffled]) for c in range(3))
    contribution = np.array([row[3] for row in shuffled])
    summation = Summation(np.ones(len(rows)), stratum, replicate)
    for joint in (False, True):
        found = of_contributions(contribution, observation, summation, 3, joint=joint)
        mean, mask_variance, data_variance = oracles.mean_with_errors(cells, 3, joint)
        assert found.mean == pytest.approx(mean, rel=1e-9, abs=1e-12)
        assert found.mask_se**2 == pytest.approx(mask_variance, rel=1e-9)
        assert (found.data_se or 0.0) ** 2 == pytest.approx(data_variance, rel=1e-9, abs=1e-12)


def test_degrees_of_freedom_are_those_of_welch_and_satterthwaite() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    variance = values.var(axis=2, ddof=1)  # of each (observation, stratum)
    assert flat(values, joint=False).mask_df == pytest.approx(variance.sum() ** 2 / (variance**2).sum() * 4)
    together = values.sum(0).var(axis=1, ddof=1)
    assert flat(values, joint=True).mask_df == pytest.approx(together.sum() ** 2 / (together**2).sum() * 4)
    assert flat(values[:, :1], joint=True).mask_df == pytest.approx(4)


def test_cell_variances_are_those_of_the_sum_of_independent_replicates() -> None:
    """They are unbiased for the variance of the sum: a z-test of the mean over many draws."""
    rng = np.random.default_rng(1)
    scale = np.array([0.5, 2.0])
    draws = rng.normal(size=(20_000, 3)) * scale[np.arange(20_000) % 2][:, None]
    cell = np.repeat(np.arange(20_000), 3)
    variances = cell_variances(draws.ravel(), cell, np.tile(np.arange(3), 20_000), 3)
    for which in (0, 1):
        part = variances[which::2]
        error = part.std() / math.sqrt(len(part))
        assert abs(part.mean() - 3 * scale[which] ** 2) < 4 * error


@pytest.mark.parametrize("shared_part", [0.0, 0.7])
def test_both_variances_are_unbiased(shared_part: float) -> None:
    """True values t_i, and mask errors that observations partly share: z-tests of the means."""
    rng = np.random.default_rng(2)
    n, n_strata, n_replicates, repeats = 6, 3, 4, 2000
    spread = np.array([3.0, 4.0, 5.0]) / n_replicates
    mask_variances, data_variances, means = [], [], []
    for _ in range(repeats):
        truth = rng.normal(size=n)
        common = shared_part * rng.normal(size=(1, n_strata, n_replicates))
        single = rng.normal(size=(n, n_strata, n_replicates))
        errors = spread[:, None] * (common + single)
        values = truth[:, None, None] / (n_strata * n_replicates) + errors
        found = flat(values, joint=shared_part > 0)
        # not clipped, as in the definition: clipping at 0 is intended, but biased
        single_variance = n_replicates * values.var(axis=2, ddof=1).sum() / n
        covariance = (found.mask_se**2 - single_variance / n) / (1 - 1 / n)
        estimates = values.sum((1, 2))
        data_variances.append((estimates.var(ddof=1) - single_variance + covariance) / n)
        assert (found.data_se or 0.0) ** 2 == pytest.approx(max(0.0, data_variances[-1]), abs=1e-12)
        mask_variances.append(found.mask_se**2)
        means.append(found.mean)
    mask_truth = n_replicates * (spread**2).sum() * (shared_part**2 + 1 / n)
    for found_variances, true_variance in ((mask_variances, mask_truth), (data_variances, 1 / n)):
        error = np.std(found_variances) / math.sqrt(repeats)
        assert abs(np.mean(found_variances) - true_variance) < 4 * error
    total = np.var(means, ddof=1)
    assert total == pytest.approx(mask_truth + 1 / n, rel=4 * math.sqrt(2 / repeats))


@pytest.mark.parametrize(("n_strata", "n_replicates"), [(1, 2), (1, 4), (20, 2), (20, 4)])
def test_95_percent_of_intervals_hold_the_mean(n_strata: int, n_replicates: int) -> None:
    rng = np.random.default_rng(3)
    hits, repeats = 0, 2000
    scale = np.linspace(0.2, 2.0, n_strata)[None, :, None]
    for _ in range(repeats):
        found = flat(rng.normal(size=(1, n_strata, n_replicates)) * scale, joint=False)
        hits += abs(found.mean) < t_half_width(found.mask_se, found.mask_df, 0.95)
    assert 0.935 < hits / repeats < 0.965 if n_strata == 1 else 0.935 < hits / repeats < 0.975


class TestWhatCannotBeKnown:
    @pytest.mark.parametrize(
        ("values", "unseen", "mask", "data"),
        [
            ([1.0, 2.0, 4.0], None, (None, None), math.sqrt(7 / 9)),  # a single replicate
            ([1.0, 2.0, 4.0], np.zeros(3), (0.0, math.inf), math.sqrt(7 / 9)),  # every mask is scored
            ([1.0, 1.0, 1.0], np.zeros(3), (0.0, math.inf), None),
        ],
    )
    def test_with_one_replicate(
        self,
        values: list[float],
        unseen: np.ndarray | None,
        mask: tuple[float | None, float | None],
        data: float | None,
    ) -> None:
        zero = np.zeros(3, dtype=np.int64)
        summation = Summation(np.ones(3), zero, zero, unseen)
        found = of_contributions(np.array(values), np.arange(3), summation, 1, joint=False)
        assert (found.mask_se, found.mask_df) == mask
        assert found.data_se == (data and pytest.approx(data))

    def test_one_observation_has_no_data_se(self) -> None:
        found = flat(np.random.default_rng(0).normal(size=(1, 2, 3)), joint=False)
        assert found.data_se is None
        assert found.mask_se > 0

    def test_equal_replicates_do_not_tell_the_mask_error(self) -> None:
        found = flat(np.ones((2, 3, 4)), joint=False)
        assert (found.mask_se, found.mask_df, found.data_se) == (None, None, None)

    def test_more_mask_error_than_spread_leaves_the_data_error_unresolved(self) -> None:
        values = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
        assert flat(values, joint=False).data_se is None


class TestStudentT:
    @pytest.mark.parametrize("df", [1, 1.2, 2, 7.3, 300.5, 1e6, 1e12])
    def test_quantiles_equal_scipys(self, df: float) -> None:
        for probability in (0.5, 0.6, 0.9, 0.975, 0.9995, 0.999999):
            expected = student.ppf(probability, df)
            assert student_t_quantile(probability, df) == pytest.approx(expected, rel=1e-9, abs=1e-9)

    def test_infinite_df_are_the_normal_quantile(self) -> None:
        assert student_t_quantile(0.975, math.inf) == pytest.approx(1.959963984540054, rel=1e-12)

    def test_half_width(self) -> None:
        assert t_half_width(2.0, 5, 0.9) == pytest.approx(2 * student.ppf(0.95, 5), rel=1e-9)
        assert t_half_width(0.0, 5, 0.9) == 0.0


@pytest.mark.parametrize("left_out", [1.0, 0.25, 0.0])
def test_tails_equal_the_definition(left_out: float) -> None:
    """A mask against the mean of the others of its cell, times √(1 - k/C) without replacement."""
    values = np.random.default_rng(0).standard_t(2, size=(12, 4))
    cell, unit = (grid.ravel() for grid in np.indices(values.shape))
    unseen = np.where(np.arange(12) < 6, left_out, 1.0)
    counted = values[unseen > 0]
    drop = np.array([[np.delete(row, k).mean() - row[k] for k in range(4)] for row in counted])
    width = 1.4826 * np.median(np.abs(drop))
    light = (1 - math.sqrt(8 / drop.size)) * width * math.sqrt(2 * math.log(drop.size))
    drop *= np.sqrt(unseen[unseen > 0])[:, None]
    expected = max(0.0, drop.max() - light), max(0.0, -drop.min() - light)
    assert min(expected) > 0
    drops = Drops()
    drops.add(*totals_of_cells(values.ravel(), cell, unit, int(unit.max()) + 1, unseen[cell])[1:])
    assert drops.tails() == pytest.approx(expected)
