"""The race: against a plain loop, and its error rate by simulation of the decisions that rest on it."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm as normal
from scipy.stats import t as student

from maskevidence.errors import InputError
from maskevidence.integrations.lm_eval.deciding import Question, _State, looks_up_to
from maskevidence.integrations.lm_eval.drawing import size_controls
from maskevidence.integrations.lm_eval.harness import Contest
from maskevidence.integrations.lm_eval.race import Race
from maskevidence.integrations.lm_eval.scoring import Continuation
from maskevidence.integrations.lm_eval.values import ScoredValue

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


def plain_looks(
    values: np.ndarray,
    confidence: float,
    looks: tuple[int, ...],
    control: np.ndarray | None,
    least: np.ndarray,
) -> Iterator[tuple[set[int], bool]]:
    """Which choices are left after each look, and whether a tie is called: one pair at a time."""
    left = set(range(values.shape[1]))
    spent = np.array([1.5**-number for number in range(len(looks))])
    levels = 1 - (1 - confidence) * spent / spent.sum() / (values.shape[1] - 1)
    for m, level in zip(looks, levels, strict=True):
        used = None if control is None else control[:m]
        leader = max(sorted(left), key=lambda choice: mean_and_error(values[:m, choice], used, 0.0)[0])
        for choice in sorted(left - {leader}):
            mean, error, df = mean_and_error(
                values[:m, leader] - values[:m, choice], used, least[leader, choice]
            )
            if mean > student.ppf(level, df) * error:
                left.remove(choice)
        if len(left) == 1:
            yield left, False
            break
        others = [
            mean_and_error(values[:m, leader] - values[:m, one], used, least[leader, one])
            for one in left - {leader}
        ]
        mean, error, df = min(others, key=lambda one: one[0] / one[1])
        cap = looks[-1]
        needed = student.ppf(levels[-1], df + cap - m)
        foreseen = normal(mean / error * np.sqrt(cap / m), np.sqrt((cap - m) / m)) if m < cap else None
        yield left, foreseen is None or foreseen.sf(needed) < HOPE * m / cap


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
    race, running = Race(0.95, LOOKS, HOPE), np.ones(n_choices, dtype=np.bool_)
    for m, (left, tie) in zip(LOOKS, plain_looks(values, 0.95, LOOKS, control, least), strict=False):
        known = None if control is None else control[:m], least if limited else None
        running = race.running(values[:m], running, *known)
        assert set(np.flatnonzero(running).tolist()) == left
        assert race.is_tie(values[:m], running, *known) == tie


def test_choices_that_are_out_are_not_read() -> None:
    values = np.random.default_rng(0).normal(size=(16, 3)) + np.array([0.0, 9.0, 9.0])
    race, running = Race(0.95, LOOKS), np.array([False, True, True])
    known = race.running(values, running), race.is_tie(values, running)
    values[:, 0] = np.nan
    assert race.running(values, running).tolist() == known[0].tolist() == running.tolist()
    assert race.is_tie(values, running) == known[1]


def raced(race: Race, values: np.ndarray, controls: np.ndarray) -> list[ScoredValue]:
    """What the adapter answers where each mask of a choice has this value, of shape (n_masks, n_choices)."""
    choices = tuple(Continuation((place,), (0,)) for place in range(values.shape[1]))
    contest = Contest("acc", np.ones(len(choices)))
    state = _State(Question(0, choices, (contest,), (np.zeros(len(choices)),)), {})
    for done, look in pairwise((0, *race.looks)):
        state.add(values[done:look], controls[done:look])
        state.look(race)
        if not state.open().any():
            break
    return state.answer()


def controls_of(key: int, race: Race) -> np.ndarray:
    """Those of the sizes of the masks of a question."""
    return size_controls(0, key, range(race.looks[-1]))


def left_of(answer: list[ScoredValue]) -> list[int]:
    """The choices of a tie, or the winner alone."""
    return [place for place, one in enumerate(answer) if one.ties] or [int(np.argmax(answer))]


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
def test_the_best_choice_is_lost_no_more_often_than_asked(noise: Noise) -> None:
    """1,000 questions of four choices; the noise is common in part, and the best one is hardly ahead."""
    rng, n = np.random.default_rng(1), 1000
    race, lost = Race(0.95, looks_up_to(16, racing=True), hope=0.0), 0
    for key in range(n):
        common, own = noise(rng, (16, 1)), noise(rng, (16, 4))
        answer = raced(race, 2 * common + own + [0.05, 0.0, 0.0, -1.0], controls_of(key, race))
        lost += 0 not in left_of(answer)
    allowed = 1 - race.confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed * race.confidence / n)


def test_a_curved_trend_in_the_control_loses_no_more() -> None:
    """1,000 questions; values fall with the size of a mask, faster and faster."""
    rng, race, n = np.random.default_rng(2), Race(hope=0.0), 1000
    lost = found = 0
    steep = np.array([30.0, 38.0, 60.0, 90.0])  # three times the mean
    for key in range(n):
        controls = controls_of(key, race)
        u = controls[:, None] + 0.5
        noise = rng.normal(size=(len(u), 1)) + rng.normal(size=(len(u), 4)) * (1 + u)
        answer = raced(race, 3 * noise - steep * u**2, controls)
        lost += 0 not in left_of(answer)
        found += not answer[0].ties
    allowed = 1 - race.confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed / n)
    assert found > 0.1 * n


def test_a_trend_that_is_taken_out_decides_with_fewer_draws() -> None:
    rng, race, both = np.random.default_rng(3), Race(), np.array([True, True])
    u = (rng.random((16, 1)) + np.arange(4) / 4).ravel() % 1
    values = rng.normal(size=(64, 2)) - np.array([20.0, 60.0]) * u[:, None] + [0.0, 6.0]
    runs = [race.running(values[:8], both, control).tolist() for control in (None, u[:8] - 0.5)]
    assert runs == [[True, True], [True, False]]


def test_equal_choices_are_a_tie() -> None:
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.zeros((16, 2))
    races = [Race(0.95, (4, 8, 12, 16), hope) for hope in (0.0, HOPE)]
    answers = [raced(race, values, controls_of(0, race)) for race in races]
    assert [left_of(answer) for answer in answers] == [[0, 1]] * 2
    assert [answer[0].n_passes for answer in answers] == [16, 4]


def test_a_difference_without_error_decides_at_the_first_look() -> None:
    race = Race(0.95, (4, 8, 12, 16))
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.array([0.0, 1e-6])
    answer = raced(race, values, controls_of(0, race))
    assert (left_of(answer), [one.n_passes for one in answer]) == ([1], [4, 4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence=1; give a probability above 0.5 and below 1"),
        ({"looks": ()}, "looks=(); give numbers of draws that increase, from 2 or more"),
        ({"looks": (1, 4)}, "looks=(1, 4); give numbers of draws that increase, from 2 or more"),
        ({"hope": 1.0}, "hope=1; give a probability of 0 or more and below 1"),
    ],
)
def test_bad_rules_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        Race(**options)
    assert str(error.value) == message


def test_a_number_of_draws_without_a_look_is_refused() -> None:
    with pytest.raises(InputError, match=r"5 draws; the race looks after \(4, 8\)"):
        Race(looks=(4, 8)).running(np.zeros((5, 2)), np.array([True, True]))
