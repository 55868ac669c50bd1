"""A density of reshaped columns is a density, and its draws come back to the columns' own units."""

import numpy as np
import torch

import maskevidence as me
from maskevidence.tables.reshaped import Reshaped


def skewed(n: int) -> np.ndarray:
    """A long tail to the right, and a shorter one to the left."""
    z = np.random.default_rng(0).normal(size=(n, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    return np.column_stack([np.exp(z[:, 0]), -np.log1p(np.exp(-2 * z[:, 1]))])


def test_its_conditionals_integrate_to_one() -> None:
    model = Reshaped(me.models.Gaussian(n_features=2), skewed(500))
    grid = np.linspace(-30, 200, 400_001)
    masked = torch.zeros((len(grid), 2), dtype=torch.bool)
    masked[:, 0] = True
    tokens = me.Tokens.from_array(np.column_stack([grid, np.full(len(grid), -1.0)]))
    with torch.no_grad():
        density = model.log_conditionals(tokens, masked)[:, 0].exp().numpy()
    assert abs(np.trapezoid(density, grid) - 1) < 1e-3


def test_long_tails_surprise_less() -> None:
    rows = skewed(1000)
    model = Reshaped(me.models.Gaussian(n_features=2), rows[:500])
    plain = me.models.Gaussian(n_features=2).fit(rows[:500])
    tokens, masked = me.Tokens.from_array(rows[500:]), torch.tensor([[True, False]]).repeat(500, 1)
    with torch.no_grad():
        reshaped, before = (each.log_conditionals(tokens, masked)[:, 0] for each in (model, plain))
    assert reshaped.mean() > before.mean() + 0.5
    assert reshaped.min() > before.min() + 5


def test_draws_are_in_the_units_of_the_columns() -> None:
    rows = skewed(1000)
    model = Reshaped(me.models.Gaussian(n_features=2), rows)
    holes = np.tile([[np.nan, -1.0], [2.0, np.nan]], (2000, 1))
    (drawn,) = model.draw_missing(holes, 1, seed=0)
    assert (drawn[~np.isnan(holes)] == holes[~np.isnan(holes)]).all()
    near = np.abs(rows[:, 1] + 1) < 0.2
    np.testing.assert_allclose(np.median(drawn[::2, 0]), np.median(rows[near, 0]), rtol=0.25)
