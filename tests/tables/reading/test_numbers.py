"""Known numbers written in thirty ways: read back exactly, or refused with the right reason."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.data import describe, read_table

MINUS = "\u2212"


def grouped(mark: str, decimal: str = ".") -> Callable[[float], str]:
    """Numbers with a mark between thousands."""

    def write(x: float) -> str:
        return f"{x:,}".replace(".", "\0").replace(",", mark).replace("\0", decimal)

    return write


def comma(x: float) -> str:
    return str(x).replace(".", ",")


WAYS: dict[str, Callable[[float], str]] = {
    "plain": str,
    "signed": lambda x: f"{x:+}",
    "blank": lambda x: f"  {x} ",
    "exponent": lambda x: f"{x:.17e}",
    "capital exponent": lambda x: f"{x:.16E}",
    "comma": comma,
    "comma exponent": lambda x: comma(f"{x:.17e}"),  # type: ignore[arg-type]
    "thousands": grouped(","),
    "points": grouped(".", ","),
    "apostrophes": grouped("'"),
    "typeset apostrophes": grouped("\u2019"),
    "blanks": grouped(" "),
    "no-break blanks": grouped("\u00a0", ","),
    "narrow blanks": grouped("\u202f", ","),
    "minus": lambda x: str(x).replace("-", MINUS),
    "dash": lambda x: str(x).replace("-", "\u2013"),
    "brackets": lambda x: f"({-x})" if x < 0 else str(x),
    "brackets and thousands": lambda x: f"({-x:,})" if x < 0 else f"{x:,}",
    "trailing": lambda x: f"{-x}-" if x < 0 else str(x),
    "per cent": lambda x: f"{x}%",
    "per cent, apart": lambda x: f"{comma(x)} %",
    "dollars": lambda x: f"${x}" if x >= 0 else f"-${-x}",
    "dollars, thousands": lambda x: f"${x:,}" if x >= 0 else f"$-{-x:,}",
    "euros": lambda x: f"{grouped('.', ',')(x)} €",
    "francs": lambda x: f"CHF {grouped(chr(39))(x)}",
    "kilograms": lambda x: f"{x} kg",
    "square metres": lambda x: f"{comma(x)} m²",
    "degrees": lambda x: f"{x}°C",
    "some units": lambda x: f"{x} kg" if round(abs(x) * 100) % 2 else str(x),
    "quoted": lambda x: f'"{x}"',
}


def numbers(rng: random.Random, n: int = 40) -> list[float]:
    """Numbers of one size, with one to three decimals or none."""
    size, places = 10.0 ** rng.randint(0, 7), rng.randint(0, 3)
    return [round(rng.gauss(rng.choice([0, 1]) * size, size), places) or 1.0 for _ in range(n)]


def read_back(folder: Path, way: str, values: list[float], delimiter: str) -> str:
    """Whether the values are read back; else the reason that is given."""
    cells = [WAYS[way](int(x) if x.is_integer() else x) for x in values]  # as people write whole numbers
    quoted = [cell if delimiter not in cell or cell.startswith('"') else f'"{cell}"' for cell in cells]
    path = folder / "t.csv"
    path.write_text(
        f"x{delimiter}y\n" + "".join(f"{cell}{delimiter}{k % 7}\n" for k, cell in enumerate(quoted)), "utf-8"
    )
    try:
        table = read_table(path)
    except me.InputError as error:
        return str(error)
    assert table.columns == ("x", "y"), (cells[:8], table.notes)
    if any("three digits follow each" in note for note in table.notes):
        return "may be --decimal"  # 1.234 alone in a file with commas: Python's reading, with a note
    np.testing.assert_array_equal(table.values[:, 0], values, err_msg=f"{way}: {cells[:5]}")
    return ""


@pytest.mark.parametrize("way", WAYS)
def test_numbers_come_back(tmp_path: Path, way: str) -> None:
    rng = random.Random(f"{way} 1")
    for _ in range(8):
        values = numbers(rng)
        reason = read_back(tmp_path, way, values, rng.choice(",;\t"))
        if reason:  # two readings are possible: only with three digits behind each mark
            assert "may be" in reason, reason
            assert "--decimal" in reason, reason


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,417", "907", "2,001", "12"], [1417, 907, 2001, 12]),
        (["1.417", "907", "2.001", "12"], [1417, 907, 2001, 12]),
        (["1,417.5", "907", "2,001"], [1417.5, 907, 2001]),
        (["1.417,5", "907", "2.001"], [1417.5, 907, 2001]),
        (["1,234,567", "1,417"], [1234567, 1417]),
        (["1,417", "0,5", "3"], [1.417, 0.5, 3]),
        (["0.125", "1.417", "2"], [0.125, 1.417, 2]),
        (["12,5 kg", "7 kg", "1.000 kg"], [12.5, 7, 1000]),
        (["($5.50)", "$3", "$0.25"], [-5.5, 3, 0.25]),
    ],
)
def test_the_marks_of_a_column_say_what_they_are(tmp_path: Path, cells: list[str], read: list[float]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f"{cell};{k % 3}\n" for k, cell in enumerate(cells)))
    assert read_table(path).values[:, 0].tolist() == read


def test_two_readings_are_asked_for_and_other_columns_answer(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "1,234;2\n5,678;3\n" * 5)
    with pytest.raises(me.InputError, match=r"'1,234' in line 2 may be 1\.234 or 1234: give --dec"):
        read_table(path)
    assert read_table(path, decimal=",").values[0, 0] == 1.234
    assert read_table(path, thousands=",").values[0, 0] == 1234
    assert describe(path).findings[0].weight == 3
    path.write_text("a;b\n" + "1,234;2,5\n5,678;3,25\n" * 5)
    assert read_table(path).values[0].tolist() == [1.234, 2.5]
    path.write_text("a;b\n" + "1,234;2.5\n5,678;3.25\n" * 5)
    assert read_table(path).values[0].tolist() == [1234, 2.5]


@pytest.mark.parametrize(
    "odd", ["17o.2", "1OO", "l7", "12.3.4", "5 or 6", "3%", "12:5x", "about 5", "1d5", "1_000"]
)
def test_a_cell_that_is_no_number_stays_one_cell(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{odd if k == 7 else k + 0.5},{k % 4}\n" for k in range(30)))
    for words in (False, True):
        table = read_table(path, words=words)
        assert table.odd == {"a": {7: odd}}
        assert np.isnan(table.values[7, 0])
        assert not table.holes()[7, 0]
    (found,) = [each for each in describe(path).findings if each.what == "odd cells"]
    assert (found.column, found.first[0].line, found.weight) == ("a", 9, 3)


def test_words_among_numbers_are_holes_codes_or_limits(tmp_path: Path) -> None:
    cells = ["?", "<0.5", "> 90", "empty", "n/a", "\u2264 1", "empty", "empty"] + [
        f"{k}.5" for k in range(40)
    ]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells)))
    table = read_table(path)
    assert table.limits == {"a": {1: (0.0, 0.5), 2: (90.0, np.inf), 5: (0.0, 1.0)}}
    assert table.codes == {"a": {3: "empty", 6: "empty", 7: "empty"}}
    assert np.flatnonzero(table.holes()[:, 0]).tolist() == [0, 1, 2, 4, 5]
    assert any("'?', 'n/a' in 2 cells is read as missing" in note for note in table.notes)
    assert read_table(path, missing=["empty"]).codes == {}


def test_codes_with_leading_zeros_are_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("zip,b\n" + "".join(f"{k % 6 * 2208:05},{k}\n" for k in range(40)))
    assert read_table(path, words=True).levels["zip"][1] == "02208"
    assert read_table(path, numbers=["zip"]).values[1, 0] == 2208
    with pytest.raises(me.InputError, match="text in column 'zip'"):
        read_table(path)


def test_words_are_folded_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    words = [
        "Bern",
        "bern",
        "Zu\u0308rich",
        "Z\u00fcrich",
        "Bern",
        "Z\u00fcrich",
        "New  York",
        "New York",
        "New York",
    ]
    path.write_text("town,b\n" + "".join(f"{word},{k}\n" for k, word in enumerate(words * 3)), "utf-8")
    assert len(read_table(path, words=True).levels["town"]) == 6
    assert read_table(path, words=True, fold_words=True).levels["town"] == ("Bern", "New York", "Z\u00fcrich")
    (found,) = [each for each in describe(path).findings if each.what == "spellings"]
    assert found.option == "--fold-words takes them for one"
    assert found.n_cells == 9


@pytest.mark.slow
def test_two_thousand_columns(tmp_path: Path) -> None:
    rng = random.Random(7)
    for k in range(2000):
        reason = read_back(
            tmp_path, list(WAYS)[k % len(WAYS)], numbers(rng, rng.choice([8, 40, 200])), rng.choice(",;\t")
        )
        assert not reason or ("may be" in reason and "--decimal" in reason), reason
