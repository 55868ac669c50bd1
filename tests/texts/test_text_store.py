"""Many texts lie in a temporary file, and files of them are read line by line; memory holds few."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from maskevidence.core.errors import InputError
from maskevidence.texts import text_store
from maskevidence.texts.text_files import read_texts
from maskevidence.texts.text_store import TextStore

STRANGE = ["a dog", "", "räin\u2028☃", "🦎" * 9, "x\ry", " "]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_store, "_IN_MEMORY", 8)
    monkeypatch.setattr(text_store, "_AT_ONCE", 4)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 12, 50])
def test_texts_come_back(small: None, n: int) -> None:
    texts = [STRANGE[k % 6] + str(k) for k in range(n)]
    store = TextStore(texts[:-1])
    for text in texts[-1:]:
        store.append(text)
    assert list(store) == texts
    assert len(store) == n
    assert [store[k] for k in range(-n, n)] == texts * 2
    assert store[3:11] == tuple(texts[3:11])
    assert store[::-3] == tuple(texts[::-3])
    assert store[: n // 2] == tuple(texts[: n // 2])
    assert tuple(store.in_memory()) == tuple(texts)
    assert isinstance(store.in_memory(), tuple) == (n < 8)
    with pytest.raises(IndexError):
        store[n]


def test_files_of_every_kind_are_read_alike_in_parts(small: None, tmp_path: Path) -> None:
    texts = [f"{text}, {k}" for k, text in enumerate((["a dog", "räin", "the \u2028 sun", "🦎"] * 5)[:19])]
    (tmp_path / "a.txt").write_bytes(("\ufeff" + "\r\n".join(texts)).encode())
    (tmp_path / "mac.txt").write_bytes("\r".join(texts).encode())
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"n": 1, "text": text}) for text in texts))
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("n", "text"), *((k, text) for k, text in enumerate(texts))])
    for name in ("a.txt", "mac.txt", "a.jsonl", "a.csv"):
        packed = tmp_path / f"b{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        for file in (tmp_path / name, packed):
            read = read_texts(str(file))
            assert list(read["text"]) == texts, file
            assert isinstance(read["text"], TextStore)
            few = read_texts(str(file), ["text"], limit=9, upper=True)
            assert list(few["text"]) == [text.upper() for text in texts[:9]]
            assert len(list(few.lines or ())) == 9


def test_empty_texts_are_skipped_in_parts(small: None, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{k}\n\n" for k in range(20)))
    read = read_texts(str(tmp_path / "a.txt"), skip_empty=())
    assert list(read["text"]) == [str(k) for k in range(20)]
    assert list(read.lines or ()) == list(range(1, 40, 2))
    assert read.notes == ("20 of 40 texts are empty and were skipped",)
    three = read_texts(str(tmp_path / "a.txt"), skip_empty=(), limit=3)  # counts what is scored
    assert (list(three["text"]), list(three.lines or ())) == (["0", "1", "2"], [1, 3, 5])


def test_damage_is_told_as_of_a_whole_file(tmp_path: Path) -> None:
    good = b"a line\n" * 100_000
    (tmp_path / "a.txt").write_bytes(good + b"bad \xff\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(good + b"bad \xff\n"))
    for name in ("a.txt", "b.txt.gz"):
        with pytest.raises(InputError, match="byte 0xff at offset 700,004"):
            read_texts(str(tmp_path / name))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(good)[:-20])
    with pytest.raises(InputError, match="cannot be unpacked"):
        read_texts(str(tmp_path / "c.txt.gz"))


MEMORY = """
import sys, tracemalloc
from maskevidence.texts import text_store
from maskevidence.texts.text_files import read_texts

text_store._IN_MEMORY, text_store._AT_ONCE = 2**9, 2**8
tracemalloc.start()
for file in sys.argv[1:]:
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    read = read_texts(file)
    print(len(read), *(now - before for now in tracemalloc.get_traced_memory()))
    del read
"""


@pytest.mark.slow
def test_memory_holds_few_of_many_texts(tmp_path: Path) -> None:
    """In a process of their own: among other tests the peak of a.jsonl was 378 kB, and 603 kB at times."""
    n = 20_000
    texts = [f"a line {k} of many words" for k in range(n)]
    of_names = {
        "a.txt": texts,
        "a.txt.gz": texts,
        "a.csv": ["text", *texts],
        "a.jsonl": [json.dumps({"text": text}) for text in texts],
        "a.fasta": [f">a\n{'ACDEFGHIKLMNPQRSTVWY' * 2}" for _ in texts],
    }
    for name, lines in of_names.items():
        content = "\n".join(lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    program = [sys.executable, "-c", MEMORY, *(str(tmp_path / name) for name in of_names)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    for name, line in zip(of_names, done.stdout.splitlines(), strict=True):
        n_read, kept, peak = map(int, line.split())
        assert n_read >= n
        assert peak < 30 * n, name  # about 100 bytes a text and 8 of its line where all are in memory
        assert kept < 15 * n, name
