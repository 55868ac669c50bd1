"""Mask designs: sizes, subsets, weights, and what they depend on."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chisquare, norm

import maskevidence as me
from many_estimates import scores_of
from maskevidence.core.evidence.standard_errors import ErrorSums
from maskevidence.core.masks import design as designs
from maskevidence.core.masks.design import (
    MAX_LISTED,
    MaskDesign,
    MaskKey,
    Masks,
    Summation,
    all_pairs,
    drawn_masks,
)
from maskevidence.core.masks.design_words import DESIGNS, design_from_settings
from maskevidence.core.masks.sizes import size_of_rate
from maskevidence.core.tokens import Tokens, positions
from maskevidence.texts.published import RandomTime
from oracles import every_mask
from refusals import one_line

ALL = [
    me.EverySize(3),
    me.RandomSize(8, replicates=4),
    me.Orderings(3),
    me.LeaveOneOut(),
    me.Exhaustive(),
    me.FixedRate(0.3, masks_per_size=3),
    me.Rates((0.2, 0.5, 0.9), masks_per_size=2),
]
SAMPLED = [design for design in ALL if not design.deterministic]
all_designs = pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
sampled_designs = pytest.mark.parametrize("design", SAMPLED, ids=lambda design: design.name)
mask_kinds = pytest.mark.parametrize("masks", ["own", "shared"])


class Drawn(NamedTuple):
    """All masks of a design for a batch: the row, draw, size and hidden tokens of each mask."""

    row: np.ndarray
    draw: np.ndarray
    size: np.ndarray
    masked: np.ndarray

    def of(self, row: int) -> set[tuple[int, int, tuple[int, ...]]]:
        """The draw, size and hidden columns of every mask of a row."""
        chosen = np.flatnonzero(self.row == row)
        return {(int(self.draw[i]), int(self.size[i]), tuple(np.flatnonzero(self.masked[i]))) for i in chosen}


def draw_all(design: MaskDesign, key: MaskKey, ids: np.ndarray, maskable: np.ndarray) -> Drawn:
    n_tokens = maskable.sum(1)
    counts = design.n_draws(n_tokens)
    row = np.repeat(np.arange(len(ids)), counts)
    index = np.concatenate([np.arange(count) for count in counts])
    scored = design.is_scored(n_tokens[row], index)
    row, index = row[scored], index[scored]
    draw, size = design.plan(key, ids[row], n_tokens[row], index)
    return Drawn(row, draw, size, design.masked(key, ids[row], draw, size, maskable[row]))


def sizes_of(
    design: MaskDesign, key: MaskKey, n_rows: int, n_tokens: int, *, training: bool = False
) -> np.ndarray:
    """Mask sizes alone, shape (n_rows, n_draws), of rows 0, 1, ... in scoring or in training."""
    n_draws = int(design.n_draws(np.array([n_tokens]))[0])
    row, index = (grid.ravel() for grid in np.indices((n_rows, n_draws)))
    ids, place = (row, None) if training else (7 * row, positions(np.arange(n_rows))[row])
    planned = design.plan(key, ids, np.full(len(row), n_tokens), index, place)
    return planned[1].reshape(n_rows, n_draws)


@st.composite
def rows_of_tokens(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 9)))
    maskable = draw(hnp.arrays(bool, shape))
    maskable[:, draw(st.integers(0, shape[1] - 1))] = True  # no observation without tokens
    return maskable


@all_designs
@mask_kinds
@given(maskable=rows_of_tokens(), seed=st.integers(-5, 2**70))
def test_masks_have_their_size_and_hide_maskable_tokens_only(
    design: MaskDesign, masks: Masks, maskable: np.ndarray, seed: int
) -> None:
    drawn = draw_all(design, MaskKey(seed, masks), np.arange(len(maskable)) * 5 + 1, maskable)
    n_tokens = maskable.sum(1)[drawn.row]
    assert (drawn.size >= 1).all()
    assert (drawn.size <= n_tokens).all()
    np.testing.assert_array_equal(drawn.masked.sum(1), drawn.size)
    assert not (drawn.masked & ~maskable[drawn.row]).any()
    labels = np.stack([drawn.row, drawn.draw, drawn.size])
    assert len(np.unique(labels, axis=1).T) == len(drawn.row)  # one score per (observation, draw, size)


@all_designs
@mask_kinds
@given(maskable=rows_of_tokens(), padding=st.integers(0, 3), seed=st.integers(0, 9))
def test_masks_do_not_depend_on_the_batch(
    design: MaskDesign, masks: Masks, maskable: np.ndarray, padding: int, seed: int
) -> None:
    ids, key = np.arange(len(maskable)) * 11, MaskKey(seed, masks)
    drawn = draw_all(design, key, ids, maskable)
    order = np.random.default_rng(seed).permutation(len(maskable))
    wide = np.concatenate([maskable, np.zeros((len(maskable), padding), dtype=bool)], axis=1)
    again = draw_all(design, key, ids[order], wide[order])
    for new, old in enumerate(order):
        assert again.of(new) == drawn.of(old)
        assert draw_all(design, key, ids[old : old + 1], maskable[old : old + 1]).of(0) == drawn.of(old)


@sampled_designs
def test_masks_differ_by_row_unless_shared_and_by_seed(design: MaskDesign) -> None:
    maskable = np.ones((6, 12), dtype=bool)
    shared, own, other = (
        draw_all(design, MaskKey(seed, masks), np.arange(6), maskable)
        for seed, masks in ((1, "shared"), (1, "own"), (2, "own"))
    )
    assert all(shared.of(row) == shared.of(0) for row in range(6))
    assert all(own.of(row) != own.of(0) for row in range(1, 6))
    assert own.of(0) != other.of(0)
    assert shared.of(0) != draw_all(design, MaskKey(2, "shared"), np.arange(6), maskable).of(0)


@sampled_designs
@pytest.mark.parametrize("varied", ["observation", "seed"])
def test_each_subset_of_each_size_is_equally_likely(design: MaskDesign, varied: str) -> None:
    """A chi-square test for each draw and size: over observations, or over seeds for shared masks."""
    maskable = np.array([True, False, True, True, True])
    if varied == "observation":
        n_rows = 4000
        drawn = draw_all(design, MaskKey(7, "own"), np.arange(n_rows), np.tile(maskable, (n_rows, 1)))
        parts = [drawn]
    else:
        one = maskable[None]
        parts = [draw_all(design, MaskKey(s, "shared"), np.zeros(1, np.int64), one) for s in range(800)]
    draw, size, subset = (
        np.concatenate(list(found))
        for found in zip(*((d.draw, d.size, d.masked @ [16, 8, 4, 2, 1]) for d in parts), strict=True)
    )
    for one_draw in np.unique(draw):
        for one_size in np.unique(size[draw == one_draw]):
            chosen, counts = np.unique(subset[(draw == one_draw) & (size == one_size)], return_counts=True)
            assert len(chosen) == math.comb(4, one_size)
            if len(chosen) > 1:
                assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("n_tokens", [1, 2, 7])
@all_designs
def test_a_design_covers_all_sizes_where_each_has_a_weight_of_1(design: MaskDesign, n_tokens: int) -> None:
    """Σ weight over the masks of each size, averaged over many seeds for random sizes."""
    row = np.ones((1, n_tokens), dtype=bool)
    seeds = 1000 if design.pooled and n_tokens > 1 else 1
    weights = np.zeros((seeds, n_tokens))
    for seed in range(seeds):
        drawn = draw_all(design, MaskKey(seed), np.zeros(1, dtype=np.int64), row)
        summation = design.summation(np.full(len(drawn.row), n_tokens), drawn.draw, drawn.size)
        weights[seed] = np.bincount(drawn.size - 1, weights=summation.weight, minlength=n_tokens)
    np.testing.assert_allclose(weights.sum(1), n_tokens, rtol=1e-12)
    mean = weights.mean(0)
    error = weights.std(0) / math.sqrt(seeds) + 1e-9
    assert design.covers_all_sizes(n_tokens) == bool((np.abs(mean - 1) / error < 4.5).all())


@all_designs
def test_replicates_are_numbered_0_to_r_minus_1_in_every_stratum(design: MaskDesign) -> None:
    drawn = draw_all(design, MaskKey(), np.zeros(1, dtype=np.int64), np.ones((1, 6), dtype=bool))
    summation = design.summation(np.full(len(drawn.row), 6), drawn.draw, drawn.size)
    for one in np.unique(summation.stratum):
        rows = summation.stratum == one
        all_drawn = summation.unseen is not None and not summation.unseen[rows].any()
        if not all_drawn or design.deterministic:
            assert set(summation.replicate[rows]) == set(range(design.n_replicates))


@all_designs
def test_settings_are_the_name_and_the_arguments(design: MaskDesign) -> None:
    settings = json.loads(json.dumps(design.settings()))
    name = settings.pop("name")
    (cls,) = [cls for cls in DESIGNS if cls.name == name]
    if "rates" in settings:
        settings["rates"] = tuple(settings["rates"])
    assert cls(**settings) == design
    assert design_from_settings(json.loads(json.dumps(design.settings()))) == design


@all_designs
@mask_kinds
@given(maskable=rows_of_tokens(), seed=st.integers(0, 9))
def test_drawn_masks_are_those_of_the_design_and_its_repeats_follow_each_other(
    design: MaskDesign, masks: Masks, maskable: np.ndarray, seed: int
) -> None:
    key, ids, n_tokens = MaskKey(seed, masks), np.arange(len(maskable)) * 7, maskable.sum(1)
    expected, drawn = draw_all(design, key, ids, maskable), drawn_masks(design, key, ids, maskable)
    np.testing.assert_array_equal(drawn.row, expected.row)
    np.testing.assert_array_equal(drawn.masked(), expected.masked)
    np.testing.assert_array_equal(drawn.masked(slice(1, 3)), expected.masked[1:3])
    weight = design.summation(n_tokens[expected.row], expected.draw, expected.size).weight
    np.testing.assert_array_equal(drawn.weight, weight)
    middle = design.n_repeats // 2
    parts = [all_pairs(design, n_tokens, r) for r in (range(middle), range(middle, design.n_repeats))]
    assert sorted(zip(*np.concatenate(parts, axis=1), strict=True)) == sorted(
        zip(*all_pairs(design, n_tokens), strict=True)
    )


@sampled_designs
@mask_kinds
def test_a_larger_value_of_the_option_that_extends_a_design_adds_masks(
    design: MaskDesign, masks: Masks
) -> None:
    settings = design.settings()
    assert design.extended_by is not None
    more = design_from_settings(settings | {design.extended_by: 2 * design.n_repeats})
    maskable, key = np.tri(6, 9, 3, dtype=bool), MaskKey(3, masks)
    few, many = (draw_all(one, key, np.arange(6), maskable) for one in (design, more))
    assert more.n_repeats == 2 * design.n_repeats
    for row in range(6):
        assert few.of(row) < many.of(row)


@dataclass(frozen=True)
class Eleven(MaskDesign):
    """A user's own design, with 11 masks and an option whose name also occurs in this package."""

    draws: int = 5
    name: ClassVar[str] = "eleven"
    purpose: ClassVar[str] = "Unbiased for D·S(x; 1)."

    @property
    def n_replicates(self) -> int:
        return 11

    def n_draws(self, n_tokens: np.ndarray) -> np.ndarray:
        return np.full_like(n_tokens, 11)

    def plan(
        self, key: MaskKey, ids: np.ndarray, n_tokens: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return index, np.ones_like(index)

    def masked(
        self, key: MaskKey, ids: np.ndarray, draw: np.ndarray, size: np.ndarray, maskable: np.ndarray
    ) -> np.ndarray:
        return np.arange(maskable.shape[1]) == draw[:, None] % maskable.shape[1]

    def summation(self, n_tokens: np.ndarray, draw: np.ndarray, size: np.ndarray) -> Summation:
        return Summation(n_tokens / 11, stratum=np.zeros_like(draw), replicate=draw)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return n_tokens == 1


class TestADesignOfTheUsersOwn:
    model = me.models.PPCA(n_features=4, n_components=1)

    def test_all_masks_that_it_declares_are_scored(self) -> None:
        estimate = me.estimate_evidence(self.model, np.ones((2, 4)), Eleven())
        assert estimate.n_masks == 22
        assert "mask_se" in estimate.columns().values

    def test_masks_that_are_not_a_multiple_of_its_repeats_are_refused(self) -> None:
        class Uneven(Eleven):
            extended_by: ClassVar[str] = "draws"

        expected = r"Uneven has 11 masks for an observation, which is not a multiple of draws=5; make n_draws"
        with pytest.raises(me.InputError, match=expected):
            me.estimate_evidence(self.model, np.ones((2, 4)), Uneven())
        with pytest.raises(me.InputError, match=expected):
            me.MaskedObjective(Uneven())(self.model, np.ones((2, 4)))
        assert me.estimate_evidence(self.model, np.ones((2, 4)), Uneven(draws=11)).n_masks == 22

    def test_an_option_that_does_not_count_repeats_is_refused(self) -> None:
        wrong = type("Wrong", (Eleven,), {"extended_by": "masks"})
        with pytest.raises(me.InputError, match="Wrong is extended by 'masks', which is None; name"):
            me.estimate_evidence(self.model, np.ones((2, 4)), wrong())

    def test_its_masks_are_uniformly_random_subsets_unless_it_says_otherwise(self) -> None:
        class Uniform(Eleven):
            masked = MaskDesign.masked

        drawn = draw_all(Uniform(), MaskKey(), np.arange(400), np.ones((400, 4), dtype=bool))
        assert chisquare(drawn.masked.sum(0)).pvalue > 1e-4


class TestEverySize:
    """Sizes of few masks have them drawn without replacement."""

    @mask_kinds
    @given(maskable=rows_of_tokens(), per_size=st.integers(1, 12), seed=st.integers(0, 9))
    def test_no_mask_comes_twice_and_all_come_if_there_are_no_more(
        self, masks: Masks, maskable: np.ndarray, per_size: int, seed: int
    ) -> None:
        drawn = draw_all(me.EverySize(per_size), MaskKey(seed, masks), np.arange(len(maskable)), maskable)
        for row, allowed in enumerate(maskable):
            n_tokens = int(allowed.sum())
            for size in range(1, n_tokens + 1):
                listed = math.comb(n_tokens, size)
                of_size = drawn.masked[(drawn.row == row) & (drawn.size == size)]
                expected = per_size if listed > MAX_LISTED else min(per_size, listed)
                assert len(of_size) == expected
                if listed <= MAX_LISTED:
                    assert len(np.unique(of_size, axis=0)) == expected

    def test_a_size_of_more_masks_has_them_drawn_independently(self) -> None:
        """C(7, 3) = 35: two of 3000 draws are equal as often as independent ones would be."""
        maskable, ids = np.ones((3000, 7), dtype=bool), np.arange(3000)
        drawn = draw_all(me.EverySize(2), MaskKey(4), ids, maskable)
        codes = (drawn.masked @ (1 << np.arange(7)))[drawn.size == 3].reshape(3000, 2)
        equal = int((codes[:, 0] == codes[:, 1]).sum())
        assert abs(equal - 3000 / 35) < 4 * math.sqrt(3000 / 35)

    @mask_kinds
    def test_every_pair_of_masks_of_a_size_is_equally_likely(self, masks: Masks) -> None:
        """Chi-square of the ordered pairs of draws (0, 1) and (1, 2), over observations or seeds."""
        maskable, n = np.array([[True, False, True, True, True]]), 2000
        if masks == "own":
            drawn = [draw_all(me.EverySize(3), MaskKey(2), np.arange(n), np.repeat(maskable, n, axis=0))]
        else:
            one = np.zeros(1, dtype=np.int64)
            drawn = [draw_all(me.EverySize(3), MaskKey(s, "shared"), one, maskable) for s in range(n)]
        codes = np.concatenate([d.masked[d.size == 2] @ [16, 8, 4, 2, 1] for d in drawn])
        for first, second in ((0, 1), (1, 2)):
            draws = np.concatenate([d.draw[d.size == 2] for d in drawn])
            pairs = np.stack([codes[draws == first], codes[draws == second]], axis=1)
            _, counts = np.unique(pairs, axis=0, return_counts=True)
            assert len(counts) == 6 * 5
            assert chisquare(counts).pvalue > 1e-4

    def test_the_first_draw_is_that_of_independent_masks(self) -> None:
        """So that training and scoring with a single mask of each size have the same masks."""
        maskable, ids = np.tri(6, 6, dtype=bool), np.arange(6)
        first, independent = (
            draw_all(design, MaskKey(1), ids, maskable)
            for design in (me.EverySize(1), me.EverySize(1).in_training())
        )
        np.testing.assert_array_equal(first.masked, independent.masked)

    @mask_kinds
    @pytest.mark.parametrize("holes", [False, True])
    @pytest.mark.parametrize("per_size", [2, 4])
    def test_the_variance_is_unbiased_and_the_mean_is_that_of_all_masks(
        self, masks: Masks, holes: bool, per_size: int
    ) -> None:
        """Z-tests over seeds, with a random score for each mask of each row."""
        rng, n_seeds = np.random.default_rng(5), 400
        maskable = np.ones((3, 5), dtype=bool)
        if holes:
            maskable = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 1, 1, 1, 0]], dtype=bool)
        scores = rng.lognormal(size=(3, 32))  # of the mask with this code
        code, n_tokens = 1 << np.arange(5), maskable.sum(1)
        truth = np.mean(
            [
                sum(
                    np.mean([scores[row, mask @ code] for mask in every_mask(allowed) if mask.sum() == size])
                    for size in range(1, n_tokens[row] + 1)
                )
                for row, allowed in enumerate(maskable)
            ]
        )
        errors, variances = np.empty(n_seeds), np.empty(n_seeds)
        for seed in range(n_seeds):
            drawn = draw_all(me.EverySize(per_size), MaskKey(seed, masks), np.arange(3), maskable)
            summation = me.EverySize(per_size).summation(n_tokens[drawn.row], drawn.draw, drawn.size)
            sums = ErrorSums(per_size, joint=masks == "shared")
            sums.add(summation.weight * scores[drawn.row, drawn.masked @ code], drawn.row, summation)
            found = sums.mean_with_errors()
            errors[seed], variances[seed] = found.mean - truth, found.mask_se**2
        assert abs(errors.mean()) < 4 * errors.std() / math.sqrt(n_seeds)
        excess = variances - errors**2
        assert abs(excess.mean()) < 4 * excess.std() / math.sqrt(n_seeds)

    @pytest.mark.parametrize("n_observations", [1, 2, 3])
    def test_the_error_needs_three_degrees_of_freedom_for_each_size(self, n_observations: int) -> None:
        lengths = np.full(n_observations, 30)
        for per_size in range(1, 6):
            for masks, n in (("own", n_observations), ("shared", 1)):
                reason = me.EverySize(per_size).unknown_error(lengths, masks)
                assert (reason is None) == ((per_size - 1) * n >= 3)
        for _ in range(2):  # a text of two tokens has no random masks, and tells nothing
            assert me.EverySize(2).unknown_error(np.array([30, 30, 2, 2]), "own") is not None
        reason = me.EverySize(2).unknown_error(np.array([30]), "own")
        assert reason == ("every-size with 2 own masks per size needs 4 or more for 1 observation")
        assert me.EverySize(4).unknown_error(np.array([30]), "own") is None
        reason = me.EverySize(4).unknown_error(np.array([4]), "own")
        assert reason == (
            "every-size with 4 masks per size leaves out only 2 of all masks; "
            "give 6 or more, which scores them all"
        )
        assert me.EverySize(4).unknown_error(np.full(4, 4), "own") is not None
        assert me.EverySize(4).unknown_error(np.full(5, 4), "own") is None
        assert me.EverySize(4).unknown_error(np.full(5, 4), "shared") is not None
        assert me.EverySize(6).unknown_error(np.array([4]), "own") is None
        assert me.EverySize(2).unknown_error(np.array([2, 2]), "shared") is None  # every mask is scored


class TestRandomSize:
    @pytest.mark.parametrize(
        ("masks", "training"),
        [
            ("own", True),
            ("shared", False),
            ("shared", True),
            pytest.param("own", False, marks=pytest.mark.slow),
        ],
    )
    def test_the_size_of_every_single_draw_is_uniform(self, masks: Masks, training: bool) -> None:
        n_tokens, n_seeds = 7, 3500
        sizes = np.array(
            [
                sizes_of(me.RandomSize(8), MaskKey(s, masks), 3, n_tokens, training=training)
                for s in range(n_seeds)
            ]
        )
        for row in range(3):
            for draw in range(8):
                counts = np.bincount(sizes[:, row, draw], minlength=n_tokens + 1)[1:]
                assert chisquare(counts).pvalue > 1e-4

    def test_replicates_are_independent(self) -> None:
        """The mean sizes of two replicates over a data set do not correlate over seeds (Fisher's z)."""
        n_seeds = 2000
        sizes = np.array([sizes_of(me.RandomSize(8, 4), MaskKey(s), 5, 50) for s in range(n_seeds)])
        means = sizes.reshape(n_seeds, 5, 2, 4).mean(axis=(1, 2))
        correlation = np.corrcoef(means.T)[np.triu_indices(4, 1)]
        assert (np.abs(np.arctanh(correlation)) * math.sqrt(n_seeds - 3) < norm.ppf(1 - 1e-4)).all()

    @pytest.mark.parametrize(
        ("training", "n_rows", "times"),
        [(True, 100, 20), (True, 1000, 20), (False, 100, 20), (False, 1000, 200)],
    )
    def test_sizes_are_even_over_the_data_set(self, training: bool, n_rows: int, times: int) -> None:
        """The number of masks of each size varies far less than it would for independent sizes."""
        n_tokens, draws = 10, 4
        design = me.RandomSize(draws)
        sizes = [sizes_of(design, MaskKey(s), n_rows, n_tokens, training=training) for s in range(200)]
        counts = [np.bincount(one.ravel(), minlength=11)[1:] for one in sizes]
        share = 1 / n_tokens
        independent = n_rows * draws * share * (1 - share)
        assert np.var(counts, axis=0, ddof=1).max() < independent / times

    def test_the_draws_of_one_observation_are_spread_too(self) -> None:
        sizes = np.array([sizes_of(me.RandomSize(16, 1), MaskKey(s), 1, 100)[0] for s in range(1000)])
        independent = (100**2 - 1) / 12 / 16
        assert sizes.mean(1).var() < independent / 100

    ids = pytest.mark.parametrize(
        "ids",
        [
            np.arange(40),
            np.arange(40) * 53,
            np.arange(40) * 102 + 7,
            np.random.default_rng(0).permutation(9**6)[:40],
        ],
        ids=["consecutive", "every 53rd", "every 102nd", "random"],
    )

    @ids
    @mask_kinds
    def test_sizes_follow_the_rank_of_the_id(self, masks: Masks, ids: np.ndarray) -> None:
        model = me.models.PPCA(n_features=9, n_components=1)
        tokens = Tokens.from_array(model.sample(40), ids=ids)
        scores = scores_of(model, tokens, me.RandomSize(8), MaskKey(3, masks)).sorted()
        expected = sizes_of(me.RandomSize(8), MaskKey(3, masks), 40, 9)
        np.testing.assert_array_equal(scores.id.reshape(40, 8)[:, 0], np.sort(ids))
        np.testing.assert_array_equal(scores.size.reshape(40, 8), expected)

    @ids
    @pytest.mark.parametrize("lengths", ["equal", "27 to 46"])
    def test_the_variance_is_far_below_that_of_independent_sizes(self, ids: np.ndarray, lengths: str) -> None:
        """For a steep curve; with sizes by the id, a stride of 53 cost up to 38 times the variance."""
        n_tokens = np.full(40, 30) if lengths == "equal" else np.random.default_rng(1).integers(27, 47, 40)
        maskable, design = np.arange(46) < n_tokens[:, None], me.RandomSize(8)
        means = []
        for seed in range(300):
            drawn = drawn_masks(design, MaskKey(seed), ids, maskable, position=positions(ids))
            rate = drawn.size / n_tokens[drawn.row]
            means.append((drawn.weight * -np.exp(4 * rate)).sum() / 40)
        curves = [n**2 * np.var(-np.exp(4 * np.arange(1, n + 1) / n)) for n in n_tokens]
        independent = np.mean(curves) / 40 / 8
        assert np.var(means, ddof=1) < independent / 20

    @pytest.mark.parametrize(("draws", "replicates"), [(1, 1), (7, 7), (12, 6), (16, 8), (22, 2), (23, 1)])
    def test_replicates_are_the_largest_divisor_up_to_8(self, draws: int, replicates: int) -> None:
        assert me.RandomSize(draws) == me.RandomSize(draws, replicates)
        assert me.RandomSize(draws).n_replicates == replicates

    @pytest.mark.parametrize(
        ("n_observations", "n_tokens", "masks", "enough"),
        [
            (1, 2, "own", 40),
            (1, 5, "own", 40),
            (1, 5, "shared", 24),
            (1, 30, "own", 120),
            (1, 512, "own", 128),
            (2, 512, "own", 64),
            (15, 30, "own", 8),
            (200, 30, "shared", 120),
            (200, 512, "shared", 2048),
        ],
    )
    def test_the_error_needs_enough_masks(
        self, n_observations: int, n_tokens: int, masks: Masks, enough: int
    ) -> None:
        lengths = np.full(n_observations, n_tokens)
        assert me.RandomSize(8).enough_draws(lengths, masks) == enough
        assert me.RandomSize(enough, 8).unknown_error(lengths, masks) is None
        if enough > 8:
            reason = me.RandomSize(enough - 8, 8).unknown_error(lengths, masks)
            assert reason is not None
            assert f"needs {enough} or more for {n_observations} observation" in reason
        assert "has 2 independent masks and needs 4" in str(
            me.RandomSize(400, 2).unknown_error(lengths, masks)
        )
        assert me.RandomSize(4, 2).unknown_error(np.ones(3, dtype=np.int64), masks) is None


class TestRates:
    def test_several_rates_need_three_degrees_of_freedom_for_each(self) -> None:
        for n in (1, 2, 3):
            lengths = np.full(n, 20)
            for per_rate in (1, 2, 4):
                reason = me.Rates((0.2, 0.8), per_rate).unknown_error(lengths, "own")
                assert (reason is None) == ((per_rate - 1) * n >= 3)
        assert me.FixedRate(0.2, 2).unknown_error(np.array([20]), "own") is None
        assert me.Rates((1.0, 1.0)).unknown_error(np.array([20]), "own") is None  # there is one mask

    def test_the_size_of_a_rate_is_its_floor_in_exact_arithmetic(self) -> None:
        n_tokens = np.arange(1, 1001)
        for percent in range(1, 101):
            np.testing.assert_array_equal(
                size_of_rate(percent / 100, n_tokens), np.maximum(1, percent * n_tokens // 100)
            )

    def test_every_rate_gets_its_masks(self) -> None:
        assert set(sizes_of(me.FixedRate(0.15), MaskKey(), 2, 512).ravel()) == {76}
        sizes = sizes_of(me.Rates((0.1, 0.5, 1.0), masks_per_size=2), MaskKey(), 1, 20)[0]
        assert sorted(sizes) == [2, 2, 10, 10, 20, 20]

    @given(st.integers(1, 40), st.integers(1, 3))
    def test_rates_cover_all_sizes_where_each_comes_equally_often(self, n: int, times: int) -> None:
        rates = tuple(size / n for size in range(1, n + 1)) * times
        assert me.Rates(rates).covers_all_sizes(n)
        assert not me.Rates((*rates, 1.0)).covers_all_sizes(n) or n == 1
        assert not me.Rates(rates).covers_all_sizes(n + 1)

    def test_the_papers_sweep_does_not_cover_512_sizes(self) -> None:
        sweep = me.Rates(tuple(percent / 100 for percent in range(1, 100)))
        assert not sweep.covers_all_sizes(512)
        assert not sweep.covers_all_sizes(99)


@given(rows_of_tokens())
def test_exhaustive_masks_are_all_subsets_once(maskable: np.ndarray) -> None:
    drawn = draw_all(me.Exhaustive(), MaskKey(), np.arange(len(maskable)), maskable)
    for row, allowed in enumerate(maskable):
        mine = [tuple(mask) for mask in drawn.masked[drawn.row == row]]
        assert len(mine) == len(set(mine)) == 2 ** int(allowed.sum()) - 1
        assert set(mine) == {tuple(mask) for mask in every_mask(allowed)}


@pytest.mark.parametrize(("n_tokens", "count"), [(21, "2.097e+6"), (64, "1.845e+19"), (3072, "e+924")])
def test_exhaustive_refuses_more_than_20_tokens_and_says_how_many_masks_there_are(
    n_tokens: int, count: str
) -> None:
    assert me.Exhaustive().n_draws(np.array([20])) == 2**20 - 1
    with pytest.raises(me.InputError, match=rf"{n_tokens} tokens has 2\^{n_tokens} - 1 = .*") as caught:
        me.Exhaustive().n_draws(np.array([3, n_tokens]))
    assert count in str(caught.value)


@mask_kinds
@given(maskable=rows_of_tokens())
def test_the_masks_of_an_order_are_nested_and_follow_its_ranks(masks: Masks, maskable: np.ndarray) -> None:
    design, key, ids = me.Orderings(2), MaskKey(5, masks), np.arange(len(maskable))
    drawn = draw_all(design, key, ids, maskable)
    for row, allowed in enumerate(maskable):
        for order in range(2):
            ranks = design.ranks(key, ids[row : row + 1], np.array([order]), allowed[None])[0]
            for size in range(1, allowed.sum() + 1):
                (mask,) = drawn.masked[(drawn.row == row) & (drawn.draw == order) & (drawn.size == size)]
                np.testing.assert_array_equal(mask, allowed & (ranks < size))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: design_from_settings({"name": "every-sise"}), "did you mean 'every-size'?"),
        (lambda: design_from_settings({}), "unknown design 'None'"),
        (lambda: design_from_settings({"name": "orderings", "draws": 4}), "argument 'draws'"),
        (lambda: design_from_settings({"name": "fixed-rate"}), "argument: 'rate'"),
        (lambda: me.FixedRate(0.15, masks_per_size=0), "masks_per_size=0"),
        (lambda: me.Rates(()), "rates=0"),
        (lambda: MaskKey(0, "mine"), "masks='mine'; give 'own' or 'shared'"),
        (lambda: MaskKey(0.5), "seed=0.5; give a whole number"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(make: Callable[[], object], message: str) -> None:
    one_line(make, message)


def test_a_last_block_that_is_shorter_hides_no_later_tokens() -> None:
    """5 tokens in blocks of 2: each mask hides tokens of its block, and all tokens of the later blocks."""
    design, length, index = me.Exhaustive(order_mixture=True, blocks=2), np.full(7, 5), np.arange(7)
    _, size = design.plan(MaskKey(), np.zeros(7, np.int64), length, index)
    assert size.tolist() == [4, 4, 5, 2, 2, 3, 1]


def test_the_blocks_of_one_time_are_of_one_replicate() -> None:
    """10 tokens in 3 blocks: the masks 0, 1 and 2 belong to the first time, 3, 4 and 5 to the second."""
    design, n_masks = RandomTime(4, 2, blocks=4), 12
    length, index = np.full(n_masks, 10), np.arange(n_masks)
    draw, size = design.plan(MaskKey(), np.zeros(n_masks, np.int64), length, index)
    assert design.summation(length, draw, size).replicate.tolist() == [0, 0, 0, 1, 1, 1] * 2


@pytest.mark.parametrize(("n_tokens", "fits"), [(1, 2), (2, 2), (9, 4), (200, 64), (1000, 64), (50, 64)])
def test_an_order_of_log_sizes_scores_each_token_once(n_tokens: int, fits: int) -> None:
    design, key = me.LogSizes(fits, orders=3), MaskKey(2)
    maskable = np.ones((1, n_tokens), dtype=np.bool_)
    drawn = drawn_masks(design, key, np.array([5]), maskable)
    masked = drawn.masked()
    scored = drawn.scored(slice(None), masked)
    assert (scored <= masked).all()
    assert len(drawn) <= 3 * fits
    for order in range(3):
        assert (scored[drawn.draw == order].sum(0) == 1).all()
        for first, second in itertools.pairwise(masked[drawn.draw == order]):
            assert (first != second).sum() == (first & ~second).sum() > 0
    np.testing.assert_array_equal(drawn.weight * 3, scored.sum(1))
    if fits >= n_tokens:
        assert (drawn.weight * 3 == 1).all()


def test_few_masks_are_drawn_at_once_and_equal_those_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    maskable, ids = np.random.default_rng(0).random((50, 20)) < 0.8, np.arange(50)
    n_calls, draw = [], me.RandomSize.masked
    monkeypatch.setattr(me.RandomSize, "masked", lambda *given: n_calls.append(1) or draw(*given))
    parts = np.array_split(np.random.default_rng(1).permutation(400), 7)
    masks = drawn_masks(me.RandomSize(8), me.MaskKey(0), ids, maskable)
    at_once = [masks.masked(part) for part in parts]
    assert len(n_calls) == 1
    monkeypatch.setattr(designs, "_CELLS_AT_ONCE", 0)
    masks = drawn_masks(me.RandomSize(8), me.MaskKey(0), ids, maskable)
    for part, some in zip(parts, at_once, strict=True):
        np.testing.assert_array_equal(masks.masked(part), some)
    assert len(n_calls) == 1 + len(parts)
