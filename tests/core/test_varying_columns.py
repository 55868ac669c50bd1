"""A column of equal numbers has no spread, wherever numbers are divided by one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.table import Table, spreads
from maskevidence.tables.imputation import Imputation
from maskevidence.tables.network.gaussian_answer import GaussianAnswer
from maskevidence.tables.network.network_columns import columns_of
from maskevidence.tables.rows import note_on_units
from maskevidence.tables.wrong_cells.cell_search import facts_of


@pytest.fixture
def x() -> np.ndarray:
    """300 rows of two numbers, and of 0.1, whose standard deviation is 1.4e-17 by rounding."""
    x = np.random.default_rng(0).normal(size=(300, 3))
    x[:, 2] = 0.1
    assert x[:, 2].std() > 0
    return x


def test_spreads_are_standard_deviations_but_of_equal_numbers(x: np.ndarray) -> None:
    x[::7, 1] = np.nan
    assert np.allclose(spreads(x)[:2], np.nanstd(x[:, :2], axis=0), rtol=1e-12)
    assert spreads(x)[2] == 0.0


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    "new", [lambda d: me.models.Gaussian(n_features=d), lambda d: me.models.FactorAnalysis(d, 1)]
)
def test_a_fit_refuses_a_constant_column(new: Callable, holes: bool, x: np.ndarray) -> None:
    if holes:
        x[::5, 1] = x[::3, 2] = np.nan
    with pytest.raises(
        (me.InputError, me.NumericalError), match=r"not vary|constant|eigenvalue|positive definite"
    ):
        new(3).fit(x)


def test_units_refuse_a_constant_column(x: np.ndarray) -> None:
    with pytest.raises(me.InputError, match="column 2 does not vary"):
        me.models.PPCA(3, 1).units(x)


def test_a_network_is_not_ruined_by_a_new_value_in_a_constant_column(x: np.ndarray) -> None:
    """It cost 11,192 nats; a value two steps away from the only one is unlikely, and no more."""
    assert columns_of(x)[2].scale == 1.0
    model = me.models.MaskedNetwork(3, width=4).fit(x, epochs=1)
    new = me.Tokens.from_array(np.array([[0.0, 0.0, 0.3]]))
    hidden = torch.tensor([[False, False, True]])
    with torch.no_grad():
        assert -100 < float(model.log_conditionals(new, hidden)[0, 2]) < 0


def test_no_rounding_error_is_a_unit(x: np.ndarray) -> None:
    assert facts_of(None, x).scale[2] == 1.0
    answer = GaussianAnswer(3).double()
    answer.fit(x, np.arange(300), 0)
    assert answer.scale[2] == 1.0
    table = Table("the data", x, ("a", "b", "c"), np.arange(300))
    assert "range from 0 to" in note_on_units(table)[0]
    variance = np.zeros_like(x)
    variance[0] = 1.0
    filled = Imputation(np.where(variance > 0, 0.2, x), variance)
    assert abs(filled._strip(2).y).max() < 1
