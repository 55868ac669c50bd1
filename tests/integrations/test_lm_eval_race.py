"""The race: against a plain loop, and its error rate by simulation of the decisions that rest on it."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from maskevidence.errors import InputError
from maskevidence.integrations.lm_eval.harness import Contest
from maskevidence.integrations.lm_eval.race import Question, Race, _State, looks_up_to
from maskevidence.integrations.lm_eval.texts import Continuation
from maskevidence.integrations.lm_eval.values import ScoredValue, size_controls

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
LOOKS = (3, 4, 6, 8, 12, 16)


def line_at_zero(values: np.ndarray, control: np.ndarray, least: float) -> tuple[float, float]:
    """The height of the least-squares line at control 0, and its standard error."""
    columns = np.stack([np.ones(len(values)), control], axis=1)
    inverse = np.linalg.inv(columns.T @ columns)
    fitted = inverse @ columns.T @ values
    residual = values - columns @ fitted
    return fitted[0], np.sqrt(max(residual @ residual / (len(values) - 2), least) * inverse[0, 0])


def plain_looks(
    values: np.ndarray, confidence: float, control: np.ndarray, least: np.ndarray
) -> Iterator[set[int]]:
    """Which choices are left after each look: one pair at a time."""
    left = set(range(values.shape[1]))
    level = 1 - (1 - confidence) / len(LOOKS) / (values.shape[1] - 1)
    for m in LOOKS:
        own = values[:m], control[:m]
        leader = max(sorted(left), key=lambda choice: line_at_zero(own[0][:, choice], own[1], 0.0)[0])
        for choice in sorted(left - {leader}):
            apart = own[0][:, leader] - own[0][:, choice]
            mean, error = line_at_zero(apart, own[1], least[leader, choice])
            if mean > student.ppf(level, m - 2) * error:
                left.remove(choice)
        yield left


@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.0, 0.5, 3.0]), st.booleans())
def test_it_equals_a_plain_loop(seed: int, n_choices: int, gap: float, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    control = rng.uniform(-0.5, 0.5, LOOKS[-1])
    values = rng.normal(size=(LOOKS[-1], n_choices)) + gap * np.arange(n_choices)
    values += control[:, None] * rng.normal(0, 5, n_choices)
    least = rng.uniform(0, 6 * limited, (n_choices, n_choices))
    race, running = Race(0.95, LOOKS), np.ones(n_choices, dtype=np.bool_)
    for m, left in zip(LOOKS, plain_looks(values, 0.95, control, least), strict=True):
        running = race.left(values[:m], running, control[:m], least)
        assert set(np.flatnonzero(running).tolist()) == left


def test_choices_that_are_out_are_not_read() -> None:
    rng = np.random.default_rng(0)
    values, control = rng.normal(size=(16, 3)) + np.array([0.0, 9.0, 9.0]), rng.uniform(-0.5, 0.5, 16)
    race, running, least = Race(0.95, LOOKS), np.array([False, True, True]), np.zeros((3, 3))
    values[:, 0] = np.nan
    assert race.left(values, running, control, least).tolist() == running.tolist()


def raced(race: Race, values: np.ndarray, controls: np.ndarray) -> list[ScoredValue]:
    """What the adapter answers where each mask of a choice has this value, of shape (n_masks, n_choices)."""
    choices = tuple(Continuation((place,), (0,)) for place in range(values.shape[1]))
    contest = Contest("acc", np.ones(len(choices)))
    state = _State(Question(0, choices, (contest,)), {})
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
    race, lost = Race(0.95, looks_up_to(16)), 0
    for key in range(n):
        common, own = noise(rng, (16, 1)), noise(rng, (16, 4))
        answer = raced(race, 2 * common + own + [0.05, 0.0, 0.0, -1.0], controls_of(key, race))
        lost += 0 not in left_of(answer)
    allowed = 1 - race.confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed * race.confidence / n)


def test_a_curved_trend_in_the_control_loses_no_more() -> None:
    """1,000 questions; values fall with the size of a mask, faster and faster."""
    rng, race, n = np.random.default_rng(2), Race(), 1000
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


def test_equal_choices_are_a_tie() -> None:
    race, values = (
        Race(0.95, (4, 8, 12, 16)),
        np.random.default_rng(0).normal(size=(16, 1)) + np.zeros((16, 2)),
    )
    answer = raced(race, values, controls_of(0, race))
    assert left_of(answer) == [0, 1]
    assert [one.n_passes for one in answer] == [16, 16]


def test_a_difference_without_error_decides_at_the_first_look() -> None:
    race = Race(0.95, (4, 8, 12, 16))
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.array([0.0, 1e-6])
    answer = raced(race, values, controls_of(0, race))
    assert (left_of(answer), [one.n_passes for one in answer]) == ([1], [4, 4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence=1; give a probability above 0.5 and below 1"),
        ({"looks": ()}, "looks=(); give numbers of masks that increase, from 3 or more"),
        ({"looks": (2, 4)}, "looks=(2, 4); give numbers of masks that increase, from 3 or more"),
    ],
)
def test_bad_rules_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        Race(**options)
    assert str(error.value) == message
