"""Comparisons: differences agree with exact ones within their errors, and pairing reduces the errors."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from scipy.stats import t as student

import comparison
import maskevidence as me
from command_line import CommandLine
from many_estimates import many_estimates
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.evidence.standard_errors import t_half_width
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.show import Table
from maskevidence.runs import DataSource, RunDirectory, record_run
from recorded_runs import make_manifest

D = 5


def a_pair(seed: int = 0, change: float = 0.3) -> tuple[me.models.PPCA, me.models.PPCA]:
    """A model, and another one whose parameters differ by about `change`."""
    rng = np.random.default_rng(seed)
    loadings, mean = rng.normal(size=(D, 2)), rng.normal(size=D)
    other = loadings + change * rng.normal(size=loadings.shape)
    first, second = (
        me.models.PPCA.from_parameters(torch.from_numpy(w), 0.5, torch.from_numpy(mean))
        for w in (loadings, other)
    )
    return first, second


def estimates_of(
    models: tuple[me.models.PPCA, ...], x: np.ndarray, design: me.MaskDesign, **options: object
) -> dict[str, me.EvidenceEstimate]:
    return {
        name: me.estimate_evidence(model, x, design, **options)
        for name, model in zip("abc", models, strict=False)
    }


def exact_difference(models: tuple[me.models.PPCA, me.models.PPCA], x: np.ndarray) -> np.ndarray:
    """The difference in the log evidence of each observation, in closed form."""
    a, b = (model.score_samples(x) for model in models)
    return a - b


@pytest.mark.parametrize(
    ("design", "masks"),
    [
        (me.EverySize(4), "shared"),
        (me.Orderings(8), "own"),
        pytest.param(me.EverySize(4), "own", marks=pytest.mark.slow),
        pytest.param(me.RandomSize(24, 4), "own", marks=pytest.mark.slow),
        pytest.param(me.RandomSize(24, 4), "shared", marks=pytest.mark.slow),
        pytest.param(me.Orderings(8), "shared", marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_differences_are_unbiased_and_their_mask_errors_right(design: me.MaskDesign, masks: str) -> None:
    """Over 100 seeds, the mean error is zero, its spread is mask_se, and 95 % intervals hold the truth."""
    models = a_pair()
    x = models[0].sample(20, seed=1)
    exact = exact_difference(models, x).mean()
    errors, said, covered = [], [], 0
    for both in zip(*(many_estimates(model, [x] * 100, design, masks) for model in models), strict=True):
        found = me.compare(dict(zip("ab", both, strict=True))).between("a", "b")
        assert found.pairing == "masks"
        errors.append(found.difference - exact)
        said.append(found.mask_se)
        half = t_half_width(found.mask_se, found.mask_df or math.inf, 0.95)
        covered += abs(errors[-1]) <= half
    z = np.mean(errors) / (np.std(errors, ddof=1) / math.sqrt(len(errors)))
    assert abs(z) < 3
    assert 0.75 <= np.std(errors) / np.sqrt(np.mean(np.square(said))) <= 1.25
    assert covered / len(errors) >= 0.89


def test_a_difference_below_zero_is_called_worse() -> None:
    models = a_pair(change=2.0)
    found = me.compare(estimates_of(models, models[0].sample(200, seed=1), me.EverySize(4)))
    said = {repr(found.between(*pair)).split()[-1] for pair in ("ab", "ba")}
    assert said == {"better)", "worse)"}


def test_differences_are_within_three_standard_errors_of_the_exact_ones() -> None:
    """40 pairs of models on separate data; at most one differs by over three errors of the masks."""
    z = []
    for seed in range(40):
        models = a_pair(seed)
        x = models[0].sample(50, seed=seed)
        found = me.compare(estimates_of(models, x, me.EverySize(8), seed=seed)).between("a", "b")
        exact = exact_difference(models, x)
        assert abs(found.difference - exact.mean()) < 3 * found.standard_error
        assert found.log_bayes_factor == pytest.approx(len(x) * found.difference)
        z.append((found.log_bayes_factor - exact.sum()) / found.log_bayes_factor_se)
    assert sum(abs(score) > 3 for score in z) <= 1
    assert 0.75 < np.std(z) < 1.3


@pytest.mark.parametrize("design", [me.EverySize(4), me.RandomSize(8)], ids=lambda design: design.name)
def test_paired_errors_of_similar_models_are_at_least_five_times_smaller(design: me.MaskDesign) -> None:
    models = a_pair(change=0.02)
    x = models[0].sample(200, seed=3)
    paired = estimates_of(models, x, design, seed=0)
    alone = {"a": paired["a"], "b": me.estimate_evidence(models[1], x, design, seed=1)}
    by_masks = me.compare(paired).between("a", "b")
    by_observations = me.compare(alone).between("a", "b")
    unpaired = math.hypot(*(math.hypot(e.mask_se, e.data_se) for e in alone.values()))
    assert by_masks.mask_se * 5 < by_observations.mask_se
    assert by_masks.standard_error * 5 < unpaired


@pytest.mark.parametrize("masks", ["own", "shared"])
@pytest.mark.parametrize(
    "design", [me.EverySize(2), me.RandomSize(4), me.LeaveOneOut()], ids=lambda d: d.name
)
def test_a_model_against_itself_gives_exactly_zero(design: me.MaskDesign, masks: str) -> None:
    model = a_pair()[0]
    x = model.sample(30, seed=1)
    found = me.compare(estimates_of((model, model), x, design, masks=masks)).behind[0]
    numbers = (found.difference, found.mask_se, found.data_se, found.standard_error)
    assert numbers == (0.0, 0.0, 0.0, 0.0)
    assert found.interval() == (0.0, 0.0)
    assert found.win_share == 0.5
    assert not found.told_apart
    assert not found.curve.score.any()


def test_mask_by_mask_against_a_loop() -> None:
    """EverySize, own masks: mask_se² = (1/n²) Σ_i Σ_M s²_iM/P·(1 - P/C) over score differences."""
    models = a_pair()
    x = models[0].sample(7, seed=2)
    both = estimates_of(models, x, me.EverySize(3), seed=4)
    scores: dict[tuple[int, int], list[float]] = {}
    a, b = both["a"].scores, both["b"].scores
    for row in range(len(a)):
        scores.setdefault((int(a.id[row]), int(a.size[row])), []).append(float(a.score[row] - b.score[row]))
    variance = sum(
        np.var(cell, ddof=1) / 3 * (1 - 3 / math.comb(D, size))
        for (_, size), cell in scores.items()
        if size < D
    )
    variance /= 7**2
    each = [sum(np.mean(cell) for (i, _), cell in scores.items() if i == id_) for id_ in range(7)]
    found = me.compare(both).between("a", "b")
    assert found.difference == pytest.approx(np.mean(each))
    assert found.mask_se == pytest.approx(math.sqrt(variance))
    assert found.data_se == pytest.approx(math.sqrt(np.var(each, ddof=1) / 7 - variance))
    assert found.win_share == pytest.approx(np.mean(np.array(each) > 0))
    assert found.curve.score.sum() == pytest.approx(found.difference)
    assert me.compare(both).between("b", "a").difference == -found.difference


@pytest.mark.parametrize("paired", [pytest.param(True, marks=pytest.mark.slow), False])
def test_intervals_cover_the_difference_in_the_population(paired: bool) -> None:
    """E log p(x) - log q(x) under p is the Kullback-Leibler divergence; 200 data sets of 40 rows."""
    models = a_pair(change=0.6)
    p, q = (
        torch.distributions.MultivariateNormal(
            model.mean, model.loadings @ model.loadings.T + 0.5 * torch.eye(D)
        )
        for model in models
    )
    exact = torch.distributions.kl_divergence(p, q).item()
    covered = 0
    tables = [models[0].sample(40, seed=seed) for seed in range(200)]
    seeds = range(200), range(200) if paired else range(1000, 1200)
    estimates = [
        many_estimates(model, tables, me.EverySize(2), seeds=of_model)
        for model, of_model in zip(models, seeds, strict=True)
    ]
    for both in zip(*estimates, strict=True):
        low, high = me.compare(dict(zip("ab", both, strict=True))).between("a", "b").interval()
        covered += low <= exact <= high
    assert 0.90 <= covered / 200 <= 0.985


class Shifted(torch.nn.Module):
    """Standard normal tokens with a mean: equally good for all shifts of the same length."""

    conditionals, base_measure = "exact", me.model.DENSITY

    def __init__(self, mean: torch.Tensor) -> None:
        super().__init__()
        self.mean = mean

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return torch.where(masked, -0.5 * (tokens.values - self.mean).square(), 0.0)


class TestSeveralModels:
    """One comparison has a verdict for each model but the best, and all of them have to hold."""

    @staticmethod
    def estimates(seed: int, worse_by: float) -> list[me.EvidenceEstimate]:
        """Ten equal models and a worse one, with an error of the observations and one of the masks."""
        rng, n = np.random.default_rng(seed), 40
        design, key = me.FixedRate(0.5, 2), MaskKey(seed, "own")
        number, draw = (grid.ravel() for grid in np.indices((n, 2)))
        one, two = np.ones_like(number), np.full_like(number, 2)
        each = rng.normal(size=(n, 11)) - np.eye(11)[10] * worse_by
        score = (
            np.repeat(each, 2, axis=0) + 0.5 * rng.normal(size=(2 * n, 11)) + 3 * rng.normal(size=(2 * n, 1))
        )
        return [
            summarize_scores(
                me.ScoreTable(number, draw, one, two, score[:, k]), HowScored(design, key, "exact"), 1
            )
            for k in range(11)
        ]

    @pytest.mark.slow
    def test_equal_models_are_told_apart_in_at_most_5_percent_of_comparisons(self) -> None:
        """30 data sets; benchmarks/comparison.py has more. The models differ by 5 standard errors."""
        n_seeds, counts = 30, {"five": 0, "ten": 0, "one by one": 0, "worse": 0}
        for seed in range(n_seeds):
            estimates = self.estimates(seed, worse_by=1.25)
            counts["five"] += any(each.told_apart for each in me.compare(estimates[:5]).behind)
            ten = me.compare(estimates[:10]).behind
            counts["ten"] += any(each.told_apart for each in ten)
            counts["one by one"] += any(replace(each, n_pairs=1).told_apart for each in ten)
            counts["worse"] += {each.second: each.told_apart for each in me.compare(estimates).behind}["11"]
        at_most = binom.ppf(0.999, n_seeds, 0.05)
        assert max(counts["five"], counts["ten"]) <= at_most, counts
        assert counts["one by one"] > 0.4 * n_seeds, counts
        assert counts["worse"] > 0.8 * n_seeds, counts

    def test_the_level_is_that_of_the_pairs_that_are_left(self) -> None:
        """Two models far behind are told apart among all 6 pairs, the close one among the one pair left."""
        x = np.random.default_rng(0).normal(size=(400, 3))
        x -= x.mean(0)
        unit = torch.eye(3, dtype=torch.float64)[0]
        shifts = {"a": 0.0, "b": 0.13, "c": 1.0, "d": 2.0}
        found = me.compare(
            {name: me.estimate_evidence(Shifted(s * unit), x, me.Exhaustive()) for name, s in shifts.items()}
        )
        n_pairs = {difference.second: difference.n_pairs for difference in found.behind}
        assert n_pairs == {"b": 1, "c": 6, "d": 6}
        assert found.between("a", "c").interval() == found.behind[1].interval()
        assert found.between("c", "b").n_pairs == 6
        written = found.to_dict()["differences"]
        assert [entry["interval_level"] for entry in written] == pytest.approx(
            [0.95, 1 - 0.05 / 6, 1 - 0.05 / 6]
        )
        (note,) = found.notes
        assert note.startswith("the 3 verdicts hold together at 95 %")

    def test_all_of_equal_models_share_the_level_of_all_pairs(self) -> None:
        x = np.random.default_rng(0).normal(size=(50, 3))
        x -= x.mean(0)
        shift = 0.1 * torch.eye(3, dtype=torch.float64)
        pair = [me.estimate_evidence(Shifted(mean), x, me.LeaveOneOut()) for mean in shift]
        three, two = me.compare(pair), me.compare(pair[:2])
        assert [difference.n_pairs for difference in three.behind] == [3, 3]
        assert two.behind[0].n_pairs == 1
        assert not two.notes
        wide, narrow = (np.ptp(found.between("1", "2").interval()) for found in (three, two))
        assert wide > 1.2 * narrow


def test_a_data_error_that_is_not_resolved_leaves_the_masks_error() -> None:
    """Observations that differ less than their masks' error: data_se is None, and the interval remains."""
    models = a_pair(change=0.6)
    found = []
    for seed in range(40):
        x = np.repeat(models[0].sample(1, seed=seed), 8, axis=0)
        found.append(me.compare(estimates_of(models, x, me.EverySize(2), seed=seed)).between("a", "b"))
    unresolved = [difference for difference in found if difference.data_se is None]
    assert len(unresolved) > 10
    for difference in unresolved:
        assert difference.standard_error == difference.mask_se > 0
        of_rows, of_masks = difference.per_observation.var(ddof=1) / 8, difference.mask_se**2
        assert of_masks > of_rows
        df = of_masks**2 / (of_rows**2 / 7 + (of_masks - of_rows) ** 2 / difference.mask_df)
        half = t_half_width(difference.mask_se, df, 0.95)
        above = -math.log(0.05) * difference.tails[1]
        assert difference.interval()[1] - difference.difference == pytest.approx(half + above)


def test_moments_tell_no_data_error_and_no_model_is_better() -> None:
    models = a_pair(change=0.6)
    moments = me.GaussianMoments.from_rows(models[0].sample(50, seed=1))
    found = me.compare(estimates_of(models, moments, me.EverySize(4))).between("a", "b")
    assert found.mask_se > 0
    assert (found.data_se, found.standard_error, found.interval()) == (None, None, None)
    assert not found.told_apart


class TestOtherMasks:
    def test_are_paired_by_observation_and_it_says_so(self) -> None:
        models = a_pair()
        x = models[0].sample(40, seed=1)
        a = me.estimate_evidence(models[0], x, me.EverySize(4), seed=0)
        b = me.estimate_evidence(models[1], x, me.RandomSize(8), seed=1)
        found = me.compare({"a": a, "b": b}).between("a", "b")
        assert found.pairing == "observations"
        assert found.curve is None
        assert any("paired by observation only" in note for note in found.notes)
        assert found.difference == pytest.approx(a.log_evidence - b.log_evidence)
        assert found.mask_se == pytest.approx(math.hypot(a.mask_se, b.mask_se))
        assert abs(found.difference - exact_difference(models, x).mean()) < 3 * found.mask_se

    def test_take_their_own_share_out_of_the_sampling_error(self) -> None:
        """Own masks: data_se² = s²(e - e')/n - mask_se², mask_se² the sum of both."""
        models = a_pair()
        x = models[0].sample(40, seed=1)
        a, b = (me.estimate_evidence(model, x, me.EverySize(2), seed=k) for k, model in enumerate(models))
        spread = (a.per_observation - b.per_observation).var(ddof=1) / 40
        found = me.compare({"a": a, "b": b}).between("a", "b")
        assert found.data_se == pytest.approx(math.sqrt(spread - a.mask_se**2 - b.mask_se**2))
        v, w = a.mask_se**2, b.mask_se**2
        assert found.mask_df == pytest.approx((v + w) ** 2 / (v**2 / a.mask_df + w**2 / b.mask_df))

    def test_whose_error_is_not_known(self) -> None:
        models = a_pair()
        x = models[0].sample(40, seed=1)
        own = me.compare(estimates_of(models, x, me.EverySize(1))).behind[0]
        assert own.mask_se is None
        assert own.standard_error == own.data_se  # it includes the error of the masks
        shared = me.compare(estimates_of(models, x, me.EverySize(1), masks="shared")).behind[0]
        assert shared.standard_error is None  # here it does not include it
        assert shared.interval() is None
        assert not shared.told_apart

    def test_pseudo_likelihoods_make_no_bayes_factor(self) -> None:
        models = a_pair()
        found = me.compare(estimates_of(models, models[0].sample(40, seed=1), me.LeaveOneOut())).behind[0]
        assert found.log_bayes_factor is None


def texts_of(values: np.ndarray, n_bytes: torch.Tensor) -> tuple[me.models.Gaussian, me.Tokens]:
    """A model, and texts whose tokens have these values."""
    model = me.models.Gaussian(torch.zeros(values.shape[1]).double(), torch.eye(values.shape[1]).double())
    return model, replace(me.Tokens.from_array(values), n_bytes=n_bytes)


class TestText:
    def estimates(self) -> dict[str, me.EvidenceEstimate]:
        """The same six texts, cut into two and into four tokens each."""
        rng = np.random.default_rng(0)
        n_bytes = torch.from_numpy(rng.integers(5, 20, size=6))
        return {
            name: me.estimate_evidence(*texts_of(rng.normal(size=(6, width)), n_bytes), me.EverySize(4))
            for name, width in (("long", 2), ("short", 4))
        }

    def test_in_other_tokens_is_compared_per_byte_only_and_it_says_so(self) -> None:
        both = self.estimates()
        found = me.compare(both)
        assert found.unit == "nats per byte"
        total = {name: e.log_evidence * 6 / e.n_bytes for name, e in both.items()}
        difference = found.between("long", "short")
        assert difference.difference == pytest.approx(total["long"] - total["short"])
        assert difference.log_bayes_factor is None
        assert difference.curve is None
        assert any("per byte of text only" in note for note in difference.notes)

    def test_error_per_byte_is_that_of_the_jackknife(self) -> None:
        rng = np.random.default_rng(5)
        n, n_bytes = 400, rng.integers(20, 40, size=400)
        both = {
            name: me.estimate_evidence(
                *texts_of(rng.normal(size=(n, width)), torch.from_numpy(n_bytes)), me.LeaveOneOut()
            )
            for name, width in (("a", 2), ("b", 3))
        }
        gap = both["a"].per_observation - both["b"].per_observation
        without = (gap.sum() - gap) / (n_bytes.sum() - n_bytes)
        jackknife = math.sqrt((n - 1) * np.mean((without - without.mean()) ** 2))
        assert me.compare(both).between("a", "b").data_se == pytest.approx(jackknife, rel=0.01)

    def test_errors_per_byte_are_those_per_text_in_the_unit_of_the_difference(self) -> None:
        """mask_se is scaled, and its share of the spread of the texts is taken out in the same unit."""
        both = self.estimates()
        found, used, gap = me.compare(both).between("long", "short"), 0.0, 0.0
        for sign, one in zip((1, -1), both.values(), strict=True):
            n_bytes = np.random.default_rng(0).integers(5, 20, size=6)
            per_byte, texts = 6 / n_bytes.sum(), one.per_observation
            used += per_byte**2 * (texts.var(ddof=1) / 6 - (one.data_se or 0.0) ** 2)
            gap = gap + sign * (texts - texts.sum() / n_bytes.sum() * n_bytes) * per_byte
        expected = math.hypot(*(one.mask_se * per_byte for one in both.values()))
        assert found.mask_se == pytest.approx(expected)
        assert found.data_se == pytest.approx(math.sqrt(gap.var(ddof=1) / 6 - used))

    def test_other_tokens_that_are_no_text(self) -> None:
        models = me.models.PPCA(3, 1), me.models.PPCA(4, 1)
        both = {str(m.n_features): me.estimate_evidence(m, m.sample(5, seed=0)) for m in models}
        with pytest.raises(
            me.InputError, match="does not know the bytes of its text; estimate all on the same tokens"
        ):
            me.compare(both)


class TestBadInput:
    def test_one_estimate(self) -> None:
        with pytest.raises(me.InputError, match="give two or more"):
            me.compare([me.estimate_evidence(a_pair()[0], np.ones((3, D)))])

    def test_other_observations(self) -> None:
        model = a_pair()[0]
        both = [me.estimate_evidence(model, np.ones((n, D)), me.LeaveOneOut()) for n in (3, 4)]
        with pytest.raises(me.InputError, match="'1' and '2' are of different observations"):
            me.compare(both)

    def test_a_name_that_was_not_compared(self) -> None:
        models = a_pair()
        result = me.compare(estimates_of(models, models[0].sample(5, seed=0), me.LeaveOneOut()))
        with pytest.raises(me.InputError, match="'c' was not compared"):
            result.between("a", "c")


class TestCommand:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        loadings = torch.from_numpy(np.random.default_rng(0).normal(size=(D, 2)))
        np.save(tmp_path / "x.npy", me.models.PPCA.from_parameters(loadings, 0.3).sample(800, seed=1))
        return tmp_path / "x.npy"

    def test_ranks_runs(self, tmp_path: Path, table: Path, run: CommandLine) -> None:
        runs = [tmp_path / str(k) for k in (1, 2, 3)]
        for k, out in enumerate(runs, 1):
            assert run("score", f"ppca:{k}", table, "--out", out).code == 0
        result = json.loads(run("compare", *runs, "--json", "-").out)
        assert result["unit"] == "nats per observation"
        assert {entry["name"] for entry in result["ranking"]} == set(map(str, runs))
        assert result["ranking"][2]["name"] == str(runs[0])
        assert [difference["told_apart"] for difference in result["differences"]] == [False, True]
        values = [entry["log_evidence"] for entry in result["ranking"]]
        assert values == sorted(values, reverse=True)
        found = [difference["difference"] for difference in result["differences"]]
        assert found == pytest.approx(values[0] - np.array(values[1:]))
        text = " ".join(run("compare", *runs).out.split())
        assert "cannot be told apart" in text
        assert "It is better than the other model." in text
        assert " simultaneous 95 % interval" in text
        assert "simultaneous" not in run("compare", *runs[:2]).out

    def test_a_run_with_itself_and_with_other_data(
        self, tmp_path: Path, table: Path, run: CommandLine
    ) -> None:
        one, other = tmp_path / "a", tmp_path / "b"
        assert run("score", "ppca:1", table, "--out", one).code == 0
        result = json.loads(run("compare", one, one, "--json", "-").out)
        assert result["differences"][0]["difference"] == 0.0
        assert result["differences"][0]["standard_error"] == 0.0
        assert result["ranking"][1]["name"] == f"{one} (2)"
        assert "give two or more to compare" in run("compare", one).error
        assert "there is no run in" in run("compare", tmp_path, tmp_path).error
        assert run("score", "ppca:1", table, "--out", other, "--seed", 1).code == 0
        error = run("compare", one, other).error
        assert "are of different data" in error
        assert "score both on the same rows, with the same --seed" in error

    @pytest.mark.parametrize("same_texts", [True, False])
    def test_runs_on_the_same_texts_in_other_tokens(
        self, tmp_path: Path, run: CommandLine, same_texts: bool
    ) -> None:
        for name, width in (("a", 2), ("b", 3)):
            values = np.random.default_rng(0).normal(size=(9, width))
            model, tokens = texts_of(values, torch.arange(10, 19))
            data = DataSource(
                name="texts",
                fingerprint=f"tokens of {name}",
                text_fingerprint="texts" if same_texts else f"texts of {name}",
                n_observations=9,
                columns=["text"],
            )
            manifest = make_manifest(model, tokens, me.EverySize(4), model=name, data=data)
            record_run(RunDirectory(tmp_path / name), manifest, model, tokens)
        result = run("compare", tmp_path / "a", tmp_path / "b")
        if same_texts:
            text = " ".join(result.out.split())
            assert "nats per byte" in text
            assert "compared per byte of text only" in text
            assert "Bayes" not in text
        else:
            assert "are of different data" in result.error


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_interval_counts_the_degrees_of_freedom_of_the_observations(n: int) -> None:
    """Enumerated masks have no error, so that n - 1 degrees of freedom are left."""
    truth = me.models.PPCA(n_features=4, n_components=2, seed=1)
    x = truth.sample(n, seed=2)
    a, b = (
        me.estimate_evidence(model, x, me.Exhaustive())
        for model in (truth, me.models.PPCA(n_features=4, n_components=1, seed=3))
    )
    difference = me.compare({"a": a, "b": b}).between("a", "b")
    each = a.per_observation - b.per_observation
    half = student.ppf(0.975, n - 1) * each.std(ddof=1) / math.sqrt(n)
    interval = difference.interval(0.95)
    assert interval is not None
    assert interval == pytest.approx((each.mean() - half, each.mean() + half))


@pytest.mark.parametrize("masks", ["own", "shared"])
def test_the_masks_of_a_row_add_no_degrees_of_freedom_to_its_spread(masks: str) -> None:
    """mask_se² + data_se² = s²(e)/n with own masks; shared masks add a variance with those of the masks."""
    x = a_pair()[0].sample(4, seed=4)
    found = me.compare(estimates_of(a_pair(change=0.6), x, me.EverySize(4), masks=masks)).between("a", "b")
    assert found.data_se is not None
    total = found.mask_se**2 + found.data_se**2
    of_rows = found.per_observation.var(ddof=1) / 4
    shared = total - of_rows
    assert (shared > 0.02 * total) if masks == "shared" else (shared == pytest.approx(0.0, abs=1e-12))
    half = t_half_width(math.sqrt(total), total**2 / (of_rows**2 / 3 + shared**2 / found.mask_df), 0.95)
    ends = found.difference + np.array([-half, half]) + math.log(0.05) * np.array([1, -1]) * found.tails
    assert found.interval() == pytest.approx(tuple(ends))


def test_a_rare_mask_of_the_second_model_moves_the_upper_end() -> None:
    """By observation, drops of the first model and rises of the second one move the lower end."""
    models = a_pair()
    x = models[0].sample(20, seed=1)
    a, b = (me.estimate_evidence(m, x, me.EverySize(4), seed=k) for k, m in enumerate(models))
    both = {"a": replace(a, tails=(1.0, 2.0)), "b": replace(b, tails=(10.0, 20.0))}
    found = me.compare(both).between("a", "b")
    assert (found.pairing, found.tails) == ("observations", (21.0, 12.0))


@pytest.mark.parametrize("rows_are_rare", [False, True])
def test_rows_show_whether_the_tails_of_shared_masks_are_light(rows_are_rare: bool) -> None:
    """Against a loop: the largest drop of the masks, less that of normal numbers as far as rows show it."""
    scores = comparison.Scores(30, 0.0, 0.2, 0.3, 1.0, (False, rows_are_rare))
    found, first, second = comparison.difference_of(me.EverySize(4), "shared", scores, seed=1)
    a, b = first.scores, second.scores
    cells: dict[int, np.ndarray] = {}  # the differences of each size, a row for each observation
    for size in range(1, 7):
        of_size = a.size == size
        cells[size] = (a.score - b.score)[of_size].reshape(30, -1) / of_size.sum() * 30
    counts = {size: each.shape[1] for size, each in cells.items() if each.shape[1] < math.comb(6, size)}

    def drops(each: np.ndarray) -> np.ndarray:
        return np.array([(each.sum() - value) / (len(each) - 1) - value for value in each])

    of_rows = np.concatenate([drops(row) for size in counts for row in cells[size]])
    of_masks = {size: drops(cells[size].mean(0)) for size in counts}

    def normal_largest(each: np.ndarray) -> float:
        return 1.4826 * np.median(np.abs(each)) * math.sqrt(2 * math.log(len(each)))

    shown = (1 - math.sqrt(8 / len(of_rows))) * min(1.0, 2 * normal_largest(of_rows) / np.abs(of_rows).max())
    assert (shown < 0.3) if rows_are_rare else (shown == pytest.approx(1 - math.sqrt(8 / len(of_rows))))
    light = shown * normal_largest(np.concatenate(list(of_masks.values())))
    left = np.concatenate(
        [each * math.sqrt(1 - counts[size] / math.comb(6, size)) for size, each in of_masks.items()]
    )
    assert found.tails == pytest.approx((max(0.0, left.max() - light), max(0.0, -left.min() - light)))
    assert sum(found.tails) > 0


@pytest.mark.slow
def test_rare_bad_masks_that_rows_show_are_covered() -> None:
    """150 pairs of models of 30 rows with 4 shared masks of each size: it was 91 %, of 300."""
    design, masks, scores = next(iter(comparison.RARE.values()))
    assert comparison.pairs_of_models(design, masks, 150, scores)["coverage"] >= 0.95 - 2.5 * 0.018


@pytest.mark.slow
def test_equal_models_of_few_rows_are_told_apart_as_often_as_they_may_be() -> None:
    """200 pairs of models of 4 and of 5 rows with own masks: with the masks' degrees of freedom, 91 %."""
    for setting in list(comparison.FEW_ROWS.values())[:2]:
        design, masks, scores = setting
        assert comparison.pairs_of_models(design, masks, 200, scores)["coverage"] >= 0.95 - 2 * 0.0154


def test_few_shared_masks_hardly_widen_the_interval_of_a_difference() -> None:
    """8 shared orders of models whose masks hardly differ: on average less than Student's t by a fifth."""
    x, shares = a_pair()[0].sample(20, seed=1), []
    for seed in range(40):
        found = me.compare(estimates_of(a_pair(seed), x, me.Orderings(8), masks="shared", seed=seed))
        each = found.between("a", "b")
        rare = sum(each.tails) / 2 * -math.log(0.05)
        shares.append(rare / t_half_width(each.mask_se, each.mask_df, 0.95))
    assert 0 < np.mean(shares) < 0.3


@pytest.mark.parametrize(("design", "is_apart"), [(me.RandomSize(8), True), (me.LeaveOneOut(), False)])
def test_a_paired_difference_that_is_not_that_of_the_numbers_says_so(
    design: me.MaskDesign, is_apart: bool
) -> None:
    x = me.models.PPCA(n_features=12, n_components=3, seed=1).sample(60, seed=0)
    models = {f"k = {k}": me.models.PPCA(n_features=12, n_components=k).fit(x) for k in (3, 1)}
    estimates = {name: me.estimate_evidence(model, x[:14], design) for name, model in models.items()}
    page = me.compare(estimates).page()
    assert any("and not" in note and "quote the difference" in note for note in page.notes) == is_apart
    (table,) = (part for part in page.parts if isinstance(part, Table))
    for name, row in zip(("k = 3", "k = 1"), table.rows, strict=True):
        error = estimates[name].mask_se
        assert (f"± {error:.2f}" in str(row[2])) == bool(error), row
