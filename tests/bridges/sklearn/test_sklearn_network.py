"""MaskedNetworkDensity, and MaskedImputer with it, on tables of numbers and words."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import maskevidence as me
from maskevidence.data import Table
from maskevidence.sklearn import (
    GaussianDensity,
    MaskedImputer,
    MaskedNetworkDensity,
)

QUICK = MaskedNetworkDensity(width=4, layers=1, epochs=1, random_state=0)


def animals(n: int, seed: int = 0, missing: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of one latent number in words, a category, counts and numbers; complete, and with holes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    whole = pd.DataFrame(
        {
            "pet": np.where(z > 0.3, "dog", np.where(z > -0.5, "cat", "ant")),
            "kg": z + 0.3 * rng.normal(size=n),
            "young": rng.poisson(np.exp(z)).astype(float),
            "size": pd.Categorical.from_codes((z > 0).astype(int), ["small", "large"]),
            "age": 2 * z + 0.3 * rng.normal(size=n),
        },
        index=range(1000, 1000 + n),
    )
    hidden = pd.DataFrame(rng.random(whole.shape) < missing, columns=whole.columns, index=whole.index)
    return whole, whole.mask(hidden)


@pytest.fixture(scope="module")
def imputer() -> MaskedImputer:
    density = MaskedNetworkDensity(width=16, epochs=40, random_state=0)
    return MaskedImputer(density, random_state=0).fit(animals(400)[1])


@pytest.fixture(scope="module")
def trained() -> MaskedNetworkDensity:
    return MaskedNetworkDensity(width=16, epochs=20, random_state=0).fit(animals(300)[1])


def test_a_density_has_the_answers_of_its_model(trained: MaskedNetworkDensity, tmp_path) -> None:
    """Its bound lies where the model's does with orders of its own, and the model reads words itself."""
    frame = animals(200, seed=1)[1]
    seen = frame.notna().any(axis=1).to_numpy()
    design = me.Orderings(16, bound="importance")
    estimate = me.estimate_evidence(trained.model_, frame[seen], design, seed=5)
    ours = trained.score_samples(frame)[seen].mean()
    assert ours == pytest.approx(estimate.log_evidence, abs=5 * estimate.mask_se)
    assert trained.score(frame) == pytest.approx(trained.score_samples(frame).mean())
    trained.model_.save(tmp_path)
    loaded = me.models.load(tmp_path)
    np.testing.assert_allclose(loaded.impute(frame).values, trained.impute(frame).values)
    assert trained.categories_ == {0: ["ant", "cat", "dog"], 3: ["large", "small"]}
    assert trained.n_iter_ == 20
    assert trained.evidence(frame).kind == "lower_bound"


def test_a_rows_score_depends_on_the_row_alone(trained: MaskedNetworkDensity) -> None:
    frame = animals(60, seed=2)[1]
    scores = trained.score_samples(frame)
    twice = pd.concat([frame[::-1], frame[:7]])
    np.testing.assert_allclose(trained.score_samples(twice), [*scores[::-1], *scores[:7]], rtol=1e-9)
    empty = frame[:3].copy().astype(object)
    empty.iloc[1] = None
    assert trained.score_samples(empty)[1] == 0.0


def test_dependent_columns_score_higher_than_shuffled_columns(trained: MaskedNetworkDensity) -> None:
    whole = animals(200, seed=3)[0]
    rng = np.random.default_rng(0)
    shuffled = whole.apply(lambda column: rng.permutation(column.astype(object)))
    assert trained.score(whole) > trained.score(shuffled) + 2


def test_categories_are_named_as_for_histogram_gradient_boosting() -> None:
    frame = animals(80)[1]
    expected = clone(QUICK).fit(frame).score_samples(frame)
    for selection in ("from_dtype", ["pet", "size"], [0, 3], [True, False, False, True, False]):
        density = clone(QUICK).set_params(categorical_features=selection)
        by_place = not isinstance(selection, str) and not isinstance(selection[0], str)
        data = frame.to_numpy(dtype=object) if by_place else frame
        np.testing.assert_array_equal(density.fit(data).score_samples(data), expected)
    density = clone(QUICK).set_params(categorical_features=[0, 3]).fit(frame)
    np.testing.assert_array_equal(density.score_samples(frame), expected)


def test_numbers_can_be_categories() -> None:
    codes = np.random.default_rng(0).integers(0, 4, size=(90, 2)) * 10.0
    table = np.column_stack([codes, codes[:, 0] + np.random.default_rng(1).normal(size=90)])
    density = clone(QUICK).set_params(categorical_features=[0]).fit(table)
    kinds = [column["kind"] for column in density.model_.arguments()["columns"]]
    assert kinds == ["category", "number", "number"]
    frame = pd.DataFrame(table, columns=list("abc")).astype({"a": "category"})
    assert clone(QUICK).fit(frame).model_.arguments()["columns"][0]["kind"] == "category"
    assert set(density.sample(50, random_state=1)[:, 0]) <= {0.0, 10.0, 20.0, 30.0}


def test_words_of_a_table_stay_words() -> None:
    frame = animals(80)[1].drop(columns="size")
    words = sorted(set(frame["pet"].dropna()))
    codes = frame["pet"].map(words.index, na_action="ignore").astype(float)
    table = Table(
        "t", frame.assign(pet=codes).to_numpy(), tuple(frame), np.arange(80), levels={"pet": tuple(words)}
    )
    density, same = clone(QUICK).fit(table), clone(QUICK).fit(frame)
    assert density.categories_ == {0: words}
    np.testing.assert_array_equal(density.score_samples(table), same.score_samples(frame))
    filled = MaskedImputer(QUICK, random_state=0).fit_transform(table)
    assert set(filled["pet"]) == set(words)
    with pytest.raises(ValueError, match="could not convert string to float"):
        GaussianDensity().fit(table)


BAD = {
    "words in an array": ({}, lambda frame: frame.to_numpy(), "could not convert string to float"),
    "no categories": ({"categorical_features": None}, lambda frame: frame, "could not convert string to"),
    "an unknown name": (
        {"categorical_features": ["bird"]},
        lambda frame: frame,
        r"=\['bird'\]; give positions from 0 to 4, names",
    ),
    "a position too far": (
        {"categorical_features": [5]},
        lambda frame: frame,
        r"=\[5\]; give positions from 0 to 4",
    ),
    "a short mask": ({"categorical_features": [True, False]}, lambda frame: frame, "or a mask of 5 columns"),
    "half a position": ({"categorical_features": [1.5]}, lambda frame: frame, r"=\[1.5\]; give positions"),
    "no width": ({"width": 0}, lambda frame: frame, "width=0"),
    "a dropout of 1": ({"dropout": 1.0}, lambda frame: frame, r"dropout=1.0; give a share in \[0, 1\)"),
    "an empty column": ({}, lambda frame: frame.assign(pet=None), r"observed values: \['pet'\]. Leave them"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_and_settings_are_refused_in_one_line(case: str) -> None:
    settings, spoil, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        clone(QUICK).set_params(**settings).fit(spoil(animals(40)[1]))


def test_a_frame_with_other_columns_is_refused(trained: MaskedNetworkDensity) -> None:
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        trained.score_samples(animals(5)[0].rename(columns={"kg": "lb"}))


@pytest.mark.slow
def test_searches_and_cross_validation_over_a_frame_with_words() -> None:
    frame = animals(60)[1]
    scores = cross_val_score(QUICK, frame, cv=2)
    assert np.isfinite(scores).all()
    search = GridSearchCV(QUICK, {"width": [3, 4]}, cv=2, error_score="raise").fit(frame)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scores.mean())
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.score_samples(frame), search.best_estimator_.score_samples(frame))


class TestImputerOfWords:
    def test_words_are_filled_by_words_and_numbers_by_numbers(self, imputer: MaskedImputer) -> None:
        whole, holed = animals(400, seed=1)
        filled = imputer.transform(holed)
        assert list(filled.columns) == list(holed.columns)
        assert filled.index.equals(holed.index)
        assert filled["size"].dtype == "category"
        assert (filled["kg"].dtype, filled["young"].dtype) == (np.float64, np.float64)
        assert not filled.isna().any().any()
        for name in holed:
            seen = holed[name].notna()
            assert (filled[name][seen] == holed[name][seen]).all()
        for name in ("pet", "size"):
            missing = holed[name].isna()
            assert (filled[name][missing] == whole[name][missing]).mean() > 0.75

    def test_intervals_of_numbers_hold_and_categories_have_none(self, imputer: MaskedImputer) -> None:
        whole, holed = animals(2000, seed=2)
        low, high = imputer.intervals(holed, level=0.9)
        missing = holed.isna().to_numpy()
        numbers = [1, 2, 4]
        truth = whole.iloc[:, numbers].to_numpy()
        inside = (low[:, numbers] <= truth) & (truth <= high[:, numbers])
        assert inside[missing[:, numbers]].mean() == pytest.approx(0.9, abs=0.05)
        assert np.isnan(low[missing[:, 0], 0]).all()
        np.testing.assert_array_equal(low[~missing], high[~missing])
        variance = imputer.impute(holed).variance
        assert ((variance[missing[:, 0], 0] > 0) & (variance[missing[:, 0], 0] < 1)).all()

    def test_draws_are_tables_with_words(self, imputer: MaskedImputer) -> None:
        whole, holed = animals(2000, seed=3)
        first, second = imputer.draw_missing(holed, draws=2, random_state=0)
        missing = holed["pet"].isna()
        assert set(first["pet"]) == {"ant", "cat", "dog"}
        assert (first["pet"] != second["pet"])[missing].any()
        assert (first["pet"] == second["pet"])[~missing].all()
        shares = [frame["pet"][missing].value_counts(normalize=True)["dog"] for frame in (whole, first)]
        assert shares[0] == pytest.approx(shares[1], abs=0.1)

    @pytest.mark.slow
    def test_columns_that_leave_and_join(self) -> None:
        holed = animals(60)[1].assign(same="x", empty=np.nan)
        holed.loc[1003, "same"] = None
        imputer = MaskedImputer(QUICK, add_indicator=True, random_state=0)
        with pytest.warns(UserWarning, match="without an observed value are left out: empty"):
            imputer.fit(holed)
        filled = imputer.transform(holed)
        assert list(filled.columns) == list(imputer.get_feature_names_out())
        assert (filled["same"] == "x").all()
        assert (filled["missingindicator_pet"] == holed["pet"].isna()).all()
        pandas = imputer.set_output(transform="pandas").transform(holed)
        pd.testing.assert_frame_equal(pandas, filled)

    def test_few_rows_get_their_residuals_from_folds(self) -> None:
        holed = animals(60)[1]
        imputer = MaskedImputer(QUICK, cv=2, random_state=0).fit(holed)
        assert imputer.estimator_.held_out_ is None
        assert set(imputer.residuals_.columns) == {1, 2, 4}

    def test_bad_requests_are_refused_in_one_line(self) -> None:
        holed = animals(60)[1]
        with pytest.raises(ValueError, match=r"missing_values=-9; in a table with categories, give numpy"):
            MaskedImputer(QUICK, missing_values=-9).fit(holed)
        with pytest.raises(ValueError, match="could not convert string to float"):
            MaskedImputer().fit(holed)
