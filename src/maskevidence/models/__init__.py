"""Models whose evidence can be estimated."""

from maskevidence.models.factor_analysis import FactorAnalysis
from maskevidence.models.gaussian import Gaussian
from maskevidence.models.ppca import PPCA
from maskevidence.models.saving import load

__all__ = ["PPCA", "FactorAnalysis", "Gaussian", "load"]
