"""The curve: its points against plain group means, its errors by their coverage, and its CSV."""

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Int64
from scipy.stats import norm

import maskevidence as me
from maskevidence.core.evidence.curve import Curve, curve_from_scores
from maskevidence.core.evidence.standard_errors import t_half_width
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks, drawn_masks
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.tokens import positions

COLUMNS = ["size", "rate", "score", "mask_se", "data_se", "n_masks"]
SPREAD = 0.5


def true_score(observation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The expected scores of the toy record: a level for each observation plus a slope in the size."""
    return -1.0 - 0.3 * observation - 0.1 * size


def toy_record(design: MaskDesign, lengths: np.ndarray, seed: int, masks: Masks = "own") -> me.ScoreTable:
    """Scores with normal noise for each mask: the statistics of a run, without its cost."""
    ids = np.arange(len(lengths))
    maskable = np.arange(lengths.max()) < lengths[:, None]
    drawn = drawn_masks(design, MaskKey(seed, masks), ids, maskable, position=positions(ids))
    key = drawn.row if masks == "own" else np.zeros_like(drawn.row)
    code = drawn.masked() @ (1 << np.arange(lengths.max()))
    uniform = (keyed_bits(seed, 77, key, code).astype(np.float64) + 0.5) / (2**64 + 1)
    score = true_score(drawn.row, drawn.size) + SPREAD * norm.ppf(uniform)
    return me.ScoreTable(drawn.row, drawn.draw, drawn.size, lengths[drawn.row], score).sorted()


def naive_points(table: me.ScoreTable) -> dict[int, float]:
    """The mean over observations of their mean scores at a size, by loops."""
    points = {}
    for size in sorted(set(table.size.tolist())):
        at = table.size == size
        means = [table.score[at & (table.id == i)].mean() for i in sorted(set(table.id[at].tolist()))]
        points[size] = float(np.mean(means))
    return points


@pytest.mark.parametrize(
    "design",
    [me.EverySize(3), me.Orderings(2), me.LeaveOneOut(), me.FixedRate(0.4), me.Rates((0.2, 0.25, 0.9))],
    ids=lambda design: design.name,
)
@pytest.mark.parametrize("masks", ["own", "shared"])
def test_points_are_the_means_of_the_scores_at_a_size(design: MaskDesign, masks: Masks) -> None:
    table = toy_record(design, np.full(5, 7), seed=1, masks=masks)
    curve = curve_from_scores(table, design, masks)
    expected = naive_points(table)
    assert curve.size.tolist() == list(expected)
    np.testing.assert_allclose(curve.score, list(expected.values()), rtol=1e-12)
    np.testing.assert_allclose(curve.rate, curve.size / 7)
    assert curve.n_tokens == 7
    assert curve.n_masks.tolist() == [int((table.size == size).sum()) for size in expected]


def test_points_of_random_sizes_are_the_means_of_all_masks_there() -> None:
    design = me.RandomSize(8)
    table = toy_record(design, np.full(30, 5), seed=1)
    curve = curve_from_scores(table, design, "own")
    for size, score in zip(curve.size, curve.score, strict=True):
        assert score == pytest.approx(table.score[table.size == size].mean(), rel=1e-12)


@pytest.mark.parametrize("design", [me.EverySize(2), me.Orderings(2), me.Exhaustive()])
def test_the_area_is_the_estimate(design: MaskDesign, build_ppca) -> None:
    model = build_ppca(6)
    estimate = me.estimate_evidence(model, model.sample(5), design)
    assert estimate.curve.area == pytest.approx(estimate.log_evidence, rel=1e-12)


@pytest.mark.parametrize("design", [me.LeaveOneOut(), me.FixedRate(0.5), me.Rates((0.5, 1.0))])
def test_there_is_no_area_without_all_sizes(design: MaskDesign) -> None:
    assert curve_from_scores(toy_record(design, np.full(3, 6), 0), design, "own").area is None


def mean_over_sizes(table: me.ScoreTable, where: Bool[np.ndarray, " n"]) -> float:
    """The mean over the sizes of an observation of its mean score at each."""
    size, score = table.size[where], table.score[where]
    return float(np.mean([score[size == each].mean() for each in np.unique(size)]))


class TestVaryingLengths:
    lengths = np.array([3, 20, 7, 20, 11])

    @pytest.mark.parametrize("design", [me.EverySize(2), me.RandomSize(8)], ids=lambda design: design.name)
    @pytest.mark.parametrize(("lengths", "n"), [(lengths, 5), (lengths + 8, 10), (lengths + 30, 20)])
    def test_points_are_rates_in_bins(
        self, design: MaskDesign, lengths: Int64[np.ndarray, " 5"], n: int
    ) -> None:
        """Of a twentieth, or so wide that a short observation has a size in each."""
        table = toy_record(design, lengths, 1)
        curve = curve_from_scores(table, design, "own")
        assert curve.n_tokens is None
        assert curve.area is None
        assert np.isnan(curve.size).all()
        rate = table.size / table.n_tokens
        bins = [(rate > low + 1e-12) & (rate <= low + 1 / n + 1e-12) for low in np.arange(n) / n]
        bins = [members for members in bins if members.any()]
        np.testing.assert_allclose(curve.rate, [rate[members].mean() for members in bins])
        assert curve.n_masks.tolist() == [int(members.sum()) for members in bins]
        for score, members in zip(curve.score, bins, strict=True):
            each = [mean_over_sizes(table, members & (table.id == i)) for i in np.unique(table.id[members])]
            expected = table.score[members].mean() if design.pooled else np.mean(each)
            assert score == pytest.approx(expected, rel=1e-12)
        assert (curve.rate[1:] > curve.rate[:-1]).all()

    def test_rows_of_different_length_make_no_zig_zag(self) -> None:
        """Short rows score lower at every size: in bins that some of them miss, the curve would jump."""
        lengths = np.tile([8, 9, 10], 30)
        table = toy_record(me.EverySize(4), lengths, 1)
        table = replace(table, score=-table.n_tokens - table.size / table.n_tokens)
        curve = curve_from_scores(table, me.EverySize(4), "own")
        assert (np.diff(curve.score) < 0).all()
        np.testing.assert_allclose(curve.score, -9 - curve.rate, atol=0.05)

    def test_points_of_rates_are_the_rates(self) -> None:
        design = me.Rates((0.3, 0.6), masks_per_size=2)
        table = toy_record(design, self.lengths, 1)
        curve = curve_from_scores(table, design, "own")
        assert curve.n_masks.tolist() == [10, 10]
        for point in (0, 1):
            at = table.draw % 2 == point
            means = [table.score[at & (table.id == i)].mean() for i in range(5)]
            assert curve.score[point] == pytest.approx(np.mean(means))


@pytest.mark.parametrize(
    ("design", "masks"),
    [
        pytest.param(me.EverySize(2), "own", marks=pytest.mark.slow),
        pytest.param(me.EverySize(4), "shared", marks=pytest.mark.slow),
        (me.RandomSize(8), "own"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_95_percent_of_bands_hold_the_score(design: MaskDesign, masks: Masks) -> None:
    """Over 500 seeds, at every size; with pooled random sizes, the observations are random as well."""
    lengths, hits = np.full(40, 5), np.zeros(5)
    for seed in range(500):
        every_mask = toy_record(me.Exhaustive(), lengths, seed, masks)  # all observations have all masks
        truth = np.array([every_mask.score[every_mask.size == size].mean() for size in range(1, 6)])
        curve = curve_from_scores(toy_record(design, lengths, seed, masks), design, masks)
        low, high = curve.band(0.95)
        hits += (low <= truth + 1e-12) & (truth <= high + 1e-12)
    if not design.pooled:  # the size of all tokens has a single mask, whose score is exact
        assert curve.mask_se[-1] == 0
        assert hits[-1] == 500
        hits = hits[:-1]
    assert 0.93 < hits.mean() / 500 < 0.97
    assert (np.abs(hits / 500 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 500)).all()


class TestWhatIsNotKnown:
    def test_one_mask_of_a_size_has_no_band(self) -> None:
        curve = curve_from_scores(toy_record(me.EverySize(1), np.full(3, 4), 0), me.EverySize(1), "own")
        assert np.isnan(curve.mask_se[:3]).all()
        assert np.isnan(curve.band()[0][:3]).all()
        assert (curve.data_se > 0).all()
        assert curve.mask_se[3] == 0  # there is one mask of all tokens

    def test_a_size_that_some_replicate_missed_has_no_band(self) -> None:
        design = me.RandomSize(4)
        curve = curve_from_scores(toy_record(design, np.full(2, 6), 0), design, "own")
        assert np.isnan(curve.mask_se).any()

    def test_one_observation_has_no_data_se(self) -> None:
        for design in (me.EverySize(2), me.RandomSize(8)):
            curve = curve_from_scores(toy_record(design, np.full(1, 2), 0), design, "own")
            assert np.isnan(curve.data_se).all()

    def test_equal_scores_of_a_size_do_not_tell_its_error(self) -> None:
        for design in (me.EverySize(2), me.RandomSize(16)):
            table = toy_record(design, np.full(1, 6), 0)
            table = me.ScoreTable(table.id, table.draw, table.size, table.n_tokens, -np.ones(len(table)))
            curve = curve_from_scores(table, design, "own")
            assert np.isnan(curve.mask_se[curve.size < 6]).all()
            assert not (curve.mask_se[curve.size == 6] > 0).any()

    def test_enumerated_masks_have_a_band_of_no_width(self) -> None:
        curve = curve_from_scores(toy_record(me.Exhaustive(), np.full(3, 4), 0), me.Exhaustive(), "own")
        assert (curve.mask_se == 0).all()
        np.testing.assert_array_equal(curve.band()[0], curve.score)

    def test_a_design_of_one_token(self) -> None:
        for design in (me.EverySize(2), me.RandomSize(4), me.LeaveOneOut(), me.Exhaustive()):
            curve = curve_from_scores(toy_record(design, np.full(3, 1), 0), design, "own")
            assert curve.size.tolist() == [1]
            assert curve.area == pytest.approx(curve.score[0])


def test_the_band_is_students_interval_at_any_level() -> None:
    curve = curve_from_scores(toy_record(me.EverySize(3), np.full(2, 4), 0), me.EverySize(3), "own")
    for level in (0.5, 0.99):
        low, high = curve.band(level)
        for k in range(3):
            half = t_half_width(curve.mask_se[k], curve.mask_df[k], level)
            assert high[k] - curve.score[k] == pytest.approx(half)
            assert curve.score[k] - low[k] == pytest.approx(half)


class TestCsv:
    def test_numbers_survive_the_round_trip(self) -> None:
        curve = curve_from_scores(toy_record(me.EverySize(3), np.full(9, 6), 0), me.EverySize(3), "own")
        rows = list(csv.DictReader(io.StringIO(curve.to_csv())))
        assert list(rows[0]) == COLUMNS
        for column in COLUMNS:
            assert [float(row[column]) for row in rows] == getattr(curve, column).tolist()

    def test_whole_numbers_are_written_as_such_and_unknown_ones_are_empty(self) -> None:
        nothing, one = np.array([math.nan]), np.array([1.0])
        curve = Curve(None, nothing, one, np.array([-0.5]), nothing, nothing, nothing, np.array([12]))
        assert curve.to_csv() == "size,rate,score,mask_se,data_se,n_masks\n,1,-0.5,,,12\n"


@pytest.mark.parametrize(("n_components", "last_above"), [(2, 14), (5, 13), (10, 11)])
def test_one_rate_lies_above_the_area_up_to_a_crossing(n_components: int, last_above: int) -> None:
    """D·S(x; M) falls from the pseudo-log-likelihood to the marginals; the area is its mean."""
    n_tokens, noise, sizes = 20, 0.3, np.arange(1, 21)
    loadings = np.random.default_rng(0).normal(size=(n_tokens, n_components))
    model = me.models.PPCA.from_parameters(torch.from_numpy(loadings), noise)
    expected = np.array([expected_score(loadings @ loadings.T, noise, size) for size in sizes])
    above = n_tokens * expected > expected.sum()
    assert sizes[above].tolist() == list(range(1, last_above + 1))

    estimate = me.estimate_evidence(model, model.sample(400, seed=1), me.EverySize(4))
    curve = estimate.curve
    error = 4 * np.hypot(curve.mask_se, curve.data_se)
    assert (np.abs(curve.score - expected) < error + 0.01).all()  # of the oracle's 400 masks
    found = sizes[n_tokens * curve.score > estimate.log_evidence]
    assert abs(found[-1] - last_above) <= 1
    assert len(found) == found[-1]


def expected_score(covariance: np.ndarray, noise: float, size: int) -> float:
    """E S(x; M) of a Gaussian: -½ log(2πe v) over hidden tokens, v the diagonal of the inverse precision."""
    precision = np.linalg.inv(covariance + noise * np.eye(len(covariance)))
    rng = np.random.default_rng(size)
    hidden = [rng.permutation(len(precision))[:size] for _ in range(400)]
    variance = [np.diag(np.linalg.inv(precision[np.ix_(some, some)])) for some in hidden]
    return float(np.mean(-0.5 * np.log(2 * np.pi * math.e * np.array(variance))))
