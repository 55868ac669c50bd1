"""What all models of rows share: units, the width of a table, sampling, and no hidden state."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.tables.base import TableModel

D = 5
GAUSSIANS: dict[str, Callable[[], TableModel]] = {
    "Gaussian": lambda: me.models.Gaussian(n_features=D),
    "PPCA": lambda: me.models.PPCA(D, 2, seed=1),
    "FactorAnalysis": lambda: me.models.FactorAnalysis(D, 2, seed=1),
}
KEEPING: dict[str, Callable[[], TableModel]] = {
    "BernoulliPCA": lambda: me.models.BernoulliPCA(D, 1, encoder=True),
    "VAE": lambda: me.models.VAE(n_features=D, n_components=2, hidden=(4,)),
    "Bernoulli VAE": lambda: me.models.VAE(likelihood="bernoulli", n_features=D, n_components=2, hidden=(4,)),
}
every_model = pytest.mark.parametrize("new", (GAUSSIANS | KEEPING).values(), ids=[*GAUSSIANS, *KEEPING])
gaussians = pytest.mark.parametrize("new", GAUSSIANS.values(), ids=GAUSSIANS)


def rows(n: int = 20) -> np.ndarray:
    """Rows of 0 and 1, which every model takes, with some values missing."""
    x = np.random.default_rng(0).integers(2, size=(n, D)).astype(np.float64)
    x[0, 1] = x[3, 4] = np.nan
    return x


@gaussians
def test_a_model_in_standard_units_is_the_same_density_in_the_datas(new: Callable[[], TableModel]) -> None:
    model = new()
    x = me.models.PPCA(D, 2, seed=2).sample(50) * 30 + 4
    shift, scale = model.units(x)
    standard = (x - shift) / scale
    assert (standard**2).mean() == pytest.approx(1)
    in_standard_units = model.score_samples(standard)
    model.rescale(shift, scale)
    np.testing.assert_allclose(model.score_samples(x), in_standard_units - np.log(scale).sum(), rtol=1e-10)


def test_ppca_has_one_scale() -> None:
    x = rows() * np.arange(1, D + 1)
    _, scale = me.models.PPCA(D, 2).units(x)
    np.testing.assert_allclose(scale, np.sqrt(np.nanvar(x, axis=0).mean()))
    x[:, 2] = 1.0
    for new in GAUSSIANS.values():
        with pytest.raises(me.InputError, match="column 2 does not vary"):
            new().units(x)
    with pytest.raises(me.InputError, match="give one scale for all of them"):
        me.models.PPCA(D, 2).rescale(np.zeros(D), np.arange(1.0, D + 1))


@pytest.mark.parametrize("new", KEEPING.values(), ids=KEEPING)
def test_a_model_that_keeps_its_units_is_not_rescaled(new: Callable[[], TableModel]) -> None:
    model = new()
    before = model.score_samples(rows())
    shift, scale = model.units(rows())
    assert model.keeps_units
    assert (shift == 0).all()
    assert (scale == 1).all()
    model.rescale(shift, scale)
    np.testing.assert_array_equal(model.score_samples(rows()), before)


@every_model
def test_other_widths_are_refused_and_equal_seeds_give_equal_rows(new: Callable[[], TableModel]) -> None:
    model, x = new(), rows()[:, 1:]
    for use in (model.score_samples, model.impute, model.fit):
        with pytest.raises(me.InputError, match=f"the data have 4 columns, the model has {D} features"):
            use(x)
    with pytest.raises(me.InputError, match="n=-1; give a whole number of 0 or more"):
        model.sample(-1)
    assert model.sample(0).shape == (0, D)
    np.testing.assert_array_equal(model.sample(6, seed=3), model.sample(6, seed=3))
    assert (model.sample(6, seed=3) != model.sample(6, seed=4)).any()


@every_model
@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.CollapsedWeightsWarning")
def test_log_conditionals_change_nothing_in_the_model(new: Callable[[], TableModel]) -> None:
    model = new().eval()
    tokens = model.tokens(rows())
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    settings = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    private = {name: repr(value) for name, value in vars(model).items() if name.startswith("_")}
    model.log_conditionals(tokens, tokens.maskable)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert {name: vars(model)[name] for name in settings} == settings
    assert {name: repr(vars(model)[name]) for name in private} == private
    assert vars(model).keys() == settings.keys() | private.keys()
