from .bernoulli import BernoulliPCA as BernoulliPCA
from .gaussian import PPCA as PPCA
from .gaussian import FactorAnalysis as FactorAnalysis
from .gaussian import GaussianDensity as GaussianDensity
from .gaussian import KernelGaussianDensity as KernelGaussianDensity
from .imputer import MaskedImputer as MaskedImputer
from .regressor_density import MaskedRegressorDensity as MaskedRegressorDensity
from .scoring import evidence_scorer as evidence_scorer
