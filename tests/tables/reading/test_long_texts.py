"""A long text of plain numbers is read at once, and gives the table that its cells give one by one."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.data import describe, read_table
from maskevidence.tables import table_files
from maskevidence.tables.reading import layout

ROWS = "".join(f"{k},{k / 8},{-k / 3:.4f}\n" for k in range(40))
PLAIN = {
    "numbers": "a,b,c\n" + ROWS,
    "holes": "a,b,c\n" + ROWS + ",NA,7\n4,nan,NULL\n",
    "no last end": ("a,b,c\n" + ROWS)[:-1],
    "semicolons": ("a,b,c\n" + ROWS).replace(",", ";"),
    "other ends": ("a,b,c\n" + ROWS).replace("\n", "\r\n"),
    "names in quotes": '"a","b, c","d"\n' + ROWS,
}
OTHERS = {
    "leading zeros": "a,b,c\n" + ROWS.replace("\n3,", "\n03,"),
    "thousands": "a;b;c\n" + "1.417;2;3\n907;3;4\n2.500;1;1\n" * 20,
    "decimal commas": "a;b;c\n" + ROWS.replace(",", ";").replace(".", ","),
    "units": "a,b,c\nm,kg,s\n" + ROWS,
    "comments": "# x\na,b,c\n" + ROWS,
    "names of two lines": '"a\nm",b,c\n' + ROWS,
    "quotes": "a,b,c\n" + ROWS + '1,2,"3"\n',
    "words": "a,b,c\n" + ROWS + "1,2,x3\n",
    "carriage returns": ("a,b,c\n" + ROWS).replace("\n", "\r"),
    "a return in a cell": "a,b,c\n" + ROWS + '1,2,"3\r"\n',
    "blank lines": "a,b,c\n" + ROWS + "\n\n1,2,3\n",
    "no names": ROWS,
    "numbers as names": "a,1,2\n" + ROWS,
    "totals": "a,b,c\n" + ROWS + "Total,1,2\n",
    "not a number": "a,b,c\n" + ROWS + "nan(x),2,3\n",
    "large": "a,b,c\n" + ROWS + "1e16,2,3\n",
    "empty column": "a,b,c,d\n" + ROWS.replace("\n", ",\n"),
    "other characters": "größe,b,c\n" + ROWS,
    "truth": "a,b,c\n" + "true,1,2\nfalse,2,3\n" * 9,
}


@pytest.mark.parametrize("case", [*PLAIN, *OTHERS])
def test_both_ways_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes((PLAIN | OTHERS)[case].encode())
    expected = read_table(path)
    found, plain = [], table_files._plain_numbers
    monkeypatch.setattr(
        table_files, "_plain_numbers", lambda *given: found.append(plain(*given)) or found[-1]
    )
    monkeypatch.setattr(table_files, "_LONG", 0)
    table = read_table(path)
    assert (found[0] is not None) == (case in PLAIN or case == "other characters")
    np.testing.assert_array_equal(table.values, expected.values)
    assert (table.columns, table.notes, table.ids.tolist()) == (
        expected.columns,
        expected.notes,
        expected.ids.tolist(),
    )
    assert [table.place(k) for k in range(len(table))] == [expected.place(k) for k in range(len(table))]
    assert table.fingerprint() == expected.fingerprint()


def test_whole_numbers_that_would_be_rounded_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_LONG", 0)
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,2\n{2**53 + 1},3\n")
    with pytest.raises(me.InputError, match="too many digits: codes"):
        read_table(path)


@pytest.mark.parametrize(
    "cell",
    ["<{ }x", "{1}x", "{1} x", "{1,}", "{-}x", "Mo{ }x", "{1:}x", "({ }", "5 {kg }", '{""}', "1e{9}"],
)
def test_a_long_cell_is_read_in_one_go(cell: str) -> None:
    """In seconds of the processor: no part of the reader tries all divisions of a long cell."""
    before, _, rest = cell.partition("{")
    part, _, after = rest.partition("}")
    text, start = before + part * 20_000 + after, time.process_time()
    describe(pd.DataFrame({"a": [text, *"123456789"] * 2, "b": range(20)}))
    layout.lay_out("t.csv", f"{text}\n1\n2\n", lambda text: ",")
    assert time.process_time() - start < 1


def test_a_number_of_5000_digits_among_words_is_a_word() -> None:
    found = describe(pd.DataFrame({"a": ["9" * 5000, *"abcdefghi"] * 2, "b": range(20)}))
    assert found["a"].kind == "words"
