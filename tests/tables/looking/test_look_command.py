"""maskevidence look: the files, the page, resuming, and the table.json that other commands take."""

import base64
import datetime as dt
import hashlib
import json
import re
from pathlib import Path

import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.tables.look import look_command
from maskevidence.tables.looking.by_folds import Folds
from maskevidence.tables.table_options import LookOptions
from messy_flats import Flats, messy_flats

LOOK = ("look", "flats.csv", "--model", "kernel-gaussian")


@pytest.fixture(scope="session")
def flats() -> Flats:
    """Flats with wrong cells, spellings, codes and holes."""
    return messy_flats()


@pytest.fixture
def file(flats: Flats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flats.csv"
    path.write_bytes(flats.text.encode())
    return path


@pytest.fixture(scope="module")
def looked(flats: Flats, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file, and a finished look at it."""

    folder = tmp_path_factory.mktemp("looked")
    (folder / "flats.csv").write_bytes(flats.text.encode())
    options = LookOptions(out=folder / "flats-look", model="kernel-gaussian")
    look_command(str(folder / "flats.csv"), options)
    return folder


def test_the_filled_table_is_the_given_one_but_for_its_holes(looked: Path, flats: Flats) -> None:
    content = (looked / "flats-look" / "filled.csv").read_bytes().decode()
    lines = [line.split(";") for line in content.splitlines()]
    given = [line.split(";") for line in flats.text.splitlines()]
    assert len(lines) == len(given)
    for new, old in zip(lines, given, strict=True):
        assert len(new) == len(old)
        for name, a, b in zip(given[0], new, old, strict=True):
            if b in ("", "-999") and len(old) > 1:
                form = {
                    "let": r"\d\d\.\d\d\.2021",
                    "area": r"\d+,\d",
                    "rooms": r"[1-6]",
                    "rent": r"\d+,\d\d",
                }
                assert re.fullmatch(form.get(name, r"\w+"), a), (name, a)
            else:
                assert a == b


def test_the_files_tell_what_was_found(looked: Path) -> None:
    folder = looked / "flats-look"
    assert {each.name for each in folder.iterdir() if each.name[0] != "."} == {
        "cells.csv",
        "columns.csv",
        "filled.csv",
        "filled_sd.csv",
        "index.html",
        "model",
        "table.json",
    }
    cells, columns = pd.read_csv(folder / "cells.csv"), pd.read_csv(folder / "columns.csv", index_col=0)
    assert cells[["row", "column"]].to_numpy()[:2].tolist() == [[40, "rent"], [10, "area"]]
    kinds = ["id", "date", "words", "number", "number", "number"]
    assert columns["kind"].tolist() == kinds
    assert columns.loc["rent", "filled"] == 8 + 3
    errors = pd.read_csv(folder / "filled_sd.csv")
    assert len(errors) == columns["filled"].sum()
    assert (errors["sd"].isna() == errors["probability"].notna()).all()
    said = json.loads((folder / "table.json").read_text())
    assert said["options"]["missing"] == "-999"
    assert said["model"] == "kernel-gaussian"
    assert me.models.load(folder / "model").n_features == 5


def test_the_page_needs_no_network_and_escapes_names(looked: Path) -> None:
    page = (looked / "flats-look" / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    seal = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{seal}'" in page
    assert "140 rows, 6 columns" in page
    for words in ("Decisions", "Cells to look at", "How columns are related", "How it was made", "1o50,00"):
        assert words in page
    assert "All numbers are in nats" not in page
    assert '<td data-head="what was assumed"' in page  # on a phone, above each other


def test_the_same_command_shows_it_again_and_another_one_is_refused(
    looked: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(looked)
    file, out = str(looked / "flats.csv"), str(looked / "flats-look")
    first = run("look", file, "--model", "kernel-gaussian", "--out", out)
    assert (first.code, "was finished before" in first.out) == (0, True)
    assert "43 holes filled" in first.out
    other = run(*LOOK, "--seed", "1", "--out", "flats-look")
    assert "holds another look at a table" in other.error


def test_other_commands_take_the_decisions(
    looked: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(looked)
    told = ("--columns", "flats-look/table.json")
    made = run("impute", "kernel-gaussian", "flats.csv", *told, "--out", "again.csv")
    assert made.code == 0, made.err
    again = pd.read_csv("again.csv", sep=";", dtype=str, keep_default_na=False)
    assert not (again["rent"] == "-999").any()
    found = run("cells", "kernel-gaussian", "flats.csv", *told, "--json", "c.json", "--limit", "100")
    assert found.code == 0, found.err
    assert json.loads(Path("c.json").read_text())["cells"][0]["value"] == "1o50,00"
    chosen = run(
        "select", "gaussian,kernel-gaussian", "flats.csv", *told, "--drop", "city,let", "--json", "s.json"
    )
    assert chosen.code == 0, chosen.err
    assert json.loads(Path("s.json").read_text())["columns"] == ["area", "rooms", "rent"]
    told_of = run("information", "gaussian", "flats.csv", *told, "--drop", "city", "--json", "i.json")
    assert told_of.code == 0, told_of.err
    scored = run("score", "gaussian", "flats.csv", *told, "--drop", "city,let", "--json", "score.json")
    assert scored.code == 0, scored.err
    assert run("score", "flats-look/model", "flats.csv", *told).code == 0
    Path("other.json").write_text("[1]")
    refused = run("impute", "kernel-gaussian", "flats.csv", "--columns", "other.json", "--out", "x.csv")
    assert "no table.json" in refused.error


def test_a_spreadsheet_is_filled_as_it_stands(
    tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers stay numbers, dates dates; another sheet and what is not filled are kept."""
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    x = me.models.PPCA(n_features=3, n_components=1, seed=1).sample(60, seed=0).round(2)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(day=pd.date_range("2021-01-01", periods=60))
    frame["code"] = ["07", "08", "09"] * 20
    frame.loc[5, "a"], frame.loc[9, "day"], frame.loc[9, "code"] = None, None, None
    with pd.ExcelWriter("t.xlsx") as writer:
        frame.to_excel(writer, sheet_name="data", index=False)
        pd.DataFrame({"k": [1]}).to_excel(writer, sheet_name="other", index=False)
    done = run("look", "t.xlsx", "--model", "mixture-transition")
    assert done.code == 0, done.err
    book = openpyxl.load_workbook("t-look/filled.xlsx")
    rows = list(book.worksheets[0].iter_rows(values_only=True))
    assert book.sheetnames == ["data", "other"]
    assert isinstance(rows[6][0], float)
    assert isinstance(rows[10][3], dt.datetime)
    assert rows[10][4] in ("07", "08", "09")
    given = list(openpyxl.load_workbook("t.xlsx").worksheets[0].iter_rows(values_only=True))
    assert [row for k, row in enumerate(rows) if k not in (6, 10)] == [
        row for k, row in enumerate(given) if k not in (6, 10)
    ]
    done = run("impute", "gaussian", "t.xlsx", "--drop", "code", "--out", "filled.xlsx")
    assert done.code == 0, done.err
    book = openpyxl.load_workbook("filled.xlsx")
    heads, *rows = book.worksheets[0].iter_rows(values_only=True)
    assert (book.sheetnames, heads) == (["data", "other"], ("a", "b", "c", "day", "code", "a_sd", "day_sd"))
    assert isinstance(rows[5][0], float)
    assert isinstance(rows[9][3], dt.datetime)
    assert rows[5][5] > 0 == rows[6][5]
    assert (
        "has to end in .csv" in run("impute", "gaussian", "t.xlsx", "--out", "x.xlsx", "--draws", "2").error
    )


def test_an_interruption_says_what_is_kept_and_the_same_command_goes_on(
    file: Path, looked: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, n = Folds.fit, [0]

    def interrupted(self: Folds, *args: object) -> object:
        n[0] += 1
        if n[0] == 4:
            raise KeyboardInterrupt
        return fit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Folds, "fit", interrupted)
    stopped = run(*LOOK)
    assert stopped.code == 130
    assert "3 fits of the model are kept in flats-look; the same command goes on" in stopped.err
    assert not (file.parent / "flats-look" / "table.json").exists()

    fitted = list[str]()

    def counted(self: Folds, values: object, name: str, out: object) -> object:
        if self.kept is None or not (self.kept / name / "config.json").exists():
            fitted.append(name)
        return fit(self, values, name, out)  # type: ignore[arg-type]

    monkeypatch.setattr(Folds, "fit", counted)
    assert run(*LOOK).code == 0
    assert fitted[:2] == ["kernel-gaussian-1-4", "kernel-gaussian-1-5"]
    of_both = [path / "flats-look" / "filled.csv" for path in (file.parent, looked)]
    assert of_both[0].read_bytes() == of_both[1].read_bytes()
    assert not (file.parent / "flats-look" / "unfinished").exists()


def test_bad_input_is_one_line_before_any_work(file: Path, looked: Path, run: CommandLine) -> None:
    assert "there is no file" in run("look", "nowhere.csv").error
    assert "--minutes 0" in run("look", "flats.csv", "--minutes", "0").error
    assert "is a saved one" in run("look", "flats.csv", "--model", str(looked / "flats-look" / "model")).error
    Path("other").mkdir()
    Path("other/mine.txt").write_text("mine")
    assert "belong to no look" in run("look", "flats.csv", "--out", "other").error
    Path("names.csv").write_text("a,a,b\n1,2,3\n")
    assert not Path("names-look/table.json").exists()
