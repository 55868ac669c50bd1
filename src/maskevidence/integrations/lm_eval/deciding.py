"""Values of continuations, and decisions between them with as few masks as possible."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence import ScoreTable
from maskevidence.integrations.lm_eval.drawing import PER_ORDER, QuestionKey, Windows, size_controls
from maskevidence.integrations.lm_eval.harness import Contest
from maskevidence.integrations.lm_eval.race import Race, without_line
from maskevidence.integrations.lm_eval.scoring import Continuation, TextScorer
from maskevidence.integrations.lm_eval.values import ScoredValue


@dataclass(frozen=True)
class Question:
    """Choices whose values are estimated with the same masks."""

    key: int  # the key of the masks
    choices: tuple[Continuation, ...]  # the continuations with their contexts
    # the decisions between the choices; without one, all masks are scored for every choice
    contests: tuple[Contest, ...] = ()
    # for each contest, shape (n_choices,); added to the scaled values
    offsets: tuple[Float64[np.ndarray, " n_choices"], ...] = ()


@dataclass
class _State:
    """A question under way."""

    question: Question  # its choices and contests
    exact: dict[int, ScoredValue]  # the choices whose value has no error, with that value
    # n times the score of each mask, NaN once a choice is out
    values: Float64[np.ndarray, "n_masks n_choices"] = field(init=False)
    # u - 1/2 of the size of each mask, with expectation 0
    controls: Float64[np.ndarray, " n_masks"] = field(default_factory=lambda: np.zeros(0))
    # of each choice, shape (2, n): the sum of each token's log-probabilities, and their number
    tokens: list[Float64[np.ndarray, "2 n"]] = field(init=False)
    running: list[Bool[np.ndarray, " n_choices"]] = field(init=False)  # which choices run in each contest
    finished: list[bool] = field(init=False)  # for each contest, whether it is decided or a tie

    def __post_init__(self) -> None:
        n = len(self.question.choices)
        self.values = np.zeros((0, n))
        self.tokens = [np.zeros((2, len(choice.scored))) for choice in self.question.choices]
        self.running = [np.ones(n, dtype=np.bool_) for _ in self.question.contests]
        self.finished = [n < 2 for _ in self.question.contests]

    def open(self) -> Bool[np.ndarray, " n_choices"]:
        """The choices that need further masks."""
        n = len(self.question.choices)
        open_choices = np.zeros(n, dtype=np.bool_) if self.running else np.ones(n, dtype=np.bool_)
        for running, finished in zip(self.running, self.finished, strict=True):
            if not finished:
                open_choices |= running
        open_choices[list(self.exact)] = False
        return open_choices

    def add(
        self,
        values: Float64[np.ndarray, "n_new n_choices"],
        controls: Float64[np.ndarray, " n_new"],
    ) -> None:
        """Add the values of further masks of the open choices."""
        exact_values = np.array([self.exact.get(choice, np.nan) for choice in range(values.shape[1])])
        self.values = np.concatenate([self.values, np.where(self.open(), values, exact_values)])
        self.controls = np.concatenate([self.controls, controls])

    def look(self, race: Race) -> None:
        """Decide which choices stay in the race after the masks so far.

        Every mask counts as an independent draw. Masks of one order are negatively correlated, so the race
        overestimates the variance and stops later than it could.
        """
        contests = zip(self.question.contests, self.question.offsets, strict=True)
        for number, (contest, offset) in enumerate(contests):
            if not self.finished[number]:
                scaled = self.values * contest.scale + offset
                least = self.least_variance(contest.scale)
                running = race.running(scaled, self.running[number], self.controls, least)
                self.running[number] = running
                self.finished[number] = running.sum() == 1 or race.is_tie(
                    scaled, running, self.controls, least
                )

    def least_variance(self, scale: Float64[np.ndarray, " C"]) -> Float64[np.ndarray, "C C"]:
        """The variance of differences if each token had its mean log-probability s_j in every mask.

        The value n/M Σ_{j masked} s_j of a mask of uniform size then has the variance
        n·(H_n - 1)/(n - 1) · Σ_j (s_j - mean(s))², where H_n = 1 + 1/2 + ... + 1/n; the j-th
        tokens of all choices are hidden together. Each draw hides every token, so the s_j are known early,
        while the small masks, which weigh most, have seldom hidden a wrong token.
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
        """The value of each choice."""
        n_masks = (~np.isnan(self.values)).sum(0)
        n_masks[list(self.exact)] = 0
        longest = int(n_masks.argmax())
        return [
            self.exact[choice]
            if choice in self.exact
            else self._value(choice, self.values[:n, choice], self.values[: n_masks[longest], longest])
            for choice, n in enumerate(n_masks)
        ]

    def _ties(self, choice: int) -> tuple[str, ...]:
        """The contests that end in a tie between this choice and others."""
        contests = zip(self.question.contests, self.running, strict=True)
        return tuple(contest.name for contest, running in contests if running.sum() > 1 and running[choice])

    def _value(
        self, choice: int, own: Float64[np.ndarray, " n_masks"], longest: Float64[np.ndarray, " n_most"]
    ) -> ScoredValue:
        """The mean over the orders of a choice, with its error.

        A choice that left the race early is compared with the choice that has the most masks: its value is
        that choice's mean plus the mean difference on the masks of both. This keeps the ranking of the race,
        and the part that both share has the smaller error.
        """
        value, deviation = self._mean(own)
        if len(longest) > len(own):
            difference, deviation = self._mean(own - longest[: len(own)])
            rest, of_rest = self._mean(longest)
            value = difference + rest
            of_rest[: len(deviation)] += deviation
            deviation = of_rest
        return ScoredValue(value, deviation, len(own), self.question.key, self._ties(choice))

    def _mean(
        self, values: Float64[np.ndarray, " n_masks"]
    ) -> tuple[float, Float64[np.ndarray, " n_orders"]]:
        """The mean over masks, and the deviation of each order from it.

        In a race, the linear dependence on the mask size is subtracted first, as the race does it, so that
        the winner has the largest value. Without a race, the plain mean is unbiased.
        """
        if self.question.contests:
            values = without_line(values[:, None], self.controls[: len(values)])[:, 0]
        orders = values.reshape(-1, PER_ORDER).mean(1)
        mean = float(orders.mean())
        return mean, (orders - mean) / len(orders)


class Decider:
    """Estimates the values of many questions together, so that the model's calls are full.

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
        """The values of the choices of each question.

        Args:
            exact: for each question, the choices whose value is computed without error.
        """
        states = [_State(*pair) for pair in zip(questions, exact, strict=True)]
        done = 0
        for look in self.race.looks:
            if not self._draw(states, range(done, look)):
                break
            for state in states:
                if state.running and state.open().any():
                    state.look(self.race)
            done = look
        return [state.answer() for state in states]

    def _draw(self, states: Sequence[_State], masks: range) -> bool:
        """Score further masks of all open choices; False if no choice is open."""
        open_choices = [(state, choice) for state in states for choice in np.flatnonzero(state.open())]
        if not open_choices:
            return False
        texts = [state.question.choices[choice] for state, choice in open_choices]
        key = QuestionKey(self.seed, questions=tuple(state.question.key for state, _ in open_choices))
        orders = range(masks.start // PER_ORDER, masks.stop // PER_ORDER)
        table = self.scorer.scores(texts, self.design, key, orders, per_token=True)
        values = iter((table.n_tokens * table.score).reshape(len(texts), len(masks)))
        sums = iter(_by_token(table, texts))
        for state in states:
            choices = np.flatnonzero(state.open())
            if len(choices):
                new = np.full((len(masks), len(state.question.choices)), np.nan)
                for choice in choices:
                    new[:, choice] = next(values)
                    state.tokens[choice] += next(sums)
                state.add(new, size_controls(self.seed, state.question.key, masks))
        return True


def _by_token(table: ScoreTable, texts: Sequence[Continuation]) -> Iterator[Float64[np.ndarray, "2 n"]]:
    """For each text, the sum of each token's log-probabilities over its masks, and their number."""
    assert table.hidden is not None
    n_entries = table.size.reshape(len(texts), -1).sum(1)
    ends = np.cumsum(n_entries)
    for text, begin, end in zip(texts, ends - n_entries, ends, strict=True):
        position, n = table.hidden.column[begin:end], len(text.scored)
        yield np.stack(
            [np.bincount(position, table.hidden.log_prob[begin:end], n), np.bincount(position, minlength=n)]
        )


def looks_up_to(n_masks: int, *, racing: bool) -> tuple[int, ...]:
    """After how many masks a race looks; without a race, only after the last mask.

    Example:
        >>> looks_up_to(24, racing=True), looks_up_to(64, racing=False)
        ((8, 12, 16, 20, 24), (64,))
    """
    last = PER_ORDER * max(2, math.ceil(n_masks / PER_ORDER))
    return (*(look for look in _growing() if look < last), last) if racing else (last,)


def _growing() -> Iterator[int]:
    step = 2 * PER_ORDER
    while step < 2**30:
        yield step
        if step > 2 * PER_ORDER:
            yield step * 5 // 4
        yield step * 3 // 2
        step *= 2
