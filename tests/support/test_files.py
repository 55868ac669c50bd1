"""The JSON and CSV text of all files of this package, and the errors for damaged files."""

import math
from pathlib import Path

import numpy as np
import pytest

from maskevidence.errors import InputError
from maskevidence.support.files import csv_text, json_text, read_json, write_json


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = {"seed": 0, "scores": [0.1, None], "name": "é"}
    write_json(tmp_path / "a.json", content)
    assert (tmp_path / "a.json").read_text() == json_text(content)
    assert read_json(tmp_path / "a.json") == content


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"score": math.nan})


@pytest.mark.parametrize(
    "content", [b"", b'{"a": 1', b"\xff\xfe\x00", "\ud800".encode("utf-8", "surrogatepass")]
)
def test_a_damaged_json_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(
        InputError, match=r"a\.json' cannot be read as JSON \(.*\); write it again$"
    ) as refusal:
        read_json(file, "write it again")
    assert "\n" not in str(refusal.value)


def test_a_missing_json_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"a\.json' cannot be read \(No such file or directory\); check the path"
    ):
        read_json(tmp_path / "a.json")


def test_csv_cells() -> None:
    row = [1, np.int64(2), 0.1, np.float64(0.1), np.float32(0.1), math.nan, None, True, 'a,"b"']
    text = csv_text([f"c{place}" for place in range(len(row))], [row])
    assert text.splitlines()[1] == '1,2,0.1,0.1,0.10000000149011612,,,True,"a,""b"""'
    assert text.endswith("\n")
    assert "\r" not in text
