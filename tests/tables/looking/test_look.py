"""Looking at a table from Python: what is found, what is filled, and the page."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.core.show.parts import Group, Table
from maskevidence.core.support.progress import Course, course, silent
from maskevidence.core.table import as_table
from maskevidence.tables.base import TableModel
from maskevidence.tables.choosing.selection import Fill
from maskevidence.tables.filling import Filling
from maskevidence.tables.looking.by_folds import folds_for
from maskevidence.tables.looking.determined import determined, rules_of, with_determined
from maskevidence.tables.looking.look_files import lines_of_columns
from maskevidence.tables.looking.look_page import short_page, writer
from maskevidence.tables.looking.looking import _simplest, _words, look_at
from maskevidence.tables.looking.pace import LAST, Clock, pace_of
from maskevidence.tables.looking.reading import near_words, read_for_look
from maskevidence.tables.table_options import LookOptions, TableOptions
from maskevidence.tables.wrong_cells.cell_search import CellJudge
from maskevidence.tables.wrong_cells.found_cells import odd_cells
from maskevidence.tables.wrong_cells.wrong_cells import Search
from messy_flats import Flats, messy_flats


@pytest.fixture(scope="session")
def flats() -> Flats:
    """Flats with wrong cells, spellings, codes and holes."""
    return messy_flats()


@pytest.fixture(scope="module")
def seen(flats: Flats, tmp_path_factory: pytest.TempPathFactory) -> me.Look:
    path = tmp_path_factory.mktemp("look") / "flats.csv"
    path.write_bytes(flats.text.encode())
    return me.look(str(path), model="kernel-gaussian")


def test_what_needs_a_person_is_found(seen: me.Look) -> None:
    found = {(each.what, each.column): each for each in seen.description.findings}
    code = found["codes", "rent"]
    assert (code.n_cells, str(code.first[0]), code.weight) == (3, "line 134: '-999'", 3)
    assert code.assumed.endswith("read as missing")
    assert found["odd cells", "rent"].first[0].text == "1o50,00"
    assert found["unit", "area"].n_cells == 3
    spelt = [each.assumed for each in seen.description.findings if each.what == "spellings"]
    assert any("'Brelin' and 'Berlin'" in words for words in spelt)
    assert any("'munich'" in words for words in spelt)


def test_what_was_decided_is_asked_no_more(flats: Flats, tmp_path: Path) -> None:
    path = tmp_path / "flats.csv"
    path.write_bytes(flats.text.encode())
    options = TableOptions(fold_words=True, categories="key", missing="NA")
    found = read_for_look(str(path), options)[2]
    open_ones = {(each.what, each.column) for each in found.findings if each.weight == 3}
    assert open_ones == {("odd cells", "rent")}
    assert not any(each.column == "key" for each in found.findings)


@pytest.mark.parametrize(
    "cell",
    [
        lambda k: ("aa", "bb", str(k))[k % 3],
        lambda k: ("yes", "no", "Yes", "NO")[k % 4],
        lambda k: ("yes", "no", "y", "n")[k % 4],
        lambda k: f"0{k % 9}{k % 4}",
        lambda k: f"{k % 12 + 1:02}/{k * 5 % 12 + 1:02}/2021",
        lambda k: "9999" if k % 20 == 0 else str(k % 50 + 1),
        lambda k: f"K{k}",
    ],
    ids=["mixed", "case of yes", "yes and y", "zeros", "dates", "9999", "names"],
)
def test_each_option_that_a_finding_names_decides_it(cell: Callable[[int], str], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,b\n" + "".join(f"{cell(k)},{k * 7 % 31}.5\n" for k in range(120)))
    listed = [each for each in read_for_look(str(path), TableOptions())[2].findings if each.column == "c"]
    assert len(listed) == 1
    for each in listed:
        for flag, value in re.findall(r"--([a-z-]+) ?([^\s,]*)", each.option):
            options = TableOptions(**{flag.replace("-", "_"): value or True})
            left = read_for_look(str(path), options)[2].findings
            assert not any((one.what, one.column, one.weight) == (each.what, "c", 3) for one in left), flag


def test_a_column_that_an_option_makes_words_is_described_as_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    sizes = [f"{k}.5 {'cm' if k % 5 else 'mm'}" for k in range(80)]
    two = [f"{k},25" if k % 7 == 0 else f"{k}.5" for k in range(80)]
    lines = [f"K{k};{two[k]};{sizes[k]};{k % 9}.5" for k in range(80)]
    path.write_text("who;two;size;b\n" + "\n".join(lines) + "\n")
    found = read_for_look(str(path), TableOptions())[2]
    options = {each.column: each.option for each in found.findings if each.weight > 1}
    assert options["two"] == "write all in one way, or give --decimal '.', which keeps the others apart"
    for name in ("who", "size", "two"):  # 'two' alone cannot be read
        table, again = read_for_look(str(path), TableOptions(categories=name))[1:3]
        assert (again[name].kind, again[name].used_as) == ("words", "words")
        assert name in table.levels
    assert "two" in read_for_look(str(path), TableOptions(decimal="."))[1].columns


def test_dates_in_two_orders_are_no_cells_that_are_no_dates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    days = [f"{k % 12 + 1:02}/{k % 28 + 1:02}/2021" for k in range(60)] + ["13/01/2021", "25/02/2021"]
    path.write_text("day,b\n" + "".join(f"{day},{k}.5\n" for k, day in enumerate(days)))
    found = read_for_look(str(path), TableOptions())[2]
    (note,) = (each.assumed for each in found.findings if each.what == "odd cells")
    assert note.startswith("2 cells have day and month in another order, as dates with two readings may have")


def test_the_wrong_cells_come_first(seen: me.Look) -> None:
    first, second = seen.cells[:2]
    assert (first.column, first.row, first.fault) == ("rent", 40, "not a number")
    assert (second.column, second.row, second.suggestion) == ("area", 10, "÷ 10")
    groups = {part.title: part for part in seen.page().parts if isinstance(part, Group)}
    rows = next(part.rows for part in groups["Cells to look at"].parts if isinstance(part, Table))
    assert rows[0][:3] == ["line 42", "rent", "1o50,00"]
    assert not any("Brelin" in cell for row in rows for cell in row)  # it is a finding already
    (spelt,) = (cell for cell in seen.cells if cell.value == "Brelin")
    assert spelt.likely() == "Berlin"  # as the finding says, whatever the row makes likely


def test_filled_values_are_better_than_the_mean_and_look_like_the_column(seen: me.Look, flats: Flats) -> None:
    frame, holes = seen.to_frame(), flats.given == ""
    error = (frame["area"] - flats.truth["area"])[holes["area"]]
    assert np.sqrt((error**2).mean()) < 0.5 * flats.truth["area"].std()
    assert (frame["city"] == flats.truth["city"])[holes["city"]].mean() > 0.7
    assert set(frame["rooms"][holes["rooms"]]) <= set(flats.truth["rooms"].astype(float))
    assert (frame["area"] * 10 % 1 < 1e-6).all() or np.allclose(frame["area"].round(1), frame["area"])


def test_the_error_of_filled_values_is_that_of_hidden_ones(seen: me.Look, flats: Flats) -> None:
    """The stated error holds the true one of the holes: within a factor of two for eight of them."""
    of, holes = seen.modelled, flats.given["area"] == ""
    assert of is not None
    fill = of.fills["area"]
    true = np.sqrt(((seen.to_frame()["area"] - flats.truth["area"])[holes] ** 2).mean())
    assert fill.holes == 8
    assert 0.5 < fill.quality / true < 2
    assert fill.quality < 0.5 * fill.without


def test_links_of_normal_columns_are_their_correlations() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 600))
    frame = pd.DataFrame({"a": a, "b": 0.8 * a + 0.6 * b, "c": c})
    of = me.look(frame, model="gaussian").modelled
    assert of is not None
    assert abs(of.links[0, 1] - 0.8) < 0.05
    assert of.links[0, 2] < 0.15
    assert np.isnan(np.diag(of.links)).all()


def test_a_data_frame_keeps_its_dtypes_and_index_and_shows_a_page() -> None:
    x = me.models.PPCA(n_features=3, n_components=1, seed=1).sample(120, seed=0)
    frame = pd.DataFrame({"n": (10 * x[:, 0]).round(), "y": x[:, 1], "z": x[:, 2].astype(np.float32)})
    frame = frame.astype({"n": "Int64"}).set_index(pd.Index([f"r{k}" for k in range(120)], name="who"))
    frame.loc["r5", "n"], frame.loc["r7", "y"] = pd.NA, np.nan
    seen = me.look(frame, model="gaussian")
    filled = seen.to_frame()
    assert filled.dtypes.to_dict() == frame.dtypes.to_dict()
    assert filled.index.equals(frame.index)
    assert not filled.isna().any().any()
    assert filled.drop(["r5", "r7"]).equals(frame.drop(["r5", "r7"]))
    page = unescape(re.sub("<[^>]+>", " ", seen._repr_html_()))
    assert all(words in page for words in ("120 rows, 3 columns", "holes filled", "Columns"))
    assert "<svg" in seen._repr_html_()
    assert repr(seen) == "Look('the data': 120 rows, 3 columns)"


def test_filled_times_are_whole_hours_where_the_column_has_whole_hours() -> None:
    rng = np.random.default_rng(2)
    hours = rng.integers(0, 900, 80)
    when = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(hours, "h")
    frame = pd.DataFrame({"when": when, "x": hours + rng.normal(0, 1, 80)})
    frame.loc[[3, 5], "when"] = pd.NaT
    filled = me.look(frame, model="gaussian").to_frame()["when"]
    assert (filled == filled.dt.floor("h")).all()
    assert abs(filled[3] - when[3]) < pd.Timedelta("6h")


def test_a_table_without_anything_to_model_is_still_described() -> None:
    seen = me.look(pd.DataFrame({"who": ["ann", "bob", "cy", "di", "eve", "fay"], "n": [1.0] * 6}))
    assert seen.modelled is None
    assert "no model" in seen.notes[-1]
    assert "6 rows, 2 columns" in seen.page().headline
    assert seen.to_frame().shape == (6, 2)


def test_missing_says_which_codes_are_meant(flats: Flats, tmp_path: Path) -> None:
    path = tmp_path / "flats.csv"
    path.write_bytes(flats.text.encode())
    _, table, _, options, _ = read_for_look(str(path), TableOptions())
    assert options.missing == "-999"
    kept, found = read_for_look(str(path), TableOptions(missing="NA"))[1:3]
    rent = [each.columns.index("rent") for each in (table, kept)]
    assert np.nanmin(table.values[:, rent[0]]) > 0
    assert np.nanmin(kept.values[:, rent[1]]) == -999
    assert any(each.option == "--missing=-999" for each in found.findings)


def test_options_for_other_cells_keep_the_codes_that_are_read_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    cells = [f"{170 + k % 9},{k % 28 + 1:02}.03.2024" for k in range(60)]
    path.write_text("\n".join(["height,day", "-999,01.03.2024", "-999,31.02.2024", "17o,02.03.2024", *cells]))
    found = read_for_look(str(path), TableOptions())[2]
    options = {each.option for each in found.findings if each.what == "odd cells"}
    assert options == {"--missing=-999 --missing '17o'", "--missing=-999 --missing '31.02.2024'"}
    table = read_for_look(str(path), TableOptions(missing="-999,17o"))[1]
    assert np.nanmin(table.values[:, 0]) == 170


def test_text_among_dates_is_called_no_date(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    cells = [f"{170 + k % 9},{k % 28 + 1:02}.03.2024" for k in range(60)]
    path.write_text("\n".join(["height,day", "170,31.02.2024", "17o,02.03.2024", *cells]))
    table = read_for_look(str(path), TableOptions())[1]
    assert {cell.value: cell.fault for cell in odd_cells(table)} == {
        "31.02.2024": "not a date",
        "17o": "not a number",
    }


def test_columns_that_the_model_fills_no_better_are_filled_by_their_mean_or_commonest_value() -> None:
    values = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0], [6.0, 6.0, 1.0], [np.nan, np.nan, np.nan]])
    table = me.data.Table("t", values, ("a", "b", "w"), np.arange(4), levels={"w": ("no", "yes")})
    by_model = np.where(np.isnan(values), [9.0, 9.0, 0.0], values)
    filling = Filling(by_model[None], np.full((4, 3), 0.5), likeliest=("w",))
    clean = np.where(values == 6, np.nan, values)
    fills = {"a": Fill(1, 2.2, 2.1, False), "b": Fill(1, 2.0, 2.1, False), "w": Fill(1, 0.5, 0.6, True)}
    new, simple, errors = _simplest(table, clean, filling, fills)
    assert simple == {"a": "mean", "w": "commonest"}
    assert errors["a"].quality == np.sqrt((4 + 1) / 2)  # of the cells that do not look wrong
    assert new.values[0, 3].tolist() == [3.0, 9.0, 1.0]
    assert new.deviation is not None
    assert np.allclose(new.deviation[3], [np.sqrt(2.5), 0.5, 2 / 3])
    assert np.array_equal(new.values[0, :3], values[:3])


def test_the_page_says_what_is_filled_by_the_mean() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2)).round(2)
    frame = pd.DataFrame({"a": x[:, 0], "b": (x[:, 0] + x[:, 1] / 9).round(2), "alone": rng.permutation(90)})
    frame["price"] = rng.lognormal(0, 1.2, 90).round(2)
    frame.loc[3, "a"], frame.loc[4, "alone"], frame.loc[5, "price"] = np.nan, np.nan, np.nan
    seen = me.look(frame, model="kernel-gaussian")
    assert seen.modelled is not None
    assert seen.modelled.simple == {"alone": "mean", "price": "median"}
    assert seen.to_frame()["price"][5] == frame["price"].median()
    assert seen.to_frame()["alone"][4] == round(frame["alone"].mean())
    holes = next(each for each in seen.page().parts if isinstance(each, Group) and each.title == "Holes")
    (rows,) = (part.rows for part in holes.parts if isinstance(part, Table))
    assert [row[2] for row in rows] == ["model", "mean", "median"]
    assert rows[1][-1] == "100 %"


def test_many_columns_of_few_rows_take_a_model_whose_fits_fit_into_the_time() -> None:
    x = np.random.default_rng(0).normal(size=(30, 1500))
    x[x > 2] = np.nan
    names = tuple(f"g{k}" for k in range(1500))
    folds = folds_for(me.data.Table("t", x, names, np.arange(30)), 0, None)
    assert folds is not None
    assert _words(folds, LookOptions()) == ["factor-analysis:3"]
    assert _words(folds, LookOptions(minutes=1e4)) == ["kernel-gaussian"]
    assert _words(folds, LookOptions(model="gaussian")) == ["gaussian"]


def test_numbers_of_the_page_have_one_format_and_no_exponent() -> None:
    x = np.random.default_rng(0).lognormal(6, 4, 60)
    frame = pd.DataFrame({"long": x, "short": np.round(x % 50, 1), "y": np.arange(60.0)})
    seen = me.look(frame, model="gaussian")
    write = writer(seen, "short")
    assert [write(7.0), write(-7.25, 3.0), write(7.25, 300.0)] == ["7.0", "\N{MINUS SIGN}7.2", "7"]
    assert writer(seen, "long")(1234567.8) == "1235000"
    shown = [cell for part in seen.page().parts if isinstance(part, Group) for cell in _cells_of(part)]
    assert not [cell for cell in shown if re.search(r"\de[+-]?\d", cell)]


def _cells_of(group: Group) -> list[str]:
    return [cell for part in group.parts if isinstance(part, Table) for row in part.rows for cell in row[2:]]


def test_common_words_are_no_misspelling_of_each_other() -> None:
    values = np.repeat([0.0, 1.0], 20)[:, None]
    table = me.data.Table("t", values, ("c",), np.arange(40), levels={"c": ("cat", "car")})
    assert near_words(table, "c") is None


def test_the_time_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock on which each call of a model takes seconds, the steps take their shares at most."""
    now, x = [0.0], me.models.PPCA(n_features=6, n_components=2, seed=1).sample(300, seed=0)
    x[5, 1], x[8, 2] = 40.0, np.nan

    def slow(method: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def slowly(self: object, rows: Any, *more: object, **others: Any) -> Any:
            now[0] += seconds * len(rows)
            return method(self, rows, *more, **others)

        return slowly

    monkeypatch.setattr("maskevidence.tables.looking.pace.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(Course, "__init__", partialmethod(Course.__init__, clock=lambda: now[0]))
    monkeypatch.setattr(CellJudge, "search", slow(CellJudge.search, 0.5))
    monkeypatch.setattr(TableModel, "impute", slow(TableModel.impute, 0.02))
    seen = me.look(pd.DataFrame(x, columns=list("abcdef")), model="gaussian", minutes=2)
    assert 60 < now[0] < 130
    assert not np.isnan(seen.to_frame().to_numpy()).any()
    assert any("the time was short" in note and "rows were judged" in note for note in seen.notes)
    assert any("no cell is called at a rate" in note for note in seen.notes)
    now[0] = 0.0
    seen = me.look(pd.DataFrame(x, columns=list("abcdef")), model="gaussian", minutes=60)
    assert now[0] > 300
    assert not any("the time was short" in note for note in seen.notes)
    now[0], x[::10, 1] = 0.0, 40.0
    seen = me.look(pd.DataFrame(x, columns=list("abcdef")), model="gaussian", minutes=0.1)
    (said,) = short_page(seen).notes  # the terminal says it, too
    assert "suspicious cells of some rows stayed in the fits" in said
    assert "--minutes 0.2 --overwrite looks again" in said


def test_the_stated_time_is_that_of_the_last_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now, x = [0.0], me.models.PPCA(n_features=4, n_components=1, seed=1).sample(300, seed=0)
    x[::2, 1] = np.nan
    impute = TableModel.impute

    def slowly(self: TableModel, rows: Any, *more: object, **others: Any) -> Any:
        now[0] += 0.25 * np.isnan(rows).any(axis=1).sum()
        return impute(self, rows, *more, **others)

    monkeypatch.setattr("maskevidence.tables.looking.pace.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(Course, "__init__", partialmethod(Course.__init__, clock=lambda: now[0]))
    monkeypatch.setattr(TableModel, "impute", slowly)

    def write(seen: me.Look) -> None:
        now[0] += 1.0

    look_at(pd.DataFrame(x, columns=list("abcd")), LookOptions(model="gaussian"), write=write)
    assert 60 < now[0] < 125  # to fill 150 rows takes 37


def test_a_model_that_takes_too_long_is_forecast_no_more() -> None:
    plan = Course(
        silent,
        {"a": (5, 1.0), "b": (5, 600.0), "choose": (1, 50.0)} | dict.fromkeys(LAST, (0, 0.0)),
        clock=lambda: 0.0,
    )
    clock = Clock(plan, 120.0)
    clock.without("b")
    assert plan.forecast == 5
    plan.left["fill"], plan.seconds["fill"] = 1, 300.0  # longer than the whole time
    assert 0 < clock.room("cells") < 1
    assert "b was not tried" in clock.sentence()


def test_a_pace_knows_what_is_spent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def work(rows: Any) -> None:
        now[0] += 0.05 + 0.01 * len(rows)

    monkeypatch.setattr("maskevidence.tables.looking.pace.time.perf_counter", lambda: now[0])
    pace = pace_of(work, np.zeros((64, 1)))
    assert pace == pytest.approx((0.05, 0.01))
    assert (pace.fits(1.051), pace.seconds(100), pace.seconds(0)) == (100, pytest.approx(1.05), 0)


def test_a_wrong_cell_of_a_row_that_is_not_judged_again_stays_hidden() -> None:
    x = me.models.PPCA(n_features=3, n_components=1, seed=1).sample(100, seed=0)
    row = np.random.default_rng(0).permutation(100)[60]  # of which 50 are judged again
    x[row, 1] = 100
    folds = folds_for(me.data.Table("t", x, ("a", "b", "c"), np.arange(100)), 0, None)
    assert folds is not None
    folds = replace(folds, word="gaussian")
    with course("looking", dict.fromkeys(("gaussian", "suspect", "cells"), (5, 1.0))) as plan:
        models = folds.fit_all(x, plan, 1)
        values, *_ = folds.without_suspicious(models, plan, np.inf)
        found = folds.search(models, values, plan, (50, Search(n_planted=0)))
    assert np.isnan(folds.without(found, values)[row, 1])


def test_numbers_beside_words_are_judged_by_kernels() -> None:
    """Counts, which fill the words best, did not list a mass of 260.1 beside 26."""
    rng, n = np.random.default_rng(0), 200
    frame = pd.DataFrame(
        {"town": rng.choice(["Bern", "Basel", "Genf"], n), "mass": rng.normal(26, 4, n).round(1)}
    )
    frame["sugar"], frame["state"] = rng.normal(6, 1, n).round(1), frame["town"].str.upper()
    frame.loc[20, "mass"], frame.loc[7, "sugar"] = 260.1, 65.0
    frame.loc[3, "mass"] = np.nan
    seen = me.look(frame, model="mixture-transition")
    assert {(cell.row, cell.column) for cell in seen.cells[:2]} == {(20, "mass"), (7, "sugar")}
    assert any("judged by kernel-gaussian" in note for note in seen.notes)
    assert 15 < seen.to_frame()["mass"][3] < 35


def test_a_copy_fills_the_holes_of_its_column_exactly() -> None:
    rng = np.random.default_rng(0)
    x, word = rng.normal(20, 3, 80).round(3), rng.choice(["ab", "cd", "ef"], 80)
    frame = pd.DataFrame({"a": x, "twin": x, "near": x, "w": word, "twin_w": word, "z": rng.normal(size=80)})
    frame.loc[3, "twin"], frame.loc[7, "a"], frame.loc[9, "twin_w"], frame.loc[9, "near"] = *[np.nan] * 3, 0.0
    frame.loc[4, "near"] = np.nan
    seen = me.look(frame, model="kernel-gaussian")
    filled, of = seen.to_frame(), seen.modelled
    assert of is not None
    truth = pd.DataFrame({"twin": x, "a": x, "twin_w": word})
    assert (filled[list(truth)] == truth).all().all()
    assert of.deviation[3, of.table.columns.index("twin")] == 0
    assert of.deviation[4, of.table.columns.index("near")] > 0  # not a copy: one cell differs
    assert any("twin by a" in note and "near" not in note for note in seen.notes)


def test_columns_that_another_determines_are_found_and_filled_by_it() -> None:
    rng = np.random.default_rng(3)
    code = rng.integers(0, 6, 90)
    price = rng.lognormal(3, 1, 90).round(2)
    frame = pd.DataFrame({"code": np.array(list("ABCDEF"))[code], "price": price, "z": rng.normal(size=90)})
    frame["group"], frame["gross"] = np.array(["x", "y", "z"])[code // 2], (1.19 * price + 2).round(2)
    noisy = np.array(["x", "y", "z"])[rng.permutation(code // 2)]
    frame = frame.assign(noise=noisy, near=(price + rng.normal(0, 0.1, 90)).round(2))
    truth = frame.copy()
    frame.loc[3, "group"] = frame.loc[5, "gross"] = None
    _, table, found, _, rules = read_for_look(frame, TableOptions())
    assert {each.column: each.assumed for each in found.findings if each.what == "determined"} == {
        "group": "follows from 'code': each of its 6 values goes with one here",
        "gross": "follows from 'price': a line of it, of slope 1.19",
    }
    filled, deviation = np.zeros_like(table.values), np.ones_like(table.values)
    assert with_determined(table, rules, filled, deviation) == {"group": "code", "gross": "price"}
    assert filled[5, table.columns.index("gross")] == pytest.approx(truth["gross"][5], abs=0.011)
    group = table.columns.index("group")
    assert table.levels["group"][int(filled[3, group])] == truth["group"][3]


def test_a_copy_of_names_that_seldom_repeat_fills_them() -> None:
    name = np.array([f"name {k}" for k in range(60)] * 2)
    frame = pd.DataFrame({"n": np.random.default_rng(0).normal(size=120), "a": name, "b": name})
    frame.loc[:9, "b"] = None
    table = as_table(frame)
    filled = np.full_like(table.values, -1.0)
    assert with_determined(table, rules_of(table), filled, np.zeros_like(filled)) == {"b": "a"}
    assert [table.levels["b"][int(code)] for code in filled[:10, 2]] == name[:10].tolist()


def test_in_rows_that_stand_five_times_no_column_follows_from_another() -> None:
    rng = np.random.default_rng(0)
    once = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "c": rng.choice([*"xyz"], 40)})
    table = as_table(pd.concat([once] * 5).mask(rng.random((200, 3)) < 0.05))
    rules = rules_of(table)
    assert rules  # copies fill each other's holes
    assert not determined(table, rules, ())


@pytest.mark.parametrize("kind", ["zone", "sparse", "mixed", "one column", "columns in levels"])
def test_any_data_frame_is_looked_at(kind: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.arange(60) + rng.normal(size=60), "y": rng.normal(size=60)})
    if kind == "zone":
        frame["t"] = pd.date_range("2021-01-01 05:00", periods=60, tz="Europe/Berlin")
        frame.loc[40, "t"] = pd.NaT
    elif kind == "sparse":
        frame = frame.astype(pd.SparseDtype("float"))
    elif kind == "mixed":
        frame["o"] = [1, "a"] * 30
    elif kind == "one column":
        frame = frame["x"]
    else:
        frame.columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    filled = me.look(frame, model="gaussian").to_frame()
    if kind == "zone":
        assert filled["t"].dtype == frame["t"].dtype
        assert abs(filled["t"][40] - pd.Timestamp("2021-02-10 05:00", tz="Europe/Berlin")) < pd.Timedelta(
            "5D"
        )
    assert not filled.isna().any().any()


def test_data_frames_that_are_no_tables_are_refused() -> None:
    frame = pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0)})
    for given, words in (
        (frame.set_axis(["a", "a"], axis=1), "2 columns with the name 'a'"),
        (frame.assign(z=1j), "column 'z' holds complex numbers"),
    ):
        with pytest.raises(me.InputError, match=words):
            me.look(given)


def test_wrong_cells_without_which_a_column_does_not_vary_stay_in_the_fits() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)).round(2)
    frame = pd.DataFrame(
        {"a": x[:, 0], "b": x[:, 0] + x[:, 1], "rare": (np.arange(100) % 25 == 0).astype(float)}
    )
    seen = me.look(frame)
    assert seen.modelled is not None, seen.notes


def test_bad_input_is_one_line() -> None:
    for how, words in (
        ({"minutes": 0}, "give a number above 0"),
        ({"colour": "red"}, "is not an option of a table"),
        ({"model": "no-such"}, "no-such"),
    ):
        with pytest.raises(me.InputError, match=words):
            me.look(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), **how)


def test_whole_numbers_of_a_typed_file_have_no_decimals_on_the_page(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "t.parquet"
    frame = pd.DataFrame({"age": rng.integers(20, 80, 60).astype(float), "x": rng.normal(size=60)})
    frame.loc[3, "age"] = np.nan
    frame.to_parquet(path)
    seen = me.look(str(path), model="gaussian")
    known = frame["age"].dropna().astype(int)
    assert writer(seen, "age")(float(known.max())) == f"{known.max()}"


def test_findings_stand_by_column_and_counts_have_one_convention(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    words, x = rng.choice(["Berlin", "Munich"], 1200), rng.normal(50, 9, 1200)
    lines = [
        f"{x[k]:.3f}".replace(".", ",") + f";{words[k]};{x[k] + 1:.1f}".replace(".", ",") for k in range(1200)
    ]
    lines[3] = lines[3].replace(words[3], "berlin")
    lines[4] = lines[4].replace(words[4], "Brelin")
    lines[5], lines[6] = "-999" + lines[5][lines[5].index(";") :], "-999" + lines[6][lines[6].index(";") :]
    path.write_text(
        "\n".join(["x;city;y", *(f"{line};" for line in lines)]).replace("x;city;y", "x;city;y;few")
    )
    path.write_text(path.read_text().replace(f"{lines[0]};", f"{lines[0]};1", 1))
    page = me.look(str(path), model="gaussian", minutes=0.2).page()
    assert page.headline == "1\u202f200 rows, 4 columns"
    groups = {part.title: part for part in page.parts if isinstance(part, Group)}
    tables = {
        name: next((p for p in each.parts if isinstance(p, Table)), None) for name, each in groups.items()
    }
    findings = next(each for name, each in tables.items() if name.startswith(("Decisions", "Assumptions")))
    columns = [row[1] for row in findings.rows]
    assert columns == ["x", "city", "city", "the file", "few"]  # that is constant
    assert [row[0] for row in findings.rows[:2]] == ["Decimals or thousands?", "The same word?"]
    assert all(row[0].endswith("?") for row in findings.rows)
    by_name = {row[0]: row for row in tables["Columns"].rows}
    assert by_name["few"][4] == "1\u202f199"
    assert "not filled: its 1 known cell is too few" in by_name["few"][5]
    assert not [cell for row in tables["Columns"].rows for cell in row[4:] if re.search(r"\d,\d{3}", cell)]


def test_two_cells_that_were_exchanged_are_one_line_of_the_page() -> None:
    rng = np.random.default_rng(1)
    size = rng.gamma(6, 14, 300) + 20
    x = np.column_stack([13 * size, 1.4 * size, size]) + rng.normal(0, (60, 9, 1), (300, 3))
    frame = pd.DataFrame(x.round(1), columns=["rent", "heating", "area"])
    frame.loc[7, ["rent", "heating"]] = frame.loc[7, ["heating", "rent"]].to_numpy()
    seen = me.look(frame, model="gaussian")
    groups = {part.title: part for part in seen.page().parts if isinstance(part, Group)}
    rows = next(part.rows for part in groups["Cells to look at"].parts if isinstance(part, Table))
    (swapped,) = [row for row in rows if row[0] == "7" and ";" in row[1]]
    assert sorted(swapped[1].split("; ")) == ["heating", "rent"]
    assert swapped[4] == "exchanged, both would fit the row"
    assert not any("more are in" in str(part) for part in groups["Cells to look at"].parts)


def test_columns_left_empty_have_a_reason() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30)}).assign(b=lambda rows: rows.a + 0.1)
    table.loc[[3, 9], "few"] = [2.5, 3.1]
    seen = me.look(table, model="kernel-gaussian")
    (line,) = (line for line in lines_of_columns(seen)[1] if line[0] == "few")
    assert "its 2 known cells are too few" in str(line[-1])
