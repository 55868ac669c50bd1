"""The demonstration: PPCA on real images chosen by held-out evidence, and a small BERT on English text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from maskevidence.comparison import Difference, compare
from maskevidence.curve import Curve
from maskevidence.data.table import Table
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.masks import EverySize, MaskDesign, MaskKey, RandomSize, Rates
from maskevidence.models import PPCA
from maskevidence.runs import Manifest
from maskevidence.score import Scoring
from maskevidence.support.progress import progress
from maskevidence.tasks.prepare_rows import fit_held_out
from maskevidence.tasks.prepared import Prepared
from maskevidence.tasks.score import manifest_of, score_prepared

if TYPE_CHECKING:
    from maskevidence.models.text.masked_lm import MaskedLM

COMPONENTS = (2, 8, 16, 24, 32, 40, 48, 56)
BERT_STEPS = 1000
_FLAT = 0.1  # of the gain from visible tokens: a fall by less is none
BERT_RATES = (0.05, 0.1, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)


@dataclass(frozen=True)
class Candidate:
    """One number of components, and how well its model does on the held-out rows.

    Attributes:
        n_components: K.
        prepared: the fitted model and the held-out rows.
        manifest: what decides the numbers.
        result: the content of estimate.json.
        estimate: the held-out log evidence.
        behind: the best candidate minus this one, over the same observations and masks; None for the best.
    """

    n_components: int
    prepared: Prepared
    manifest: Manifest
    result: dict[str, Any]
    estimate: EvidenceEstimate
    behind: Difference | None


def choose_components(
    table: Table,
    components: Sequence[int] = COMPONENTS,
    design: MaskDesign | None = None,
    seed: int = 0,
) -> list[Candidate]:
    """Fit PPCA with each number of components to the same rows, and score all on the same held-out rows.

    The masks are the same for all candidates, so that the differences between them have a small error.

    Args:
        table: all rows.
        components: the numbers of components.
        design: the mask design; by default two masks of every size.
        seed: random seed for the masks and the train/test split.

    Returns:
        The candidates, best first.
    """
    scoring = Scoring(EverySize(masks_per_size=2) if design is None else design, MaskKey(seed))
    scored = []
    with progress("numbers of components", len(components)) as advance:
        for k in components:
            prepared = fit_held_out(partial(PPCA, n_components=k), table, seed=seed)
            scored.append((k, prepared, *score_prepared(prepared, scoring)))
            advance(1)
    comparison = compare({f"ppca:{k}": estimate for k, *_, estimate in scored})
    behind = {difference.second: difference for difference in comparison.behind}
    candidates = {}
    for k, prepared, result, estimate in scored:
        name, n_rows = f"ppca:{k}", len(prepared.tokens)
        manifest = manifest_of(name, prepared, scoring, n_rows, closed_form=result["closed_form"])
        candidates[name] = Candidate(k, prepared, manifest, result, estimate, behind.get(name))
    return [candidates[name] for name in comparison.names]


@dataclass(frozen=True)
class TrainedBert:
    """A small BERT before and after training by random mask sizes on the text that comes with Python.

    Attributes:
        model: the trained model.
        before: the held-out log evidence with random weights.
        after: the held-out log evidence of the trained model, on the same masks.
        curve_before: the held-out score at each of `BERT_RATES` with random weights, nats per hidden token.
        curve_after: the held-out score at these rates after training.
        unigram: the score of word frequencies alone.
    """

    model: "MaskedLM"
    before: EvidenceEstimate
    after: EvidenceEstimate
    curve_before: Curve
    curve_after: Curve
    unigram: float

    @property
    def shaped(self) -> bool:
        """Whether visible tokens help: S at 5 % is half a nat above S at 100 %, and above `unigram`."""
        few, all_hidden = self.curve_after.score[0], self.curve_after.score[-1]
        return bool(few - all_hidden >= 0.5 and few > self.unigram)

    def in_words(self) -> str:
        """What the curve of the trained model says of visible tokens, in a sentence or two."""
        scores = [float(score) for score in self.curve_after.score]
        gain = scores[0] - scores[-1]
        ends = (
            f"a hidden token scores {scores[0]:.2f} where 5 % of the tokens are hidden and {scores[-1]:.2f}"
        )
        if not self.shaped:
            return f"Visible tokens help little: {ends} where all are."
        told = f"Visible tokens help: {ends} where all are."
        flat = max(k for k, score in enumerate(scores) if score > scores[0] - _FLAT * gain)
        if flat == 0:
            return told
        return (
            f"{told} Up to {100 * BERT_RATES[flat]:.0f} % hidden the curve is almost flat: a few visible "
            "tokens help it about as much as many."
        )


def train_bert(
    steps: int = BERT_STEPS, seed: int = 0, vocabulary_size: int | None = None, limit: int | None = None
) -> TrainedBert:
    """Train a BERT with 2 layers of width 128 and its own word pieces, and score it on a tenth of the text.

    Args:
        steps: the number of steps, with 32 blocks of 64 tokens each.
        seed: random seed for weights, order and masks.
        vocabulary_size: the number of word pieces; by default 2,048.
        limit: the number of held-out blocks to score; by default all.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    from maskevidence.integrations.huggingface.recipe import Recipe
    from maskevidence.tasks.embedded_text import embedded_text

    text = embedded_text(vocabulary_size)
    held_out = text.held_out[:limit]
    recipe = Recipe(steps=steps, warmup=min(50, steps // 2), seed=seed)
    models = (text.new_model(seed), text.trained(RandomSize(1, 1), recipe))
    before, after = (estimate_evidence(model, held_out, RandomSize(8), seed=seed) for model in models)
    at_rates = [estimate_evidence(model, held_out, Rates(BERT_RATES), seed=seed).curve for model in models]
    return TrainedBert(models[1], before, after, at_rates[0], at_rates[1], text.unigram_score())
