"""Data frames have the numbers of the results, and a package that is missing is one clear line."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskevidence as me


def test_an_estimate_gives_a_row_per_observation(shown: dict[str, Any]) -> None:
    estimate = shown["estimate"]
    frame = estimate.to_frame()
    assert len(frame) == estimate.n_observations
    assert abs(frame["log_evidence"].mean() - estimate.log_evidence) < 1e-9
    assert frame["n_tokens"].sum() == estimate.n_tokens
    np.testing.assert_allclose(frame["per_token"] * frame["n_tokens"], frame["log_evidence"])
    # the errors of own masks are independent of each other
    assert np.sqrt((frame["mask_se"] ** 2).mean() / len(frame)) == pytest.approx(estimate.mask_se, rel=1e-6)


def test_the_index_of_a_frame_is_kept() -> None:
    from maskevidence.sklearn import GaussianDensity

    x = pd.DataFrame(me.models.PPCA(3, 1).sample(5), columns=list("abc"), index=list("vwxyz"))
    model = me.models.PPCA(3, 1).fit(x)
    assert me.estimate_evidence(model, x).to_frame().index.tolist() == list("vwxyz")
    holed = x.copy()
    holed.loc["w"] = np.nan
    estimate = GaussianDensity().fit(x).evidence(holed)
    assert estimate.to_frame().index.tolist() == list("vxyz")
    assert me.estimate_evidence(model, x.to_numpy()).to_frame().index.tolist() == [0, 1, 2, 3, 4]


def test_a_curve_gives_the_columns_of_its_csv(shown: dict[str, Any]) -> None:
    curve = shown["curve"]
    frame = curve.to_frame()
    assert ",".join(frame.columns) == curve.to_csv().splitlines()[0]
    np.testing.assert_array_equal(frame["score"], curve.score)


def test_a_comparison_gives_a_row_per_model(shown: dict[str, Any]) -> None:
    comparison = shown["comparison"]
    frame = comparison.to_frame()
    assert tuple(frame.index) == comparison.names
    np.testing.assert_array_equal(frame["log_evidence"], comparison.log_evidence)
    for one in comparison.behind:
        row = frame.loc[one.second]
        assert row["behind"] == one.difference
        assert row["standard_error"] == one.standard_error
        assert (row["low"], row["high"]) == one.interval()
    assert frame["verdict"].iloc[0] == "best"


def test_a_filled_table_keeps_names_and_rows() -> None:
    given = pd.DataFrame({"a": [1.0, np.nan], "b": [np.nan, 2.0]}, index=pd.Index(["x", "y"], name="who"))
    values, variance = np.array([[1.0, 5.0], [6.0, 2.0]]), np.array([[0.0, 4.0], [9.0, 0.0]])
    frame = me.Imputation(values, variance, given=given).to_frame(errors=True)
    assert frame.columns.tolist() == ["a", "a_sd", "b", "b_sd"]
    assert frame.index.equals(given.index)
    assert frame.loc["y"].tolist() == [6.0, 3.0, 2.0, 0.0]
    assert me.Imputation(values, variance).to_frame().shape == (2, 2)


def test_filled_columns_keep_their_names() -> None:
    x = pd.DataFrame(me.models.PPCA(3, 1).sample(9), columns=["age", "mass", "length"])
    x.iloc[2, 1] = np.nan
    filled = me.impute(me.models.PPCA(3, 1).fit(x), x)
    page = filled._repr_html_()
    assert "mass" in page
    assert "column 1" not in page
    assert list(filled.to_frame().columns) == ["age", "mass", "length"]
    assert [tick.get_text() for tick in filled.plot().get_xticklabels()] == ["mass"]
    assert "column 1" in me.impute(me.models.PPCA(3, 1).fit(x.to_numpy()), x.to_numpy())._repr_html_()


def test_factors_give_a_row_per_column_and_the_same_covariance(shown: dict[str, Any]) -> None:
    model = me.models.FactorAnalysis(5, 2, seed=1)
    model.columns = list("abcde")
    frame = model.to_frame()
    assert frame.index.tolist() == model.columns
    loadings = frame[["factor_0", "factor_1"]].to_numpy()
    covariance = loadings @ loadings.T + np.diag(frame["noise_sd"] ** 2)
    np.testing.assert_allclose(covariance, model.covariance.detach().numpy())
    signal = loadings.T @ np.diag(frame["noise_sd"] ** -2) @ loadings
    assert abs(signal[0, 1]) < 1e-12
    assert signal[0, 0] > signal[1, 1]
    assert (loadings.max(axis=0) == np.abs(loadings).max(axis=0)).all()
    np.testing.assert_array_equal(frame["mean"], model.mean.detach().numpy())


def test_a_history_gives_a_row_per_epoch(shown: dict[str, Any]) -> None:
    history = shown["history"]
    frame = history.to_frame()
    assert frame.index.tolist() == history.epoch.tolist()
    np.testing.assert_array_equal(frame["held_out"], history.held_out)


@pytest.mark.parametrize(
    ("name", "call", "package", "extra"),
    [
        ("estimate", "to_arviz", "arviz_base", "arviz"),
        ("comparison", "to_arviz", "arviz_stats", "arviz"),
        ("estimate", "plot", "matplotlib", "plots"),
        ("history", "plot", "matplotlib", "plots"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str, call: str, package: str, extra: str
) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(me.MissingExtraError, match=f"pip install '\\.\\[{extra}\\]'"):
        getattr(shown[name], call)()
