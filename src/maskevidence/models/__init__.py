"""Models whose evidence can be estimated."""

from typing import TYPE_CHECKING, Any

from maskevidence.models._annealing import Annealing
from maskevidence.models._encode_decode import EncodingDecoding
from maskevidence.models._evidence_bound import EvidenceBound
from maskevidence.models._importance import ImportanceSampling
from maskevidence.models._quadrature import Grid, Importance
from maskevidence.models.bernoulli import BernoulliPCA
from maskevidence.models.factor_analysis import FactorAnalysis
from maskevidence.models.gaussian import Gaussian
from maskevidence.models.ppca import PPCA
from maskevidence.models.saving import load
from maskevidence.models.vae import VAE

if TYPE_CHECKING:
    from maskevidence.models.masked_image import MaskedImage
    from maskevidence.models.masked_lm import MaskedLM
    from maskevidence.models.reconstruction import ReconstructionLoss
    from maskevidence.models.whole_words import WholeWords

# name -> module: imported when first asked for
_LAZY = {
    "MaskedImage": "maskevidence.models.masked_image",
    "ReconstructionLoss": "maskevidence.models.reconstruction",
    "MaskedLM": "maskevidence.models.masked_lm",
    "WholeWords": "maskevidence.models.whole_words",
}

__all__ = [
    "PPCA",
    "VAE",
    "Annealing",
    "BernoulliPCA",
    "EncodingDecoding",
    "EvidenceBound",
    "FactorAnalysis",
    "Gaussian",
    "Grid",
    "Importance",
    "ImportanceSampling",
    "MaskedImage",
    "MaskedLM",
    "ReconstructionLoss",
    "WholeWords",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
