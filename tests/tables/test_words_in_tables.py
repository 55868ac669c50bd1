"""Columns of words as categories: codes and words, what is guessed, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.table import Table, with_levels_of
from maskevidence.tables.table_files import read_table

TEXT = "colour,sick,n,size\nred,0,3,L\n,1,4,S\nblue,,5,\n red,1,,L\nblue,0,9,S\nblue,0,7,S\n"
NAN = float("nan")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    return path


def test_words_are_read_as_positions_among_them(path: Path) -> None:
    table = read_table(path, words=True)
    assert table.levels == {"colour": ("blue", "red"), "size": ("L", "S")}
    np.testing.assert_array_equal(
        table.values[:4], [[1, 0, 3, 0], [NAN, 1, 4, 1], [0, NAN, 5, NAN], [1, 1, NAN, 0]]
    )
    assert table.notes == (
        "categories: colour, size; yes/no: sick; numbers: n (say --categories or --numbers if that is wrong)",
    )


def test_the_user_can_say_what_a_column_is(path: Path) -> None:
    table = read_table(path, words=True, categories=["n"], numbers=["sick"], drop=["colour"])
    assert table.levels["n"] == ("3", "4", "5", "7", "9")
    assert table.kinds == {"n": "category", "sick": "number"}
    assert table.notes == ("categories: size (say --categories or --numbers if that is wrong)",)


def test_parts_of_a_table_keep_the_words(path: Path) -> None:
    table = read_table(path, words=True, numbers=["sick"])
    train, test = table.split(0.5, seed=0)
    for part in (train, test, table.head(2), table.take(np.array([0]))):
        assert part.levels == table.levels
        assert part.kinds == {"sick": "number"}
    assert table.select(["n", "size"]).levels == {"size": ("L", "S")}
    assert table.select(["n", "size"]).kinds == {}


def test_the_fingerprint_depends_on_the_words() -> None:
    first, second = (
        Table("t", np.zeros((1, 1)), ("c",), np.arange(1), levels={"c": (word,)}) for word in ("a", "b")
    )
    assert first.fingerprint() != second.fingerprint()


def test_words_of_a_model_keep_their_codes_and_new_ones_share_the_next(path: Path) -> None:
    table = read_table(path, words=True).select(["colour", "n"])
    own = with_levels_of(table, {"colour": ["green", "red"]})
    np.testing.assert_array_equal(own.values[:, 0], [1, NAN, 2, 1, 2, 2])
    np.testing.assert_array_equal(own.values[:, 1], table.values[:, 1])
    with pytest.raises(me.InputError, match="holds words, the model was fitted to numbers"):
        with_levels_of(table, {})
    with pytest.raises(me.InputError, match="holds numbers, the model was fitted to words"):
        with_levels_of(table, {"colour": ["red"], "n": ["a"]})


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT, {}, "the model auto takes words as they are"),
        (TEXT, {"categories": ["n"]}, "--categories is for models that take words"),
        (TEXT, {"words": True, "numbers": ["colour"]}, "the saved model, or --numbers, has numbers there"),
        (TEXT, {"words": True, "numbers": ["x"]}, "has no column 'x'"),
        (
            TEXT,
            {"words": True, "numbers": ["n"], "drop": ["n"]},
            "'n' is not among the columns that are used",
        ),
        (TEXT, {"words": True, "numbers": ["n"], "categories": ["n"]}, "has two of --categories, --numbers"),
        ("a,b\n1,2\n3,4\n", {"words": True, "categories": ["a"], "one_hot": ["a"]}, "two of --categories"),
        (
            "a,b\n" + "".join(f"word {k},{k}\n" for k in range(60)),
            {"words": True, "columns": ["a", "b"]},
            "60 different words in 60 rows, too many for a category",
        ),
        (
            "a,b\n" + "".join(f"word {k % 59},{k}\n" for k in range(100)),
            {"words": True, "columns": ["a", "b"]},
            "59 different words in 100 rows, too many for a category",
        ),
    ],
)
def test_columns_that_cannot_be_read(tmp_path: Path, text: str, options: dict, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(me.InputError) as caught:
        read_table(path, **options)
    assert message in str(caught.value)


def test_names_of_rows_and_dates_are_found_and_codes_for_missing_values_named(tmp_path: Path) -> None:
    rows = "".join(
        f"P{k};{k % 28 + 1:02}.{k // 28 + 1:02}.2025;{'fm'[k % 2]};{k if k % 9 else -999}\n"
        for k in range(60)
    )
    path = tmp_path / "t.csv"
    path.write_text("id;visit;sex;age\n" + rows)
    table = read_table(path, words=True)
    assert table.columns == ("visit", "sex", "age")
    notes = "; ".join(table.notes)
    for words in ("column 'id': names of rows (60 different words in 60 cells): left out", "--missing=-999"):
        assert words in notes
    assert table.values[:3, 0].tolist() == [0, 1, 2]  # days
    assert table.forms["visit"].write(31.0) == "01.02.2025"
    with pytest.raises(me.InputError) as caught:
        read_table(path)
    for words in ("text in column 'sex', line 2: 'f'", "--one-hot sex", "--missing=-999"):
        assert words in str(caught.value)


def test_copies_of_rows_are_noted_where_chance_makes_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60, 3)).round(3).tolist()
    rows = [f"{','.join(map(str, row))},{'fm'[k % 2]},{k % 3 or ''}\n" for k, row in enumerate(numbers)]
    path = tmp_path / "t.csv"
    copies = "2 of 62 rows equal an earlier row: if they are copies, leave them out"
    for extra, noted in (([], False), (rows[3:5], True)):
        path.write_text("".join(["a,b,c,sex,x\n", *rows, *extra]))
        notes = read_table(path, words=True).notes
        assert any(copies in note for note in notes) == noted
    path.write_text("".join(["b,sex\n", *(f"{b % 9},{'fm'[b % 2]}\n" for b in range(60))]))
    assert not any("earlier row" in note for note in read_table(path, words=True).notes)
