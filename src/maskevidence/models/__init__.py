"""Models whose log evidence can be estimated, and what their estimators are set up with.

Nothing is imported until it is asked for (PEP 562): a Gaussian needs no transformers, and the command line
reads its words without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as in the tables below, for type checkers
    from maskevidence.models.bernoulli.bernoulli_pca import BernoulliPCA as BernoulliPCA
    from maskevidence.models.bernoulli.quadrature import Grid as Grid
    from maskevidence.models.bernoulli.quadrature import Importance as Importance
    from maskevidence.models.gaussian.factor_analysis import FactorAnalysis as FactorAnalysis
    from maskevidence.models.gaussian.full_covariance import Gaussian as Gaussian
    from maskevidence.models.gaussian.ppca import PPCA as PPCA
    from maskevidence.models.image.masked_image import MaskedImage as MaskedImage
    from maskevidence.models.image.reconstruction import ReconstructionLoss as ReconstructionLoss
    from maskevidence.models.saving import load as load
    from maskevidence.models.text.masked_lm import MaskedLM as MaskedLM
    from maskevidence.models.text.whole_words import WholeWords as WholeWords
    from maskevidence.models.vae.annealing import Annealing as Annealing
    from maskevidence.models.vae.encoding_decoding import EncodingDecoding as EncodingDecoding
    from maskevidence.models.vae.evidence_bound import EvidenceBound as EvidenceBound
    from maskevidence.models.vae.importance_sampling import ImportanceSampling as ImportanceSampling
    from maskevidence.models.vae.vae import VAE as VAE

# The classes that `load` reads from a folder, each with its module.
TABLE_MODELS = {
    "Gaussian": "gaussian.full_covariance",
    "PPCA": "gaussian.ppca",
    "FactorAnalysis": "gaussian.factor_analysis",
    "BernoulliPCA": "bernoulli.bernoulli_pca",
    "VAE": "vae.vae",
}
_MODULES = TABLE_MODELS | {
    "Annealing": "vae.annealing",
    "EncodingDecoding": "vae.encoding_decoding",
    "EvidenceBound": "vae.evidence_bound",
    "Grid": "bernoulli.quadrature",
    "Importance": "bernoulli.quadrature",
    "ImportanceSampling": "vae.importance_sampling",
    "MaskedImage": "image.masked_image",
    "MaskedLM": "text.masked_lm",
    "ReconstructionLoss": "image.reconstruction",
    "WholeWords": "text.whole_words",
    "load": "saving",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
