"""Values of continuations, and decisions between them with as few masks as they take."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.integrations.lm_eval.drawing import PER_DRAW, size_controls, window_masks
from maskevidence.integrations.lm_eval.harness_tasks import Contest
from maskevidence.integrations.lm_eval.race import Race, without_line
from maskevidence.integrations.lm_eval.requests import Continuation
from maskevidence.integrations.lm_eval.scored_value import ScoredValue
from maskevidence.integrations.lm_eval.scoring import MaskedText, Scorer


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
        values: of each choice, one per mask: n/M times the sum of its log-probabilities.
        tokens: of each choice, shape (2, n): the sum of each token's log-probabilities, and their number.
        running: which choices run in each contest.
        finished: for each contest, whether it is decided or a tie.
        controls: shape (n_masks,); of the sizes of all masks so far, with expectation 0.
    """

    question: Question
    exact: dict[int, ScoredValue]
    controls: Float64[np.ndarray, " n_masks"] = field(default_factory=lambda: np.zeros(0))
    values: list[list[float]] = field(default_factory=list)
    tokens: list[Float64[np.ndarray, "2 n"]] = field(default_factory=list)
    running: list[Bool[np.ndarray, " n_choices"]] = field(default_factory=list)
    finished: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.question.choices)
        self.values = [[] for _ in range(n)]
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

    def look(self, race: Race, n_masks: int) -> None:
        """Find out which choices run on after so many masks.

        Every mask counts as a draw of its own. The masks of one draw are less alike than independent ones, so
        that their values vary more among each other than their mean does from draw to draw: the race is
        careful.
        """
        values = np.zeros((n_masks, len(self.question.choices)))
        for choice, own in enumerate(self.values):
            values[:, choice] = (
                self.exact[choice] if choice in self.exact else (own + [0.0] * n_masks)[:n_masks]
            )
        contests = zip(self.question.contests, self.question.offsets, strict=True)
        for number, (contest, offset) in enumerate(contests):
            if not self.finished[number]:
                own = values * contest.scale + offset
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
        lengths = [len(own) for own in self.values]
        longest = int(np.argmax(lengths))
        return [
            self.exact[choice] if choice in self.exact else self._value(choice, longest)
            for choice in range(len(lengths))
        ]

    def _ties(self, choice: int) -> tuple[str, ...]:
        """The contests in which a choice and others still run at the end."""
        contests = zip(self.question.contests, self.running, strict=True)
        return tuple(one.name for one, running in contests if running.sum() > 1 and running[choice])

    def _value(self, choice: int, longest: int) -> ScoredValue:
        """The mean over the draws of a choice; one that left the race follows the one with most draws.

        Its value is its mean difference to that one on the masks that both have, added to that one's mean:
        the order in which the race has put them stays, and what both have in common has the smaller error.
        """
        own, other = np.array(self.values[choice]), np.array(self.values[longest])
        value, deviation = self._mean(own)
        if len(other) > len(own):
            difference, deviation = self._mean(own - other[: len(own)])
            rest, of_rest = self._mean(other)
            value = difference + rest
            of_rest[: len(deviation)] += deviation
            deviation = of_rest
        n_masks = len(self.values[choice])
        return ScoredValue(value, deviation, n_masks, self.question.key, self._ties(choice))

    def _mean(self, values: Float64[np.ndarray, " n_masks"]) -> tuple[float, Float64[np.ndarray, " n_draws"]]:
        """The mean over masks, and what each draw adds to its error.

        In a race, what depends on the sizes along a straight line is taken out first, as the race does, so
        that the largest value is that of the choice that has won. The mean of a fixed number of masks is left
        as it is, which is unbiased.
        """
        if self.question.contests:
            values = without_line(values[:, None], self.controls[: len(values)])[:, 0]
        draws = values.reshape(-1, PER_DRAW).mean(1)
        mean = float(draws.mean())
        return mean, (draws - mean) / len(draws)


class Decider:
    """Answers questions in waves, so that calls are full.

    Args:
        scorer: the model.
        seed: of the masks.
        race: when decisions are made, with looks after whole draws; the last look is the largest number of
            masks.
    """

    def __init__(self, scorer: Scorer, seed: int, race: Race) -> None:
        self.scorer, self.seed, self.race = scorer, seed, race

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
                    state.look(self.race, look)
            done = look
        return [state.answer() for state in states]

    def _draw(self, states: Sequence[_State], masks: range) -> bool:
        """Score further masks of all choices that need them; False if none does."""
        wanted = [(state, choice) for state in states for choice in np.flatnonzero(state.open()).tolist()]
        if not wanted:
            return False
        draws = range(masks.start // PER_DRAW, masks.stop // PER_DRAW)
        for state in states:
            if state.open().any():
                new = size_controls(self.seed, state.question.key, draws)
                state.controls = np.concatenate([state.controls, new])
        masks_of = [
            [
                window_masks(self.seed, state.question.key, draw, len(state.tokens[choice][0]))
                for draw in draws
            ]
            for state, choice in wanted
        ]
        texts = [
            MaskedText(state.question.choices[choice], hidden)
            for (state, choice), drawn in zip(wanted, masks_of, strict=True)
            for one in drawn
            for hidden in one.hidden
        ]
        log_probs = iter(self.scorer.token_log_probs(texts))
        for (state, choice), drawn in zip(wanted, masks_of, strict=True):
            for one in drawn:
                for hidden, factor in zip(one.hidden, one.factor, strict=True):
                    own = next(log_probs)
                    state.values[choice].append(float(own.sum() * factor * PER_DRAW))
                    state.tokens[choice][:, hidden] += [own, np.ones(len(own))]
        return True


def looks_up_to(n_masks: int, *, racing: bool) -> tuple[int, ...]:
    """The looks of a race of at most so many masks a choice; only the last one without a race.

    Example:
        >>> looks_up_to(24, racing=True), looks_up_to(64, racing=False)
        ((8, 12, 16, 20, 24), (64,))
    """
    last = PER_DRAW * max(2, math.ceil(n_masks / PER_DRAW))
    return (*(look for look in _growing() if look < last), last) if racing else (last,)


def _growing() -> Iterator[int]:
    step = 2 * PER_DRAW
    while step < 2**30:
        yield step
        if step > 2 * PER_DRAW:
            yield step * 5 // 4
        yield step * 3 // 2
        step *= 2
