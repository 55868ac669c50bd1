"""Missing values filled by conditional means and variances, against block matrices and the removed values."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from oracles import GaussianModel, condition, gaussian_log_conditionals, parameters_of
from refusals import one_line

BuildModel = Callable[..., GaussianModel]


def _with_holes(x: np.ndarray, rate: float, seed: int) -> np.ndarray:
    """A share of the values is missing, and at least one is left in each row."""
    draws = np.random.default_rng(seed).random(x.shape)
    holes = (draws < rate) & (draws > draws.min(1, keepdims=True))
    return np.where(holes, np.nan, x)


def test_values_and_variances_are_those_of_block_matrices(build: BuildModel) -> None:
    model = build(n_features=7, seed=3)
    holed = _with_holes(model.sample(40, seed=1), 0.5, seed=2)
    filled = me.impute(model, holed)
    mean, covariance = parameters_of(model)
    for row, values in enumerate(holed):
        missing = np.isnan(values)
        centre, spread = condition(mean, covariance, values, ~missing)
        np.testing.assert_allclose(filled.values[row, missing], centre[missing], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(filled.variance[row, missing], np.diag(spread)[missing], rtol=1e-9)
        np.testing.assert_array_equal(filled.values[row, ~missing], values[~missing])
        np.testing.assert_array_equal(filled.variance[row, ~missing], 0.0)


def test_a_row_with_one_value_left_and_a_row_without_holes(build: BuildModel) -> None:
    model = build(n_features=4, seed=5)
    full = model.sample(2, seed=0)
    full[0, 1:] = np.nan
    filled = me.impute(model, full)
    mean, covariance = parameters_of(model)
    expected = mean + covariance[:, 0] / covariance[0, 0] * (full[0, 0] - mean[0])
    np.testing.assert_allclose(filled.values[0], expected, rtol=1e-9)
    np.testing.assert_array_equal(filled.values[1], full[1])
    assert not filled.variance[1].any()


def test_errors_of_the_model_have_the_variance_it_states(build: BuildModel) -> None:
    """Squared errors over stated variances are chi-squared on average: a z-test over 3,000 rows."""
    model = build(n_features=6, seed=7)
    truth = model.sample(3000, seed=11)
    holed = _with_holes(truth, 0.4, seed=12)
    filled = me.impute(model, holed)
    missing = np.isnan(holed)
    excess = np.where(
        missing, (truth - filled.values) ** 2 / np.where(missing, filled.variance, 1.0) - 1.0, 0.0
    )
    by_row = excess.sum(1)
    assert abs(by_row.mean()) < 3.5 * by_row.std(ddof=1) / math.sqrt(len(by_row))


def test_log_probability_of_hidden_values_follows_from_value_and_variance(build: BuildModel) -> None:
    model = build(n_features=6, seed=9)
    truth = model.sample(30, seed=1)
    absent = np.isnan(_with_holes(truth, 0.2, seed=2))
    hidden = np.isnan(_with_holes(np.where(absent, np.nan, truth), 0.3, seed=3)) & ~absent
    hidden[absent.sum(1) + hidden.sum(1) == truth.shape[1]] = False
    filled = me.impute(model, np.where(absent | hidden, np.nan, truth))
    tokens = me.Tokens.from_array(np.where(absent, np.nan, truth))
    by_model = model.log_conditionals(tokens, torch.from_numpy(hidden)).detach().numpy()
    mean, covariance = parameters_of(model)
    by_oracle = gaussian_log_conditionals(mean, covariance, truth, hidden, ~absent & ~hidden)
    np.testing.assert_allclose(by_model, by_oracle, rtol=1e-9, atol=1e-9)
    variance = filled.variance[hidden]
    density = -0.5 * (np.log(2 * np.pi * variance) + (truth - filled.values)[hidden] ** 2 / variance)
    np.testing.assert_allclose(by_model[hidden], density, rtol=1e-9, atol=1e-9)


def test_a_fitted_model_fills_better_than_the_column_mean() -> None:
    truth = me.models.PPCA.from_parameters(torch.ones(5, 1, dtype=torch.float64), 0.1).sample(300, seed=4)
    holed = _with_holes(truth, 0.3, seed=5)
    missing = np.isnan(holed)
    filled = me.impute(me.models.PPCA(n_features=5, n_components=1).fit(holed), holed)
    by_model = np.mean((filled.values - truth)[missing] ** 2)
    by_mean = np.mean((np.nanmean(holed, 0) - truth)[missing] ** 2)
    assert by_model < 0.3 * by_mean


def test_any_model_with_the_method_is_asked() -> None:
    class Zeros:
        def impute(self, x: object) -> me.Imputation:
            table = np.asarray(x, dtype=np.float64)
            return me.Imputation(np.nan_to_num(table), np.isnan(table).astype(np.float64))

    assert me.impute(Zeros(), [[1.0, float("nan")]]).values.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[1.0, float("inf"), 0.0]], "row 0, column 1 is infinite"),
        ([[1.0, 2.0, 3.0], [float("nan")] * 3], "row 1 has no observed value"),
        ([[1.0, float("nan")]], "2 columns, the model has 3 features"),
        ([1.0, 2.0, 3.0], "table"),
        ([["a", "b", "c"]], "not a table of numbers"),
    ],
)
def test_a_table_that_cannot_be_used_is_an_error_in_one_line(
    build: BuildModel, table: object, words: str
) -> None:
    one_line(lambda: me.impute(build(n_features=3), table), match=words)


def test_a_frame_with_words_is_refused_with_what_to_do() -> None:
    """It said "could not convert string to float: 'red'"."""
    model = me.models.Gaussian(torch.zeros(3), torch.eye(3))
    frame = pd.DataFrame({"a": [1.0, 2.0], "colour": ["red", None], "day": pd.to_datetime(["2020", "2021"])})
    for fill in (me.impute, me.draw_missing):
        with pytest.raises(me.InputError) as caught:
            fill(model, frame.assign(day=["early", "late"]))
        assert str(caught.value) == (
            "the data are not a table of numbers: columns 'colour', 'day' hold words, such as 'red' in row "
            "0; leave them out, or encode categories as 0 and 1 (pandas.get_dummies); NaN marks a missing "
            "value"
        )
    dated = frame.drop(columns="colour").assign(b=0.0)
    with pytest.raises(me.InputError, match="column 'day' holds dates, and the model was fitted to none"):
        me.impute(model, dated)
    with pytest.raises(me.InputError, match="numbers: column 2 holds '1_000' in row 1; leave it out"):
        me.impute(model, [["1", "2", " 3"], ["4", "5e0", "1_000"]])


def test_a_model_takes_its_columns_from_a_frame_with_words() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    frame.loc[3, "a"] = np.nan
    model = me.models.Gaussian(n_features=2).fit(frame)
    frame.insert(0, "name", "x")
    filled = me.impute(model, frame)
    np.testing.assert_array_equal(filled.values, model.impute(frame[["a", "b"]]).values)
    assert me.draw_missing(model, frame, draws=2).shape == (2, 30, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, object])
def test_the_mask_of_a_masked_array_counts(dtype: type) -> None:
    x = np.arange(12).reshape(4, 3).astype(dtype)
    x[2, 1] = 999 if dtype is not object else "no number"
    masked = np.ma.masked_array(x, mask=np.zeros(x.shape, dtype=bool))
    masked[2, 1] = np.ma.masked
    tokens = me.Tokens.from_array(masked)
    assert (~tokens.maskable).nonzero().tolist() == [[2, 1]]
    assert tokens.values[3].tolist() == [9.0, 10.0, 11.0]
    model = me.models.Gaussian(torch.zeros(3), torch.eye(3))
    assert me.impute(model, masked).values[2].tolist() == [6.0, 0.0, 8.0]


def test_a_model_that_cannot_impute_is_named() -> None:
    with pytest.raises(
        me.InputError, match=r"^Linear cannot impute: .* use PPCA, FactorAnalysis or Gaussian"
    ):
        me.impute(torch.nn.Linear(2, 2), [[1.0, float("nan")]])


def test_a_column_that_others_determine_stops_em_and_is_named() -> None:
    """The likelihood has no maximum: no covariance may be returned, however flat the likelihood becomes."""
    x = np.random.default_rng(0).normal(size=(50, 3))
    table = np.column_stack([x, x @ [0.1, 0.1, 0.1]])
    table[0, 0] = np.nan
    with pytest.raises(me.NumericalError, match=r"not positive definite.* leave out column 3, all but deter"):
        me.models.Gaussian(n_features=4).fit(table)
