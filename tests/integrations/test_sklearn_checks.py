"""scikit-learn's own checks of estimators pass on each of ours, with none expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maskevidence.integrations.sklearn import (
    PPCA,
    BernoulliPCA,
    FactorAnalysis,
    GaussianDensity,
    KernelGaussianDensity,
    MaskedImputer,
    MaskedNetworkDensity,
)

ESTIMATORS = [
    PPCA(),
    FactorAnalysis(tol=1e-4),
    GaussianDensity(),
    KernelGaussianDensity(shrinkage=0.1, random_state=0),
    MaskedImputer(random_state=0),
    MaskedImputer(MaskedNetworkDensity(width=8, epochs=2, random_state=0), random_state=0),
    MaskedNetworkDensity(width=8, epochs=2, random_state=0),
    BernoulliPCA(binarize=0.0, max_iter=5),  # the checks give real numbers, not 0 and 1
]


@pytest.mark.filterwarnings("ignore:the noise variance of")  # the checks give few rows
@pytest.mark.usefixtures("unchecked")  # the checks give arguments of wrong types on purpose
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator, check) -> None:
    check(estimator)
