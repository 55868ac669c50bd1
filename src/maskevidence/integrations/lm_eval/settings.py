"""The settings of an evaluation, checked before a model is loaded."""

from dataclasses import dataclass

from maskevidence.errors import InputError
from maskevidence.integrations.lm_eval.deciding import looks_up_to
from maskevidence.integrations.lm_eval.harness import DECISIONS
from maskevidence.integrations.lm_eval.race import Race
from maskevidence.integrations.lm_eval.values import design_of

_DECISION = "decision"
_CONFIDENCE = 0.995


@dataclass(frozen=True)
class Settings:
    """How answers are estimated."""

    score: str  # the score of a continuation; see `design_of`
    race: Race  # the looks and the confidence of decisions; a single look without a race
    racing: bool  # whether decisions are raced
    n_masks: int  # the largest number of masks of a continuation
    seed: int  # seed of the masks
    greedy: str  # "auto", "always" or "never"
    metrics: tuple[str, ...] | None  # the metrics of tasks whose metrics are unknown; None for no assumption

    @classmethod
    def parse(
        cls, *, score: str, target: object, masks: object, seed: object, greedy: str, metrics: object
    ) -> "Settings":
        """Settings from the words of --model_args.

        Example:
            >>> words = {"score": "evidence", "masks": 64, "seed": 0, "greedy": "auto", "metrics": None}
            >>> Settings.parse(target="decision:0.99", **words).race.confidence
            0.99
            >>> Settings.parse(target=16, **words).race.looks
            (16,)
        """
        design_of(score, 1)
        racing, confidence, n_masks = True, _CONFIDENCE, _whole("masks", masks, 4)
        word, _, rest = str(target).partition(":")
        if word == _DECISION:
            confidence = _probability(rest) if rest else _CONFIDENCE
        else:
            racing, n_masks = False, _whole("target", target, 4, "decision, decision:0.995 or")
        if greedy not in ("auto", "always", "never"):
            raise InputError(f"greedy={greedy!r}; give auto, always or never")
        names = None if metrics is None else tuple(str(metrics).replace("+", " ").split())
        if names is not None and not set(names) <= set(DECISIONS):
            raise InputError(f"metrics={metrics!r}; give some of {', '.join(DECISIONS)}, joined by +")
        looks = looks_up_to(n_masks, racing=racing)
        return cls(score, Race(confidence, looks), racing, n_masks, _whole("seed", seed, 0), greedy, names)

    def described(self) -> dict[str, str]:
        """The settings that decide the answers, as text."""
        target = f"decision:{self.race.confidence:g}" if self.racing else str(self.n_masks)
        return {"score": self.score, "target": target, "masks": str(self.n_masks), "seed": str(self.seed)}


def _whole(name: str, value: object, least: int, words: str = "") -> int:
    """A whole number of `least` or more."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least or number >= 2**63:
        raise InputError(f"{name}={value}; give {words} a whole number of {least} or more".replace("  ", " "))
    return number


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.5 < value < 1:
        raise InputError(f"target=decision:{text}; give a probability above 0.5 and below 1, such as 0.995")
    return value
