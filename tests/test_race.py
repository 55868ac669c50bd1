"""The race: against a plain loop, and its error rate by simulation."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm as normal
from scipy.stats import t as student

from maskevidence.errors import InputError
from maskevidence.race import Race, run_race

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
LOOKS = (3, 4, 6, 8, 12, 16)
HOPE = 0.6


def without_trend(values: np.ndarray, control: np.ndarray, least: float) -> tuple[float, float, int]:
    """The height of the least-squares line at 0, its standard error, and the degrees of freedom."""
    columns = np.stack([np.ones(len(values)), control], axis=1)
    inverse = np.linalg.inv(columns.T @ columns)
    fitted = inverse @ columns.T @ values
    residual = values - columns @ fitted
    df = len(values) - 2
    return fitted[0], np.sqrt(max(residual @ residual / df, least) * inverse[0, 0]), df


def mean_and_error(values: np.ndarray, control: np.ndarray | None, least: float) -> tuple[float, float, int]:
    if control is None or len(values) < 4:
        return values.mean(), np.sqrt(max(values.var(ddof=1), least) / len(values)), len(values) - 1
    return without_trend(values, control, least)


def plain_race(
    values: np.ndarray,
    confidence: float,
    looks: tuple[int, ...],
    control: np.ndarray | None,
    least: np.ndarray,
) -> tuple[set[int], list[int]]:
    """Which choices are left, and how many draws each had: one pair and one look at a time."""
    left = set(range(values.shape[1]))
    n_draws = [0] * values.shape[1]
    spent = np.array([1.5**-number for number in range(len(looks))])
    levels = 1 - (1 - confidence) * spent / spent.sum() / (values.shape[1] - 1)
    for m, level in zip(looks, levels, strict=True):
        for choice in left:
            n_draws[choice] = m
        used = None if control is None else control[:m]
        leader = max(sorted(left), key=lambda choice: mean_and_error(values[:m, choice], used, 0.0)[0])
        for choice in sorted(left - {leader}):
            mean, error, df = mean_and_error(
                values[:m, leader] - values[:m, choice], used, least[leader, choice]
            )
            if mean > student.ppf(level, df) * error:
                left.remove(choice)
        if len(left) == 1:
            break
        others = [
            mean_and_error(values[:m, leader] - values[:m, one], used, least[leader, one])
            for one in left - {leader}
        ]
        mean, error, df = min(others, key=lambda one: one[0] / one[1])
        cap = looks[-1]
        needed = student.ppf(levels[-1], df + cap - m)
        foreseen = normal(mean / error * np.sqrt(cap / m), np.sqrt((cap - m) / m)) if m < cap else None
        if foreseen is not None and foreseen.sf(needed) < HOPE * m / cap:
            break
    return left, n_draws


@given(
    st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.0, 0.5, 3.0]), st.booleans(), st.booleans()
)
def test_it_equals_a_plain_loop(seed: int, n_choices: int, gap: float, trend: bool, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    control = rng.uniform(-0.5, 0.5, LOOKS[-1]) if trend else None
    values = rng.normal(size=(LOOKS[-1], n_choices)) + gap * np.arange(n_choices)
    if control is not None:
        values += control[:, None] * rng.normal(0, 5, n_choices)
    least = rng.uniform(0, 6, (n_choices, n_choices)) if limited else np.zeros((n_choices, n_choices))
    left, n_draws = plain_race(values, 0.95, LOOKS, control, least)
    verdict = run_race(Race(0.95, LOOKS, HOPE), values, control, least if limited else None)
    assert list(verdict.n_draws) == n_draws
    assert set(verdict.tied or (verdict.winner,)) == left
    assert verdict.winner in left


def test_choices_that_are_out_are_not_read() -> None:
    values = np.random.default_rng(0).normal(size=(16, 3)) + np.array([0.0, 9.0, 9.0])
    race = Race(0.95, LOOKS, hope=0.0)
    known = run_race(race, values)
    values[known.n_draws[0] :, 0] = np.nan
    assert run_race(race, values) == known
    assert known.n_draws[0] < known.n_draws[1]


@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: rng.standard_t(3, size=shape),
        lambda rng, shape: rng.exponential(size=shape) - 1,
        lambda rng, shape: 1 - rng.exponential(size=shape),
    ],
    ids=["normal", "heavy tails", "skewed up", "skewed down"],
)
@pytest.mark.usefixtures("unchecked")
def test_the_best_choice_is_lost_no_more_often_than_asked(noise: Noise) -> None:
    """1,000 questions of four choices; the noise is common in part, and the best one is hardly ahead."""
    rng, confidence, n = np.random.default_rng(1), 0.95, 1000
    lost = 0
    for _ in range(n):
        common, own = noise(rng, (LOOKS[-1], 1)), noise(rng, (LOOKS[-1], 4))
        verdict = run_race(Race(confidence, LOOKS, hope=0.0), 2 * common + own + [0.05, 0.0, 0.0, -1.0])
        lost += verdict.winner != 0 and not verdict.tied
        lost += bool(verdict.tied) and 0 not in verdict.tied
    allowed = 1 - confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed * confidence / n)


@pytest.mark.usefixtures("unchecked")
def test_a_curved_trend_in_the_control_loses_no_more() -> None:
    """1,000 questions of the adapter's rule; values fall with the size of a mask, faster and faster."""
    rng, race, n = np.random.default_rng(2), Race(hope=0.0), 1000
    lost = found = 0
    for _ in range(n):
        first = rng.random(race.looks[-1] // 4)
        u = (first[:, None] + np.arange(4) / 4).ravel() % 1
        steep = np.array([30.0, 38.0, 60.0, 90.0])  # three times the mean
        noise = rng.normal(size=(len(u), 1)) + rng.normal(size=(len(u), 4)) * (1 + u[:, None])
        verdict = run_race(race, 3 * noise - steep * u[:, None] ** 2, u - 0.5)
        lost += 0 not in (verdict.tied or (verdict.winner,))
        found += not verdict.tied
    allowed = 1 - race.confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed / n)
    assert found > 0.1 * n


def test_a_trend_that_is_taken_out_decides_with_fewer_draws() -> None:
    rng = np.random.default_rng(3)
    u = (rng.random((16, 1)) + np.arange(4) / 4).ravel() % 1
    values = rng.normal(size=(64, 2)) - np.array([20.0, 60.0]) * u[:, None] + [0.0, 6.0]
    without, with_line = (run_race(Race(), values, control).n_draws[0] for control in (None, u - 0.5))
    assert (without, with_line) == (16, 8)


def test_equal_choices_are_a_tie() -> None:
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.zeros((16, 2))
    verdicts = [run_race(Race(0.95, LOOKS, hope), values) for hope in (0.0, HOPE)]
    assert [verdict.tied for verdict in verdicts] == [(0, 1)] * 2
    assert [verdict.n_draws[0] for verdict in verdicts] == [16, 3]


def test_a_difference_without_error_decides_at_the_first_look() -> None:
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.array([0.0, 1e-6])
    assert run_race(Race(0.95, LOOKS), values).n_draws == (3, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence=1; give a probability above 0.5 and below 1"),
        ({"looks": ()}, "looks=(); give numbers of draws that increase, from 2 or more"),
        ({"looks": (1, 4)}, "looks=(1, 4); give numbers of draws that increase, from 2 or more"),
        ({"hope": 1.0}, "hope=1; give a probability of 0 or more and below 1"),
        ({"looks": (4, 4)}, "looks=(4, 4); give numbers of draws that increase, from 2 or more"),
    ],
)
def test_bad_rules_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        Race(**options)
    assert str(error.value) == message


def test_a_number_of_draws_without_a_look_is_refused() -> None:
    with pytest.raises(InputError, match=r"5 draws; the race looks after \(4, 8\)"):
        Race(looks=(4, 8)).running(np.zeros((5, 2)), np.array([True, True]))
