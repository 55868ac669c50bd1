"""What data frames hold: whole numbers, missing values and dates, as the reader of files takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.core.table import as_table
from maskevidence.sklearn import (
    GaussianDensity,
    InformationSelector,
    MaskedImputer,
    MaskedNetworkDensity,
    information_score,
)

SIDE = np.random.default_rng(0).normal(size=60)
LONG = {
    "int64": 2**53 + 1,
    "uint64": 2**63,
    "Int64": -(2**53) - 1,
    "object": 2**63,
    "int64[pyarrow]": 2**60 + 1,
}
DOORS = {
    "as_table": as_table,
    "with words": lambda frame: as_table(frame.assign(w=["x", "y"] * 30)),
    "fit": lambda frame: me.models.Gaussian(n_features=2).fit(frame),
    "information": lambda frame: me.information("gaussian", frame, "a", "b"),
    "sklearn": lambda frame: GaussianDensity().fit(frame),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("dtype", LONG)
def test_whole_numbers_that_would_be_rounded_are_refused(dtype: str, door: str) -> None:
    numbers = [1, 2, *(LONG[dtype] + k * (1 if LONG[dtype] > 0 else -1) for k in range(58))]
    frame = pd.DataFrame({"b": SIDE, "a": pd.Series(numbers, dtype=dtype)})
    with pytest.raises(me.InputError, match=f"row 2, column 'a', {LONG[dtype]}, is a whole number beyond"):
        DOORS[door](frame)


def test_long_whole_numbers_are_words_or_exact() -> None:
    words = as_table(pd.DataFrame({"a": pd.Categorical([2**53 + 1, 2**53 + 2]), "b": [2**53, 1]}))
    assert words.levels == {"a": (str(2**53 + 1), str(2**53 + 2))}
    assert words.values[:, 1].tolist() == [2.0**53, 1.0]


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None, np.nan])
@pytest.mark.parametrize("door", DOORS)
def test_missing_values_among_objects(door: str, missing: Any) -> None:
    numbers = pd.Series([1.0, missing, *SIDE[2:].tolist()], dtype=object)
    DOORS[door](frame := pd.DataFrame({"b": SIDE, "a": numbers}))
    np.testing.assert_array_equal(as_table(frame).values[:3, 1], [1.0, np.nan, SIDE[2]])


DAYS = np.random.default_rng(1).integers(0, 300, 200)
TIMES = pd.Series(pd.Timestamp("2024-03-01") + pd.to_timedelta(DAYS, unit="D"))
NOISY = DAYS / 50 + np.random.default_rng(2).normal(size=200)
DATES = {
    "ns": TIMES,
    "s": TIMES.astype("datetime64[s]"),
    "zone": TIMES.dt.tz_localize("Europe/Berlin").dt.tz_convert("UTC"),
    "date": TIMES.dt.date,
    "date32": TIMES.dt.date.astype("date32[pyarrow]"),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_days(kind: str) -> None:
    """As if the frame held days since any day, but written as dates; holes stay holes."""
    dates = DATES[kind].where(DAYS != 7, None)
    dated, plain = (
        pd.DataFrame({"day": day, "y": NOISY}) for day in (dates, np.where(DAYS != 7, DAYS, np.nan))
    )
    before = dated.copy()
    with_dates, with_days = (me.information("gaussian", frame, "day", "y").nats for frame in (dated, plain))
    assert with_dates == pytest.approx(with_days, rel=1e-3)
    assert with_days > 0.2
    assert me.information_matrix("gaussian", dated).found.any()
    pd.testing.assert_frame_equal(dated, before)


def test_wrong_dates_are_found_and_written() -> None:
    wrong = TIMES.copy()
    wrong[3] += pd.Timedelta(9000, unit="D")
    frame = pd.DataFrame({"day": wrong, "y": NOISY})
    (first, *_) = me.wrong_cells("gaussian", frame).cells
    assert (first.row, first.column, first.value) == (3, "day", str(wrong[3]))


def test_trusted_dates_have_the_day_0_of_the_others() -> None:
    """Days since each table's own first would shift one of them by 50 years."""
    frame, late = (
        pd.DataFrame({"day": TIMES + shift, "y": NOISY})
        for shift in (pd.Timedelta(0), pd.Timedelta(18262, "D"))
    )
    found = me.wrong_cells("gaussian", late, trusted=frame)
    assert {cell.column for cell in found.cells if cell.called} == {"day"}
    assert not any(cell.called for cell in me.wrong_cells("gaussian", frame[:100], trusted=frame[100:]).cells)


def test_a_fitted_model_does_not_guess_day_0() -> None:
    frame = pd.DataFrame({"day": TIMES, "y": NOISY})
    for fitted in (me.models.Gaussian(n_features=2), GaussianDensity(), MaskedImputer(random_state=0)):
        model = fitted.fit(frame.assign(day=1.0 * DAYS))
        asked = model.impute if hasattr(model, "impute") else model.score_samples
        with pytest.raises(ValueError, match=r"column 'day' holds dates, and .* none"):
            asked(frame)


def utc(dates: pd.Series) -> np.ndarray:
    """Times without a zone."""
    return pd.to_datetime(dates, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")


def with_and_without_dates(kind: str) -> tuple[pd.DataFrame, pd.DataFrame, np.datetime64]:
    """A frame with dates, the same with days since the first, and that day."""
    frame = pd.DataFrame({"day": DATES[kind].where(DAYS % 7 != 3, None), "y": NOISY})
    first = np.nanmin(times := utc(frame["day"])).astype("datetime64[D]")
    return frame, frame.assign(day=(times - first) / np.timedelta64(1, "D")), first


@pytest.mark.parametrize("kind", DATES)
def test_a_model_knows_day_0_of_the_dates_of_its_fit(kind: str, tmp_path: Path) -> None:
    """Other rows of a fitted model begin on another day; a filled date is a date."""
    (frame, plain, first), is_late = with_and_without_dates(kind), DAYS > 100
    late, of_late = frame[is_late], plain[is_late]
    model, other = (me.models.Gaussian(n_features=2).fit(each) for each in (frame, plain))
    model.save(tmp_path / "model")
    for again in (model, me.models.load(tmp_path / "model")):
        np.testing.assert_allclose(again.score_samples(late), other.score_samples(of_late), rtol=1e-9)
    asked = [me.information(*each, "day", "y").nats for each in ((model, late), (other, of_late))]
    assert asked[0] == pytest.approx(asked[1])
    for filled, given in ((me.impute(model, late), late), (me.impute("gaussian", frame), frame)):
        dates = filled.to_frame()["day"]
        assert dates.dtype == given["day"].dtype
        off = (utc(dates) - first) / np.timedelta64(1, "D") - filled.values[:, 0]
        assert np.abs(off).max() < (1 if "date" in kind else 1e-4)
    np.testing.assert_allclose(me.impute(model, late).values, other.impute(of_late).values)


@pytest.mark.parametrize("kind", DATES)
def test_estimators_take_dates_and_fill_dates(kind: str) -> None:
    frame, plain, first = with_and_without_dates(kind)
    imputer = MaskedImputer(random_state=0).fit(frame)
    days = MaskedImputer(random_state=0).fit_transform(plain)
    np.testing.assert_allclose(imputer.transform(frame), days, rtol=1e-9)
    assert imputer.day_0_ == {"day": str(first)}
    late = imputer.set_output(transform="pandas").transform(frame[DAYS > 100])
    assert late["day"].dtype == frame["day"].dtype
    off = (utc(late["day"]) - first) / np.timedelta64(1, "D") - days[DAYS > 100, 0]
    assert np.abs(off).max() < (1 if "date" in kind else 1e-4)
    assert imputer.impute(frame).to_frame()["day"].notna().all()
    density = GaussianDensity().fit(frame)
    np.testing.assert_allclose(density.model_.score_samples(frame), density.score_samples(frame))


def test_words_and_dates_are_filled_as_such() -> None:
    frame = pd.DataFrame({"day": TIMES, "w": np.where(DAYS > 150, "late", "early"), "y": NOISY})
    frame.loc[::9, "day"], frame.loc[1::9, "w"] = None, None
    density = MaskedNetworkDensity(width=16, epochs=3, random_state=0)
    filled = MaskedImputer(density, random_state=0).fit_transform(frame)
    assert filled.isna().sum().sum() == 0
    assert filled["day"].dtype == TIMES.dtype


def test_features_that_are_dates_are_scored_and_chosen() -> None:
    frame = pd.DataFrame({"other": np.random.default_rng(3).normal(size=200), "day": TIMES})
    nats, p = information_score(frame, NOISY, "gaussian")
    assert nats[1] > 0.2 > nats[0]
    assert p[1] < 1e-6
    for y in (TIMES, TIMES.to_numpy("datetime64[ns]"), TIMES.to_numpy("datetime64[s]")):
        assert information_score(NOISY[:, None], y, "gaussian")[0] == pytest.approx(nats[1], abs=0.05)
    selector = InformationSelector("gaussian", random_state=0).fit(frame, NOISY)
    assert selector.chosen_ == [1]
    np.testing.assert_array_equal(selector.transform(frame)[:, 0], DAYS - DAYS.min())
    pd.testing.assert_frame_equal(selector.set_output(transform="pandas").transform(frame), frame[["day"]])
    with pytest.raises(ValueError, match=r"column 'other' holds dates, and held none in fit"):
        selector.set_output(transform="default").transform(frame.assign(other=TIMES))


ANY = {
    "intervals": (pd.Series(pd.cut(SIDE, 4)), "words"),
    "far dates": (pd.Series(["9999-12-31", "0001-01-01"] * 30).astype("datetime64[s]"), "date"),
    "farther dates": (pd.Series(np.array(["29999-12-31", "2024-01-01"] * 30, "datetime64[s]")), "words"),
    "farthest dates": (pd.Series(np.array(["2900000-12-31", "2024-01-01"] * 30, "datetime64[s]")), "words"),
    "categories of dates": (pd.Series(pd.Categorical(pd.to_datetime(["2024-01-31"] * 60))), "date"),
    "long numbers": (pd.Series([2**70, 2**71] * 30, dtype=object), "words"),
    "surrogates": (pd.Series(["a\ud800", "b"] * 30, dtype=object), "words"),
}


@pytest.mark.parametrize("kind", ANY)
@pytest.mark.parametrize("hole", [False, True])
def test_any_column_is_described(kind: str, *, hole: bool) -> None:
    column, expected = ANY[kind]
    column = column.where(np.arange(60) % 7 != 3) if hole else column
    described = me.data.describe(pd.DataFrame({"a": column, "b": SIDE}))
    assert described["a"].kind == expected
    assert described["a"].n_missing == (9 if hole else 0)


def test_a_look_keeps_intervals() -> None:
    frame = pd.DataFrame({"a": pd.cut(SIDE, 4), "b": SIDE, "c": SIDE + 0.1 * SIDE[::-1]})
    frame.loc[5, "a"] = None
    filled = me.look(frame, minutes=0.01).to_frame()["a"]
    assert filled.isna().sum() == 0
    assert isinstance(filled.dtype, pd.CategoricalDtype)


TARGETS = {
    "string": pd.Series(["x", pd.NA, "y"] * 20, dtype="string"),
    "category": pd.Series(["x", None, "y"] * 20, dtype="category"),
    "words": np.array(["x", None, "y"] * 20, dtype=object),
    "numbers": pd.Series([1.0, pd.NA, 0.0] * 20, dtype=object),
}


@pytest.mark.parametrize("ask", [InformationSelector().fit, information_score])
@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_with_missing_values_is_refused_in_one_line(kind: str, ask: Any) -> None:
    with pytest.raises(ValueError, match=r"^Target y has missing values; leave such rows out$"):
        ask(SIDE[:, None], TARGETS[kind])


def test_empty_text_is_said_to_be_missing() -> None:
    frame = pd.DataFrame({"a": ["", "x"] * 30, "b": SIDE, "c": [None, "x"] * 30})
    said = "one value or none in all rows of a fit; '' in column 'a' is read as missing; "
    with pytest.raises(me.InputError, match=f"column 'a' has {said}leave it out"):
        me.information("auto", frame, "a", "b")
    with pytest.raises(me.InputError, match=f"column 'a' has {said}choose another target"):
        me.information_matrix("auto", frame, "a")
    with pytest.raises(me.InputError, match="column 'c' has one value or none in all rows of a fit; leave"):
        me.information("auto", frame, "c", "b")
    assert as_table(frame).notes == ("'' in column 'a' is read as missing",)
