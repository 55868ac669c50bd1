"""The Gaussian answer of a masked network against block-matrix conditioning."""

import numpy as np
import torch

from maskevidence.tables.network.gaussian_answer import GaussianAnswer
from oracles import condition


def test_hidden_inputs_get_the_textbook_mean_and_deviation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 6)) + rng.normal(size=(300, 6))
    answer, ids = GaussianAnswer(6).double(), np.arange(300)
    answer.fit(x, ids, 0)
    visible = rng.random(x.shape) < rng.random((300, 1))  # none of some rows, all of others
    visible[0], visible[1] = False, True
    assert answer.of_folds is not None
    for of_rows in (None, torch.from_numpy(ids)):
        found = answer(torch.from_numpy(x), torch.from_numpy(visible), of_rows).numpy()
        for row in range(0, 300, 7):
            k = None if of_rows is None else answer.fold_of[row]
            mean = (answer.mean if k is None else answer.of_folds[0][k]).numpy()
            precision = (answer.precision if k is None else answer.of_folds[1][k]).numpy()
            z = (x[row] - answer.shift.numpy()) / answer.scale.numpy()
            expected, covariance = condition(mean, np.linalg.inv(precision), z, visible[row])
            np.testing.assert_allclose(found[row, :6], np.clip(expected, -8, 8), atol=1e-9)
            np.testing.assert_allclose(found[row, 6:], np.sqrt(np.diag(covariance).clip(0)), atol=1e-7)
