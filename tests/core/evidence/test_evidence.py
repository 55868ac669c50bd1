"""Estimates of the log evidence: exact where possible, unbiased, and with errors of the right size."""

import json
import math

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from many_estimates import many_estimates, scores_of
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.evidence.score_means import contributions, errors_of_rows, mean_of_scores
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks
from maskevidence.core.scores.ask import Asker
from maskevidence.core.scores.record import Scores
from maskevidence.core.tokens import Tokens
from refusals import one_line

DESIGNS = [
    me.EverySize(4),
    me.RandomSize(24),
    me.Orderings(2),
    me.LeaveOneOut(),
    me.Exhaustive(),
    me.FixedRate(0.3, masks_per_size=2),
    me.Rates((0.3, 0.8), masks_per_size=4),
]
all_designs = pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
mask_kinds = pytest.mark.parametrize("masks", ["own", "shared"])


class OnlyConditionals(torch.nn.Module):
    """A model reduced to the protocol."""

    def __init__(self, model: torch.nn.Module, conditionals: str = "exact") -> None:
        super().__init__()
        self.model, self.conditionals = model, conditionals
        self.n_calls = 0

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        return self.model.log_conditionals(tokens, masked)


def with_holes(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """The table with a fifth of its values missing, but none in the last column."""
    holes = np.random.default_rng(seed).random(x.shape) < 0.2
    holes[:, -1] = False
    return np.where(holes, np.nan, x)


class TestExhaustive:
    def test_equals_the_closed_form(self, build, mixed_tokens) -> None:
        """With missing values and context: the sum over sizes is log p(maskable | context)."""
        model, tokens = build(8), mixed_tokens(12, 8)
        estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
        expected = model.log_evidence(tokens).detach().numpy()
        np.testing.assert_allclose(estimate.per_observation, expected, rtol=1e-9)
        assert estimate.log_evidence == pytest.approx(expected.mean(), rel=1e-9)
        assert (estimate.kind, estimate.mask_se, estimate.mask_df) == ("exact", 0.0, None)
        assert estimate.interval() == (estimate.log_evidence, estimate.log_evidence)

    def test_equals_a_plain_enumeration(self, build, mixed_tokens) -> None:
        model, tokens = build(5), mixed_tokens(6, 5)
        estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
        for row in range(6):
            one = tokens[row : row + 1]
            expected = oracles.sum_over_sizes(
                lambda mask, one=one: float(oracles.scores(model, one, torch.from_numpy(mask)[None])[0]),
                one.maskable[0].numpy(),
            )
            assert estimate.per_observation[row] == pytest.approx(expected, rel=1e-10)

    def test_gradients_equal_those_of_the_closed_form(self, build) -> None:
        model = build(8)
        tokens = Tokens.from_array(with_holes(model.sample(2, seed=1)))
        design, total = me.Exhaustive(), torch.zeros((), dtype=torch.float64)
        for row in range(2):
            n_tokens = np.array([int(tokens.n_tokens[row])])
            index = np.arange(int(design.n_draws(n_tokens)[0]))
            ids = np.zeros_like(index)
            draw, size = design.plan(MaskKey(), ids, np.full_like(index, n_tokens[0]), index)
            one = tokens[torch.full((len(index),), row)]
            masked = torch.from_numpy(design.masked(MaskKey(), ids, draw, size, one.maskable.numpy()))
            weight = design.summation(np.full_like(index, n_tokens[0]), draw, size).weight
            total = total + torch.from_numpy(weight) @ me.score_masks(model, one, masked)
        closed = model.log_evidence(tokens).sum()
        parameters = list(model.parameters())
        for found, expected in zip(
            torch.autograd.grad(total, parameters), torch.autograd.grad(closed, parameters), strict=True
        ):
            assert bool((expected != 0).any())
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


class TestInvariance:
    @all_designs
    @mask_kinds
    def test_batch_size_and_row_order_do_not_matter(
        self, build_gaussian, mixed_tokens, design: MaskDesign, masks: Masks
    ) -> None:
        model, tokens = build_gaussian(6), mixed_tokens(9, 6)
        results = [
            me.estimate_evidence(model, tokens, design, seed=3, masks=masks, batch_size=batch_size)
            for batch_size in (1, 7, 256)
        ]
        shuffled = tokens[torch.from_numpy(np.random.default_rng(0).permutation(9))]
        results.append(me.estimate_evidence(model, shuffled, design, seed=3, masks=masks))
        first = results[0]
        for other in results[1:]:
            for name in ("log_evidence", "mask_se", "data_se"):
                value = getattr(first, name)
                if value is None:  # not resolved beside mask_se
                    assert name == "data_se"
                    assert getattr(other, name) is None
                else:
                    assert getattr(other, name) == pytest.approx(value, rel=1e-10, abs=1e-10)
            np.testing.assert_array_equal(other.ids, first.ids)
            np.testing.assert_allclose(other.per_observation, first.per_observation, rtol=1e-10)
            np.testing.assert_array_equal(other.scores.size, first.scores.size)
            np.testing.assert_allclose(other.scores.score, first.scores.score, rtol=1e-9, atol=1e-10)

    def test_observations_can_be_split_over_runs(self, build, mixed_tokens) -> None:
        """Own masks of random sizes are the exception: their sizes are even over all that is scored."""
        model, tokens = build(6), mixed_tokens(10, 6)
        for design, masks in (
            (me.EverySize(2), "own"),
            (me.EverySize(2), "shared"),
            (me.RandomSize(8), "shared"),
        ):
            whole = me.estimate_evidence(model, tokens, design, masks=masks)
            halves = [
                me.estimate_evidence(model, tokens[part], design, masks=masks)
                for part in (slice(0, 4), slice(4, 10))
            ]
            joined = np.concatenate([half.per_observation for half in halves])
            np.testing.assert_allclose(whole.per_observation, joined, rtol=1e-10)

    def test_padding_columns_do_not_matter(self, build_gaussian) -> None:
        """A column without any observed value changes neither masks nor scores."""
        narrow, x = build_gaussian(5), build_gaussian(5).sample(4)
        covariance = torch.eye(7, dtype=torch.float64)
        covariance[:5, :5] = narrow.covariance.detach()
        mean = torch.cat([narrow.mean.detach(), torch.zeros(2, dtype=torch.float64)])
        wide = me.models.Gaussian(mean, covariance)
        padded = np.concatenate([x, np.full((4, 2), np.nan)], axis=1)
        for design in DESIGNS:
            one = me.estimate_evidence(narrow, x, design)
            other = me.estimate_evidence(wide, padded, design)
            np.testing.assert_allclose(other.per_observation, one.per_observation, rtol=1e-10)

    def test_no_global_random_state_is_read_or_changed(self, build_ppca) -> None:
        model = build_ppca(5)
        x = model.sample(3)
        results = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            np.random.seed(seed)
            states = torch.get_rng_state(), np.random.get_state()[1].copy()
            results.append(me.estimate_evidence(model, x, me.RandomSize(8)).log_evidence)
            model.sample(2)
            assert bool((torch.get_rng_state() == states[0]).all())
            assert (np.random.get_state()[1] == states[1]).all()
        assert results[0] == results[1]


class TestFastPaths:
    @mask_kinds
    def test_orders_at_once_equal_the_masks_one_by_one(
        self, build_gaussian, mixed_tokens, masks: Masks
    ) -> None:
        model, tokens = build_gaussian(6), mixed_tokens(7, 6)
        fast = me.estimate_evidence(model, tokens, me.Orderings(3), masks=masks)
        slow = me.estimate_evidence(OnlyConditionals(model), tokens, me.Orderings(3), masks=masks)
        for column in ("id", "draw", "size", "n_tokens"):
            np.testing.assert_array_equal(getattr(fast.scores, column), getattr(slow.scores, column))
        np.testing.assert_allclose(fast.scores.score, slow.scores.score, rtol=1e-9, atol=1e-11)
        assert (fast.mask_se, fast.data_se) == pytest.approx((slow.mask_se, slow.data_se), rel=1e-9)

    @pytest.mark.parametrize(
        "design", [me.EverySize(4), me.RandomSize(24), me.Orderings(2), me.LeaveOneOut()]
    )
    def test_moments_equal_the_rows_with_shared_masks(self, build, design: MaskDesign) -> None:
        model = build(6)
        x = model.sample(50) + 0.3
        rows = me.estimate_evidence(model, x, design, masks="shared")
        moments = me.estimate_evidence(model, me.GaussianMoments.from_rows(x), design)
        assert moments.log_evidence == pytest.approx(rows.log_evidence, rel=1e-10)
        assert moments.mask_se == pytest.approx(rows.mask_se, rel=1e-8)
        assert (moments.mask_df or 0) == pytest.approx(rows.mask_df or 0, rel=1e-6)
        assert (moments.n_observations, moments.n_tokens) == (50, 300)
        assert moments.per_token == pytest.approx(rows.per_token, rel=1e-10)
        assert (moments.masks, moments.data_se) == ("shared", None)

    def test_a_model_without_moments_is_refused(self, build_ppca) -> None:
        moments = me.GaussianMoments.from_rows(np.eye(5))
        with pytest.raises(me.InputError, match="OnlyConditionals cannot score moments; give the rows"):
            me.estimate_evidence(OnlyConditionals(build_ppca(5)), moments)


class TestWhatDesignsEstimate:
    def test_leave_one_out_is_the_pseudo_log_likelihood(self, build, mixed_tokens) -> None:
        model, tokens = build(6), mixed_tokens(8, 6)
        expected = np.zeros(8)
        for j in range(6):
            masked = tokens.maskable & (torch.arange(6) == j)
            rows = masked.any(1)
            expected[rows.numpy()] += oracles.scores(model, tokens[torch.nonzero(rows)[:, 0]], masked[rows])
        estimate = me.estimate_evidence(model, tokens, me.LeaveOneOut())
        np.testing.assert_allclose(estimate.per_observation, expected, rtol=1e-10)

    @pytest.mark.parametrize(
        "design",
        [me.EverySize(1), me.RandomSize(4), me.RandomSize(1, 1), me.Orderings(1)],
        ids=lambda design: design.name,
    )
    @pytest.mark.parametrize("masks", ["own", pytest.param("shared", marks=pytest.mark.slow)])
    def test_sums_over_sizes_are_unbiased(self, build_gaussian, design: MaskDesign, masks: Masks) -> None:
        """A z-test for every observation and for the mean, with missing values.

        Own masks differ between copies of an observation, so that 40 seeds draw 800 times.
        """
        model = build_gaussian(6)
        x = with_holes(model.sample(5, seed=1))
        truth = model.score_samples(x)
        copies, seeds = (20, 40) if masks == "own" else (1, 150)
        rows = np.tile(x, (copies, 1))
        found = [me.estimate_evidence(model, rows, design, seed=s, masks=masks) for s in range(seeds)]
        errors = np.array([estimate.per_observation.reshape(copies, 5).mean(0) for estimate in found])
        errors = np.column_stack([errors - truth, errors.mean(1) - truth.mean()])
        z = errors.mean(0) / errors.std(0, ddof=1) * math.sqrt(seeds)
        assert (np.abs(z) < 4).all()

    @pytest.mark.parametrize(
        "design", [me.FixedRate(0.2, 2), me.FixedRate(0.5, 2), me.Rates((0.2, 0.4, 0.6, 0.8, 1.0), 3)]
    )
    def test_rates_are_unbiased_for_the_mean_of_their_sizes(self, build_gaussian, design: me.Rates) -> None:
        """D times the score of one rate; rates that are all sizes give the log evidence."""
        model = build_gaussian(5)
        x = model.sample(4, seed=1)
        by_size = me.estimate_evidence(model, x, me.Exhaustive()).curve.score
        truth = 5 * np.mean([by_size[max(1, math.floor(5 * rate + 1e-9)) - 1] for rate in design.rates])
        found = many_estimates(model, [x] * 300, design)
        errors = np.array([estimate.log_evidence for estimate in found]) - truth
        assert abs(errors.mean()) < 4 * errors.std(ddof=1) / math.sqrt(300)
        squares = np.array([estimate.mask_se**2 for estimate in found])
        assert squares.mean() == pytest.approx(errors.var(ddof=1), rel=4 * math.sqrt(2 / 300))

    @pytest.mark.parametrize(
        ("conditionals", "design", "kind"),
        [
            ("exact", me.Exhaustive(), "exact"),
            ("exact", me.RandomSize(4), "unbiased"),
            ("exact", me.Rates((1 / 3, 2 / 3, 1.0)), "unbiased"),
            ("exact", me.LeaveOneOut(), "pseudo"),
            ("exact", me.Rates((0.5, 1.0)), "pseudo"),
            ("approximate", me.Exhaustive(), "approximate"),
            ("approximate", me.EverySize(1), "approximate"),
            ("approximate", me.LeaveOneOut(), "pseudo"),
            ("learned", me.Exhaustive(), "lower_bound"),
            ("learned", me.RandomSize(4), "lower_bound"),
            ("learned", me.FixedRate(0.5), "pseudo"),
        ],
        ids=str,
    )
    def test_kinds(self, build_ppca, conditionals: str, design: MaskDesign, kind: str) -> None:
        model = OnlyConditionals(build_ppca(3), conditionals)
        assert me.estimate_evidence(model, [[0.0, 1.0, 2.0]], design).kind == kind

    def test_leave_one_out_of_single_tokens_is_the_evidence(self, build_gaussian) -> None:
        model, rows = build_gaussian(3), [[math.nan, 1.0, math.nan], [2.0, math.nan, math.nan]]
        estimate = me.estimate_evidence(model, rows, me.LeaveOneOut())
        assert estimate.kind == "exact"
        np.testing.assert_allclose(estimate.per_observation, model.score_samples(rows), rtol=1e-12)

    @all_designs
    def test_one_feature(self, design: MaskDesign) -> None:
        """With a single token there is a single mask, and every design gives log p(x) without error."""
        model = me.models.Gaussian(torch.tensor([0.5]), torch.tensor([[2.0]]))
        x = [[0.1], [3.0], [-1.0]]
        estimate = me.estimate_evidence(model, x, design)
        np.testing.assert_allclose(estimate.per_observation, model.score_samples(x), rtol=1e-12)
        assert (estimate.mask_se, estimate.mask_df) == (0.0, None)
        assert estimate.kind in ("exact", "unbiased")


class TestErrors:
    """On PPCA with 20 features, and on the Gaussian with the same covariance, which scores whole orders."""

    n_rows = 8
    cases = pytest.mark.parametrize(
        ("design", "masks"),
        [
            pytest.param(me.EverySize(4), "own", marks=pytest.mark.slow),
            (me.EverySize(4), "shared"),
            pytest.param(me.RandomSize(20), "own", marks=pytest.mark.slow),
            pytest.param(me.RandomSize(80), "shared", marks=pytest.mark.slow),
            (me.Orderings(8), "own"),
        ],
        ids=lambda value: getattr(value, "name", value),
    )

    @cases
    def test_95_percent_of_intervals_hold_the_closed_form(
        self, build_ppca, design: MaskDesign, masks: Masks
    ) -> None:
        """Coverage over 500 seeds with separate data, and mask_se² against the variance of the errors."""
        sampler = model = build_ppca(20)
        if isinstance(design, me.Orderings):
            model = me.models.Gaussian(sampler.mean, sampler.covariance)
        tables = [sampler.sample(self.n_rows, seed=seed) for seed in range(500)]
        truths = sampler.score_samples(np.concatenate(tables)).reshape(500, self.n_rows).mean(1)
        hits, errors, squares = 0, [], []
        for estimate, truth in zip(many_estimates(model, tables, design, masks), truths, strict=True):
            low, high = estimate.interval(0.95)
            hits += low < truth < high
            errors.append(estimate.log_evidence - truth)
            squares.append(estimate.mask_se**2)
        assert 0.93 <= hits / 500 <= 0.99  # above 95 %, for masks too rare to be drawn
        assert abs(np.mean(errors)) < 4 * np.std(errors, ddof=1) / math.sqrt(500)
        assert np.mean(squares) == pytest.approx(np.var(errors, ddof=1), rel=0.3)

    @pytest.mark.parametrize(
        ("design", "masks"),
        [
            (me.EverySize(2), "own"),
            pytest.param(me.EverySize(4), "shared", marks=pytest.mark.slow),
            pytest.param(me.RandomSize(8), "own", marks=pytest.mark.slow),
            pytest.param(me.RandomSize(40), "shared", marks=pytest.mark.slow),
        ],
        ids=lambda value: getattr(value, "name", value),
    )
    def test_the_two_errors_make_up_the_spread_about_the_population(
        self, build_ppca, design: MaskDesign, masks: Masks
    ) -> None:
        """For data from the model, log p has mean -½ log det(2πe Σ) and variance D/2 over the population."""
        model, n_rows, repeats, width = build_ppca(10), 30, 400, 10
        covariance = model.covariance.detach().numpy()
        population = -0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
        data_variance = width / 2 / n_rows
        values, mask_variances, data_variances = [], [], []
        tables = [model.sample(n_rows, seed=seed) for seed in range(repeats)]
        for estimate in many_estimates(model, tables, design, masks):
            values.append(estimate.log_evidence)
            mask_variances.append(estimate.mask_se**2)
            data_variances.append((estimate.data_se or 0.0) ** 2)
        z = (np.mean(data_variances) - data_variance) / np.std(data_variances, ddof=1) * math.sqrt(repeats)
        assert abs(z) < 4
        total = np.mean(mask_variances) + np.mean(data_variances)
        assert np.var(values, ddof=1) == pytest.approx(total, rel=4 * math.sqrt(2 / repeats))
        assert abs(np.mean(values) - population) < 4 * math.sqrt(total / repeats)

    def test_more_masks_per_size_lessen_the_error(self, build_ppca) -> None:
        model = build_ppca(8)
        x = model.sample(20)
        designs = [me.EverySize(4).in_training(), me.EverySize(64).in_training(), me.EverySize(64)]
        few, many, listed = (me.estimate_evidence(model, x, design).mask_se for design in designs)
        assert many == pytest.approx(few / 4, rel=0.3)
        assert listed < 0.8 * many  # four of the eight sizes have 28 masks or fewer, and all are scored

    def test_without_replicates_the_error_is_unknown_and_says_so(self, build_ppca) -> None:
        model = build_ppca(4)
        for design in (me.EverySize(1), me.RandomSize(2, 2), me.Orderings(1)):
            estimate = me.estimate_evidence(model, model.sample(3), design)
            assert estimate.mask_se is None
            assert estimate.mask_df is None
            assert estimate.data_se > 0
            (note,) = estimate.notes
            assert note.endswith("data_se holds their error too")
            shared = me.estimate_evidence(model, model.sample(3), design, masks="shared")
            assert "does not hold their error" in shared.notes[0]
            with pytest.raises(me.InputError, match=f"no interval: mask_se is not known: {design.name}"):
                estimate.interval()

    def test_one_observation_has_no_data_se(self, build_ppca) -> None:
        model = build_ppca(4)
        for design in (me.EverySize(6), me.RandomSize(40), *DESIGNS[2:]):
            estimate = me.estimate_evidence(model, model.sample(1), design)
            assert estimate.data_se is None
            assert estimate.mask_se is not None
        for design in (
            me.EverySize(2),
            me.EverySize(4),
            me.RandomSize(8),
            me.Rates((0.3, 0.8), masks_per_size=2),
        ):
            estimate = me.estimate_evidence(model, model.sample(1), design)
            assert (estimate.mask_se, estimate.data_se) == (None, None)
            assert "data_se" not in estimate.notes[0]

    def test_equal_masks_do_not_tell_the_error(self, build_ppca) -> None:
        """Two masks of one size that are equal by chance: mask_se is unknown, and not 0."""
        model = build_ppca(2)
        x = model.sample(1)
        estimates = [me.estimate_evidence(model, x, me.FixedRate(0.5, 2), seed=seed) for seed in range(40)]
        equal = [len({float(score) for score in e.scores.score}) == 1 for e in estimates]
        assert 10 < sum(equal) < 30
        for estimate, same in zip(estimates, equal, strict=True):
            assert (estimate.mask_se is None) == same
            assert (estimate.mask_se == 0) is False
        chance = next(e for e, same in zip(estimates, equal, strict=True) if same)
        assert "all replicates of the masks gave the same number, which can be chance" in chance.notes[0]

    @pytest.mark.parametrize("level", [0.0, 95, math.nan])
    def test_a_level_outside_0_to_1_is_refused(self, build_ppca, level: float) -> None:
        estimate = me.estimate_evidence(build_ppca(3), [[0.0, 1.0, 2.0]])
        with pytest.raises(me.InputError, match="level="):
            estimate.interval(level)


class TestResult:
    def test_counts_and_normalisers(self, build_gaussian) -> None:
        model = build_gaussian(4)
        rows = [[0.0, 1.0, 2.0, 3.0], [math.nan, 1.0, math.nan, 3.0]]
        estimate = me.estimate_evidence(model, rows, me.EverySize(3), seed=9, batch_size=5)
        assert (estimate.n_observations, estimate.n_tokens) == (2, 6)
        assert (estimate.n_masks, estimate.n_model_calls) == (3 + 3 + 3 + 1 + 2 + 1, 3)
        assert estimate.per_token == pytest.approx(estimate.per_observation.sum() / 6)
        assert estimate.bits_per_token == pytest.approx(-estimate.per_token / math.log(2))
        assert estimate.perplexity_bound == pytest.approx(2**estimate.bits_per_token)
        assert estimate.bits_per_byte is None
        assert estimate.design == {"name": "every-size", "masks_per_size": 3}
        assert (estimate.seed, estimate.masks) == (9, "own")

    def test_calls_are_counted(self, build_ppca) -> None:
        model = OnlyConditionals(build_ppca(5))
        for design in DESIGNS:
            model.n_calls = 0
            estimate = me.estimate_evidence(model, np.zeros((3, 5)), design, batch_size=7, check=False)
            assert estimate.n_model_calls == model.n_calls
            assert estimate.n_masks == len(estimate.scores)

    def test_four_masks_of_every_size_are_the_default(self, build_ppca) -> None:
        model = build_ppca(4)
        x = model.sample(3)
        default = me.estimate_evidence(model, x)
        assert default.design == me.EverySize(4).settings()
        assert default.log_evidence == me.estimate_evidence(model, x, me.EverySize(4)).log_evidence

    @all_designs
    def test_the_written_form_is_strict_json(self, build_ppca, design: MaskDesign) -> None:
        estimate = me.estimate_evidence(build_ppca(4), np.zeros((1, 4)), design)
        written = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
        assert written["log_evidence"] == estimate.log_evidence
        assert written["design"]["name"] == design.name

    def test_scores_and_ids_are_those_of_the_data(self, build_ppca) -> None:
        model = build_ppca(4)
        tokens = Tokens.from_array(model.sample(3), ids=[30, 10, 20])
        estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
        assert estimate.ids.tolist() == [10, 20, 30]
        expected = model.log_evidence(tokens).detach().numpy()[[1, 2, 0]]
        np.testing.assert_allclose(estimate.per_observation, expected, rtol=1e-10)

    def test_a_record_in_any_order_gives_the_same_estimate(self, build_ppca) -> None:
        model, design, key = build_ppca(4), me.EverySize(2), MaskKey(1)
        tokens = Tokens.from_array(model.sample(4))
        table = scores_of(model, tokens, design, key)
        order = np.random.default_rng(0).permutation(len(table))
        columns = (getattr(table, name)[order] for name in ("id", "draw", "size", "n_tokens", "score"))
        found = summarize_scores(me.ScoreTable(*columns), HowScored(design, key, "exact"), 1)
        expected = me.estimate_evidence(model, tokens, design, seed=1)
        assert (found.log_evidence, found.mask_se) == (expected.log_evidence, expected.mask_se)


class Echo(torch.nn.Module):
    """0/1 tokens that are nearly always equal, mostly 1: hard to predict from nothing, easy from one."""

    conditionals, base_measure = "exact", me.model.MASS

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        alone = ~tokens.visible(masked).any(1, keepdim=True)
        first = torch.where(tokens.values == 1, math.log(0.9), math.log(0.1))
        return torch.where(masked, torch.where(alone, first, -1e-9), 0.0).double()


class TestIntervalAboveZero:
    """A probability is at most 1, so that an interval of its logarithm should not reach above 0."""

    ABOVE = "the interval reaches above 0, the largest value that a log-probability can have: too few masks"

    def estimates(self, base_measure: str | None, draws: int = 12) -> list[me.EvidenceEstimate]:
        model, x = Echo(), np.ones((5, 12))
        x[0] = 0.0
        model.base_measure = base_measure
        return [me.estimate_evidence(model, x, me.RandomSize(draws), seed=seed) for seed in range(10)]

    def test_is_noted_for_a_mass(self) -> None:
        estimates = self.estimates(me.model.MASS)
        above = [estimate.interval()[1] > 0 for estimate in estimates]
        assert sum(above) > 3
        assert [self.ABOVE in estimate.notes for estimate in estimates] == above
        assert self.ABOVE in estimates[above.index(True)].to_dict()["notes"]

    def test_is_not_noted_for_a_density_or_with_enough_masks(self) -> None:
        others = [
            *self.estimates(me.model.DENSITY),
            *self.estimates(None),
            *self.estimates(me.model.MASS, 256),
        ]
        assert not any(self.ABOVE in estimate.notes for estimate in others)


def tokens_of(maskable: list, context: list, ids: list[int]) -> Tokens:
    roles = torch.tensor(maskable), torch.tensor(context)
    return Tokens(torch.zeros(roles[0].shape, dtype=torch.float64), *roles, torch.tensor(ids))


NONE, EVERY = [False] * 3, [True] * 3


class TestRefusals:
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([[1.0, 2.0, math.nan], [math.nan] * 3], "row 1 has no observed value"),
            ([[1.0, math.inf, 0.0]], "row 0, column 1 is infinite"),
            ([1.0, 2.0, 3.0], r"shape \(3,\); give an \(N, D\) table"),
            (np.zeros((0, 3)), r"shape \(0, 3\)"),
            ([["a", "b", "c"]], "not a table of numbers"),
            ([[1.0, 2.0]], "2 columns, the model has 3 features"),
            (Tokens.from_array(np.zeros((2, 3)), ids=[4, 4]), "two observations have the same id"),
            (tokens_of([EVERY, NONE], [NONE, EVERY], [5, 6]), "observation 6 has no token to hide"),
            (tokens_of([EVERY], [NONE], [5])[:0], "the data have no token to hide"),
            (tokens_of([EVERY], [EVERY], [5]), "token 0 of observation 5 is both maskable and context"),
        ],
    )
    def test_data_that_cannot_be_scored(self, build_ppca, rows: object, message: str) -> None:
        one_line(lambda: me.estimate_evidence(build_ppca(3), rows), match=message)

    def test_a_value_too_large_for_the_dtype(self) -> None:
        with pytest.raises(me.InputError, match=r"row 1, column 0, 1e\+300, is too large for torch.float32"):
            Tokens.from_array([[1.0], [1e300]], dtype=torch.float32)

    @pytest.mark.parametrize("ids", [[1.5, 2.5], [1], [[1, 2]], ["a", "b"]])
    def test_ids_that_are_not_one_whole_number_a_row(self, ids: list) -> None:
        with pytest.raises(me.InputError, match="give 2 whole numbers"):
            Tokens.from_array([[1.0], [2.0]], ids=ids)

    @pytest.mark.parametrize("batch_size", [0, 2.5, "3"])
    def test_a_batch_of_no_whole_number(self, build_ppca, batch_size: object) -> None:
        with pytest.raises(me.InputError, match=f"batch_size={batch_size!r}; give a whole number"):
            me.estimate_evidence(build_ppca(3), [[0.0, 1.0, 2.0]], batch_size=batch_size)
        with pytest.raises(me.InputError, match=f"batch_size={batch_size!r}; give a whole number"):
            Asker(build_ppca(3), batch_size)

    def test_no_size_of_a_batch_is_the_default(self, build_ppca) -> None:
        model, x = build_ppca(3), [[0.0, 1.0, 2.0]]
        found = [me.estimate_evidence(model, x, batch_size=size).log_evidence for size in (None, 1024)]
        assert found[0] == found[1]

    @pytest.mark.parametrize("value", [1e200, 1e90])  # the density is not finite; its square is not
    @pytest.mark.parametrize("design", [me.EverySize(2), me.Orderings(2)], ids=lambda design: design.name)
    def test_a_value_whose_density_is_too_small(
        self, build_gaussian, design: MaskDesign, value: float
    ) -> None:
        values = torch.tensor([[0.0, 1.0, value]], dtype=torch.float64)
        present = torch.ones(1, 3, dtype=torch.bool)
        tokens = Tokens(values, present, ~present, torch.tensor([8]))
        with pytest.raises(me.NumericalError, match="observation 8"):
            me.estimate_evidence(build_gaussian(3), tokens, design)

    def test_moments_whose_scores_are_too_large(self, build_gaussian) -> None:
        moments = me.GaussianMoments.from_rows([[0.0, 1.0, 1e90], [1.0, 0.0, -1e90]])
        with pytest.raises(me.NumericalError, match=r"a score of the moments is -.*look for wrong values"):
            me.estimate_evidence(build_gaussian(3), moments)

    def test_the_largest_scores_give_errors_that_are_finite(self) -> None:
        """Degrees of freedom need the fourth power of what scores add up to, over a long row, too."""
        model = me.models.PPCA.from_parameters(torch.zeros(300, 1), 1.0)
        x = np.random.default_rng(0).normal(size=(3, 300)) * 1e29
        estimate = me.estimate_evidence(model, x, me.EverySize(2))
        assert np.isfinite(
            [estimate.log_evidence, estimate.mask_se, estimate.mask_df, estimate.data_se]
        ).all()


def test_an_observation_that_holds_most_of_the_masks_variance_is_named() -> None:
    """Scores vary with the mask, a hundred times as much in the row with id 7."""

    class Noise(torch.nn.Module):
        conditionals = "learned"

        def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
            scale = torch.where(tokens.ids == 7, 10.0, 0.1)[:, None]
            first = torch.sin(37.0 * masked.double() @ torch.arange(1.0, 7.0, dtype=torch.float64))[:, None]
            return -torch.where(masked, scale * (2.0 + first), 0.0)

    x = np.zeros((20, 6))
    notes = me.estimate_evidence(Noise(), x, me.EverySize(4)).notes
    assert [note for note in notes if "observation 7 holds 100 % of the masks' variance" in note]
    calm = me.estimate_evidence(Noise(), x[:7], me.EverySize(4))
    assert not any("variance" in note for note in calm.notes)


def test_the_variance_of_a_row_counts_each_draw_as_a_mask_of_its_own() -> None:
    """16 draws in 4 replicates: the spread of single draws tells the share of a row's variance."""
    rng = np.random.default_rng(0)
    row, draw = (grid.ravel() for grid in np.indices((5, 16)))
    table = me.ScoreTable(row, draw, rng.integers(1, 7, 80), np.full(80, 6), rng.normal(size=80))
    found = mean_of_scores(table, me.RandomSize(16, 4), MaskKey(0))
    added = contributions(table, me.RandomSize(16, 4), None)
    variance = added.reshape(5, 16).var(1, ddof=1)
    assert found.worst is not None
    assert found.worst[0] == int(variance.argmax())
    assert found.worst[1] == pytest.approx(variance.max() / variance.sum())


def test_the_error_of_a_row_has_welchs_degrees_of_freedom() -> None:
    """Two sizes with 3 masks each: R - 1 = 2 for each size, together (v1 + v2)^2 / (v1^2 + v2^2) times 2."""
    table = me.estimate_evidence(
        me.models.PPCA(n_features=7, n_components=2), np.ones((4, 7)), me.Rates((0.3, 0.6), masks_per_size=3)
    ).scores.sorted()
    design = me.Rates((0.3, 0.6), masks_per_size=3)
    ((_, mask_se, mask_df),) = errors_of_rows(Scores.of(table), design, MaskKey(0))
    for row in range(4):
        here = table.id == row
        both = [table.score[here & (table.size == size)] for size in np.unique(table.size)]
        v = np.array([(7 / 6) ** 2 * 3 * scores.var(ddof=1) for scores in both])
        assert mask_se[row] == pytest.approx(math.sqrt(v.sum()))
        assert mask_df[row] == pytest.approx(v.sum() ** 2 / (v**2).sum() * 2)
