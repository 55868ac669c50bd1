"""Log evidence of any model that predicts hidden tokens from visible ones, with error bars one can trust."""

from maskevidence import data, models
from maskevidence.bias import RateBias, bias
from maskevidence.compare import Comparison, Difference, compare
from maskevidence.curve import Curve
from maskevidence.elbo import Elbo
from maskevidence.errors import InputError, MaskEvidenceError, MissingExtraError, NumericalError
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.impute import Imputation, impute
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
from maskevidence.objective import Likelihood, MaskedObjective
from maskevidence.score import ScoreTable, score_masks
from maskevidence.tokens import Tokens
from maskevidence.training import History, fit

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Curve",
    "Difference",
    "Elbo",
    "EverySize",
    "EvidenceEstimate",
    "Exhaustive",
    "FixedRate",
    "GaussianMoments",
    "History",
    "Imputation",
    "InputError",
    "LeaveOneOut",
    "Likelihood",
    "MaskDesign",
    "MaskEvidenceError",
    "MaskedModel",
    "MaskedObjective",
    "MissingExtraError",
    "NumericalError",
    "Orderings",
    "RandomSize",
    "RateBias",
    "Rates",
    "ScoreTable",
    "Tokens",
    "bias",
    "compare",
    "data",
    "estimate_evidence",
    "fit",
    "impute",
    "models",
    "score_masks",
]
