"""Log evidence of any model that predicts hidden tokens from visible ones, with error bars one can trust."""

from maskevidence import models
from maskevidence.curve import Curve
from maskevidence.errors import InputError, MaskEvidenceError, MissingExtraError, NumericalError
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.masks import (
    EverySize,
    Exhaustive,
    FixedRate,
    LeaveOneOut,
    MaskDesign,
    Orderings,
    RandomSize,
    Rates,
)
from maskevidence.model import MaskedModel
from maskevidence.moments import GaussianMoments
from maskevidence.score import ScoreTable, score_masks
from maskevidence.tokens import Tokens

__version__ = "0.1.0"

__all__ = [
    "Curve",
    "EverySize",
    "EvidenceEstimate",
    "Exhaustive",
    "FixedRate",
    "GaussianMoments",
    "InputError",
    "LeaveOneOut",
    "MaskDesign",
    "MaskEvidenceError",
    "MaskedModel",
    "MissingExtraError",
    "NumericalError",
    "Orderings",
    "RandomSize",
    "Rates",
    "ScoreTable",
    "Tokens",
    "estimate_evidence",
    "models",
    "score_masks",
]
