"""Columns go by name at every door: the answers for a table do not depend on the order of its columns."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from maskevidence.data import Table
from maskevidence.runs import read_run

rng = np.random.default_rng(0)
_KIND = rng.choice(["cat", "dog", "owl"], 80)
_NUMBERS = rng.normal(size=(80, 1)) + [[0.0, 40.0, 170.0]] + 0.4 * rng.normal(size=(80, 3))
WHOLE = pd.DataFrame(_NUMBERS, columns=["zeta", "age", "height"], index=[f"row {k}" for k in range(80)])
HOLED = WHOLE.mask(rng.random(WHOLE.shape) < 0.2).dropna(how="all")
WITH_WORDS = HOLED.assign(kind=pd.Series(_KIND, WHOLE.index).mask(rng.random(80) < 0.2)).dropna(how="all")


def as_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def as_years(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with whole numbers as labels."""
    return frame.rename(columns={"zeta": 1990, "age": 1991, "height": 1992})


def as_positions(frame: pd.DataFrame) -> pd.DataFrame:
    """The same as pandas labels columns without names."""
    return frame.rename(columns={"zeta": 0, "age": 1, "height": 2})


def as_named_table(frame: pd.DataFrame) -> Table:
    levels, values = {}, frame.copy()
    if "kind" in frame:
        levels["kind"] = tuple(dict.fromkeys(frame["kind"].dropna()))  # not in the model's order
        values["kind"] = [
            np.nan if word not in levels["kind"] else levels["kind"].index(word) for word in frame["kind"]
        ]
    return Table(
        "t",
        values.to_numpy(np.float64),
        tuple(frame.columns),
        np.arange(len(frame)),
        labels=tuple(frame.index),
        levels=levels,
    )


FORMS = {"frame": as_frame, "years": as_years, "positions": as_positions, "table": as_named_table}


def permuted(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in another order, with one that the model does not know."""
    return frame[list(frame.columns[::-1])].assign(note=7.0)[
        [*frame.columns[::-1][:1], "note", *frame.columns[::-1][1:]]
    ]


def _score_masks(model: Any, given: pd.DataFrame, form: Callable[..., Any]) -> Any:
    hidden = given.notna() & (np.arange(given.shape[1]) > -1)
    hidden &= [name in ("age", "kind") for name in given.columns]
    rows = hidden.any(axis=1)
    masked = torch.from_numpy(hidden[rows].to_numpy(copy=True))
    return me.score_masks(model, form(given[rows]), masked).detach().numpy()


def _of_moments(model: Any, given: pd.DataFrame, form: Callable[..., Any]) -> Any:
    halves = [me.GaussianMoments.from_rows(form(part)) for part in (given[:40], given[40:])]
    other = me.GaussianMoments.from_rows(form(WHOLE[40:]))
    estimate = me.estimate_evidence(model, halves[0].merge(halves[1]), me.EverySize(2))
    loss = me.MaskedObjective(me.EverySize(2), masks="shared")(model, halves[0], step=0)
    return estimate.log_evidence, loss.item(), halves[0].merge(other).select([0]).covariance.item()


def _saved(model: Any, given: pd.DataFrame, form: Callable[..., Any], folder: Path) -> Any:
    estimate = me.estimate_evidence(model, form(given), me.EverySize(2))
    me.save_run(estimate, folder / "run", data=form(given), model=model, overwrite=True)
    return read_run(folder / "run").manifest.data.columns


# what a door answers, with nothing left of the order of the columns
BY_ROW: dict[str, Callable[..., Any]] = {
    "estimate_evidence": lambda model, given, form: (
        me.estimate_evidence(model, form(given), me.EverySize(2)).per_observation
    ),
    "check_model": lambda model, given, form: [
        (one.check, one.status, one.found) for one in me.check_model(model, form(given)).findings
    ],
    "score_masks": _score_masks,
    "MaskedObjective": lambda model, given, form: me.MaskedObjective(me.EverySize(1))(
        model, form(given), step=0
    ).item(),
    "tokens": lambda model, given, form: model.tokens(form(given)).values.numpy(),
    "score_samples": lambda model, given, form: model.score_samples(form(given)),
}
# tables with the columns of the data
BY_CELL: dict[str, Callable[..., Any]] = {
    "impute": lambda model, data: np.stack([(f := me.impute(model, data)).values, f.variance]),
    "draw_missing": lambda model, data: me.draw_missing(model, data, 2),
    "wrong_cells": lambda model, data: me.wrong_cells(model, data).suspicion,
    "wrong_cells.called": lambda model, data: me.wrong_cells(model, data, 0.5).called.astype(float),
}
# functions of other data than tables, and those with a test of their own below
OTHERS = {"decode", "variants", "order_mixture", "pool", "compare", "evidence_of_rows", "shared_masks"}
BELOW = {
    "fit",
    "select",
    "save_run",
    "look",
    "information",
    "information_matrix",
    "total_correlation",
    "o_information",
}


def test_every_public_function_of_a_table_is_here() -> None:
    """A new function that takes data belongs into one of the dictionaries."""
    tables = {"x", "data", "table", "trusted", "tokens"}
    functions = {name: getattr(me, name) for name in me.__all__}
    takes = {
        name
        for name, function in functions.items()
        if inspect.isfunction(function) and tables & {*inspect.signature(function).parameters}
    }
    assert takes - OTHERS <= {*BY_ROW, *BY_CELL, *BELOW}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", BY_ROW)
def test_answers_by_row_are_the_same(form: str, door: str) -> None:
    make = FORMS[form]
    model = me.models.Gaussian(n_features=3).fit(make(WHOLE))
    first, second = (BY_ROW[door](model, given, make) for given in (HOLED, permuted(HOLED)))
    if isinstance(first, np.ndarray):
        np.testing.assert_array_equal(second, first)
    assert str(second) == str(first)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", BY_CELL)
def test_answers_by_cell_stand_in_the_order_of_the_data(form: str, door: str) -> None:
    make = FORMS[form]
    model = me.models.Gaussian(n_features=3).fit(make(WHOLE))
    straight, other = BY_CELL[door](model, make(HOLED)), BY_CELL[door](model, make(permuted(HOLED)))
    np.testing.assert_array_equal(other, straight[..., ::-1])


@pytest.mark.parametrize("form", ["frame", "years", "positions", "table"])
def test_moments_know_their_columns(form: str) -> None:
    model = me.models.Gaussian(n_features=3).fit(FORMS[form](HOLED))
    straight, other = (
        _of_moments(model, given, FORMS[form]) for given in (WHOLE, WHOLE[WHOLE.columns[::-1]])
    )
    np.testing.assert_allclose(other[:2], straight[:2], rtol=1e-12)


def test_a_network_of_words(tmp_path: Path) -> None:
    model = me.models.MaskedNetwork(4, width=8).fit(WITH_WORDS, epochs=2)
    for make in (as_frame, as_named_table):
        for door, answer in BY_ROW.items():
            first, second = (answer(model, given, make) for given in (WITH_WORDS, permuted(WITH_WORDS)))
            assert str(second) == str(first), door
        for door, of_cells in BY_CELL.items():
            straight, other = (of_cells(model, make(each)) for each in (WITH_WORDS, permuted(WITH_WORDS)))
            np.testing.assert_array_equal(other, straight[..., ::-1], err_msg=door)
        assert _saved(model, permuted(WITH_WORDS), make, tmp_path) == list(WITH_WORDS.columns)


def test_training_remembers_names_and_reads_held_out_rows_by_them() -> None:
    for fit in (
        lambda model, x, held_out: me.fit(
            model, x, me.RandomSize(1, 1), held_out=held_out, epochs=3, learning_rate=0.1
        ),
        lambda model, x, held_out: me.fit(
            model, x, me.Likelihood(), held_out=held_out, epochs=3, learning_rate=0.1
        ),
    ):
        straight, other = (me.models.PPCA(3, 1) for _ in range(2))
        first = fit(straight, WHOLE, HOLED)
        second = fit(other, WHOLE, permuted(HOLED))
        assert first.held_out.tolist() == second.held_out.tolist()
        np.testing.assert_array_equal(
            other.impute(permuted(HOLED)).values[:, ::-1], other.impute(HOLED).values
        )
    again = me.models.VAE(n_features=3, n_components=1, hidden=(4,)).fit(WHOLE, epochs=1)
    again.fit(permuted(WHOLE), epochs=1)  # in the order of the first fit, which it keeps
    assert again.columns == list(WHOLE.columns)
    assert abs(float(again.tokens_given_latent.shift[2]) - 170) < 5


def test_a_word_chooses_and_judges_by_names() -> None:
    other = permuted(WHOLE).drop(columns="note")
    straight, turned = (me.select(data, "ppca,gaussian", 1, folds=3) for data in (WHOLE, other))
    assert straight.choice == turned.choice
    assert turned.model.columns == list(other.columns)
    np.testing.assert_allclose(turned.model.impute(HOLED).values, straight.model.impute(HOLED).values)
    wrong = WHOLE[:40].copy()
    wrong.iloc[::8, 1] *= 10
    straight = me.wrong_cells("gaussian", wrong, trusted=WHOLE[40:], rate=0.5)
    for table, trusted in ((wrong, other[40:]), (wrong[other.columns], WHOLE[40:])):
        found = me.wrong_cells("gaussian", table, trusted=trusted, rate=0.5)
        assert found.table.columns == tuple(table.columns)
        assert found.table.labels == tuple(table.index)
        place = [WHOLE.columns.get_loc(name) for name in table.columns]
        np.testing.assert_allclose(found.suspicion, straight.suspicion[:, place], rtol=1e-6)
        np.testing.assert_array_equal(found.called, straight.called[:, place])
        assert found.called[::8, list(table.columns).index("age")].all()


def test_a_filled_frame_is_the_frame_with_its_holes_filled() -> None:
    """It had its columns in the model's order under the frame's names, and positions in place of words."""
    model = me.models.MaskedNetwork(4, width=8).fit(WITH_WORDS, epochs=2)
    frame = permuted(WITH_WORDS)[:30].assign(day=pd.Timestamp("2020-01-01"))
    frame["age"] = frame["age"].round().astype("Int64")
    frame["zeta"] = frame["zeta"].astype("float32")
    frame["kind"] = frame["kind"].astype("category").cat.set_categories(["owl", "dog", "emu"])
    frame.iloc[0, frame.columns.get_loc("kind")] = "emu"  # unknown to the model
    filled = me.impute(model, frame).to_frame()
    assert list(filled.columns) == list(frame.columns)
    assert filled.index.equals(frame.index)
    for name in frame.columns:
        seen = frame[name].notna()
        assert filled[name][seen].tolist() == frame[name][seen].tolist(), name
    assert not filled.isna().any(axis=None)
    kinds = filled.dtypes.astype(str).to_dict()
    assert kinds == frame.dtypes.astype(str).to_dict() | {"age": "Float64"}
    assert {*filled["kind"]} <= {"cat", "dog", "owl", "emu"}
    with_errors = me.impute(model, frame).to_frame(errors=True)
    assert with_errors.columns.get_loc("kind_p") == with_errors.columns.get_loc("kind") + 1
    assert (with_errors["kind_p"][frame["kind"].notna()] == 1).all()
    rows = me.impute(model, as_named_table(WITH_WORDS)).to_frame()
    assert rows["kind"].dropna().isin(["cat", "dog", "owl"]).all()
    assert rows.index.tolist() == WITH_WORDS.index.tolist()
    assert "cat" in me.impute(model, WITH_WORDS)._repr_html_()


def test_words_are_no_numbers_of_a_model_of_numbers() -> None:
    """A Gaussian was fitted to the positions of the words in the alphabet."""
    table = as_named_table(WITH_WORDS)
    with pytest.raises(me.InputError, match="column 'kind' holds words, which Gaussian cannot take"):
        me.models.Gaussian(n_features=4).fit(table)
    model = me.models.Gaussian(n_features=4).fit(table.values)
    for door in (model.score_samples, model.impute, lambda x: me.estimate_evidence(model, x)):
        with pytest.raises(me.InputError, match="column 'kind' of 't' holds words"):
            door(table)


def test_a_run_takes_arrays_and_words_that_the_table_lacks(tmp_path: Path) -> None:
    """The right rows were refused."""
    model = me.models.MaskedNetwork(4, width=8).fit(WITH_WORDS, epochs=1)
    few = as_named_table(WITH_WORDS[WITH_WORDS["kind"] != "cat"])
    me.save_run(me.estimate_evidence(model, few, me.EverySize(2)), tmp_path / "few", data=few, model=model)
    array = WHOLE.to_numpy()
    gaussian = me.models.Gaussian(n_features=3).fit(array)
    estimate = me.estimate_evidence(gaussian, array, me.EverySize(2))
    me.save_run(estimate, tmp_path / "array", data=array, model=gaussian)
    with pytest.raises(me.InputError, match="is not of the rows of 'the data'; give those rows"):
        me.save_run(estimate, tmp_path / "other", data=array[:, ::-1], model=gaussian)


def test_information_is_that_of_the_named_columns() -> None:
    model = me.models.Gaussian(n_features=3).fit(WHOLE)
    for ask in (
        lambda data: me.information(model, data, "age", "zeta", given="height").nats,
        lambda data: me.total_correlation(model, data, ["age", "height"]).nats,
        lambda data: me.o_information(model, data, ["age", "height", "zeta"]).nats,
    ):
        assert ask(permuted(HOLED)) == pytest.approx(ask(HOLED), abs=1e-9)
    straight, other = (me.information_matrix(model, data) for data in (HOLED, permuted(HOLED)))
    order = [other.names.index(name) for name in straight.names]
    np.testing.assert_allclose(other.nats[np.ix_(order, order)], straight.nats, atol=1e-9)


SHIFTED = WHOLE.set_axis([1, 2, 3], axis="columns")  # each label but the last is another column's position


@pytest.mark.parametrize("model", ["gaussian", me.models.Gaussian(n_features=3).fit(SHIFTED)])
def test_a_number_is_a_label_before_a_position(model: Any) -> None:
    assert me.information(model, SHIFTED, 1, np.int64(3)).groups == (("1",), ("3",), ())
    assert me.total_correlation(model, SHIFTED, [2, "1"]).groups[0] == ("2", "1")
    assert me.information_matrix(model, SHIFTED, target=2).target == "2"
    with pytest.raises(me.InputError, match="no column 0; the columns are 1, 2, 3; a number is a label here"):
        me.information(model, SHIFTED, 0, 1)
    mixed = SHIFTED.set_axis(["a", 0, "b"], axis="columns")
    assert me.information("gaussian", mixed, 0, "b").groups == (("0",), ("b",), ())


def test_kinds_are_of_the_labels() -> None:
    table = SHIFTED.copy()
    table[2] = np.arange(80) % 3
    net = me.models.MaskedNetwork(n_features=3)
    net.declare(table, {2: "category"})
    assert [column.kind for column in net._declared or ()] == ["number", "category", "number"]
    with pytest.raises(me.InputError, match="kinds names column 0, which does not exist; there are 1, 2, 3"):
        net.declare(table, {0: "number"})


def test_a_look_fills_by_names() -> None:
    other = HOLED[HOLED.columns[::-1]]
    straight, turned = (me.look(data, model="gaussian", minutes=0.05).to_frame() for data in (HOLED, other))
    assert list(turned) == list(other)
    np.testing.assert_allclose(turned[list(HOLED)], straight, atol=0.05)
