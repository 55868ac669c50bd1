"""A race: find the choice with the largest value with as few masks as possible.

The choices of a question share their masks. After 8, 12, 16, 24, ... masks, the choice with the largest mean
leads. Another choice is out if its paired differences d_1..d_m to the leader pass Student's t-test:

    mean(d) > t_{m-1}(1 - ε / (L·(C - 1))) · sd(d) / √m

for C choices and L looks. By Bonferroni, the probability of losing the best choice is at most ε if the mean
of independent differences follows Student's t; benchmarks/race.py counts losses where it deviates most. Masks
of one order are negatively correlated, so the race overestimates the variance and stops later than it could.
Small masks seldom hide the one wrong token of a choice, so the sample variance of its differences can be too
small: `least_variance` is a lower limit for it.

The race ends when one choice is left, or in a tie: from a quarter of the masks on, if the nearest rival would
still be left after the last mask, assuming that its distance in standard errors grows like √m.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence import ScoreTable
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.standard_errors import student_t_quantile
from maskevidence.lm_eval.harness import Contest
from maskevidence.lm_eval.texts import Continuation, TextScorer
from maskevidence.lm_eval.values import PER_ORDER, QuestionKey, ScoredValue, Windows

ChoiceValues = Float64[np.ndarray, "n_masks n_choices"]
_Choices = Bool[np.ndarray, " n_choices"]


@dataclass(frozen=True)
class Race:
    """When a race looks at its values, and with which confidence it decides.

    Args:
        confidence: the probability that the best choice is kept.
        looks: after how many masks the race looks, increasing; the last one is the cap.

    Example:
        >>> values = np.array([[0.0, -9.0], [0.1, -9.2], [-0.1, -9.1], [0.2, -8.9]])
        >>> Race(0.99, looks=(4, 8)).look(values, np.array([True, True]), np.zeros((2, 2)))
        (array([ True, False]), True)
    """

    confidence: float = 0.995
    looks: tuple[int, ...] = (8, 12, 16, 24, 32, 48, 64)

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1.0:
            raise InputError(f"confidence={self.confidence:g}; give a probability above 0.5 and below 1")
        if not self.looks or (np.diff([1, *self.looks]) <= 0).any():
            raise InputError(f"looks={self.looks}; give numbers of masks that increase, from 2 or more")

    def look(
        self, values: ChoiceValues, running: _Choices, least: Float64[np.ndarray, "n_choices n_choices"]
    ) -> tuple[_Choices, bool]:
        """The running choices that stay, at least the leader; and whether the race ends.

        Args:
            values: shape (n_masks, n_choices); the columns of choices that do not run are not read.
            running: shape (n_choices,).
            least: shape (n_choices, n_choices); a lower limit of the variance of the difference between two
                choices in one mask.
        """
        among = np.flatnonzero(running)
        if len(among) < 2:
            return running, True
        n_masks, cap = len(values), self.looks[-1]
        leader = among[values[:, among].mean(0).argmax()]
        behind = values[:, [leader]] - values[:, among]
        distance, variance = behind.mean(0), np.maximum(behind.var(0, ddof=1), least[leader, among])
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(distance > 0, distance / np.sqrt(variance / n_masks), 0.0)  # in standard errors
        left = running.copy()
        left[among[ahead > self._threshold(n_masks, len(running))]] = False
        nearest = np.sort(ahead)[1] * math.sqrt(cap / n_masks)  # index 0 is the leader itself
        is_tie = 4 * n_masks >= cap and nearest <= self._threshold(cap, len(running))
        return left, bool(left.sum() == 1 or is_tie)

    def _threshold(self, n_masks: int, n_choices: int) -> float:
        """How many standard errors a choice must be behind to drop out."""
        tests = len(self.looks) * (n_choices - 1)
        return student_t_quantile(1 - (1 - self.confidence) / tests, n_masks - 1)


def looks_up_to(n_masks: int) -> tuple[int, ...]:
    """The numbers of masks at which a race looks: 8, each doubling and the half-way points, in whole orders.

    Example:
        >>> looks_up_to(22), looks_up_to(64)
        ((8, 12, 16, 24), (8, 12, 16, 24, 32, 48, 64))
    """
    last = PER_ORDER * max(2, math.ceil(n_masks / PER_ORDER))
    growing = (step * 2**k for k in range(last.bit_length()) for step in (2 * PER_ORDER, 3 * PER_ORDER))
    return (*itertools.takewhile(lambda look: look < last, growing), last)


@dataclass(frozen=True)
class Question:
    """Choices whose values are estimated with the same masks."""

    key: int  # the key of the masks
    choices: tuple[Continuation, ...]  # the continuations with their contexts
    # decisions between the choices; without any, all masks are scored for every choice
    contests: tuple[Contest, ...] = ()
    greedy: bool = False  # whether the task reads which choices are greedy
    rivals: bool = False  # whether the document compares these continuations with others


@dataclass
class _State:
    """A question in progress."""

    question: Question  # its choices and contests
    exact: dict[int, ScoredValue]  # values known without error, by choice
    # n times the score of each mask; NaN after a choice drops out
    values: ChoiceValues = field(init=False)
    # for each choice, shape (2, n): each token's sum of log-probabilities, and their number
    tokens: list[Float64[np.ndarray, "2 n"]] = field(init=False)
    running: list[_Choices] = field(init=False)  # for each contest, the choices still running
    finished: list[bool] = field(init=False)  # for each contest, whether it is decided or tied

    def __post_init__(self) -> None:
        n = len(self.question.choices)
        self.values = np.zeros((0, n))
        self.tokens = [np.zeros((2, len(choice.scored))) for choice in self.question.choices]
        runs = np.array([bool(choice.scored) for choice in self.question.choices])
        if runs.sum() < 2:
            self.question = replace(self.question, contests=())
        self.running = [runs.copy() for _ in self.question.contests]
        self.finished = [False for _ in self.question.contests]

    def open(self) -> _Choices:
        """The choices that need further masks."""
        undecided = [own for own, over in zip(self.running, self.finished, strict=True) if not over]
        needed = np.any(undecided, axis=0) if self.running else True
        return np.array([choice not in self.exact for choice in range(self.values.shape[1])]) & needed

    def add(self, values: ChoiceValues) -> None:
        """Add the open choices' values for further masks."""
        exact = [self.exact.get(choice, np.nan) for choice in range(values.shape[1])]
        self.values = np.concatenate([self.values, np.where(self.open(), values, exact)])

    def look(self, race: Race) -> None:
        """Decide which choices stay in each contest after the masks so far."""
        for number, contest in enumerate(self.question.contests):
            if not self.finished[number]:
                least = self.least_variance(contest.scale)
                self.running[number], self.finished[number] = race.look(
                    self.values * contest.scale, self.running[number], least
                )

    def least_variance(self, scale: Float64[np.ndarray, " C"]) -> Float64[np.ndarray, "C C"]:
        """The variance of differences if each token had its mean log-probability s_j in every mask.

        The value n/M Σ_{j masked} s_j of a mask of uniform size then has variance n·(H_n - 1)/(n - 1) · Σ_j
        (s_j - mean(s))², where H_n = 1 + 1/2 + ... + 1/n; the j-th tokens of all choices are hidden together.
        Each draw hides every token, so the s_j are known early, whereas the small masks, which have the
        largest weights, have seldom hidden a wrong token.
        """
        spread = np.zeros((len(scale), max(map(np.size, self.tokens)) // 2))
        for row, (total, count) in zip(spread, self.tokens, strict=True):
            n = len(total)
            if n > 1:
                mean = total / np.maximum(count, 1)
                factor = n * (1 / np.arange(2, n + 1)).sum() / (n - 1)
                row[:n] = np.sqrt(factor) * (mean - mean.mean())
        product = (scale[:, None] * spread) @ (scale[:, None] * spread).T
        own = np.diag(product)
        return np.maximum(own[:, None] + own - 2 * product, 0.0)

    def answer(self) -> list[ScoredValue]:
        """The value of each choice.

        A choice that dropped out early is compared with the choice with the most masks: its value is that
        choice's mean plus the mean difference on their common masks. This keeps the race's ranking, and the
        common part has the smaller error.
        """
        n_masks = (~np.isnan(self.values)).sum(0)
        n_masks[list(self.exact)] = 0
        longest = self.values[: n_masks.max(), n_masks.argmax()]
        return [
            self.exact[choice] if choice in self.exact else self._value(choice, n, longest)
            for choice, n in enumerate(n_masks.tolist())
        ]

    def _value(self, choice: int, n_masks: int, longest: Float64[np.ndarray, " n_most"]) -> ScoredValue:
        """The value of a choice that was scored on `n_masks` masks."""
        contests = zip(self.question.contests, self.running, strict=True)
        ties = tuple(contest.name for contest, running in contests if running.sum() > 1 and running[choice])
        own = self.values[:n_masks, choice]
        if n_masks == len(longest):
            value, deviations = _mean_over_orders(own)
        else:
            difference, of_difference = _mean_over_orders(own - longest[:n_masks])
            rest, deviations = _mean_over_orders(longest)
            deviations[: len(of_difference)] += of_difference
            value = difference + rest
        return ScoredValue(value, deviations, n_masks, self.question.key, ties)


def _mean_over_orders(
    values: Float64[np.ndarray, " n_masks"],
) -> tuple[float, Float64[np.ndarray, " n_orders"]]:
    """The mean over masks, and each order's contribution to its error."""
    orders = values.reshape(-1, PER_ORDER).mean(1)
    mean = float(orders.mean())
    return mean, (orders - mean) / len(orders)


class Decider:
    """Estimates the values of many questions together, to fill the model's calls.

    Args:
        race: when decisions are made, with looks after whole orders; the last look is the largest number of
            masks.
    """

    def __init__(self, scorer: TextScorer, seed: int, race: Race) -> None:
        self.scorer, self.seed, self.race = scorer, seed, race
        self.design = Windows(race.looks[-1] // PER_ORDER)

    def answers(
        self, questions: Sequence[Question], exact: Sequence[dict[int, ScoredValue]]
    ) -> list[list[ScoredValue]]:
        """The values of each question's choices.

        Args:
            exact: for each question, the choices whose value is computed without error.
        """
        states = [_State(*pair) for pair in zip(questions, exact, strict=True)]
        for done, look in itertools.pairwise((0, *self.race.looks)):
            undecided = [state for state in states if state.open().any()]
            if not undecided:
                break
            self._draw(undecided, range(done, look))
            for state in undecided:
                state.look(self.race)
        return [state.answer() for state in states]

    def _draw(self, states: Sequence[_State], masks: range) -> None:
        """Score further masks of all open choices."""
        open_choices = [(state, choice) for state in states for choice in np.flatnonzero(state.open())]
        texts = [state.question.choices[choice] for state, choice in open_choices]
        key = QuestionKey(self.seed, questions=tuple(state.question.key for state, _ in open_choices))
        orders = range(masks.start // PER_ORDER, masks.stop // PER_ORDER)
        table = self.scorer.scores(texts, self.design, key, orders, per_token=True)
        values = iter((table.n_tokens * table.score).reshape(len(texts), len(masks)))
        sums = iter(_by_token(table, texts))
        for state in states:
            new = np.full((len(masks), len(state.question.choices)), np.nan)
            for choice in np.flatnonzero(state.open()):
                new[:, choice] = next(values)
                state.tokens[choice] += next(sums)
            state.add(new)


def _by_token(table: ScoreTable, texts: Sequence[Continuation]) -> Iterator[Float64[np.ndarray, "2 n"]]:
    """For each text, each token's sum of log-probabilities over its masks, and their number."""
    assert table.hidden is not None
    n_entries = table.size.reshape(len(texts), -1).sum(1)
    ends = np.cumsum(n_entries)
    for text, begin, end in zip(texts, ends - n_entries, ends, strict=True):
        position, n = table.hidden.column[begin:end], len(text.scored)
        yield np.stack(
            [np.bincount(position, table.hidden.log_prob[begin:end], n), np.bincount(position, minlength=n)]
        )
