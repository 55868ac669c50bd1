"""Dates and times: days since the first, written back as they were."""

import json
import random
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import maskevidence as me
from command_line import CommandLine
from maskevidence.data import describe, read_table
from maskevidence.tables.filling import fill_table
from maskevidence.tables.reading.dates import read_dates
from maskevidence.tables.table_options import ImputeOptions

WAYS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
]
TIMES = ["", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M:%S %p"]


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("way", WAYS)
def test_dates_come_back(tmp_path: Path, way: str, time: str) -> None:
    rng = random.Random(way + time)
    start = datetime(2018, 3, 1)
    days = [
        start + timedelta(days=rng.randint(0, 900), seconds=rng.randint(0, 86399) if time else 0)
        for _ in range(60)
    ]
    if time == " %H:%M":
        days = [day.replace(second=0) for day in days]
    cells = [day.strftime(way + time) for day in days]
    path = tmp_path / "t.csv"
    path.write_text("day;x\n" + "".join(f"{cell};{k % 5}\n" for k, cell in enumerate(cells)))
    table = read_table(path)
    first = min(days).replace(hour=0, minute=0, second=0)
    np.testing.assert_allclose(
        table.values[:, 0], [(day - first).total_seconds() / 86400 for day in days], atol=1e-9
    )
    assert [table.forms["day"].write(value) for value in table.values[:, 0]] == cells
    assert describe(path)["day"].kind == "date"


@pytest.mark.parametrize(
    "cells",
    [
        ["8:05 AM", "12:30 PM", "12:00 AM", "11:59 PM"],
        ["08:05pm", "12:30am", "01:00pm"],
        ["8:05", "12:30", "0:00", "23:59"],
        ["3. Juni 2024", "4. Juni 2024"],
        ["3/14/2024 1:15 p.m.", "3/2/2024 12:05 a.m."],
    ],
)
def test_hours_to_twelve_and_months_of_four_letters_come_back(cells: list[str]) -> None:
    read = read_dates(cells, [1] * len(cells))
    assert read is not None
    assert [read.form.write(value) for value in read.values] == cells


def test_a_time_of_the_day_and_dates_that_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "a,b\n"
        + "".join(f"{k % 24:02}:30,{28 - k % 28:02}.02.2023\n" for k in range(40))
        + "12:00,30.02.2023\n"
    )
    table = read_table(path)
    assert table.values[1, 0] == 1.5 / 24
    assert table.odd == {"b": {40: "30.02.2023"}}


def test_day_or_month_first(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k % 12 + 1}/{k % 11 + 1}/2023,{k}\n" for k in range(40)))
    (found,) = [each for each in describe(path).findings if each.what == "date order"]
    assert (found.weight, found.option) == (3, "--dates month-first")
    assert any("may have the day or the month first" in note for note in read_table(path).notes)
    day, month = read_table(path, dates="day-first"), read_table(path, dates="month-first")
    assert not np.array_equal(day.values, month.values)
    assert not any("may have the day" in note for note in (*day.notes, *month.notes))


def test_dates_are_filled_as_dates(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01")
    days = rng.integers(0, 300, 80)
    cells = [str(start + int(day)) if k % 9 else "" for k, day in enumerate(days)]
    (tmp_path / "t.csv").write_text(
        "day,x\n" + "".join(f"{c},{d + rng.normal():.2f}\n" for c, d in zip(cells, days, strict=True))
    )
    fill_table("gaussian", str(tmp_path / "t.csv"), ImputeOptions(tmp_path / "f.csv"))
    lines = (tmp_path / "f.csv").read_text().splitlines()[1:]
    filled = [np.datetime64(line.split(",")[0]) for line in lines]
    assert max(abs((day - start).astype(int) - wanted) for day, wanted in zip(filled, days, strict=True)) < 8
    stamps = pa.array([date.fromisoformat(c) if c else None for c in cells])
    parquet.write_table(pa.table({"day": stamps, "x": days + rng.normal(size=80)}), tmp_path / "t.parquet")
    fill_table("gaussian", str(tmp_path / "t.parquet"), ImputeOptions(tmp_path / "f.parquet"))
    found = parquet.read_table(tmp_path / "f.parquet")["day"]
    assert found.type == pa.date32()
    assert found.null_count == 0


def test_words_with_few_dates_stay_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{'1.2.2020' if k < 9 else 'x'},{k}\n" for k in range(40)))
    assert read_table(path, words=True).levels == {"a": ("1.2.2020", "x")}
    with pytest.raises(me.InputError, match="text in column 'a'"):
        read_table(path)


def test_a_saved_model_knows_its_day_0(tmp_path: Path, run: CommandLine) -> None:
    """Another file begins on another day: its dates are days since the first of the model's own table."""
    rng = np.random.default_rng(0)
    days = np.sort(rng.integers(0, 400, 90))
    lines = [f"{np.datetime64('2021-01-01') + int(day)},{day / 10 + rng.normal():.2f}" for day in days]
    for name, part in (("all", lines), ("late", lines[45:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["day,x", *part]))
    model = tmp_path / "chosen"
    assert (
        run("train", "gaussian", tmp_path / "all.csv", "--epochs", 5, "--out", tmp_path / "chosen").code == 0
    )
    said = run("score", model, tmp_path / "late.csv", "--json", tmp_path / "late.json", "--limit", 5)
    assert said.code == 0
    first = min(line.split(",")[0] for line in lines)
    assert f"--day-0 day={first}" in " ".join(said.out.split())
    table = read_table(tmp_path / "late.csv", day_0={"day": first})
    assert table.values[0, 0] == days[45] - days[0]
    assert table.forms["day"].write(table.values[0, 0]) == lines[45].split(",")[0]
    expected = me.models.load(model).log_evidence(table.head(5).tokens()).mean().item()
    assert json.loads((tmp_path / "late.json").read_text())["log_evidence"] == pytest.approx(expected)
    with pytest.raises(me.InputError, match=r"--day-0 day=1\.2\.2021: '1\.2\.2021' is no date"):
        read_table(tmp_path / "late.csv", day_0={"day": "1.2.2021"})


def test_digits_without_a_unit_are_no_duration() -> None:
    """A pattern that tries each division of the digits never ended."""
    assert read_dates(["1" * 60 + "!", "0.1,-0.2," * 20, ""], [1, 1, 1]) is None
