"""Log evidence of any model that predicts hidden tokens from visible ones, with error bars one can trust."""

from maskevidence import data, models
from maskevidence.comparison import Comparison, Difference, compare
from maskevidence.curve import Curve
from maskevidence.errors import InputError, MaskEvidenceError, MissingExtraError, NumericalError
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.gaussian_moments import GaussianMoments
from maskevidence.imputation import Imputation, impute
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
from maskevidence.rate_bias import RateBias, bias
from maskevidence.score import score_masks
from maskevidence.score_table import ScoreTable
from maskevidence.tokens import Tokens
from maskevidence.training.fit import History, fit
from maskevidence.training.objectives import Elbo, Likelihood, MaskedObjective

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
