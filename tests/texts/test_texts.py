"""Texts from files, folders and data sets: what is read, and one clear line for each problem."""

import csv
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import maskevidence as me
from maskevidence.texts.text_files import read_texts
from refusals import one_line


def test_files_of_every_kind_give_the_same_texts(tmp_path: Path) -> None:
    from pyarrow import csv, parquet

    texts = ["a dog, and a cat", 'the "sun"', "räin"]
    (tmp_path / "a.txt").write_text("\ufeff" + "\r\n".join(texts) + "\r\n", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"n": 1, "text": text}) for text in texts))
    table = pa.table({"n": [1, 2, 3], "text": texts})
    csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "set").mkdir()
    parquet.write_table(table[:2], tmp_path / "set" / "train-00000-of-00002.parquet")
    parquet.write_table(table[2:], tmp_path / "set" / "train-00001-of-00002.parquet")
    for source in ("a.txt", "a.jsonl", "a.csv", "set", "set:train"):
        read = read_texts(str(tmp_path / source))
        assert list(read["text"]) == texts, source
        assert read_texts(str(tmp_path / source), ["text"], limit=2).fields == (tuple(texts[:2]),)
    running = read_texts(str(tmp_path / "a.txt"), running=True)
    assert "".join(running["text"]) == "\n".join(texts) + "\n"


@pytest.mark.data
def test_a_named_data_set_is_found_below_the_data_folder() -> None:
    read = read_texts("glue/qnli:validation", ["question", "sentence"], limit=3)
    assert len(read) == 3
    assert read["question"][0].startswith("What came into force")
    assert read_texts("tiny-shakespeare", limit=1)["text"] == ("First Citizen:",)
    with pytest.raises(me.InputError, match="has the splits test, train; choose one, as in glue/mrpc:test"):
        read_texts("glue/mrpc")


def test_a_text_of_a_table_may_be_long(tmp_path: Path) -> None:
    """The csv module of Python stops at 131,072 characters."""
    (tmp_path / "a.csv").write_text(f'text\n{"a cat " * 30_000}\n"a, dog"\n')
    assert read_texts(str(tmp_path / "a.csv"))["text"] == ("a cat " * 30_000, "a, dog")
    assert csv.field_size_limit() == 131_072


def test_a_text_of_parquet_that_is_not_utf_8(tmp_path: Path) -> None:
    from pyarrow import parquet

    parts = [pa.array([b"a", b"b"]), pa.array([b"c", b"\xff\xfe", b"d"])]
    texts = pa.chunked_array([part.view(pa.string()) for part in parts])
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(me.InputError, match=r"not UTF-8 in column 'text', row 3 \(from 0\); write the file"):
        read_texts(str(tmp_path / "a.parquet"))


def test_invalid_sources_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"good\nbad \xff byte\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "holes.jsonl").write_text('{"text": "a"}\n\n{"text": null}\n')
    (tmp_path / "broken.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "half.jsonl").write_text('{"text": "\\ud83d\\ude00"}\n{"text": "a \\ud800"}\n')
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    (tmp_path / "long.jsonl").write_text('{"text": ' + "1" * 5000 + "}")
    (tmp_path / "pretty.json").write_text('{\n "text": "a"\n}\n')
    (tmp_path / "ragged.csv").write_text("text,label\na,1\nb\n")
    (tmp_path / "two.csv").write_text("prompt,answer\na,b\n")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not at all")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    (tmp_path / "none").mkdir()
    asked = {
        "latin.txt": "byte 0xff at offset 9",
        "empty.txt": "is empty",
        "holes.jsonl": "nothing in column 'text', line 3",
        "broken.jsonl": "not JSON in line 2",
        "half.jsonl": r"half of a surrogate pair in line 2: \\ud800",
        "deep.jsonl": "is not JSON: ",
        "long.jsonl": "not JSON in line 1",
        "pretty.json": "not JSON in line 1.*an object in each line, or all in one array",
        "ragged.csv": "1 cells in line 3 and 2 in the first",
        "two.csv": "has the columns prompt, answer; choose with --text",
        "bad.parquet": "cannot be read as Parquet",
        "a.pdf": "is not a .txt, .jsonl, .csv, .tsv, .parquet, .smi, .fa, .* .a2m, .a3m, .json file",
        "none": "has no .txt",
        "missing.txt": "there is no file",
    }
    for name, message in asked.items():
        one_line(partial(read_texts, str(tmp_path / name)), match=message)
    with pytest.raises(me.InputError, match="has no column 'text'; it has prompt, answer"):
        read_texts(str(tmp_path / "two.csv"), ["text"])
    with pytest.raises(me.InputError, match="did you mean 'glue/qnli'"):
        read_texts("glue/qnl")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    from pyarrow import parquet

    (tmp_path / "a.csv").write_text("text,n,text\na dog,1,a cat\n")
    parquet.write_table(pa.table([["a dog"], ["a cat"]], names=["text", "text"]), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"text": "a dog", "n": 1, "text": "a cat"}\n')
    (tmp_path / "a.json").write_text('[{"text": "a dog", "n": 1, "text": "a cat"}]')
    for name in ("a.csv", "a.parquet", "a.jsonl", "a.json"):
        for columns in (None, ["text"], ["n"]):
            with pytest.raises(me.InputError, match="has 2 columns with the name 'text'; give each its own"):
                read_texts(str(tmp_path / name), columns)


def test_names_that_repeat_inside_a_value_of_json_are_nobody_s_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a dog", "meta": {"x": 1, "x": 2}}\n')
    assert read_texts(str(tmp_path / "a.jsonl"))["text"] == ("a dog",)
    (tmp_path / "b.jsonl").write_text('{"text": "a dog"}\n{"text": "rain", "text": "b"}\n')
    with pytest.raises(me.InputError, match=r"^'[^']*' has 2 columns .* own name \(line 2\)$"):
        read_texts(str(tmp_path / "b.jsonl"))


def test_a_first_row_that_was_taken_for_the_header_is_noted_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    for first in ("a cat sleeps", "unbelievable" * 4):
        file.write_text(f"{first}\na dog\nrain\n")
        with pytest.raises(me.InputError, match=f"seems to be a text.*{first[:40]}.*; write a name above"):
            read_texts(str(file))
        assert read_texts(str(file), [first]).fields == (("a dog", "rain"),)
        assert read_texts(str(file), [first]).notes == ()
    file.write_text("rain\na dog\nthe sun\n")
    read = read_texts(str(file))
    assert read["rain"] == ("a dog", "the sun")
    assert read.notes == ("the first row of 'x.csv' was taken for the header: 'rain'",)
    (tmp_path / "set").mkdir()
    file.rename(tmp_path / "set" / "x.csv")
    assert read_texts(str(tmp_path / "set")).notes == read.notes
    file.write_text("text\na dog\n")
    assert read_texts(str(file)).notes == ()
    long_name = tmp_path / "a.jsonl"
    long_name.write_text(json.dumps({"what was it that they said": "a dog"}))
    assert read_texts(str(long_name)).notes == ()


def test_names_of_texts_are_there_and_equal_ones_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,id\na dog,b\nrain, \n")
    (tmp_path / "a.jsonl").write_text('{"text": "a dog", "id": "b"}\n{"text": "rain", "id": null}\n')
    for name, place in (("a.csv", 3), ("a.jsonl", 2)):
        with pytest.raises(me.InputError, match=f"has no name in column 'id', line {place}; give one"):
            read_texts(str(tmp_path / name), id_column="id")
    (tmp_path / "a.csv").write_text("text,id\na dog,b\nrain,b\n")
    (tmp_path / "a.fasta").write_text(">b\nMKT\n>b\nMK\n")
    for name, column in (("a.csv", "id"), ("a.fasta", None)):
        read = read_texts(str(tmp_path / name), id_column=column)
        assert read.labels == ("b", "b")
        assert "only 1 of the 2 names of the texts are different: 'b' 2 times" in read.notes


def test_texts_know_their_lines(tmp_path: Path) -> None:
    for name, content, lines in (
        ("t.txt", "one\ntwo\n", [1, 2]),
        ("t.csv", 'text,n\n"one\nhalf",1\n\ntwo,2\n', [2, 5]),
        ("t.jsonl", '\n{"text": "one"}\n{"text": "two"}\n', [2, 3]),
    ):
        (tmp_path / name).write_text(content)
        assert list(read_texts(str(tmp_path / name)).lines or ()) == lines
