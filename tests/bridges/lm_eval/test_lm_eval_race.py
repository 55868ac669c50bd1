"""The race: against a plain loop, and its error rate by simulation of the decisions that rest on it."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from maskevidence.core.errors import InputError
from maskevidence.lm_eval.harness import Contest
from maskevidence.lm_eval.race import Question, Race, _State, looks_up_to
from maskevidence.lm_eval.texts import Continuation
from maskevidence.lm_eval.values import ScoredValue

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
LOOKS = (3, 4, 6, 8, 12, 16)


def plain_looks(values: np.ndarray, confidence: float, least: np.ndarray) -> Iterator[tuple[set[int], bool]]:
    """Which choices are left after each look, and whether the race ends: one pair at a time."""
    left = set(range(values.shape[1]))
    level = 1 - (1 - confidence) / len(LOOKS) / (values.shape[1] - 1)
    for m in LOOKS:
        leader, nearest = max(sorted(left), key=lambda choice: values[:m, choice].mean()), np.inf
        for choice in sorted(left - {leader}):
            apart = values[:m, leader] - values[:m, choice]
            error = np.sqrt(max(apart.var(ddof=1), least[leader, choice]) / m)
            if apart.mean() > student.ppf(level, m - 1) * error:
                left.remove(choice)
            nearest = min(nearest, apart.mean() / error)
        ends = nearest * np.sqrt(LOOKS[-1] / m) < student.ppf(level, LOOKS[-1] - 1)
        yield left, len(left) == 1 or (ends and m >= LOOKS[-1] / 4)


@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.0, 0.5, 3.0]), st.booleans())
def test_it_equals_a_plain_loop(seed: int, n_choices: int, gap: float, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(LOOKS[-1], n_choices)) + gap * np.arange(n_choices)
    least = rng.uniform(0, 6 * limited, (n_choices, n_choices))
    race, running = Race(0.95, LOOKS), np.ones(n_choices, dtype=np.bool_)
    for m, expected in zip(LOOKS, plain_looks(values, 0.95, least), strict=True):
        running, ends = race.look(values[:m], running, least)
        assert (set(np.flatnonzero(running).tolist()), ends) == expected


def test_choices_that_are_out_are_not_read() -> None:
    values = np.random.default_rng(0).normal(size=(16, 3)) + np.array([np.nan, 9.0, 9.0])
    running = np.array([False, True, True])
    assert Race(0.95, LOOKS).look(values, running, np.zeros((3, 3)))[0].tolist() == running.tolist()


def raced(race: Race, values: np.ndarray) -> list[ScoredValue]:
    """What the adapter answers where each mask of a choice has this value, of shape (n_masks, n_choices)."""
    choices = tuple(Continuation((place,), (0,)) for place in range(values.shape[1]))
    contest = Contest("acc", np.ones(len(choices)))
    state = _State(Question(0, choices, (contest,)), {})
    for done, look in pairwise((0, *race.looks)):
        state.add(values[done:look])
        state.look(race)
        if not state.open().any():
            break
    return state.answer()


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
    for _ in range(n):
        common, own = noise(rng, (16, 1)), noise(rng, (16, 4))
        answer = raced(race, 2 * common + own + [0.05, 0.0, 0.0, -1.0])
        lost += 0 not in left_of(answer)
    allowed = 1 - race.confidence
    assert lost / n <= allowed + 3 * np.sqrt(allowed * race.confidence / n)


def test_equal_choices_are_a_tie() -> None:
    race, values = (
        Race(0.95, (4, 8, 12, 16)),
        np.random.default_rng(0).normal(size=(16, 1)) + np.zeros((16, 2)),
    )
    answer = raced(race, values)
    assert left_of(answer) == [0, 1]
    assert [one.n_passes for one in answer] == [4, 4]  # a quarter of the masks


def test_a_difference_without_error_decides_at_the_first_look() -> None:
    race = Race(0.95, (4, 8, 12, 16))
    values = np.random.default_rng(0).normal(size=(16, 1)) + np.array([0.0, 1e-6])
    answer = raced(race, values)
    assert (left_of(answer), [one.n_passes for one in answer]) == ([1], [4, 4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence=1; give a probability above 0.5 and below 1"),
        ({"looks": ()}, "looks=(); give numbers of masks that increase, from 2 or more"),
        ({"looks": (1, 4)}, "looks=(1, 4); give numbers of masks that increase, from 2 or more"),
    ],
)
def test_bad_rules_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        Race(**options)
    assert str(error.value) == message
