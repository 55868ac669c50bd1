"""Every mask design in `design_names` against enumeration: no bias, and uniform subsets given the size.

A new design needs an example in `EXAMPLES`, with the sum over sizes that it estimates.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

import maskevidence as me
from learned_conditionals import Learned, rows
from maskevidence.core.masks.design import Integers, MaskDesign, MaskKey, Summation, drawn_masks
from maskevidence.core.masks.design_words import design_names
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import IndependentMasks
from maskevidence.core.tokens import positions
from maskevidence.texts.published import LLaDA, RandomTime

MASKABLE = np.array([True, False, True, True, True])  # the second token is absent
D, N_SEEDS = 4, 800
ONES = np.ones(D)


def integrated(low: float, high: float, length: float) -> np.ndarray:
    """∫ C(D, M) a^M (1-a)^(D-M) M/a da from `low` to `high`, divided by `length`, by midpoints."""
    rate = low + (high - low) * (np.arange(20_000) + 0.5) / 20_000
    sizes = range(1, D + 1)
    return np.array(
        [
            (math.comb(D, m) * m * rate ** (m - 1) * (1 - rate) ** (D - m)).mean() * (high - low) / length
            for m in sizes
        ]
    )


# An estimate is the sum over sizes M = 1..D of a coefficient times the mean score of the masks of this size.
EXAMPLES: list[tuple[MaskDesign, np.ndarray]] = [
    (me.EverySize(2), ONES),
    (me.EverySize(5), ONES),
    (me.EverySize(2).in_training(), ONES),
    (me.RandomSize(1), ONES),
    (me.RandomSize(12, 4), ONES),
    (me.RandomSize(4, 2), ONES),
    (me.Orderings(2), ONES),
    (me.LogSizes(orders=2), ONES),
    (me.LeaveOneOut(), np.array([D, 0, 0, 0])),
    (me.Exhaustive(), ONES),
    (me.FixedRate(0.5, 2), np.array([0, D, 0, 0])),
    (me.Rates((0.25, 0.5), 2), np.array([D / 2, D / 2, 0, 0])),
    (me.Rates((0.25, 0.5, 0.75, 1.0)), ONES),
    (RandomTime(8), ONES),
    (RandomTime(8, 2, eps=0.1, noise_eps=0.3), integrated(0.07, 0.7, 0.9)),
    (LLaDA(4, batch=4), ONES),
    (LLaDA(16, batch=8), np.array([0.5, 1.5, 0.5, 1.5])),
]
POLICIES = [
    Policy("left-to-right"),
    Policy("confidence", blocks=3),
    Policy("order", order=(2, 0, 3, 1, 4)),
    Policy("margin", blocks=3, tokens_per_step=2),
    Policy("confidence", threshold=0.5),
    Policy("entropy", bound=1.0),
]
of_each_design = pytest.mark.parametrize(("design", "coefficients"), EXAMPLES, ids=lambda value: str(value))


def subsets(size: int) -> list[int]:
    """The masks of a size, in binary digits."""
    places = np.flatnonzero(MASKABLE)
    return [sum(1 << int(token) for token in chosen) for chosen in itertools.combinations(places, size)]


def masks_of(design: MaskDesign, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The masks of one observation, in binary digits, and their weights."""
    ids = np.array([seed])
    drawn = drawn_masks(design, MaskKey(seed), ids, MASKABLE[None], position=positions(ids))
    masked = drawn.masked()
    assert (masked.sum(1) == drawn.size).all()
    assert not masked[:, ~MASKABLE].any()
    return masked @ (1 << np.arange(len(MASKABLE))), drawn.weight


def check_design(design: MaskDesign, coefficients: np.ndarray) -> None:
    """Raise an AssertionError for a wrong weight or size, or masks of a size that are not equally likely."""
    assert design.covers_all_sizes(D) == bool((coefficients == 1).all())
    score = np.random.default_rng(0).normal(size=2 ** len(MASKABLE)) - 3.0  # of each mask
    by_size = [score[subsets(size)].mean() for size in range(1, D + 1)]
    estimates, totals, counts = [], [], np.zeros(2 ** len(MASKABLE))
    for seed in range(1 if design.deterministic else N_SEEDS):
        masks, weight = masks_of(design, seed)
        estimates.append(weight @ score[masks])
        totals.append(weight.sum())
        np.add.at(counts, masks, 1)
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert abs(np.mean(estimates) - coefficients @ by_size) < 4 * error + 1e-9
    if not isinstance(design, RandomTime):  # whose weights vary with the times
        np.testing.assert_allclose(totals, coefficients.sum())
    check_weights_by_size(design, coefficients)
    for size in range(1, D + 1):
        of_size = counts[subsets(size)]
        if design.deterministic:
            assert np.ptp(of_size) == 0
        elif of_size.sum() > 0 and len(of_size) > 1:
            # masks of one order, or drawn without replacement, are more even than independent ones
            assert chisquare(of_size).pvalue > 1e-4


def check_weights_by_size(design: MaskDesign, coefficients: np.ndarray) -> None:
    """Raise an AssertionError unless the expected weights that the design states are the coefficients."""
    size = np.arange(1, D + 1)
    stated = design.weight_by_size(np.full(D, D), size)
    if stated is None:
        assert (coefficients == 1).all() or (coefficients == 0).any()
    else:
        np.testing.assert_allclose(stated, coefficients, rtol=1e-6)


@of_each_design
def test_every_design_estimates_its_sum_over_sizes(design: MaskDesign, coefficients: np.ndarray) -> None:
    check_design(design, coefficients)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_policy_counts_every_token_once(policy: Policy) -> None:
    table = me.estimate_evidence(Learned(D, 3), rows(20, D, 3), policy).scores
    weight = policy.summation(table.n_tokens, table.draw, table.size).weight
    assert (weight >= 1).all()
    assert (np.add.reduceat(weight, np.flatnonzero(table.size == D)) == D).all()
    for first, second in itertools.pairwise(range(len(table))):
        if table.id[first] == table.id[second]:
            assert table.size[second] == table.size[first] - weight[first]
    assert len(table) <= 20 * policy.n_draws(np.array([D]))[0]
    assert policy.covers_all_sizes(D) == bool((weight == 1).all())


def test_every_design_has_an_example() -> None:
    shown = {type(design) for design, _ in EXAMPLES} | {type(policy) for policy in POLICIES}
    assert {design.name for design in shown - {IndependentMasks}} == set(design_names())


class HeavyLargeSizes(IndependentMasks):
    """A wrong weight: the sizes above half of the tokens count twice."""

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        found = super().summation(n_tokens, draw, size)
        return found._replace(weight=found.weight * np.where(2 * size > n_tokens, 2.0, 1.0))


class Compensated(IndependentMasks):
    """Wrong weights with the right sum."""

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        found = super().summation(n_tokens, draw, size)
        return found._replace(weight=found.weight * (2 * size / (n_tokens + 1)))


class FirstTokensMoreOften(IndependentMasks):
    """Masks that are not uniform given the size: half of them hide the first tokens."""

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: np.ndarray
    ) -> np.ndarray:
        first = maskable & (np.cumsum(maskable, axis=1) <= size[:, None])
        return np.where((draw % 2 == 0)[:, None], first, super().masked(key, ids, draw, size, maskable))


class Singles(me.LeaveOneOut):
    """A pseudo-log-likelihood that says that it covers all sizes, and so that it is the log evidence."""

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


@pytest.mark.parametrize(
    "make", [lambda: HeavyLargeSizes(2), lambda: Compensated(2), lambda: FirstTokensMoreOften(2), Singles]
)
def test_a_wrong_design_is_found(make: Callable[[], MaskDesign]) -> None:
    with pytest.raises(AssertionError):
        check_design(make(), ONES)
