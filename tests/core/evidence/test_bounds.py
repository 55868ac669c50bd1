"""Order mixtures, importance bounds, brackets and spreads of learned conditionals."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import maskevidence as me
from learned_conditionals import Learned, log_mixture_by_enumeration, log_prob_of_order, rows
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.bounds import (
    bracket,
    linear_scores,
    log_probs_of_orders,
    lower_bounds,
    order_spread,
    upper_bounds,
)
from maskevidence.core.evidence.result import joined, observation_tables
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.tokens import Tokens


def with_holes(tokens: Tokens) -> Tokens:
    """The same rows, some tokens absent and some context."""
    maskable, context = tokens.maskable.clone(), tokens.context.clone()
    maskable[0, 1] = maskable[1, 0] = maskable[1, 3] = False
    context[1, 3] = True
    return Tokens(tokens.values, maskable, context, tokens.ids)


@pytest.mark.parametrize(("n_tokens", "batch_size"), [(1, 1024), (3, 5), (6, 1024)])
def test_the_exact_mixture_equals_the_mean_over_all_orders(n_tokens: int, batch_size: int) -> None:
    model, tokens = Learned(n_tokens, 3), rows(3, n_tokens, 3)
    tokens = with_holes(tokens) if n_tokens > 3 else tokens
    design = me.Exhaustive(order_mixture=True)
    estimate = me.estimate_evidence(model, tokens, design, batch_size=batch_size)
    np.testing.assert_allclose(
        estimate.per_observation, log_mixture_by_enumeration(model, tokens), rtol=0, atol=1e-10
    )
    area = me.estimate_evidence(model, tokens, me.Exhaustive())
    assert (estimate.kind, area.kind) == ("mixture", "lower_bound")
    assert estimate.order_mixture == estimate.log_evidence
    assert area.order_mixture is None
    assert area.bracket is None
    assert estimate.bracket is not None
    assert estimate.bracket.area == pytest.approx(area.log_evidence, abs=1e-12)
    assert estimate.mask_se == 0.0
    assert estimate.log_evidence >= area.log_evidence - 1e-12


def test_the_mixture_of_a_mask_is_that_of_its_hidden_tokens() -> None:
    model, tokens = Learned(4, 2), rows(2, 4, 2)
    scores = me.estimate_evidence(model, tokens, me.Exhaustive(order_mixture=True)).scores
    assert scores.log_mixture is not None
    hidden = torch.tensor([[True, False, True, True], [True, True, False, True]])
    expected = log_mixture_by_enumeration(model, Tokens(tokens.values, hidden, ~hidden, tokens.ids))
    for row, draw in ((0, 0b1101), (1, 0b1011)):
        place = (scores.id == int(tokens.ids[row])) & (scores.draw == draw)
        assert scores.log_mixture[place].item() == pytest.approx(expected[row], abs=1e-12)


def orders_by_blocks(tokens: Tokens, row: int, size: int) -> list[tuple[int, ...]]:
    """All orders of the tokens of a row that go from block to block."""
    places = torch.nonzero(tokens.maskable[row]).flatten().tolist()
    blocks = [places[i : i + size] for i in range(0, len(places), size)]
    orders = itertools.product(*[list(itertools.permutations(block)) for block in blocks])
    return [tuple(itertools.chain(*order)) for order in orders]


def by_blocks(model: torch.nn.Module, tokens: Tokens, size: int) -> np.ndarray:
    """log E p_σ over the orders that write one block after the other."""
    mixtures = []
    for row in range(len(tokens)):
        alone, orders = tokens[row : row + 1], orders_by_blocks(tokens, row, size)
        logs = [log_prob_of_order(model, alone, order)[0] for order in orders]
        mixtures.append(np.logaddexp.reduce(logs) - math.log(len(logs)))
    return np.array(mixtures)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_blocks_are_mixtures_given_the_earlier_blocks(size: int) -> None:
    model, tokens = Learned(6, 3), with_holes(rows(3, 6, 3))
    estimate = me.estimate_evidence(model, tokens, me.Exhaustive(order_mixture=True, blocks=size))
    np.testing.assert_allclose(estimate.per_observation, by_blocks(model, tokens, size), rtol=0, atol=1e-10)
    curve = estimate.curve.score if estimate.curve.n_tokens else None
    assert curve is None or estimate.bracket.area == pytest.approx(curve.sum())
    assert estimate.bracket.area <= estimate.log_evidence + 1e-12
    whole = 2**size - 1
    n_masks = [n // size * whole + 2 ** (n % size) - 1 for n in tokens.n_tokens.tolist()]
    assert estimate.n_masks == sum(n_masks)


def test_exact_conditionals_have_one_mixture(build, mixed_tokens) -> None:
    model, tokens = build(6), mixed_tokens(8, 6)
    expected = model.log_evidence(tokens).detach().numpy()
    for design in (
        me.Exhaustive(order_mixture=True),
        me.Exhaustive(order_mixture=True, blocks=2),
        me.Orderings(4, bound="importance"),
        me.Policy("right-to-left", blocks=4),
    ):
        estimate = me.estimate_evidence(model, tokens, design)
        np.testing.assert_allclose(estimate.per_observation, expected, rtol=1e-9)
        assert estimate.kind == ("unbiased" if isinstance(design, me.Orderings) else "exact")
    spread = me.estimate_evidence(model, tokens, me.Orderings(4, bound="importance")).order_spread
    assert spread.within < 1e-15 * np.abs(expected).max() ** 2


def test_the_record_of_orders_is_the_chain_rule_along_them() -> None:
    model, tokens = Learned(5, 3), with_holes(rows(3, 5, 3))
    design = me.Orderings(3, bound="importance")
    estimate = me.estimate_evidence(model, tokens, design, seed=4)
    logs, _ = log_probs_of_orders(estimate.scores, design)
    key = MaskKey(4)
    for draw in range(3):
        ranks = design.ranks(key, tokens.ids.numpy(), np.full(3, draw), tokens.maskable.numpy())
        for row in range(3):
            order = np.argsort(-ranks[row])  # the token of the highest rank is shown first
            order = tuple(j for j in order if tokens.maskable[row, j])
            expected = log_prob_of_order(model, tokens[row : row + 1], order)[0]
            assert logs[row, draw] == pytest.approx(expected, abs=1e-12)
    lme = np.logaddexp.reduce(logs, axis=1) - math.log(3)
    np.testing.assert_allclose(estimate.per_observation, lme, atol=1e-12)
    assert estimate.kind == "lower_bound"
    assert "needs 4" in str(estimate.no_interval)


N_RUNS, N_ORDERS = 1000, 64


class Drawn(NamedTuple):
    """Four observations whose log p_σ is known for every order, and many runs with random orders of each."""

    every: np.ndarray  # (4, 120)
    mixture: np.ndarray  # (4,)
    table: ScoreTable  # observation 4·run + i, one row for each order


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    model, tokens = Learned(5, 3, scale=0.8), rows(4, 5, 3)
    orders = itertools.permutations(range(5))
    every = np.stack([log_prob_of_order(model, tokens, order) for order in orders], axis=1)
    mixture = np.logaddexp.reduce(every, axis=1) - math.log(120)
    picked = np.random.default_rng(0).integers(120, size=(N_RUNS, 4, N_ORDERS))
    logs = every[np.arange(4)[:, None], picked].ravel()
    one = np.ones_like(picked).ravel()
    ids, draws = np.divmod(np.arange(logs.size), N_ORDERS)
    return Drawn(every, mixture, ScoreTable(ids, draws, one, one, logs))


DESIGN = me.Orderings(N_ORDERS, bound="importance")


def z(values: np.ndarray, expected: np.ndarray) -> float:
    """The z-value of the mean over runs, for the mean over the four observations."""
    means = (values.reshape(N_RUNS, 4) - expected).mean(1)
    return float(means.mean() / (means.std(ddof=1) / math.sqrt(N_RUNS)))


def test_the_bounds_are_bounds(drawn: Drawn) -> None:
    logs = drawn.table.score.reshape(-1, N_ORDERS)
    area = drawn.every.mean(1)
    assert abs(z(logs.mean(1), area)) < 4
    weight = 1 / N_ORDERS
    lower = np.bincount(drawn.table.id, weights=weight * linear_scores(drawn.table, DESIGN))
    np.testing.assert_allclose(lower, np.logaddexp.reduce(logs, axis=1) - math.log(N_ORDERS), atol=1e-12)
    assert z(lower, area) > 10
    assert -20 < z(lower, drawn.mixture) < 0
    assert 0 < z(upper_bounds(logs).mean(1), drawn.mixture) < 20
    few = bracket(drawn.table.select(drawn.table.id < 4), DESIGN, "own")
    assert few.upper is not None
    assert few.upper > few.lower > few.area


def test_the_errors_are_those_of_repeated_runs(drawn: Drawn) -> None:
    logs = drawn.table.score.reshape(N_RUNS, 4, N_ORDERS)
    bounds = {"area": lambda x: x, "lower": lower_bounds, "upper": upper_bounds}
    for name, bound in bounds.items():
        values = bound(logs.reshape(-1, N_ORDERS)).reshape(logs.shape)
        found = values.var(axis=2, ddof=1).mean() / N_ORDERS
        expected = values.mean(2).var(axis=0, ddof=1).mean()
        assert found == pytest.approx(expected, rel=0.1), name


def test_the_lower_end_holds_for_each_observation(drawn: Drawn) -> None:
    some = drawn.table.select(drawn.table.id < 2000)
    assert (bracket(some, DESIGN, "own").low <= np.tile(drawn.mixture, 500)).mean() > 0.95


@pytest.mark.parametrize("n_orders", [8, pytest.param(16, marks=pytest.mark.slow)])
def test_the_upper_bound_holds_if_there_is_one(n_orders: int) -> None:
    """Of rows where an order in ten has a higher log p by 1.4 nats; 8 orders held in too few runs."""
    rng, n_rows, n_runs, design = (
        np.random.default_rng(0),
        10,
        200,
        me.Orderings(n_orders, bound="importance"),
    )
    truth = math.log(0.9 + 0.1 * math.exp(1.4)) + 0.02
    ids, draws = np.divmod(np.arange(n_rows * n_orders), n_orders)
    one, holds = np.ones_like(ids), []
    for _ in range(n_runs):
        logs = 1.4 * (rng.random(len(ids)) < 0.1) + 0.2 * rng.normal(size=len(ids))
        found = bracket(ScoreTable(ids, draws, one, one, logs), design, "own")
        if found.upper is not None:
            holds.append(found.upper + 1.96 * found.upper_se >= truth)
    assert len(holds) == 0 if n_orders < 16 else len(holds) > 100
    assert n_orders < 16 or np.mean(holds) > 0.93


def test_shared_orders_move_all_observations_together(drawn: Drawn) -> None:
    """Equal observations tell as much of shared orders as one of them does; of own orders, they tell more."""
    one = drawn.table.select(drawn.table.id == 0)
    ids = np.repeat(np.arange(9), len(one))
    same = ScoreTable(ids, *(np.tile(column, 9) for column in (one.draw, one.size, one.n_tokens, one.score)))
    alone = bracket(one, DESIGN, "own")
    for masks, times in (("shared", 1), ("own", 3)):
        found = bracket(same, DESIGN, masks)
        for name in ("area_se", "lower_se", "upper_se", "curve_se"):
            np.testing.assert_allclose(
                getattr(found, name), np.divide(getattr(alone, name), times), rtol=1e-9
            )


def test_the_curve_rises_from_the_area_to_the_bound(drawn: Drawn) -> None:
    few = drawn.table.select(drawn.table.id < 40)
    found = bracket(few, DESIGN, "own")
    assert found.n_averaged.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert (np.diff(found.curve) >= -1e-12).all()
    assert found.curve[0] == pytest.approx(found.area, abs=1e-12)
    assert found.curve[-1] == pytest.approx(found.lower, abs=1e-12)
    assert found.curve_se[-1] == found.lower_se
    for place, n in ((1, 2), (3, 8)):  # against the mean over all sets of n orders, by simulation
        logs = few.score.reshape(-1, N_ORDERS)
        sets = np.argsort(np.random.default_rng(1).random((2000, N_ORDERS)))[:, :n]
        expected = (np.logaddexp.reduce(logs[:, sets], axis=2) - math.log(n)).mean()
        assert found.curve[place] == pytest.approx(expected, abs=0.02)
    odd = bracket(few.select(few.draw < 5), me.Orderings(5, bound="importance"), "own")
    assert odd.n_averaged.tolist() == [1, 2, 4, 5]


def test_the_upper_bound_is_left_out_where_orders_differ_too_much() -> None:
    model, tokens = Learned(8, 4, scale=6.0), rows(3, 8, 4)
    found = me.estimate_evidence(model, tokens, me.Orderings(16, bound="importance")).bracket
    assert found.upper is None
    assert "standard deviation" in found.no_upper
    assert "\n" not in found.no_upper


def test_more_orders_extend_a_record_and_shared_orders_have_an_error() -> None:
    model, tokens = Learned(5, 3), rows(6, 5, 3)
    few, many = (me.estimate_evidence(model, tokens, me.Orderings(n, bound="importance")) for n in (4, 8))
    for name in ("id", "draw", "size", "score"):
        same = many.scores.draw < 4
        np.testing.assert_array_equal(getattr(few.scores, name), getattr(many.scores, name)[same])
    shared = me.estimate_evidence(model, tokens, me.Orderings(8, bound="importance"), masks="shared")
    assert shared.mask_df == pytest.approx(7)
    assert shared.mask_se > 0


def test_the_error_of_each_observation_is_that_of_its_bound() -> None:
    design = me.Orderings(8, bound="importance")
    estimate = me.estimate_evidence(Learned(5, 3), rows(6, 5, 3), design)
    table = joined(observation_tables(estimate))
    np.testing.assert_allclose(np.sqrt((table["mask_se"] ** 2).sum()) / 6, estimate.mask_se, rtol=1e-12)


def test_the_spread_is_split_into_within_and_between() -> None:
    model, tokens = Learned(5, 3), rows(40, 5, 3)
    estimate = me.estimate_evidence(model, tokens, me.Orderings(100, bound="importance"))
    spread = estimate.order_spread
    orders = list(itertools.permutations(range(5)))
    every = np.stack([log_prob_of_order(model, tokens, order) for order in orders])
    np.testing.assert_allclose(spread.within, every.var(axis=0).mean(), rtol=0.1)
    np.testing.assert_allclose(spread.between, every.mean(0).var(ddof=1), rtol=0.1)
    assert spread.share_within == pytest.approx(spread.within / (spread.within + spread.between))
    assert me.estimate_evidence(model, tokens, me.Orderings(4)).order_spread is None


def test_compare_knows_the_kinds() -> None:
    tokens = rows(20, 4, 3)
    of = {
        (name, seed): me.estimate_evidence(Learned(4, 3, seed), tokens, design)
        for seed in (0, 1)
        for name, design in {
            "area": me.Exhaustive(),
            "mixture": me.Exhaustive(order_mixture=True),
            "orders": me.Orderings(8, bound="importance"),
            "fewer orders": me.Orderings(4, bound="importance"),
            "blocks": me.Exhaustive(order_mixture=True, blocks=2),
            "confidence": me.Policy("confidence"),
            "margin": me.Policy("margin"),
            "threshold": me.Policy("confidence", threshold=0.7),
        }.items()
    }
    names = sorted({name for name, _ in of})
    for one, other in itertools.product(names, names):
        pair = {"a": of[one, 0], "b": of[other, 1]}
        if one == other:
            difference = me.compare(pair).between("a", "b")
            expected = pair["a"].per_observation - pair["b"].per_observation
            np.testing.assert_allclose(difference.per_observation, expected, atol=1e-12)
            assert difference.pairing == ("observations" if one == "threshold" else "masks")
            assert one != "threshold" or difference.mask_se == 0.0
        else:
            with pytest.raises(InputError, match="different quantities"):
                me.compare(pair)


def test_the_error_of_a_paired_difference_of_bounds_is_the_jackknife_of_it() -> None:
    tokens, design = rows(5, 5, 3), me.Orderings(8, bound="importance")
    a, b = (me.estimate_evidence(Learned(5, 3, seed), tokens, design, masks="shared") for seed in (0, 1))
    difference = me.compare({"a": a, "b": b}).between("a", "b")
    logs = [log_probs_of_orders(one.scores, design)[0] for one in (a, b)]

    def bound(orders: np.ndarray) -> float:
        means = [np.logaddexp.reduce(one[:, orders], axis=1).mean() for one in logs]
        return float(means[0] - means[1])

    without = np.array([bound(np.delete(np.arange(8), k)) for k in range(8)])
    assert difference.difference == pytest.approx(bound(np.arange(8)), abs=1e-12)
    assert difference.mask_se == pytest.approx(math.sqrt(7 * without.var()), rel=1e-9)
    assert difference.mask_df == pytest.approx(7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: me.Exhaustive(blocks=4), "add order_mixture=True"),
        (lambda: me.Exhaustive(order_mixture=True, blocks=21), "up to 20"),
        (lambda: me.Orderings(4, bound="tight"), "Known: area, importance"),  # type: ignore[arg-type]
        (lambda: me.Orderings(8, bound="importance").in_training(), "for scoring only"),
        (lambda: me.Exhaustive(order_mixture=True).in_training(), "for scoring only"),
        (lambda: me.MaskedObjective(me.Policy()), "for scoring only"),
    ],
)
def test_designs_that_make_no_sense_are_refused(make, message: str, unchecked) -> None:
    with pytest.raises(InputError, match=message):
        make()


def bounds_of(logs: np.ndarray) -> tuple[ScoreTable, me.Orderings]:
    """The record of orders with these log p_σ, of observations of one token."""
    row, draw = (grid.ravel() for grid in np.indices(logs.shape))
    one = np.ones(logs.size, dtype=np.int64)
    return ScoreTable(row, draw, one, one, logs.ravel()), me.Orderings(logs.shape[1], bound="importance")


def test_orders_add_nothing_to_the_spread_between_observations() -> None:
    logs = np.array([[-1.0, -3.0], [-4.0, -6.0], [-8.0, -10.0]])
    spread = order_spread(*bounds_of(logs))
    assert spread.within == pytest.approx(2.0)
    assert spread.between == pytest.approx(np.var([-2, -5, -9], ddof=1) - 2.0 / 2)


def test_the_lower_end_has_the_degrees_of_freedom_of_the_orders() -> None:
    logs = np.random.default_rng(0).normal(size=(3, 4))
    lowers = lower_bounds(logs)
    half = student.ppf(0.975, 3) * lowers.std(axis=1, ddof=1) / 2
    np.testing.assert_allclose(bracket(*bounds_of(logs), "own").low, lowers.mean(1) - half)


def test_few_orders_that_agree_give_no_upper_bound_if_their_logs_spread() -> None:
    """15 equal orders and a hopeless one: p_σ hardly varies, and a better order may be missing."""
    logs = np.zeros((2, 16))
    assert bracket(*bounds_of(logs), "own").upper == pytest.approx(0.0)
    logs[0, 5] = -10.0
    assert bracket(*bounds_of(logs), "own").upper is None
