"""Files of texts as people have them: first rows without text, nested fields, other endings."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import maskevidence as me
from maskevidence.texts.text_files import read_texts

ROWS = [{"content": None, "lang": 1}, {"content": "a dog", "lang": 2}]
NESTED = [{"doc": {"text": "a dog", "n": 1}, "lang": "en"}, {"doc": {"text": "rain", "n": 2}, "lang": "en"}]


def written(folder: Path, rows: list[dict[str, object]]) -> list[Path]:
    """The rows as JSON lines, as an array, and as Parquet."""
    files = [folder / name for name in ("rows.jsonl", "rows.json", "rows.parquet")]
    files[0].write_text("\n".join(map(json.dumps, rows)))
    files[1].write_text(json.dumps(rows, indent=1))
    parquet.write_table(pa.Table.from_pylist(rows), files[2])
    return files


def test_the_column_is_chosen_by_all_rows_and_named(tmp_path: Path) -> None:
    for file in written(tmp_path, ROWS):
        with pytest.raises(me.InputError, match=r"nothing in column 'content'.*--skip-empty"):
            read_texts(str(file))
        read = read_texts(str(file), skip_empty=())
        assert read.fields == (("a dog",),)
        assert read.notes == (
            "the texts are column 'content', the only one with text",
            "1 of 2 texts are empty and were skipped",
        )
    two = tmp_path / "two.jsonl"
    two.write_text('{"content": null, "lang": 1}\n{"content": "rain", "lang": "en"}\n')
    with pytest.raises(me.InputError, match="has the columns content, lang; choose with --text"):
        read_texts(str(two))


def test_nested_fields_are_named_with_a_dot(tmp_path: Path) -> None:
    for file in written(tmp_path, NESTED):
        with pytest.raises(me.InputError, match=r"has the columns doc, lang, doc\.text; choose with --text"):
            read_texts(str(file))
        assert read_texts(str(file), ["doc.text"])["doc.text"] == ("a dog", "rain")
        with pytest.raises(me.InputError, match=r"no column 'doc\.body'; it has doc, lang, doc\.text"):
            read_texts(str(file), ["doc.body"])
    for file in written(tmp_path, [{"doc": row["doc"]} for row in NESTED]):
        assert read_texts(str(file)).columns == ("doc.text",)


def test_other_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    texts = ("the cat\u2028sat", "a\x85dog", "r\x0bain")
    file = tmp_path / "x.jsonl"
    for end in ("\n", "\r\n", "\r"):
        rows = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        file.write_bytes(end.join(rows).encode())
        read = read_texts(str(file))
        assert (read["text"], list(read.lines or ())) == (texts, [1, 2, 3])


def test_files_are_read_by_their_endings_packed_or_not(tmp_path: Path) -> None:
    contents = {
        "a.json": '["a dog", "rain"]',
        "b.jsonl": '{"text": "a dog"}\n{"text": "rain"}\n',
        "c.tsv": "text\tn\na dog\t1\nrain\t2\n",
        "d.txt": "a dog\nrain\n",
        "e.csv": "text,n\na dog,1\nrain,2\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            assert read_texts(str(path))["text"] == ("a dog", "rain"), path
    for name in ("a.fna", "a.fas", "a.pep", "a.ffn.gz"):
        content = b">one\nMKT\n"
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        assert read_texts(str(tmp_path / name)).labels == ("one",)
    (tmp_path / "m.smi").write_text("CCO\tethanol\n\nc1ccccc1 benzene ring\n")
    read = read_texts(str(tmp_path / "m.smi"))
    assert (read["text"], read.labels) == (("CCO", "c1ccccc1"), ("ethanol", "benzene ring"))
    assert list(read.lines or ()) == [1, 3]


def test_empty_rows_are_skipped_with_their_names_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("name,good,bad\none,a dog,a cat\ntwo,  ,rain\nthree,sun,\nfour,roof,the sun\n")
    one = read_texts(str(file), ["good"], id_column="name", skip_empty=())
    assert (one["good"], one.labels) == (("a dog", "sun", "roof"), ("one", "three", "four"))
    assert list(one.lines or ()) == [2, 4, 5]
    both = [read_texts(str(file), [name], skip_empty=["good", "bad"]) for name in ("good", "bad")]
    assert [each.fields for each in both] == [(("a dog", "roof"),), (("a cat", "the sun"),)]
    assert both[0].notes == ("2 of 4 texts are empty and were skipped",)
    file.write_text("text,n\n ,1\n")
    with pytest.raises(me.InputError, match="has no text; give a text or more"):
        read_texts(str(file), skip_empty=())


def test_small_letters_are_made_capital_ones(tmp_path: Path) -> None:
    file = tmp_path / "x.fasta"
    file.write_text(">one\nMKtay\n>two\nMK\n")
    read = read_texts(str(file), upper=True)
    assert (read["sequence"], read.notes) == (("MKTAY", "MK"), ("small letters were made capital ones (3)",))
