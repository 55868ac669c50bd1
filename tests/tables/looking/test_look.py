"""Looking at a table from Python: what is found, what is filled, and the page."""

import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.core.show.parts import Group, Table
from maskevidence.tables.looking.reading import near_words, read_for_look
from maskevidence.tables.table_options import TableOptions
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


def test_the_wrong_cells_come_first(seen: me.Look) -> None:
    first, second = seen.cells[:2]
    assert (first.column, first.row, first.fault) == ("rent", 40, "not a number")
    assert (second.column, second.row, second.suggestion) == ("area", 10, "÷ 10")
    groups = {part.title: part for part in seen.page().parts if isinstance(part, Group)}
    rows = next(part.rows for part in groups["Cells to look at"].parts if isinstance(part, Table))
    assert rows[0][:3] == ["line 42", "rent", "1o50,00"]
    assert not any("Brelin" in cell for row in rows for cell in row)  # it is a finding already


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


def test_a_table_without_anything_to_model_is_still_described() -> None:
    seen = me.look(pd.DataFrame({"who": ["ann", "bob", "cy", "di", "eve", "fay"], "n": [1.0] * 6}))
    assert seen.modelled is None
    assert "no model" in seen.notes[-1]
    assert "6 rows, 2 columns" in seen.page().headline
    assert seen.to_frame().shape == (6, 2)


def test_missing_says_which_codes_are_meant(flats: Flats, tmp_path: Path) -> None:
    path = tmp_path / "flats.csv"
    path.write_bytes(flats.text.encode())
    _, table, _, options = read_for_look(str(path), TableOptions())
    assert options.missing == "-999"
    _, kept, found, _ = read_for_look(str(path), TableOptions(missing="NA"))
    rent = [each.columns.index("rent") for each in (table, kept)]
    assert np.nanmin(table.values[:, rent[0]]) > 0
    assert np.nanmin(kept.values[:, rent[1]]) == -999
    assert any(each.option == "--missing=-999" for each in found.findings)


def test_common_words_are_no_misspelling_of_each_other() -> None:
    values = np.repeat([0.0, 1.0], 20)[:, None]
    table = me.data.Table("t", values, ("c",), np.arange(40), levels={"c": ("cat", "car")})
    assert near_words(table, "c") is None


def test_bad_input_is_one_line() -> None:
    for how, words in (
        ({"minutes": 0}, "give a number above 0"),
        ({"colour": "red"}, "is not an option of a table"),
        ({"model": "no-such"}, "no-such"),
    ):
        with pytest.raises(me.InputError, match=words):
            me.look(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), **how)
