from .base import evidence_scorer as evidence_scorer
from .densities import PPCA as PPCA
from .densities import BernoulliPCA as BernoulliPCA
from .densities import FactorAnalysis as FactorAnalysis
from .densities import GaussianDensity as GaussianDensity
from .densities import KernelGaussianDensity as KernelGaussianDensity
from .imputer import MaskedImputer as MaskedImputer
from .network_density import MaskedNetworkDensity as MaskedNetworkDensity
