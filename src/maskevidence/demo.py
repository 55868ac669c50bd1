"""The demonstration: PPCA on real images chosen by held-out evidence, and a small BERT trained on English
text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maskevidence.curve import Curve
from maskevidence.data.tabular import Table
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.masks import EverySize, MaskDesign, MaskKey, RandomSize, Rates
from maskevidence.models import PPCA
from maskevidence.score import Scoring
from maskevidence.standard_errors import student_t_quantile
from maskevidence.support.progress import progress
from maskevidence.tasks.prepare_rows import fit_held_out
from maskevidence.tasks.prepared import Prepared
from maskevidence.tasks.score import score_prepared

if TYPE_CHECKING:
    from maskevidence.models.text.masked_lm import MaskedLM

COMPONENTS = (2, 8, 16, 24, 32, 40, 48, 56)


@dataclass(frozen=True)
class Candidate:
    """One number of components, and how well its model does on the held-out rows.

    Attributes:
        n_components: K.
        prepared: the fitted model and the held-out rows.
        result: as in estimate.json.
        estimate: of the held-out log evidence.
        behind: by how much it is behind the best candidate, nats per observation; 0 for the best.
        behind_se: standard error of that over the same observations and masks; 0 for the best.
    """

    n_components: int
    prepared: Prepared
    result: dict[str, Any]
    estimate: EvidenceEstimate
    behind: float
    behind_se: float


def choose_components(
    table: Table,
    components: Sequence[int] = COMPONENTS,
    design: MaskDesign | None = None,
    seed: int = 0,
) -> list[Candidate]:
    """Fit PPCA with each number of components to the same training rows; score all on the same held-out rows.

    The masks are the same for all candidates, so that their differences have a small error.

    Args:
        table: all rows.
        components: the numbers to try.
        design: of the masks; by default two masks of every size.
        seed: of the held-out rows and of the masks.

    Returns:
        The candidates, best first.
    """
    design = EverySize(masks_per_size=2) if design is None else design
    scored = []
    with progress("numbers of components", len(components)) as advance:
        for k in components:
            prepared = fit_held_out(_builder(k), table, seed=seed)
            scored.append((k, prepared, *score_prepared(prepared, Scoring(design, MaskKey(seed)))))
            advance(1)
    best = max(scored, key=lambda entry: entry[3].log_evidence)[3]
    candidates = []
    for k, prepared, result, estimate in scored:
        difference = best.per_observation - estimate.per_observation
        se = float(difference.std(ddof=1) / np.sqrt(len(difference)))
        candidates.append(Candidate(k, prepared, result, estimate, float(difference.mean()), se))
    return sorted(candidates, key=lambda candidate: candidate.behind)


def smallest_of_the_best(candidates: Sequence[Candidate], level: float = 0.95) -> Candidate:
    """The smallest model that cannot be told apart from the best: the difference's interval holds zero.

    Args:
        candidates: best first, from `choose_components`.
        level: of the interval.
    """
    width = student_t_quantile(0.5 + level / 2, math.inf)
    equals = [candidate for candidate in candidates if candidate.behind <= width * candidate.behind_se]
    return min(equals, key=lambda candidate: candidate.n_components)


def _builder(n_components: int) -> Callable[[int], PPCA]:
    return lambda n_features: PPCA(n_features, n_components)


BERT_STEPS = 1000
BERT_RATES = (0.05, 0.1, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)


@dataclass(frozen=True)
class TrainedBert:
    """A small BERT before and after it was trained by random mask sizes on the text that comes with Python.

    Attributes:
        model: the trained one.
        before: held-out log evidence of the random weights.
        after: the same of the trained ones, on the same masks.
        curve_before: held-out score at each of `BERT_RATES`, nats per hidden token.
        curve_after: the same of the trained weights.
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
        """Whether what is visible helps: S at 5 % is half a nat above S at 100 %, and above the unigram's."""
        few, all_hidden = self.curve_after.score[0], self.curve_after.score[-1]
        return bool(few - all_hidden >= 0.5 and few > self.unigram)


def train_bert(
    steps: int = BERT_STEPS, seed: int = 0, vocabulary_size: int | None = None, limit: int | None = None
) -> TrainedBert:
    """Train a BERT with 2 layers of 128 and its own word pieces, and score it on the held-out tenth of the
    text.

    Args:
        steps: of 32 blocks of 64 tokens.
        seed: of weights, order and masks.
        vocabulary_size: word pieces; by default 2,048.
        limit: score the first so many held-out blocks only.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    from maskevidence.integrations.huggingface.recipe import Recipe
    from maskevidence.tasks.embedded_text import embedded_text

    text = embedded_text(vocabulary_size)
    recipe = Recipe(steps=steps, warmup=min(50, steps // 2), seed=seed)
    models = {"before": text.new_model(seed), "after": text.trained(RandomSize(1, 1), recipe)}
    held_out = text.held_out[:limit]
    estimates = {
        name: estimate_evidence(model, held_out, RandomSize(8), seed=seed) for name, model in models.items()
    }
    curves = {
        name: estimate_evidence(model, held_out, Rates(BERT_RATES), seed=seed).curve
        for name, model in models.items()
    }
    return TrainedBert(
        model=models["after"],
        before=estimates["before"],
        after=estimates["after"],
        curve_before=curves["before"],
        curve_after=curves["after"],
        unigram=text.unigram_score(),
    )
