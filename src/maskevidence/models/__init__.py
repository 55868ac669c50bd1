"""Models whose evidence can be estimated."""

from typing import TYPE_CHECKING, Any

from maskevidence.models.bernoulli.bernoulli_pca import BernoulliPCA
from maskevidence.models.bernoulli.quadrature import Grid, Importance
from maskevidence.models.gaussian.factor_analysis import FactorAnalysis
from maskevidence.models.gaussian.full_covariance import Gaussian
from maskevidence.models.gaussian.ppca import PPCA
from maskevidence.models.saving import load
from maskevidence.models.vae.annealing import Annealing
from maskevidence.models.vae.encoding_decoding import EncodingDecoding
from maskevidence.models.vae.evidence_bound import EvidenceBound
from maskevidence.models.vae.importance_sampling import ImportanceSampling
from maskevidence.models.vae.vae import VAE

if TYPE_CHECKING:
    from maskevidence.models.image.masked_image import MaskedImage
    from maskevidence.models.image.reconstruction import ReconstructionLoss
    from maskevidence.models.text.masked_lm import MaskedLM
    from maskevidence.models.text.whole_words import WholeWords

# name -> module: imported when first asked for
_LAZY = {
    "MaskedImage": "maskevidence.models.image.masked_image",
    "ReconstructionLoss": "maskevidence.models.image.reconstruction",
    "MaskedLM": "maskevidence.models.text.masked_lm",
    "WholeWords": "maskevidence.models.text.whole_words",
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
