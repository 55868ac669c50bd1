"""Values of continuations, and decisions between them with as few masks as they take."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.integrations.lm_eval.drawing import PER_ORDER, QuestionKey, Windows, size_controls
from maskevidence.integrations.lm_eval.harness_tasks import Contest
from maskevidence.integrations.lm_eval.race import Race, without_line
from maskevidence.integrations.lm_eval.scored_value import ScoredValue
from maskevidence.integrations.lm_eval.scoring import Continuation, Scorer
from maskevidence.scores.record import ScoreTable


@dataclass(frozen=True)
class Question:
    """Choices whose values are estimated with the same masks.

    Attributes:
        key: of the masks.
        choices: the continuations with their contexts.
        contests: the decisions to be made; without one, every value is estimated with all masks.
        offsets: for each contest, shape (n_choices,); what is added to the scaled values.
    """

    key: int
    choices: tuple[Continuation, ...]
    contests: tuple[Contest, ...] = ()
    offsets: tuple[Float64[np.ndarray, " n_choices"], ...] = ()


@dataclass
class _State:
    """A question under way.

    Attributes:
        question: what is asked.
        exact: the choices whose value has no error, with that value.
        values: shape (n_masks, n_choices); n times the score of each mask, NaN where a choice was out.
        controls: shape (n_masks,); of the sizes of all masks so far, with expectation 0.
        tokens: of each choice, shape (2, n): the sum of each token's log-probabilities, and their number.
        running: which choices run in each contest.
        finished: for each contest, whether it is decided or a tie.
    """

    question: Question
    exact: dict[int, ScoredValue]
    values: Float64[np.ndarray, "n_masks n_choices"] = field(init=False)
    controls: Float64[np.ndarray, " n_masks"] = field(default_factory=lambda: np.zeros(0))
    tokens: list[Float64[np.ndarray, "2 n"]] = field(init=False)
    running: list[Bool[np.ndarray, " n_choices"]] = field(init=False)
    finished: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.question.choices)
        self.values = np.zeros((0, n))
        self.tokens = [np.zeros((2, len(one.scored))) for one in self.question.choices]
        self.running = [np.ones(n, dtype=np.bool_) for _ in self.question.contests]
        self.finished = [n < 2 for _ in self.question.contests]

    def open(self) -> Bool[np.ndarray, " n_choices"]:
        """The choices that need further masks."""
        n = len(self.question.choices)
        wanted = np.zeros(n, dtype=np.bool_) if self.running else np.ones(n, dtype=np.bool_)
        for running, finished in zip(self.running, self.finished, strict=True):
            if not finished:
                wanted |= running
        wanted[list(self.exact)] = False
        return wanted

    def add(
        self,
        values: Float64[np.ndarray, "n_new n_choices"],
        controls: Float64[np.ndarray, " n_new"],
    ) -> None:
        """Add the values of further masks, of which those of the open choices are read."""
        known = np.array([self.exact.get(choice, np.nan) for choice in range(values.shape[1])])
        self.values = np.concatenate([self.values, np.where(self.open(), values, known)])
        self.controls = np.concatenate([self.controls, controls])

    def look(self, race: Race) -> None:
        """Find out which choices run on after the masks so far.

        Every mask counts as a draw of its own. The masks of one order are less alike than independent ones,
        so that their values vary more among each other than their mean does from order to order: the race is
        careful.
        """
        contests = zip(self.question.contests, self.question.offsets, strict=True)
        for number, (contest, offset) in enumerate(contests):
            if not self.finished[number]:
                own = self.values * contest.scale + offset
                known = self.controls, self.least_variance(contest.scale)
                running = race.running(own, self.running[number], *known)
                self.running[number] = running
                self.finished[number] = running.sum() == 1 or race.is_tie(own, running, *known)

    def least_variance(self, scale: Float64[np.ndarray, " C"]) -> Float64[np.ndarray, "C C"]:
        """How much differences of choices vary if each token has its mean log-probability s_j in every mask.

        The value n/M Σ_{j masked} s_j of a mask of uniform size then has the variance
        n·(H_n - 1)/(n - 1) · Σ_j (s_j - mean(s))², where H_n = 1 + 1/2 + ... + 1/n; choices share their masks
        place by place. Each draw hides every token, so that the s_j are known long before the small masks,
        which weigh most, have hidden a wrong token as often as they do on average.
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
        """The contests in which a choice and others still run at the end."""
        contests = zip(self.question.contests, self.running, strict=True)
        return tuple(one.name for one, running in contests if running.sum() > 1 and running[choice])

    def _value(
        self, choice: int, own: Float64[np.ndarray, " n_masks"], longest: Float64[np.ndarray, " n_most"]
    ) -> ScoredValue:
        """The mean over the orders of a choice; one that left the race follows the one with most orders.

        Its value is its mean difference to that one on the masks that both have, added to that one's mean:
        the order in which the race has put them stays, and what both have in common has the smaller error.
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
        """The mean over masks, and what each order adds to its error.

        In a race, what depends on the sizes along a straight line is taken out first, as the race does, so
        that the largest value is that of the choice that has won. The mean of a fixed number of masks is left
        as it is, which is unbiased.
        """
        if self.question.contests:
            values = without_line(values[:, None], self.controls[: len(values)])[:, 0]
        orders = values.reshape(-1, PER_ORDER).mean(1)
        mean = float(orders.mean())
        return mean, (orders - mean) / len(orders)


class Decider:
    """Answers questions in waves, so that calls are full.

    Args:
        scorer: the model.
        seed: of the masks.
        race: when decisions are made, with looks after whole orders; the last look is the largest number of
            masks.
    """

    def __init__(self, scorer: Scorer, seed: int, race: Race) -> None:
        self.scorer, self.seed, self.race = scorer, seed, race
        self.design = Windows(race.looks[-1] // PER_ORDER)

    def answers(
        self, questions: Sequence[Question], exact: Sequence[dict[int, ScoredValue]]
    ) -> list[list[ScoredValue]]:
        """The values of the choices of each question.

        Args:
            questions: what is asked.
            exact: for each question the choices whose value is known without error.
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
        """Score further masks of all choices that need them; False if none does."""
        wanted = [(state, choice) for state in states for choice in np.flatnonzero(state.open())]
        if not wanted:
            return False
        texts = [state.question.choices[choice] for state, choice in wanted]
        key = QuestionKey(self.seed, questions=tuple(state.question.key for state, _ in wanted))
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
        place, n = table.hidden.column[begin:end], len(text.scored)
        yield np.stack(
            [np.bincount(place, table.hidden.log_prob[begin:end], n), np.bincount(place, minlength=n)]
        )


def looks_up_to(n_masks: int, *, racing: bool) -> tuple[int, ...]:
    """The looks of a race of at most so many masks a choice; only the last one without a race.

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
