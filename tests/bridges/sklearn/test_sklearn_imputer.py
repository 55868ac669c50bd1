"""MaskedImputer: conditional means, and error bars that hold as often as they say."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import maskevidence as me
from maskevidence.sklearn import (
    PPCA,
    GaussianDensity,
    KernelGaussianDensity,
    MaskedImputer,
    MaskedNetworkDensity,
)
from maskevidence.sklearn.residuals import HeldOutResiduals, held_out_residuals

QUICK = KernelGaussianDensity(shrinkage=0.05, random_state=0)


def curved(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows along a curve, with noise that is not normal, and the same with a fifth of the values missing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1))
    x = z * [1.0, -1.0, 0.5, 0.0] + z**2 * [0.0, 0.0, 0.5, 1.0] + 0.3 * rng.exponential(size=(n, 4))
    return x, np.where(rng.random(x.shape) < 0.2, np.nan, x)


def test_intervals_of_rows_that_were_not_fitted_hold_as_often_as_they_say() -> None:
    """Means over three tables of 600 new values each; the standard error of a share of 90 % is 0.7 %."""
    shares, spreads = [], []
    for seed in range(3):
        imputer = MaskedImputer(QUICK, random_state=seed).fit(curved(300, seed)[1])
        truth, holed = curved(750, seed + 100)
        missing = np.isnan(holed)
        shares.append([])
        for level in (0.5, 0.9):
            low, high = imputer.intervals(holed, level)
            np.testing.assert_array_equal(low[~missing], holed[~missing])
            shares[-1].append(((low <= truth) & (truth <= high))[missing].mean())
        filled = imputer.impute(holed)
        error = (truth - filled.values)[missing] / np.sqrt(filled.variance[missing])
        spreads.append(np.sqrt(np.mean(error**2)))
        assert (filled.variance[~missing] == 0).all()
    assert np.mean(shares, axis=0) == pytest.approx([0.5, 0.9], abs=0.025)
    assert np.mean(spreads) == pytest.approx(1.0, abs=0.1)


def test_bounds_hold_at_least_the_level_for_exchangeable_residuals() -> None:
    """Exactly: with n residuals, a new one has rank 1..n+1 with equal probability."""
    for n, level in ((60, 0.9), (99, 0.8), (51, 0.99), (200, 0.5)):
        residuals = HeldOutResiduals(
            np.zeros(n, dtype=np.int64), np.random.default_rng(n).permutation(n) + 0.0
        )
        low, high = residuals.bounds(0, level)
        inside = (np.arange(n + 1) - 0.5 >= low) & (np.arange(n + 1) - 0.5 <= high)
        most = 2 if n * (1 - level) < 2 else 0  # the bounds end with the residuals themselves
        assert inside.sum() + most >= level * (n + 1)
    few = HeldOutResiduals(np.repeat([0, 1], [10, 90]), np.arange(100.0))
    assert few.bounds(0, 0.9) == few.bounds(5, 0.9) == (4.0, 95.0)
    assert few.bounds(1, 0.9)[0] == 13.0


def test_values_are_the_conditional_means_of_the_density() -> None:
    _, holed = curved(120, 1)
    imputer = MaskedImputer(PPCA(2, tol=1e-4), cv=3, random_state=0).fit(holed)
    expected = clone(imputer.estimator).fit(holed[~np.isnan(holed).all(1)]).impute(holed)
    np.testing.assert_array_equal(imputer.transform(holed), expected.values)
    spread = np.array([imputer.residuals_.spread(j) for j in range(4)])
    np.testing.assert_allclose(imputer.impute(holed).variance, expected.variance * spread**2)
    np.testing.assert_array_equal(
        MaskedImputer(PPCA(2, tol=1e-4), random_state=0).fit_transform(holed), expected.values
    )


def test_residuals_of_a_true_model_are_standard_normal() -> None:
    x = me.models.PPCA(5, 2, seed=3).sample(400, seed=1)
    residuals = held_out_residuals(PPCA(2), x, cv=4, rng=np.random.default_rng(0))
    assert len(residuals.columns) == 2000
    assert np.mean(residuals.residuals) == pytest.approx(0.0, abs=0.1)
    assert residuals.spread(2) == pytest.approx(1.0, abs=0.15)
    assert residuals.bounds(0, 0.9) == pytest.approx((-1.645, 1.645), abs=0.35)


def test_constant_columns_empty_rows_and_pandas() -> None:
    _, holed = curved(100, 2)
    frame = pd.DataFrame(holed, columns=list("abcd"), index=range(50, 150)).assign(same=7.0)
    frame.loc[[60, 61], "same"] = np.nan
    frame.loc[70] = np.nan
    imputer = MaskedImputer(QUICK, random_state=0).set_output(transform="pandas")
    filled = imputer.fit_transform(frame)
    assert list(filled.columns) == [*"abcd", "same"] == list(imputer.get_feature_names_out())
    assert filled.index.equals(frame.index)
    assert (filled["same"] == 7.0).all()
    assert not filled.isna().any().any()
    np.testing.assert_array_equal(filled[frame.notna()], frame)
    prior = imputer.estimator_.impute(np.full((1, 4), np.nan))
    np.testing.assert_allclose(filled.loc[70, list("abcd")], prior.values[0])
    assert imputer.impute(frame).variance[10, 4] == 0.0
    assert imputer.intervals(frame)[0][10, 4] == 7.0
    nothing = MaskedImputer().fit([[1.0, np.nan], [1.0, 2.0]])
    np.testing.assert_array_equal(nothing.transform([[np.nan, np.nan]]), [[1.0, 2.0]])


def test_the_mask_of_a_masked_array_counts() -> None:
    _, holed = curved(60, 3)
    masked = np.ma.masked_array(np.where(np.isnan(holed), 1e6, holed), np.isnan(holed))
    filled = [MaskedImputer(PPCA(1), random_state=0).fit_transform(x) for x in (holed, masked)]
    np.testing.assert_array_equal(*filled)


def test_in_a_pipeline_before_a_regression() -> None:
    truth, holed = curved(150, 4)
    pipeline = make_pipeline(MaskedImputer(QUICK, random_state=0), LinearRegression())
    score = pipeline.fit(holed[:, :3], truth[:, 3]).score(holed[:, :3], truth[:, 3])
    assert 0.3 < score < 1.0
    assert KernelGaussianDensity(0.1, 0.5).fit(holed).held_out_ is None


def test_bad_requests_are_refused_in_one_line() -> None:
    imputer = MaskedImputer(QUICK, random_state=0).fit(curved(60, 5)[1])
    with pytest.raises(me.InputError, match=r"level=90; give a share in \(0, 1\), such as 0.9"):
        imputer.intervals(np.zeros((1, 4)), level=90)
    with pytest.raises(ValueError, match="X has 2 features, but MaskedImputer is expecting 4 features"):
        imputer.transform(np.zeros((1, 2)))
    with pytest.raises(me.InputError, match="give a shrinkage in"):
        MaskedImputer(KernelGaussianDensity(2.0, 0.5)).fit(curved(60, 5)[1])


class TestOptionsOfScikitLearnsImputers:
    """Against SimpleImputer: the places, names and dtypes, and not the filled values."""

    def holed(self) -> np.ndarray:
        return curved(60, 0)[1]

    def test_a_number_stands_for_a_missing_value(self) -> None:
        holed = self.holed()
        marked = np.where(np.isnan(holed), -9.0, holed)
        expected = MaskedImputer(PPCA(1), random_state=0).fit_transform(holed)
        imputer = MaskedImputer(PPCA(1), missing_values=-9, random_state=0)
        np.testing.assert_array_equal(imputer.fit_transform(marked), expected)
        with pytest.raises(ValueError, match="contains NaN"):
            imputer.fit(holed)
        with pytest.raises(ValueError, match=r"missing_values='\?'; give numpy.nan or a number"):
            MaskedImputer(missing_values="?").fit(marked)

    def test_pandas_own_mark_is_read(self) -> None:
        holed = self.holed()
        frame = pd.DataFrame(holed).convert_dtypes()
        imputer = MaskedImputer(PPCA(1), missing_values=pd.NA, random_state=0)
        np.testing.assert_allclose(
            imputer.fit_transform(frame), MaskedImputer(PPCA(1), random_state=0).fit_transform(holed)
        )

    @pytest.mark.parametrize("keep", [False, True])
    @pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
    def test_indicator_and_empty_columns_stand_where_simple_imputer_has_them(self, keep: bool) -> None:
        frame = pd.DataFrame(self.holed(), columns=list("abcd")).assign(e=np.nan, f=1.0)
        frame["c"] = frame["c"].fillna(0.0)
        options = {"add_indicator": True, "keep_empty_features": keep}
        theirs = SimpleImputer(**options).set_output(transform="pandas").fit(frame)
        ours = MaskedImputer(PPCA(1), random_state=0, **options).set_output(transform="pandas")
        if not keep:
            with pytest.warns(UserWarning, match="without an observed value are left out: e; keep_empty_"):
                ours.fit(frame)
        else:
            ours.fit(frame)
        found, expected = ours.transform(frame), theirs.transform(frame)
        assert list(found.columns) == list(expected.columns) == list(ours.get_feature_names_out())
        exact = [name for name in found if name not in ("a", "b", "d")]
        pd.testing.assert_frame_equal(found[exact], expected[exact], check_dtype=False)
        n_kept = 6 if keep else 5
        assert ours.impute(frame).values.shape == ours.intervals(frame)[0].shape == (60, n_kept)

    def test_float32_stays_float32(self) -> None:
        holed = self.holed()
        imputer = MaskedImputer(PPCA(1), random_state=0).fit(holed)
        single = imputer.transform(holed.astype(np.float32))
        assert single.dtype == np.float32
        assert imputer.transform(holed).dtype == np.float64
        np.testing.assert_allclose(single, imputer.transform(holed), atol=1e-5)


@pytest.mark.parametrize("estimator", [MaskedImputer(), KernelGaussianDensity(), PPCA(1)])
def test_words_are_refused_with_what_takes_them(estimator: Any) -> None:
    frame = pd.DataFrame({"city": ["Bern", "Chur", "Bern"], "rent": [1.0, np.nan, 3.0]})
    with pytest.raises(ValueError, match=r"'Bern'; columns of words are .* MaskedImputer\(MaskedNet"):
        estimator.fit(frame)


@pytest.mark.parametrize("estimator", [MaskedImputer(), GaussianDensity(), MaskedNetworkDensity(epochs=1)])
def test_spans_of_time_are_refused(estimator: Any) -> None:
    """Dates have a day 0; spans could be of days or of hours."""
    spans = pd.to_datetime(["2024-01-31", None, "2024-02-02"]) - pd.Timestamp("2024-01-01")
    frame = pd.DataFrame({"tree": ["oak", "fir", "oak"], "felled": spans, "height": [20.0, 18.0, np.nan]})
    with pytest.raises(ValueError, match=r"'felled' of the data holds '30 days.* days since a date"):
        estimator.fit(frame if isinstance(estimator, MaskedNetworkDensity) else frame.drop(columns="tree"))


def test_a_number_marks_no_hole_among_dates() -> None:
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-31", "2024-02-02"]), "a": [0.0, 1.0]})
    with pytest.raises(ValueError, match=r"missing_values=0; in a table with dates, give numpy.nan"):
        MaskedImputer(missing_values=0).fit(frame)


def test_rows_without_any_date_are_filled_by_dates() -> None:
    """Numbers of days, or a TypeError, where the column was no longer one of dates."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    frame["day"] = pd.Timestamp("2024-01-31") + pd.to_timedelta((30 * frame["a"]).round(), "D")
    imputer = MaskedImputer(random_state=0).set_output(transform="pandas").fit(frame)
    expected = imputer.transform(frame.head(2).assign(day=pd.to_datetime([None, None])))
    for missing in (None, np.nan, pd.Series([pd.NaT, pd.NaT], dtype=object)):
        pd.testing.assert_frame_equal(
            imputer.transform(frame.head(2).assign(day=missing)), expected, check_dtype=False
        )


def test_nullable_columns_beside_words() -> None:
    ill, n = (
        pd.array([True, False, None, True] * 20, dtype="boolean"),
        pd.array([1, 2, 3, None] * 20, "Int64"),
    )
    frame = pd.DataFrame({"tree": ["oak", "fir", "oak", None] * 20, "ill": ill, "n": n})
    density = MaskedNetworkDensity(width=4, epochs=1, random_state=0)
    filled = MaskedImputer(density, random_state=0).fit_transform(frame)
    assert not filled.isna().any(axis=None)
    assert filled["n"][:3].tolist() == [1, 2, 3]
