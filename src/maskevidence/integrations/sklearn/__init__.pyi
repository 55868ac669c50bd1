from .bernoulli import BernoulliPCA as BernoulliPCA
from .gaussian import PPCA as PPCA
from .gaussian import FactorAnalysis as FactorAnalysis
from .gaussian import GaussianDensity as GaussianDensity
from .imputer import MaskedImputer as MaskedImputer
from .kernels import KernelGaussianDensity as KernelGaussianDensity
from .regressor_density import MaskedRegressorDensity as MaskedRegressorDensity
from .scoring import evidence_scorer as evidence_scorer
