"""The demonstration: choose the number of components of PPCA on real images by held-out evidence."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskevidence.data.tabular import Table
from maskevidence.evidence import EvidenceEstimate
from maskevidence.held_out import Prepared, fit_held_out, score_rows
from maskevidence.masks import EverySize, MaskDesign
from maskevidence.models import PPCA
from maskevidence.progress import progress
from maskevidence.standard_errors import student_t_quantile

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
            scored.append((k, prepared, *score_rows(prepared, design, seed=seed)))
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
