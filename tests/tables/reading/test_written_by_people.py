"""Small nasty tables as people write them; what is right was written down before the reader saw them."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.data import describe, read_table
from maskevidence.tables.filling import fill_table
from maskevidence.tables.reading.description import DECIDE
from maskevidence.tables.table_options import ImputeOptions


def table(cells: list[str], mark: str = ";") -> str:
    """A table of a column "p" and one of numbers."""
    return f"p{mark}x\n" + "".join(f"{cell}{mark}{k * 7 % 11}\n" for k, cell in enumerate(cells))


def days(form: str) -> list[str]:
    """Days of January in a form with one place for the day."""
    return [form.format(k) for k in range(3, 20)]


COLUMNS = [
    ("euro", ["1.234,50 €", "2.000,00 €", "950,25 €", "12,00 €"] * 4, "number", [1234.5, 2000, 950.25]),
    ("dollar", ["$1,234.50", "$950.25", "$12.00", "$7,100.10"] * 4, "number", [1234.5, 950.25, 12]),
    ("franc", ["CHF 1'234.50", "CHF 950.25", "CHF 12.00"] * 4, "number", [1234.5, 950.25, 12]),
    ("krone", ["kr 1 234,50", "kr 99,00"] * 5, "number", [1234.5, 99]),
    ("percent", ["12 %", "3,5 %", "100 %", "0 %"] * 4, "number", [12, 3.5, 100]),
    ("exponent", ["1,5e3", "2,25e2", "1e1", "3,5e-2"] * 4, "number", [1500, 225, 10, 0.035]),
    ("minus", ["−5", "3", "−2,5", "1"] * 4, "number", [-5, 3, -2.5, 1]),
    ("brackets", ["(3,2)", "1,5", "(10,0)", "7,1"] * 4, "number", [-3.2, 1.5, -10]),
    ("trailing minus", ["5-", "3", "2-", "10"] * 4, "number", [-5, 3, -2, 10]),
    ("blanks", ["1 234,5", "2 000", "12", "7 100,10"] * 4, "number", [1234.5, 2000, 12]),
    ("degrees", ["-5 °C", "12 °C", "3,5 °C"] * 4, "number", [-5, 12, 3.5]),
    ("iso", days("2024-01-{:02}"), "date", [0, 1, 2]),
    ("german", days("{:02}.01.2024"), "date", [0, 1, 2]),
    ("american", days("01/{:02}/2024"), "date", [0, 1, 2]),
    ("named", days("{} Jan 2024"), "date", [0, 1, 2]),
    ("zone", days("2024-01-{:02}T12:00:00+02:00"), "date", [10 / 24, 1 + 10 / 24]),
    ("zone without colon", days("2024-01-{:02} 12:00:00 +0100"), "date", [11 / 24, 1 + 11 / 24]),
    ("UTC", days("2024-01-{:02}T12:00:00.000Z"), "date", [0.5, 1.5]),
    ("months", [f"{y}-{m:02}" for y in (2021, 2022) for m in range(1, 13)], "date", [0, 31, 59]),
    ("clock", ["12:30", "00:15", "23:59"] * 4, "date", [12.5 / 24, 0.25 / 24]),
    ("noon", ["1:30 PM", "12:15 AM"] * 5, "date", [13.5 / 24, 0.25 / 24]),
    (
        "durations",
        ["1:02:03", "10:00:00", "26:15:00", "0:30:00"] * 4,
        "date",
        [3723 / 86400, 10 / 24, 26.25 / 24],
    ),
    ("spans", ["13h 3min", "0h 30min", "2h 45min"] * 4, "date", [783 / 1440, 30 / 1440, 165 / 1440]),
    ("days and hours", ["2 d 4 h", "1 d", "5 h"] * 4, "date", [52 / 24, 1, 5 / 24]),
    ("half past", ["12h30", "9h05"] * 5, "date", [12.5 / 24, 545 / 1440]),
    ("timedeltas", ["0 days 01:30:00", "12 days 23:05:10"] * 5, "date", [1.5 / 24, 12 + 83110 / 86400]),
    ("mixed units", ["45 min", "1 h", "90 sec"] * 4, "date", [45 / 1440, 1 / 24, 90 / 86400]),
    ("truth", ["TRUE", "FALSE", "TRUE"] * 4, "yes/no", [1, 0, 1]),
    ("errors", ["5,1 ± 0,2", "6,3 ± 0,4", "7,0±0,1 mm"] * 4, "number", [5.1, 6.3, 7]),
    ("sizes", ["n=5", "n=12", "n = 8"] * 4, "number", [5, 12, 8]),
    ("about", ["~5,5", "ca. 3", "≈ 4,25"] * 4, "number", [5.5, 3, 4.25]),
    ("full width", ["１２", "３,５", "７０"] * 4, "number", [12, 3.5, 70]),
    ("arabic", ["١٢", "٣", "٧٠"] * 4, "number", [12, 3, 70]),
    ("footnotes", ["1,234[a]", "567[2]", "12,890.5"] * 4, "number", [1234, 567, 12890.5]),
    ("powers", ["1,5 × 10^3", "2,25x10-2", "1·10^1"] * 4, "number", [1500, 0.0225, 10]),
    ("raised powers", ["1,2·10³", "7·10²", "2,5 × 10⁻¹"] * 4, "number", [1200, 700, 0.25]),
    ("brackets before %", ["(1,1) %", "12,5 %", "0,5 %"] * 4, "number", [-1.1, 12.5, 0.5]),
    ("francs", ["5.-", "12.--", "7.50", "3.–"] * 4, "number", [5, 12, 7.5, 3]),
    ("longitudes", ["3.5° W", "0.5° E", "2.5° W"] * 4, "number", [3.5, np.nan, 2.5]),
    ("shares", ["12 (34%)", "5 (14%)", "18 (52%)"] * 4, "number", [12, 5, 18]),
    ("significance", ["0,123*", "-1,5***", "2,25"] * 4, "number", [0.123, -1.5, 2.25]),
    ("lakhs", ["₹1,23,456.50", "₹12,34,567.00", "₹999.50"] * 4, "number", [123456.5, 1234567, 999.5]),
    ("accounting", ["$ (1,234.50)", "$ 950.25", "$ 1,100.75"] * 4, "number", [-1234.5, 950.25, 1100.75]),
    ("detection", ["<LOD", "0,25", "1,5", "n.d.", "3,75", "2,5"] * 4, "number", [np.nan, 0.25, 1.5, np.nan]),
    ("errors of sheets", ["#DIV/0!", "0,25", "1,5", "#N/A"] * 4, "number", [np.nan, 0.25, 1.5, np.nan]),
    ("iso among german", ["2024-01-13", *days("{:02}.01.2024")], "date", [10, 0, 1]),
    ("short names", days("{:02}-JAN-24"), "date", [0, 1, 2]),
    ("german months", days("{}. Januar 2024"), "date", [0, 1, 2]),
    ("french months", days("{} février 2024"), "date", [0, 1, 2]),
    ("first of a month", ["1er janvier 2024", *days("{} janvier 2024")], "date", [0, 2, 3]),
    ("compact", days("202401{:02}"), "date", [0, 1, 2]),
    ("japanese", days("2024年1月{}日"), "date", [0, 1, 2]),
    ("months of years", [f"{m}-{y}" for y in (22, 23) for m in ("Jan", "Feb", "Mar")], "date", [0, 31, 59]),
    ("weekdays", days("Mo, {:02}.01.2024"), "date", [0, 1, 2]),
    ("long weekdays", days("Monday, January {}, 2024"), "date", [0, 1, 2]),
    ("comma seconds", days("2024-01-{:02} 12:00:00,250"), "date", [0.5 + 0.25 / 86400]),
    ("midnight", days("1/{}/2024 0:00"), "date", [0, 1, 2]),
    ("days of Stata", ["15jan2024", "16jan2024", "01feb2024"] * 4, "date", [0, 1, 17]),
    ("short german months", ["Jan-24", "Feb-24", "Mrz-24"] * 4, "date", [0, 31, 60]),
    ("spanish", days("{} de enero de 2024"), "date", [0, 1, 2]),
    ("won", ["₩1,234,000", "₩99,000", "₩500"] * 4, "number", [1234000, 99000, 500]),
]
UNEQUAL = {
    *("mixed units", "first of a month", "noon", "UTC", "iso among german"),
    *("weekdays", "long weekdays", "comma seconds", "midnight", "days of Stata", "short german months"),
}
WORDS = [
    ("ranges", ["10-20", "20-30", "30-40"]),
    ("ages", ["18-24", "25-34", "65+"]),
    ("postcodes", ["01067", "02208", "80331"]),
    ("versions", ["1.10", "1.10.1", "1.2", "1.9"]),
    ("addresses", ["10.0.0.1", "192.168.1.10"]),
    ("fractions", ["1/2", "1/4", "3/4"]),
    ("grades", ["A", "A+", "B-"]),
    ("sizes", ["10x20", "5x5"]),
    ("quarters", ["2020Q1", "2020Q2"]),
    ("hex", ["0x1F", "0xA0"]),
    ("diagnoses", ["E11.9", "I10"]),
    ("stars", ["*", "**", "***"]),
    ("labels", ["1 - never", "2 - often"]),
    ("parts", ["1(a)", "1(b)", "2(a)"]),
    ("truths", ["WAHR", "FALSCH"]),
    ("feet", ["5'11\"", "6'2\""]),
    ("roman", ["I", "II", "IV"]),
    ("shifts", ["06:00-14:00", "22:00-06:00"]),
    ("months of Stata", ["2020m1", "2020m12"]),
    ("houses", ["12a", "12b", "14", "9"]),
    ("floors", ["1. OG", "2. OG", "EG"]),
    ("samples", ["sample 2024-01-05", "sample 2024-01-06"]),
    ("orders", ["756247381085762037", "756247381085762038", "-5"]),
    ("articles", ["4012345678901", "4e018197235378", "4018197235378"]),
    ("hex", ["12A4", "12E5", "4e10", "13B1"]),
    ("post codes with slips", ["01067", "99084", "04109", "80331", "10115", "0106"] * 2 + ["O1067"]),
    ("books", ["316148410X", "1234567897", "3161484100"]),
    ("telephones", ["01761234567", "+491701234567", "030123456"]),
    ("seasons", ["2020 SS", "2021 FW", "2021 SS"]),
]
ROWS = "".join(f"{k % 5},{k * 2 % 5}\n" for k in range(12))
FILES = [
    ("comments", "# by me\n# 2024\na,b\n" + ROWS),
    ("per cent", "% by me\n% 2024\na,b\n" + ROWS),
    ("sep", "sep=;\na;b\n" + ROWS.replace(",", ";")),
    ("tabs", "a\tb\n" + ROWS.replace(",", "\t")),
    ("bars", "a|b\n" + ROWS.replace(",", "|")),
    ("carriage returns", ("a,b\n" + ROWS).replace("\n", "\r")),
    ("mixed ends", "a,b\r\n" + ROWS),
    ("mark", "\ufeffa,b\n" + ROWS),
    ("last separator", "a,b,\n" + ROWS.replace("\n", ",\n")),
    ("totals", "a,b\n" + ROWS + "Total,99\n"),
    ("line below", "a,b,c\n" + ROWS.replace("\n", ",u\n") + "______,,\n"),
    ("merged names", "Q1,,Q2,,\na,b,c,d,e\n" + ROWS.replace("\n", ",1,2,3\n")),
    (
        "half empty",
        "Source,bank,,\n,,,\nUpdated,2024-03-28,,\n,,,\na,b,2001 [Y],c\n" + ROWS.replace("\n", ",1,x\n"),
    ),
    ("title", "Report of 2023,,\n,,\na,b,c\n" + ROWS.replace("\n", ",u\n") + "Grand total,9,\n"),
    ("questions", "a,b,c\nHow old are you?,How many?,Do you smoke?\n" + ROWS.replace("\n", ",No\n")),
    ("units", "a,b,c\nmg/L,µg/L,\n" + "5,n.d.,7.5\n3.5,4.5,8\n" * 5 + "<LOD,1,8\n" * 2),
    ("station", "Station: X\nHeight: 3 m\n\na;b;c\n" + "1;2.5;-999.9\n3;4.5;1.5\n" * 6),
    ("empty columns", "a,b,,\n" + ROWS.replace("\n", ",,\n")),
    ("lines in cells", "a,b,c\r\n" + ROWS.replace("\n", ',"two\nlines"\r\n')),
    ("markdown", "|a|b|\n|---|:-:|\n" + "".join(f"|{k % 5}|{k * 2 % 5}|\n" for k in range(12))),
    ("blanks", " a , b \n" + ROWS.replace(",", " , ")),
    ("psql", " a | b \n---+---\n" + ROWS.replace(",", "|") + "(12 rows)\n"),
    ("years", "a,b\n" + "".join(f"{1990 + k},{k * 2 % 5}\n" for k in range(12))),
]


@pytest.mark.parametrize(("case", "cells", "kind", "values"), COLUMNS)
def test_columns(tmp_path: Path, case: str, cells: list[str], kind: str, values: list[float]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table(cells))
    read = read_table(path)
    assert describe(path)["p"].kind == kind
    assert read.values[: len(values), 0] == pytest.approx(values, nan_ok=True)
    if kind == "date" and case not in UNEQUAL:
        assert [read.forms["p"].write(value) for value in read.values[:3, 0]] == cells[:3]


@pytest.mark.parametrize(("case", "words"), WORDS)
def test_words(tmp_path: Path, case: str, words: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table(words * 5))
    assert read_table(path, words=True).levels["p"] == tuple(sorted({*words})), case


@pytest.mark.parametrize("case", ["orders", "articles", "hex", "post codes with slips", "books", "seasons"])
def test_codes_need_no_decision(case: str) -> None:
    found = describe(pd.DataFrame({"p": dict(WORDS)[case] * 5, "x": range(5 * len(dict(WORDS)[case]))}))
    assert not [each for each in found.findings if each.column == "p" and each.weight == DECIDE]


@pytest.mark.parametrize("case", ["orders", "post codes with slips"])
def test_a_code_is_filled_as_it_is_written(tmp_path: Path, case: str) -> None:
    path, filled = tmp_path / "t.csv", tmp_path / "f.csv"
    cells = dict(WORDS)[case] * 5
    path.write_text(table(["", *cells]))
    fill_table("auto", str(path), ImputeOptions(filled))
    with filled.open(newline="") as file:
        first, *others = [row[0] for row in csv.reader(file, delimiter=";")][1:]
    assert first in cells
    assert others == cells


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_ids_beyond_2_53_are_left_out_and_stay_as_they_are(tmp_path: Path, kind: str) -> None:
    path, rng = tmp_path / f"t.{kind}", np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).round(3)
    frame = pd.DataFrame({"id": rng.integers(10**17, 10**18, 60), "a": x[:, 0], "b": x[:, 1]})
    frame.loc[7, "a"] = np.nan
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    found = describe(frame if kind == "frame" else path)
    assert (found["id"].kind, found["id"].used_as) == ("id", None)
    assert [each.sentence() for each in found.findings] == [
        "column 'id': names of rows (60 different words in 60 cells, 60 of them numbers): left out: "
        "--id-column id, or --categories id, or --numbers id"
    ]
    if kind != "frame":
        fill_table("gaussian", str(path), ImputeOptions(tmp_path / f"f.{kind}"))
        filled = getattr(pd, f"read_{kind}")(tmp_path / f"f.{kind}")
        assert filled["id"].tolist() == frame["id"].tolist()
        assert not np.isnan(filled["a"]).any()


def test_article_numbers_are_said_to_be_ids_in_any_column(tmp_path: Path) -> None:
    """Unlike times in seconds that rise with the rows, and prices."""
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    frame = pd.DataFrame({"a": rng.normal(size=80).round(3)})
    frame["article"] = 4 * 10**12 + rng.integers(0, 10**11, 80)
    frame["price"] = rng.integers(100_000, 999_999, 80)
    frame.to_csv(path, index=False)
    found = describe(path)
    assert [found[name].kind for name in frame] == ["number", "id", "number"]
    (said,) = (each for each in found.findings if each.what == "id")
    assert (said.column, said.option) == ("article", "--id-column article, or --drop article")


@pytest.mark.parametrize(("case", "text"), FILES)
def test_files(tmp_path: Path, case: str, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    read = read_table(path, words=True)
    assert (read.columns[:2], len(read)) == (("a", "b"), 12), case
    assert describe(path)["a"].kind != "id", case


@pytest.mark.parametrize(("related", "kind"), [(False, "id"), (True, "number")])
def test_numbers_that_name_rows_are_found(tmp_path: Path, related: bool, kind: str) -> None:
    """Long whole numbers in the first column that say nothing of others; a measurement is none of these."""
    rng = np.random.default_rng(0)
    ids, noise = rng.integers(60_000, 2_000_000, 120), rng.normal(size=120)
    others = ids / 5e5 + noise if related else noise
    path = tmp_path / "t.csv"
    path.write_text("p,x\n" + "".join(f"{a},{b:.2f}\n" for a, b in zip(ids, others, strict=True)))
    found = describe(path)
    assert found["p"].kind == kind
    assert [each.column for each in found.findings if each.what == "id"] == ["p"] * (kind == "id")


def test_columns_between_blanks_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for text in ("a    b\n1    2.5\n10   3.5\n", '"a" "b"\n"1" 5 2.5\n"2" 7 3.5\n'):
        path.write_text(text)
        with pytest.raises(me.InputError, match="has 2 columns between blanks; save it with a comma or tab"):
            read_table(path, words=True)


@pytest.mark.parametrize(("case", "cells", "kind", "values"), COLUMNS)
def test_filled_files_keep_all_other_cells(
    tmp_path: Path, case: str, cells: list[str], kind: str, values: list[float]
) -> None:
    path, filled = tmp_path / "t.csv", tmp_path / "f.csv"
    path.write_text(table(["", *cells]))
    holes = read_table(path).holes()[:, 0]
    fill_table("gaussian", str(path), ImputeOptions(filled))
    with filled.open(newline="") as file:
        written = [row[0] for row in csv.reader(file, delimiter=";")][1:]
    assert [cell for cell, hole in zip(written, holes, strict=True) if not hole] == [
        cell for cell, hole in zip(["", *cells], holes, strict=True) if not hole
    ]
    assert describe(filled)["p"].kind == kind
    assert not np.isnan(read_table(filled).values[holes, 0]).any(), case


def test_empty_columns_without_names_stay(tmp_path: Path) -> None:
    path, filled = tmp_path / "t.csv", tmp_path / "f.csv"
    path.write_text("a,b,,\n,1,,\n" + ROWS.replace("\n", ",,\n"))
    fill_table("gaussian", str(path), ImputeOptions(filled))
    lines = filled.read_text().splitlines()
    assert lines[0].startswith("a,b,,")
    assert lines[2].startswith("0,0,,")


def test_codes_that_repeat_name_no_rows(tmp_path: Path) -> None:
    """Telephone numbers of 20 clinics in 100 rows, and post codes of which four of five differ."""
    rows = [f"{2050000000 + k % 20},0{1000 + (k % 80)},{k % 7}" for k in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["phone,zip,n", *rows]))
    assert [describe(path)[name].kind for name in ("phone", "zip")] == ["number", "text"]


def test_long_numbers_that_may_be_codes_are_shown_whole() -> None:
    found = describe(pd.DataFrame({"phone": [2052740001, 2053260002] * 30, "n": range(60)})).findings
    assert "(2052740001, 2053260002)" in found[0].sentence()


def test_numbers_in_too_few_cells_for_a_column_of_them_can_be_called_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table([f"{k * 1.37:.2f}" for k in range(35)] + list("abcde")))
    (found,) = describe(path).findings
    assert "35 of them numbers" in found.assumed
    assert found.option == "--id-column p, or --categories p, or --numbers p"
    assert read_table(path, numbers=["p"]).values[1, 0] == 1.37


def test_a_column_of_limits_alone_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table(["<0,5", "<0,25", "<1"] * 4))
    assert (describe(path)["p"].kind, describe(path)["p"].n_limits) == ("number", 12)
    with pytest.raises(me.InputError, match="has nothing but limits in column 'p'"):
        read_table(path)


@pytest.mark.parametrize("case", ["lakhs", "full width", "sizes", "shares"])
def test_a_filled_cell_is_written_as_the_column_or_a_note_says_how(tmp_path: Path, case: str) -> None:
    path, filled = tmp_path / "t.csv", tmp_path / "f.csv"
    path.write_text(table(["", *next(cells for name, cells, *_ in COLUMNS if name == case)]))
    notes = fill_table("gaussian", str(path), ImputeOptions(filled))["notes"]
    if case == "lakhs":
        assert filled.read_text().splitlines()[1].startswith("₹12,67,963.80;0;")
    else:
        assert any("filled cells" in note for note in notes)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["48°51'N", "45°46'N"], 'cells such as "48°51\'N" begin with a number and are read as words'),
        (["1.1", "1.2", "1.10"], "'1.10' among numbers with fewer digits: versions are words"),
        (["Jan-24", "Feb-24", "Jly-24"], "words in 6 cells, dates in 12"),
        (["red", "blue", "-"], "'-' in 6 cells is taken for a word"),
        (["VB 250.000 €", "99.500 €", "9.900 €"], "words in 6 of 18 cells, numbers in 12"),
        (["3.9", "3.10", "3.11"], "'3.10' among numbers with fewer digits: versions are words"),
        (
            ["x", ""],
            "one value, 'x': says nothing of other columns, unless empty cells mean another",
        ),
    ],
)
def test_no_kind_is_told_in_silence(tmp_path: Path, cells: list[str], said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table(cells * 6))
    assert [each.assumed for each in describe(path).findings if each.column == "p"][-1] == said


def test_compact_dates_of_a_long_file_and_of_a_saved_model(tmp_path: Path) -> None:
    """Where plain numbers are read at once, and where the model's columns are called numbers."""
    path, days = tmp_path / "t.csv", np.arange("2000-01-01", "2020-01-01", dtype="datetime64[D]")
    cells = [str(day).replace("-", "") for day in days] * 12
    path.write_text("p;x\n" + "".join(f"{cell};{k % 7}\n" for k, cell in enumerate(cells)))
    assert path.stat().st_size > 2**19
    assert read_table(path, delimiter=";").values[: len(days), 0].tolist() == list(range(len(days)))
    read = read_table(path, numbers=["p", "x"], day_0={"p": "2000-01-02"})
    assert read.values[:2, 0].tolist() == [-1, 0]
    assert read_table(path, numbers=["p"]).values[0, 0] == 20000101


def test_compact_dates_that_are_typed_as_numbers_are_told() -> None:
    days = [
        int(str(day).replace("-", "")) for day in np.arange("2024-01-05", "2024-03-05", dtype="datetime64[D]")
    ]
    found = describe(pd.DataFrame({"day": days, "n": range(60)})).findings
    assert found[0].sentence() == "column 'day': whole numbers that may be dates (20240105): read as numbers"
