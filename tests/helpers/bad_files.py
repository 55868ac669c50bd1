"""Valid files made bad: every function changes one file in place, by the choices of a random generator."""

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

CELLS = (
    *("", " ", "nan", "inf", "-inf", "1e400", "1e200", "-1e-320", "9007199254740993", "1" + "0" * 40, "0x10"),
    *("abc", "1,5", '"', '"a""b', "\x00", "٣", "True", "2026-01-01", "=1+1", "NULL", "1_000", "−1"),
)
JSON_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        7,
        2**31,
        2**53 + 1,
        2**70,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
        0.5,
    ),
    *("", "x", "../../x", "/dev/null", "a" * 300, "\ud800", "1", [], [[]], [None], {}, {"a": 1}),
)


def mutate(file: Path, rng: random.Random) -> str:
    """Make one file bad, and say how."""
    own = _BY_SUFFIX.get(file.suffix.lower(), ())
    change = rng.choice([*own, *own, _bytes, _text_in_other_encoding]) if own else _bytes
    return change(file, rng)


def _bytes(file: Path, rng: random.Random) -> str:
    content = bytearray(file.read_bytes())
    what = rng.choice(["empty", "truncated", "flipped", "appended", "zip", "zeros", "other file"])
    if what == "empty":
        content = bytearray()
    elif what == "truncated":
        content = content[: rng.randrange(len(content) + 1)]
    elif what == "flipped" and content:
        for _ in range(rng.choice([1, 3, 30])):
            content[rng.randrange(len(content))] = rng.randrange(256)
    elif what == "appended":
        content += rng.randbytes(rng.choice([1, 100]))
    elif what == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a", bytes(content))
        content = bytearray(buffer.getvalue())
    elif what == "zeros":
        content = bytearray(len(content))
    else:
        content = bytearray(rng.randbytes(200))
    file.write_bytes(bytes(content))
    return what


def _text_in_other_encoding(file: Path, rng: random.Random) -> str:
    encoding = rng.choice(["utf-16", "utf-8-sig", "latin-1", "utf-32"])
    text = file.read_bytes().decode("utf-8", "replace")
    file.write_bytes((text + "é\n").encode(encoding, "replace"))
    return encoding


_CHANGES_OF_CSV = (
    *("cell", "cell", "cell", "short row", "long row", "twice", "no header", "header alone", "semicolons"),
    *("empty column", "empty row", "constant", "one column", "one row", "swapped", "huge", "empty name"),
)


def _csv(file: Path, rng: random.Random) -> str:
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
    what = rng.choice(_CHANGES_OF_CSV)
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    if what == "cell":
        rows[i][j] = rng.choice(CELLS)
    elif what == "short row":
        rows[i] = rows[i][:j]
    elif what == "long row":
        rows[i] = rows[i] * 2
    elif what == "twice":
        rows[0][j] = rows[0][j - 1]
    elif what == "no header":
        rows = rows[1:]
    elif what == "header alone":
        rows = rows[:1]
    elif what == "semicolons":
        rows = [[";".join(row)] for row in rows]
    elif what in ("empty column", "constant"):
        rows = [
            rows[0],
            *([*row[:j], "" if what == "empty column" else "1", *row[j + 1 :]] for row in rows[1:]),
        ]
    elif what == "empty row":
        rows[max(1, i)] = [""] * len(rows[0])
    elif what == "one column":
        rows = [row[:1] for row in rows]
    elif what == "one row":
        rows = rows[:2]
    elif what == "swapped":
        rows = [row[::-1] for row in rows]
    elif what == "huge":
        rows = [rows[0], *([cell and cell + rng.choice(["e90", "e-90"]) for cell in row] for row in rows[1:])]
    else:
        rows[0][j] = ""
    file.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    return what


def _npy(file: Path, rng: random.Random) -> str:
    values = np.load(file)
    forms: dict[str, Callable[[], Any]] = {
        "complex": lambda: values.astype(complex),
        "text": lambda: values.astype(str),
        "objects": lambda: values.astype(object),
        "half": lambda: values.astype(np.float16),
        "unsigned": lambda: np.full(values.shape, 2**64 - 1, dtype=np.uint64),
        "booleans": lambda: values > 0,
        "dates": lambda: values.astype("datetime64[s]"),
        "a number": lambda: np.array(1.0),
        "a vector": lambda: values[:, 0],
        "a cube": lambda: values[:, :, None],
        "no rows": lambda: values[:0],
        "no columns": lambda: values[:, :0],
        "one row": lambda: values[:1],
        "one column": lambda: values[:, :1],
        "infinite": lambda: np.where(values > 1, np.inf, values),
        "all missing": lambda: values * np.nan,
        "equal": lambda: np.zeros_like(values),
        "big-endian": lambda: values.astype(">f8"),
        "columns first": lambda: np.asfortranarray(values),
        "wide": lambda: np.tile(values, (1, 40)),
        "records": lambda: np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]),
        "copies": lambda: np.repeat(values[:, :1], values.shape[1], axis=1),
    }
    what = rng.choice(sorted(forms))
    np.save(file, forms[what](), allow_pickle=True)
    return what


def _parquet(file: Path, rng: random.Random) -> str:
    table = parquet.read_table(file)
    what = rng.choice(["dropped", "renamed", "cast", "missing", "nested", "no rows", "no columns", "twice"])
    name = rng.choice(table.column_names)
    place, n = table.column_names.index(name), table.num_rows
    if what == "dropped":
        table = table.drop_columns([name])
    elif what == "renamed":
        table = table.rename_columns([one + "_" if one == name else one for one in table.column_names])
    elif what == "cast":
        table = table.set_column(place, name, pa.array([rng.choice(CELLS)] * n))
    elif what == "missing":
        table = table.set_column(place, name, pa.nulls(n))
    elif what == "nested":
        table = table.set_column(place, name, pa.array([[1.0]] * n))
    elif what == "no rows":
        table = table.slice(0, 0)
    elif what == "no columns":
        table = table.select([])
    else:
        table = pa.concat_tables([table, table])
    parquet.write_table(table, file)
    return what


def _json(file: Path, rng: random.Random) -> str:
    content = json.loads(file.read_text(encoding="utf-8"))
    places = list(_places(content))
    for _ in range(rng.choice([1, 1, 1, 3])):
        parent, key = rng.choice(places)
        if rng.random() < 0.25 and isinstance(parent, dict):
            parent.pop(key, None)
        else:
            parent[key] = rng.choice(JSON_VALUES)
    file.write_text(json.dumps(content), encoding="utf-8")
    return f"{key!r} changed"


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON document, as its parent and its key."""
    found = []
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        found += [(content, key), *_places(content[key])]
    return found


def _other_json(file: Path, rng: random.Random) -> str:
    file.write_text(rng.choice(["null", "[]", "{}", "1", '"x"', "{", "[" * 5000, "NaN", '{"a": 1}']))
    return "another document"


def _json_lines(file: Path, rng: random.Random) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    bad = ["", "{", "1", "null", "[]", '{"text": null}', '{"text": 1}', '{"text": ["a"]}', '{"other": "a"}']
    bad += ['{"text": ""}', '{"text": "\\ud800"}', '{"text": "\\u0000"}', json.dumps({"text": "a " * 5000})]
    place = rng.randrange(len(lines))
    lines[place] = rng.choice(bad)
    file.write_text("\n".join(lines if rng.random() < 0.7 else lines[place : place + 1]), encoding="utf-8")
    return lines[place][:30]


def _text(file: Path, rng: random.Random) -> str:
    what = rng.choice(
        ["\x00", "\u2028\u2029", "\ufeff", "a" * 100_000, "\n\n\n", " ", "[MASK] [PAD]", "\U0010ffff"]
    )
    text = file.read_text(encoding="utf-8")
    file.write_text(what if rng.random() < 0.4 else text + what + "\n" + text, encoding="utf-8")
    return repr(what[:10])


def _safetensors(file: Path, rng: random.Random) -> str:
    tensors = load_file(file)
    name = rng.choice(sorted(tensors))
    value = tensors[name]
    forms: dict[str, Callable[[], Any]] = {
        "NaN": lambda: value * np.nan,
        "infinite": lambda: value + np.inf,
        "huge": lambda: np.full_like(value, 1e300 if value.dtype == np.float64 else 1e30),
        "half": lambda: value.astype(np.float16),
        "single": lambda: value.astype(np.float32),
        "integers": lambda: value.astype(np.int64),
        "booleans": lambda: value > 0,
        "flat": lambda: value.reshape(-1)[:-1].copy(),
        "deep": lambda: value[None].copy(),
        "empty": lambda: value.reshape(-1)[:0].copy(),
        "zero": lambda: value * 0,
    }
    what = rng.choice([*sorted(forms), "lost", "added", "renamed"])
    if what in forms:
        tensors[name] = np.ascontiguousarray(forms[what]())
    elif what == "added":
        tensors["unknown"] = value
    else:
        tensors.pop(name)
        if what == "renamed":
            tensors[name + "_"] = value
    save_file(tensors, file)
    return f"{name} {what}"


def _image(file: Path, rng: random.Random) -> str:
    what = rng.choice(["1x1", "1", "P", "RGBA", "I;16", "CMYK", "wide", "odd"])
    sizes = {"1x1": (1, 1), "wide": (4000, 2), "odd": (7, 13)}
    with Image.open(file) as old:
        new = old.resize(sizes[what]) if what in sizes else old.convert(what)
    new.save(file, format="TIFF" if what == "CMYK" else "PNG")
    return what


_Change = Callable[[Path, random.Random], str]
_BY_SUFFIX: dict[str, tuple[_Change, ...]] = {
    ".csv": (_csv,),
    ".npy": (_npy,),
    ".parquet": (_parquet,),
    ".json": (_json, _json, _json, _other_json),
    ".jsonl": (_json_lines,),
    ".txt": (_text,),
    ".safetensors": (_safetensors,),
    ".png": (_image,),
}
