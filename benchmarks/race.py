"""How often does the race of the lm-evaluation-harness adapter lose the best choice?

    python benchmarks/race.py

The choices of a question are simulated and nearly equal: the best is 2 % ahead. Diffuse doubt is spread over
all tokens; concentrated doubt is a single wrong token, which small masks seldom hide, although they weigh
most. Diffuse doubt is the same in all masks or falls as more tokens are visible, and each log-probability may
vary from mask to mask (lognormal, by a factor of e^0.3 or e^0.7). A race loses the best choice if it is
neither the winner nor in the tie.
"""

import math
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch

from maskevidence.core.tokens import Tokens
from maskevidence.lm_eval.harness import Contest
from maskevidence.lm_eval.race import Decider, Question, Race, looks_up_to
from maskevidence.lm_eval.texts import Continuation, TextScorer

RACE = Race(0.995, looks_up_to(64))
LOSS, BEHIND = 10.0, 1.02  # nats of the best choice, and how many times as much the others have
N_TOKENS, N_CHOICES, VARIES = (16, 32, 64), (2, 4), (0.0, 0.3, 0.7)
BEST = ("diffuse", "concentrated")


@dataclass(frozen=True)
class Doubt:
    """A model and its encoder: log-probabilities of the tokens of choices, of which all have n tokens.

    Attributes:
        tokens: shape (n_choices, n), nats; the context is the number of the choice, and that of the question.
        falls: whether diffuse doubt falls in proportion to the number of hidden tokens.
        varies: the standard deviation of the logarithm of a log-probability from mask to mask.
        rng: for that.
    """

    tokens: np.ndarray
    falls: bool
    varies: float
    rng: np.random.Generator

    def row(self, one: Continuation) -> tuple[list[int], int]:
        """As of an `Encoder`."""
        return [*one.context, *one.scored], len(one.context)

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        """As of a `MaskedModel`."""
        own, n = self.tokens[tokens.values[:, 0].numpy()], self.tokens.shape[1]
        if self.falls:
            size = masked.sum(1, keepdim=True).numpy()
            own = np.where(own.all(1, keepdims=True), own * 2 * size / (n + 1), own)
        if self.varies:
            normal = self.rng.standard_normal(own.shape)
            own = own * np.exp(self.varies * normal - self.varies**2 / 2)
        return torch.from_numpy(np.pad(own, ((0, 0), (masked.shape[1] - n, 0))))


def measure(n: int, n_choices: int, best: str, falls: bool, varies: float, n_races: int) -> tuple[float, ...]:
    """The shares of races that lose the best choice and that call a tie, and the mean passes a choice."""
    diffuse, concentrated = np.full(n, -LOSS / n), -LOSS * np.eye(1, n)[0]
    first, second = (diffuse, concentrated) if best == BEST[0] else (concentrated, diffuse)
    tokens = np.stack([first, *[second * BEHIND, first * BEHIND, second * BEHIND][: n_choices - 1]])
    model: Any = Doubt(tokens, falls, varies, np.random.default_rng([n, n_choices]))
    contest = Contest("acc", np.ones(n_choices))
    questions = []
    for key in range(n_races):
        choices = tuple(Continuation((number, key), tuple(range(n))) for number in range(n_choices))
        questions.append(Question(key, choices, (contest,)))
    answers = Decider(TextScorer(model, model), 0, RACE).answers(questions, [{}] * n_races)
    tied = [[number for number, one in enumerate(values) if one.ties] for values in answers]
    lost = [0 not in (among or [int(np.argmax(values))]) for among, values in zip(tied, answers, strict=True)]
    passes = [one.n_passes for values in answers for one in values]
    return float(np.mean(lost)), float(np.mean([bool(among) for among in tied])), float(np.mean(passes))


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=1000, help="races of each setting")
    options = parser.parse_args()
    lengths = (32,) if options.quick else N_TOKENS
    n_races = 5 if options.quick else options.races
    rows, numbers = [], []
    for n, n_choices, varies in product(lengths, N_CHOICES, VARIES):
        for best, falls in product(BEST, (False, True)):
            lost, ties, passes = measure(n, n_choices, best, falls, varies, n_races)
            setting = {"tokens": n, "choices": n_choices, "varies": varies, "best": best, "falls": falls}
            numbers.append(setting | {"lost": lost, "ties": ties, "passes": passes})
            named = (str(n), str(n_choices), f"{varies:g}", best, "falls" if falls else "the same")
            rows.append((*named, f"{lost:.4f}", f"{ties:.3f}", f"{passes:.1f}"))
    columns = ("tokens", "choices", "varies", "best choice", "diffuse doubt", "lost", "ties", "passes")
    show(f"{n_races} races of each setting; {machine()}", columns, rows)
    allowed = 1 - RACE.confidence
    margin = 3 * math.sqrt(allowed * RACE.confidence / n_races)
    lost = [one["lost"] for one in numbers]
    targets = [
        Target("races that lose the best choice, all settings", float(np.mean(lost)), high=allowed),
        Target("in the worst setting", max(lost), high=allowed + margin),
    ]
    return finish({"settings": numbers}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
