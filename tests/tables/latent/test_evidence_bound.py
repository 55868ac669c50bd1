"""The errors of a stochastic bound, against their definitions."""

import numpy as np
import pytest
import torch

from maskevidence.models import EvidenceBound


def test_the_standard_error_is_that_of_a_mean_of_few_weights() -> None:
    """s/(√S · mean) with the sample variance s² of the S weights, by the delta method for the logarithm."""
    weights = np.random.default_rng(0).lognormal(size=(5, 3))
    bound = EvidenceBound.from_log_weights("weights", torch.from_numpy(np.log(weights)))
    expected = weights.std(axis=1, ddof=1) / np.sqrt(3) / weights.mean(axis=1)
    np.testing.assert_allclose(bound.standard_error, expected, rtol=1e-9)
    np.testing.assert_allclose(bound.log_evidence, np.log(weights.mean(axis=1)), rtol=1e-9)
    assert bound.draw_se == pytest.approx(np.sqrt((expected**2).sum()) / 5)


def test_the_error_of_the_observations_leaves_out_that_of_the_draws() -> None:
    """data_se² = (s²(log p) - mean of the draws' variances)/n, with the sample variance over n rows."""
    rng = np.random.default_rng(1)
    log_weights = rng.normal(size=(4, 1)) * 3 + rng.normal(size=(4, 50)) / 3
    bound = EvidenceBound.from_log_weights("weights", torch.from_numpy(log_weights))
    spread = bound.log_evidence.var(ddof=1) - (bound.standard_error**2).mean()
    assert bound.data_se == pytest.approx(np.sqrt(spread / 4))
