"""A target for the masks' error: where the draws end, that they are those of a fixed number, and refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.evidence.precise import FEWEST, FEWEST_MASKS, default_design
from maskevidence.core.support.keyed_random import keyed_bits
from oracles import GaussianModel


class Independent:
    """Tokens without any relation to each other, so that every mask gives the curve exactly."""

    conditionals = "exact"

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return torch.where(masked, -1.5, 0.0).double()


@pytest.fixture(scope="module")
def ppca() -> me.models.PPCA:
    return me.models.PPCA.from_parameters(torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2))), 0.3)


@pytest.fixture(scope="module")
def rows(ppca: me.models.PPCA) -> np.ndarray:
    return np.array(ppca.sample(40, seed=1))


def estimate_of(
    ppca: GaussianModel, rows: np.ndarray, precise: me.Precise, **options: object
) -> me.EvidenceEstimate:
    return me.estimate_evidence(ppca, rows, precise, seed=3, check=False, **options)


@pytest.mark.parametrize("per_token", [False, True])
def test_the_draws_are_those_of_a_fixed_number(
    ppca: me.models.PPCA, rows: np.ndarray, per_token: bool
) -> None:
    """The record is bit-equal, whatever the stages were, and so are all numbers."""
    found = estimate_of(ppca, rows, me.Precise(target_se=0.05, negligible=0), per_token=per_token)
    draws = found.design["draws"]
    assert draws > 2 * FEWEST.draws, "several stages"
    fixed = me.estimate_evidence(ppca, rows, me.RandomSize(draws, draws), seed=3, per_token=per_token)
    for name in ("id", "draw", "size", "score"):
        np.testing.assert_array_equal(getattr(found.scores.sorted(), name), getattr(fixed.scores, name))
    assert (found.log_evidence, found.mask_se, found.mask_df, found.data_se) == (
        fixed.log_evidence,
        fixed.mask_se,
        fixed.mask_df,
        fixed.data_se,
    )
    assert found.n_masks == draws * len(rows)


def test_ends_with_the_first_number_that_reaches_the_target(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    found = estimate_of(ppca, rows, me.Precise(target_se=0.05, negligible=0))
    assert 0.9 * 0.05 < found.mask_se <= 0.05
    draws = found.design["draws"]
    assert found.notes == (
        f"the draws ended at {draws} for each observation: the mask error is {found.mask_se:.3g} nats, the "
        "target of 0.05 nats is reached",
    )
    finer = estimate_of(ppca, rows, me.Precise(target_se=0.025, negligible=0))
    assert 3 < finer.design["draws"] / draws < 5
    share = 0.05 / abs(found.log_evidence)
    relative = estimate_of(ppca, rows, me.Precise(target_relative=share, negligible=0))
    assert abs(relative.design["draws"] - draws) <= 1
    assert f"{share:.3g} of the log evidence" in relative.notes[-1]


def test_runs_end_at_the_target_and_their_intervals_cover(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    """Although the scores decide where the draws end; benchmarks/stopping.py has more runs."""
    precise, truth = me.Precise(target_se=0.15, negligible=0), float(ppca.score_samples(rows).mean())
    found = [
        me.estimate_evidence(ppca, rows, precise, seed=seed, check=False, per_token=True)
        for seed in range(40)
    ]
    errors = np.array([one.log_evidence for one in found]) - truth
    assert np.sqrt((errors**2).mean()) < 1.2 * 0.15
    held = [one.interval()[0] < truth < one.interval()[1] for one in found]
    assert np.mean(held) > 0.95 - 3.5 * math.sqrt(0.95 * 0.05 / len(held))
    assert len({one.design["draws"] for one in found}) > 2


def test_ends_where_the_mask_error_no_longer_matters(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    found = estimate_of(ppca, rows, me.Precise(target_se=1e-4))
    assert found.mask_se <= 0.1 * found.data_se
    share = 100 * found.mask_se / found.data_se
    assert (
        f"the mask error is {share:.2g} % of the data error and no longer matters beside it"
        in found.notes[-1]
    )


def test_ends_at_the_largest_number_of_passes(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    found = estimate_of(ppca, rows, me.Precise(target_se=0.01, max_passes=410, negligible=0))
    assert (found.n_masks, found.design["draws"]) == (400, 10)
    needed = 400 * (found.mask_se / 0.01) ** 2
    words = found.notes[-1].split()
    assert words[-2:] == [f"{int(float(f'{needed:.2g}')):,}", "passes"]
    assert "by max_passes=410" in found.notes[-1]


@pytest.mark.parametrize("options", [{"negligible": 0.0, "max_passes": 2000}, {"max_passes": 5000}])
def test_a_target_beyond_all_numbers_is_said_in_words(
    ppca: me.models.PPCA, rows: np.ndarray, options: dict[str, float]
) -> None:
    """The number of passes that 1e-300 nats take is not a floating-point number."""
    estimate = me.estimate_evidence(ppca, rows, me.Precise(1e-300, **options), seed=0)
    assert "takes more passes than any machine makes" in estimate.notes[-1]


@pytest.fixture(scope="module")
def wide() -> tuple[me.models.PPCA, np.ndarray]:
    loadings = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))
    model = me.models.PPCA.from_parameters(loadings, 0.5)
    return model, np.array(model.sample(50, seed=1))


def test_wide_rows_get_as_many_masks_as_the_data_error_asks_for(
    wide: tuple[me.models.PPCA, np.ndarray],
) -> None:
    model, x = wide
    found = me.estimate_evidence(model, x)
    draws, share = found.design["draws"], found.mask_se / found.data_se
    assert 0.3 < share <= 0.4
    assert found.n_masks == 50 * draws < 0.3 * 50 * 40 * 4
    assert found.notes[-1] == (
        f"{draws} random sizes for each observation, whose error is {100 * share:.2g} % of the data error; "
        "the design every-size:4 scores every size"
    )
    assert len(found.curve.size) == 40


@pytest.mark.parametrize(
    ("n_rows", "n_features", "masks"), [(50, 20, "own"), (50, 40, "shared"), (1, 40, "own")]
)
def test_other_rows_get_every_size(
    wide: tuple[me.models.PPCA, np.ndarray], n_rows: int, n_features: int, masks: str
) -> None:
    model = me.models.PPCA.from_parameters(wide[0].loadings.detach()[:n_features], 0.5)
    found = me.estimate_evidence(model, wide[1][:n_rows, :n_features], masks=masks)
    assert found.design == {"name": "every-size", "masks_per_size": 4}


class RareMasks:
    """Rows whose log evidence is known; one mask in a hundred is 199 nats lower than the others."""

    conditionals = "learned"
    keys = np.random.default_rng(0).integers(1, 2**40, 30)

    def __init__(self, levels: np.ndarray, seed: int) -> None:
        self.levels, self.seed = levels, seed

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        ids, hidden = tokens.ids.numpy(), masked.numpy()
        many = (hidden.sum(1) > 1) & (hidden.sum(1) < 29)  # masks of this size
        rare = keyed_bits(self.seed, ids, hidden @ self.keys) >> np.uint64(11) < 0.01 * 2.0**53
        score = self.levels[ids] + many * (1.99 - 199.0 * rare)
        return torch.where(masked, torch.from_numpy(score / 30)[:, None], 0.0)


@pytest.mark.parametrize("n_rows", [10, pytest.param(20, marks=pytest.mark.slow)])
def test_few_wide_rows_have_enough_masks_to_meet_rare_ones(n_rows: int) -> None:
    """With 100 masks before the first decision, a third of the runs met none; see benchmarks/coverage.py."""
    held = []
    for seed in range(60):
        levels = 5.0 * np.random.default_rng(seed).normal(size=n_rows)
        found = me.estimate_evidence(RareMasks(levels, seed), np.zeros((n_rows, 30)), seed=seed, check=False)
        low, high = found.interval()
        held.append(low <= levels.mean() <= high)
        assert found.n_masks >= FEWEST_MASKS
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(held))


def test_rows_too_few_for_the_first_masks_get_every_size() -> None:
    assert me.EverySize().n_draws(np.full(3, 30)).sum() < FEWEST_MASKS < 10 * 4 * 30
    assert default_design(np.full(3, 30)) == me.EverySize()
    assert default_design(np.full(10, 30)).max_passes == 10 * 4 * 30


@pytest.mark.slow
def test_intervals_of_the_default_cover(wide: tuple[me.models.PPCA, np.ndarray]) -> None:
    model, x = wide
    truth = float(model.score_samples(x).mean())
    found = [me.estimate_evidence(model, x, seed=seed, check=False) for seed in range(30)]
    errors = np.array([one.log_evidence for one in found]) - truth
    assert abs(errors.mean()) < 3.5 * errors.std(ddof=1) / math.sqrt(30)
    assert sum(one.interval()[0] < truth < one.interval()[1] for one in found) >= 25


def test_a_target_that_no_run_reaches_ends_at_once(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    found = estimate_of(ppca, rows, me.Precise(target_se=1e-9, negligible=0))
    assert found.design["draws"] == FEWEST_MASKS // len(rows)
    assert "since memory does not hold the masks that the target takes" in found.notes[-1]
    assert f"100 times as many passes would reach {found.mask_se / 10:.3g} nats" in found.notes[-1]
    never = me.Precise(target_relative=0.1, max_passes=10**6, negligible=0)
    assert "is never reached" in never.verdict(replace(found, log_evidence=0.0))


@pytest.mark.parametrize("n_tokens", [1, 2, 30])
def test_a_single_row(n_tokens: int) -> None:
    covariance = torch.ones(n_tokens, n_tokens).double() + torch.eye(n_tokens).double()
    model = me.models.Gaussian(torch.zeros(n_tokens).double(), covariance)
    found = estimate_of(model, np.array(model.sample(1, seed=1)), me.Precise(target_se=0.2))
    if n_tokens == 1:
        assert found.mask_se == 0
        assert "there is nothing to draw" in found.notes[-1]
    else:
        assert found.mask_se <= 0.2
        assert found.mask_df >= 15


def test_rows_of_very_different_length(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    holes = rows.copy()
    holes[::2, 1:] = np.nan
    truth, target = float(ppca.score_samples(holes).mean()), me.Precise(target_se=0.05, negligible=0)
    found = [me.estimate_evidence(ppca, holes, target, seed=seed, check=False) for seed in range(8)]
    assert max(one.mask_se for one in found) <= 0.05
    errors = [one.log_evidence - truth for one in found]
    assert abs(np.mean(errors)) < 4 * 0.05 / math.sqrt(8)
    assert np.std(errors, ddof=1) < 2 * 0.05


def test_no_variance_at_all(rows: np.ndarray) -> None:
    found = me.estimate_evidence(Independent(), rows, me.Precise(target_se=0.05))
    assert found.log_evidence == pytest.approx(-1.5 * rows.shape[1])
    assert (found.mask_se, found.design["draws"]) == (None, FEWEST_MASKS // len(rows))
    assert "more of them would not tell their error" in found.notes[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negligible": 0}, "and none is given; give one"),
        ({"target_se": 0.1, "target_relative": 0.1}, "and both are given; give one"),
        ({"target_se": 0.0}, "target_se=0.0; give a number above 0"),
        ({"target_se": -1.0}, "target_se=-1.0; give a number above 0"),
        ({"target_se": math.nan}, "target_se=nan; give a finite number"),
        ({"target_relative": math.inf}, "target_relative=inf; give a finite number"),
        ({"target_se": 0.1, "max_passes": 0}, "max_passes=0; give a whole number"),
        ({"target_se": 0.1, "max_passes": 1.5}, "max_passes=1.5; give a whole number"),
        ({"target_se": 0.1, "negligible": -0.1}, "negligible=-0.1; give a share"),
    ],
)
def test_targets_that_cannot_be_used(options: dict[str, float], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        me.Precise(**options)


def test_what_cannot_be_reached_is_refused(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    with pytest.raises(me.InputError, match="max_passes=100 is too few: the error of 40 observations"):
        estimate_of(ppca, rows, me.Precise(target_se=0.05, max_passes=100))
    with pytest.raises(me.InputError, match="needs masks='own'"):
        estimate_of(ppca, rows, me.Precise(target_se=0.05), masks="shared")
    moments = me.GaussianMoments.from_rows(torch.from_numpy(rows))
    with pytest.raises(me.InputError, match="needs masks='own'"):
        me.estimate_evidence(ppca, moments, me.Precise(target_se=0.05))
    begun = me.Precise(target_se=0.05)
    with pytest.raises(me.InputError, match="begin a new run"):
        begun.first(np.full(40, 9), me.RandomSize(8, 2), begun=True)
    assert begun.first(np.full(4, 9), me.RandomSize(8, 4), begun=True).draws == 100


def test_few_degrees_of_freedom_take_a_smaller_error(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    """An error that is known roughly has to be below the target, as its upper bound is at most 1.2 of it."""
    found = estimate_of(ppca, rows, me.Precise(target_se=0.05, negligible=0))
    precise, design = me.Precise(target_se=found.mask_se, negligible=0), replace(FEWEST, draws=32)
    assert precise.following(design, found) is None
    few = replace(found, mask_df=7.0)  # √(7 / 2.167) / 1.2 = 1.498
    assert precise.following(design, few) == replace(FEWEST, draws=64)
    larger = me.Precise(target_se=1.49 * found.mask_se, negligible=0)
    assert larger.following(design, few) == replace(FEWEST, draws=34)
    assert me.Precise(target_se=1.5 * found.mask_se, negligible=0).following(design, few) is None
