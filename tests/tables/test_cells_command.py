"""maskevidence cells: the table, the page and the JSON of a run, and the calls as holes of impute."""

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.core.support.files import csv_text, write_atomic
from maskevidence.runs.folder import write_sealed
from maskevidence.tables.filling import _without_wrong
from maskevidence.tables.table_files import read_table
from maskevidence.tables.wrong_cells.found_cells import WrongCell, value_of

WORDS = ("cells", "gaussian", "t.csv", "--id-column", "who")
TRUSTED = ("--trusted", "trusted.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with names of the rows, twelve cells of which are wrong, and trusted rows."""
    x = me.models.PPCA(n_features=4, n_components=2, seed=1).sample(400, seed=0).round(2)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame.insert(0, "who", [f"p{k}" for k in range(400)])
    frame[:200].to_csv(tmp_path / "trusted.csv", index=False)
    frame[["who", "a", "b"]].to_csv(tmp_path / "narrow.csv", index=False)
    frame[:3].to_csv(tmp_path / "short.csv", index=False)
    pd.DataFrame({"a": [1] * 9, "b": [2] * 9}).to_csv(tmp_path / "same.csv", index=False)
    frame.loc[200:211, "c"] += 30
    frame.loc[250, "d"] = np.nan
    frame[200:].to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_calls_are_written_shown_and_filled(folder: Path, run: CommandLine) -> None:
    result = run(*WORDS, *TRUSTED, "--out", "found", "--json", "r.json")
    assert result.code == 0, result.err
    cells = pd.read_csv(folder / "found" / "cells.csv")
    called = cells[cells["called"]]
    assert set(called["row"][called["column"] == "c"]) == set(range(12))
    assert set(cells["label"][:12]) == {f"p{k}" for k in range(200, 212)}
    said = json.loads((folder / "r.json").read_text())
    assert said["n_called"] == len(called)
    assert said["n_trusted"] == 200
    assert said["cells"][0]["suspicion"] == cells["suspicion"][0]
    assert "called wrong" in result.out
    page = (folder / "found" / "cells.html").read_text()
    assert page.count("<mark>") >= 12
    assert "p200" in page
    assert "% of such calls are false on average" in page
    assert all(made in page for made in ("How it was made", "maskevidence cells", "t.csv", "torch "))
    filling = ("impute", "gaussian", "t.csv", "--id-column", "who", "--wrong", "found/cells.csv")
    assert run(*filling, "--out", "mended.csv").code == 0
    given, mended = pd.read_csv("t.csv"), pd.read_csv("mended.csv")
    places = {(row, name) for row, name in zip(called["row"], called["column"], strict=True)} | {(50, "d")}
    changed = (mended[list("abcd")] != given[list("abcd")]).to_numpy()
    assert {(int(i), "abcd"[j]) for i, j in np.argwhere(changed)} == places
    assert mended["c"][:12].abs().max() < 15


def test_a_saved_model_remembers_how_its_table_was_read(folder: Path, run: CommandLine) -> None:
    train = (
        "train",
        "gaussian",
        "trusted.csv",
        "--id-column",
        "who",
        "--out",
        "m",
        "--objective",
        "likelihood",
    )
    assert run(*train).code == 0
    result = run("cells", "m", "t.csv", "--json", "r.json")
    assert result.code == 0, result.err
    said = json.loads((folder / "r.json").read_text())
    assert {cell["label"] for cell in said["cells"][:12]} == {f"p{k}" for k in range(200, 212)}
    assert any("no trusted rows" in note for note in said["notes"])


def test_another_folder_is_not_overwritten(folder: Path, run: CommandLine) -> None:
    first = run(*WORDS, "--out", "found", "--json", "first.json")
    assert first.code == 0
    before = {path: path.read_bytes() for path in (folder / "found").iterdir()}
    again = run(*WORDS, "--out", "found", "--json", "again.json")  # as after a kill behind the last file
    assert "was finished before" in " ".join(again.out.split())
    assert again.out.splitlines()[:20] == first.out.splitlines()[:20]
    assert (folder / "again.json").read_text() == (folder / "first.json").read_text()
    assert before == {path: path.read_bytes() for path in (folder / "found").iterdir()}
    assert "holds another search for wrong cells" in run(*WORDS, "--rate", "0.2", "--out", "found").error
    frame = pd.read_csv("t.csv")
    frame.assign(a=frame["a"] + 0.01).round(2).to_csv("t.csv", index=False)
    assert "holds another search for wrong cells" in run(*WORDS, "--out", "found").error
    assert run(*WORDS, "--out", "found", "--overwrite").code == 0
    (folder / "other").mkdir()
    (folder / "other" / "thesis.tex").write_text("x")
    assert "belong to no search for wrong cells" in run(*WORDS, "--out", "other").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*WORDS, "--rate", "1.5"), "rate=1.5; give a share of false calls"),
        ((*WORDS, "--trusted", "none.csv"), "there is no file 'none.csv'"),
        (("cells", "gpt2", "t.csv"), "gpt2"),
        ((*WORDS, "--trusted", "narrow.csv"), "'narrow.csv' has no column 'c'; it has who, a, b"),
        ((*WORDS, "--trusted", "short.csv"), "3 trusted rows for 5 folds"),
        (("cells", "ppca:9", "t.csv", "--drop", "who"), "n_components=9 with n_features=4"),
        (("cells", "gaussian", "same.csv"), "no column has two different values"),
        ((*WORDS, "--out", "t.csv"), "'t.csv' is a file; give a folder"),
        (("impute", "gaussian", "t.csv", "--drop", "who", "--wrong", "t.csv"), "is not a cells.csv"),
        (("impute", "gaussian", "t.csv", "--drop", "who", "--wrong", "none.csv"), "none.csv"),
    ],
)
def test_bad_input_has_one_line(folder: Path, run: CommandLine, words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_calls_that_are_not_in_the_table_are_refused(folder: Path, run: CommandLine) -> None:
    assert run(*WORDS, *TRUSTED, "--out", "found").code == 0
    n = int(pd.read_csv("found/cells.csv")["called"].sum())
    filling = ("impute", "gaussian", "u.csv", "--id-column", "who", "--wrong", "found/cells.csv")
    table = pd.read_csv("t.csv")
    changed = table.copy()
    changed.loc[3, "c"] = 1.5
    for frame, words in (
        (table[5:], f" of the {n} wrong cells"),
        (table[:9], f" of the {n} wrong cells"),
        (table.drop(columns="c"), f" of the {n} wrong cells"),
        (changed, f"1 of the {n} wrong cells of 'found/cells.csv' is not in this table, such as c = "),
    ):
        frame.to_csv("u.csv", index=False)
        error = run(*filling, "--overwrite").error
        assert words in error
        assert "give the table of that run" in error
    table.to_csv("u.csv", index=False)
    cells = (folder / "found" / "cells.csv").read_text()
    (folder / "found" / "cells.csv").write_text(cells.replace(",True,", ",TRUE,"))  # as spreadsheets write it
    assert run(*filling, "--out", "mended.csv").code == 0
    assert (pd.read_csv("mended.csv")["c"][:12] != table["c"][:12]).all()


def test_the_page_of_cells_needs_no_matplotlib(
    folder: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(*WORDS, "--out", "found").code == 0


def test_a_report_on_wrong_cells_is_their_page(folder: Path, run: CommandLine) -> None:
    assert run(*WORDS, *TRUSTED, "--out", "found").code == 0
    assert run("report", "found", "--out", "page.html").code == 0
    assert (folder / "page.html").read_bytes() == (folder / "found" / "cells.html").read_bytes()
    assert "a page of its own" in run("report", "found", "found").error
    (folder / "found" / "cells.html").write_text("<script>alert(1)</script>")
    assert run("report", "found", "--out", "again.html").code == 0
    assert (folder / "again.html").read_bytes() == (folder / "page.html").read_bytes()  # made from the data
    (folder / "found" / "cells.json").write_text("{}")
    assert "was changed after it was written; find the cells again" in run("report", "found").error
    write_sealed(folder / "found" / "cells.json", {"page": 1})
    assert "holds no page of wrong cells; find the cells again" in run("report", "found").error


ODD = (
    "a\nb",
    "a\r\nb",
    "a\rb",
    "a\u2028b",
    "a\x85b",
    "a\x0bb",
    "a\x0cb",
    "a\x1cb",
    "a,b",
    'a"b',
    "=1",
    "x" * 150_000,
)


@pytest.mark.parametrize("odd", ODD, ids=[ascii(word[:9]) for word in ODD])
def test_a_called_word_column_or_label_may_hold_any_character(tmp_path: Path, odd: str) -> None:
    rows = [[odd if k == 3 else "uv"[k % 2], k / 4] for k in range(60)]
    write_atomic(tmp_path / "t.csv", csv_text([odd, "b"], rows))
    table = read_table(tmp_path / "t.csv", words=True)
    heads = ("row", "label", "column", "value", "called")
    calls = [(3, odd, odd, odd, True), (5, odd, "b", 1.25, "TRUE"), (6, odd, "b", 9, False)]
    write_atomic(tmp_path / "cells.csv", csv_text(heads, calls))
    assert np.argwhere(np.isnan(_without_wrong(table, tmp_path / "cells.csv").values)).tolist() == [
        [3, 0],
        [5, 1],
    ]


def test_dates_are_written_as_the_column_does_and_found_again(tmp_path: Path) -> None:
    write_atomic(
        tmp_path / "t.csv", csv_text(["day", "b"], [(f"{k + 1:02}.02.2019", k / 4) for k in range(9)])
    )
    table = read_table(tmp_path / "t.csv")
    assert [value_of(table, 0, day) for day in (3.0, 4.2)] == ["04.02.2019", "05.02.2019"]
    write_atomic(
        tmp_path / "cells.csv",
        csv_text(["row", "column", "value", "called"], [(3, "day", value_of(table, 0, 3.0), True)]),
    )
    assert np.argwhere(np.isnan(_without_wrong(table, tmp_path / "cells.csv").values)).tolist() == [[3, 0]]


def test_what_is_likely_is_said_by_one_rule() -> None:
    seen: Any = {"row": 0, "label": "0", "column": "a", "value": 9.0, "suspicion": 8.0, "p_value": 0.0}
    cell = WrongCell(**seen, expected=2.0, low=1.5, high=2.5, called=True, fault="")
    assert cell.likely() == "2.000 (1.500 to 2.500)"
    assert cell.likely(lambda number, width: f"{number:.0f}/{width:.0f}") == "2/1 (2/1 to 2/1)"
    dated = replace(cell, expected="03.02.2019", low="01.02.2019", high="09.02.2019")
    assert dated.likely() == "03.02.2019 (01.02.2019 to 09.02.2019)"
    word = replace(cell, value="Berln", expected=None, low=None, high=None, likelier="Rome 0.5, Berlin 0.4")
    assert word.likely() == "Rome 0.5, Berlin 0.4"
    assert replace(word, suggested="Berlin", probability=0.974).likely() == "Berlin 97 %"


def test_calls_are_read_as_other_programs_save_them(tmp_path: Path) -> None:
    write_atomic(tmp_path / "t.csv", csv_text("ab", [(k / 4, k) for k in range(9)]))
    table, name = read_table(tmp_path / "t.csv"), tmp_path / "cells.csv"
    text = "row,label,column,value,called\n3,x,a,0.75, True\n4,x,a,1,0\n5,x,b,5.0,1\n"
    semicolons = text.replace(",", ";").replace(".", ",")
    calls = pd.DataFrame({"row": [3, 5], "column": ["a", "b"], "value": [0.75, 5], "called": [True, True]})
    calls.to_parquet(tmp_path / "cells.parquet")
    for file, content in {
        name: text.encode(),
        tmp_path / "bom.csv": b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        tmp_path / "cells.csv.gz": gzip.compress(text.encode()),
        tmp_path / "semicolons.csv": semicolons.encode(),
        tmp_path / "latin.csv": text.replace("x", "\xe9").encode("latin-1"),
        tmp_path / "cells.parquet": (tmp_path / "cells.parquet").read_bytes(),
    }.items():
        file.write_bytes(content)
        assert np.argwhere(np.isnan(_without_wrong(table, file).values)).tolist() == [[3, 0], [5, 1]], file
    for said in ("WAHR", "yes", "", "2"):
        name.write_text(text.replace(" True", said))
        with pytest.raises(InputError, match=f"has '{said}' in column 'called', line 2; write True or False"):
            _without_wrong(table, name)


def test_every_call_is_listed(tmp_path: Path) -> None:
    x = me.models.PPCA(n_features=4, n_components=2, seed=1).sample(3000, seed=0).round(2)
    wrong = x[1500:].copy()
    wrong[:1100, 2] += 90
    found = me.wrong_cells("gaussian", wrong, trusted=x[:1500])
    assert found.called.sum() > 1050
    for listed in (found.to_frame()["called"], [cell["called"] for cell in found.to_dict()["cells"]]):
        assert sum(listed) == found.called.sum()
    last = [cell for cell in found.cells if cell.called][-1]
    assert last.expected is not None  # described as the first are
    assert found.page().parts[0].rows[20:] == []
