"""scikit-learn's own checks of estimators pass on each of ours, with none expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maskevidence.sklearn import (
    PPCA,
    BernoulliPCA,
    FactorAnalysis,
    GaussianDensity,
    InformationSelector,
    KernelGaussianDensity,
    MaskedImputer,
    MaskedNetworkDensity,
)

NETWORK = MaskedNetworkDensity(width=2, layers=1, epochs=1, random_state=0)
QUICK = [
    PPCA(),
    FactorAnalysis(tol=1e-4),
    GaussianDensity(),
    MaskedImputer(PPCA(1, tol=1e-2), cv=2, random_state=0),
    BernoulliPCA(binarize=0.0, max_iter=5),  # the checks give real numbers, not 0 and 1
    InformationSelector("gaussian", alpha=1, folds=3, random_state=0),  # features of noise, too
]
LONG = [
    KernelGaussianDensity(shrinkage=0.1, random_state=0),
    NETWORK,
    MaskedImputer(random_state=0),
    MaskedImputer(NETWORK, random_state=0),
]


def run(check, estimator) -> None:
    if check.func.__name__ != "check_array_api_input":  # which scikit-learn skips without SCIPY_ARRAY_API
        check(estimator)


@pytest.mark.filterwarnings("ignore:the noise variance of")  # the checks give few rows
@parametrize_with_checks(QUICK)
def test_scikit_learns_checks(estimator, check) -> None:
    run(check, estimator)


@pytest.mark.slow
@parametrize_with_checks(LONG)
def test_scikit_learns_checks_of_what_takes_longer(estimator, check) -> None:
    run(check, estimator)
