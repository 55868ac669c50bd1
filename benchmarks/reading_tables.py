"""Kinds of columns of messy tables, told without an option; first attempts of commands; a million rows.

    MASKEVIDENCE_DATA=... python benchmarks/reading_tables.py
    MASKEVIDENCE_DATA=... python benchmarks/reading_tables.py --parts commands --tables seaice,taxis

The tables are those of messy and dirty in the folder of MASKEVIDENCE_DATA, where it has them; their READMEs
say what is right. `commands` runs score, impute, cells and select on each without an option. `columns` reads
those of columns_people_write.json, where what is right was written before the reader saw them. The time of
the reader is beside that of pandas.read_csv for the same file.
"""

import csv
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, interleaved, is_quick, machine, show, times_faster

# isort: split
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow.csv import write_csv

import maskevidence as me
from maskevidence.data import describe, read_table

# Kinds by column, from the READMEs; columns that are not named are numbers. Several kinds may be right.
TRUTH: dict[str, dict[str, str]] = {
    "bikes": {
        "Date": "date",
        "Brébeuf (données non disponibles)": "empty",
        "St-Urbain (données non disponibles)": "empty",
    },
    "airedale": {
        "Payment Date": "date",
        **dict.fromkeys(["Department Family", "Entity"], "constant words"),
        **dict.fromkeys(["Expense Type", "Expense Area", "Supplier"], "words"),
        "Transaction No.": "id",
    },
    "imdb": {
        **dict.fromkeys(["fn", "tid", "url"], "id"),
        **dict.fromkeys(["title", "wordsInTitle"], "text"),
        "type": "words constant",
    },
    "olympics": {"c0": "id text"},
    "planets": {"rowid": "id", "pl_discmethod": "words"},
    "mpg": {"name": "text"},
    "seaice": {"Month": "words"},
    "taxis": {
        **dict.fromkeys(["tpep_pickup_datetime", "tpep_dropoff_datetime"], "date"),
        "store_and_fwd_flag": "yes/no",
        "color": "words constant",
        **dict.fromkeys(["ehail_fee", "trip_type"], "empty"),
    },
    "hospital": {
        **dict.fromkeys(["index", "provider_number", "phone"], "id number"),
        **dict.fromkeys(
            ["name", "address_1", "city", "state", "county", "type", "owner", "condition"], "words"
        ),
        **dict.fromkeys(["address_2", "address_3"], "constant"),
        **dict.fromkeys(["measure_code", "measure_name", "state_average"], "words"),
        "emergency_service": "words yes/no",
    },
    "beers": {
        **dict.fromkeys(["index", "id", "brewery_id"], "id number"),
        "beer_name": "text",
        **dict.fromkeys(["style", "brewery_name", "city", "state"], "words"),
    },
    "tax": {
        **dict.fromkeys(["f_name", "l_name", "city"], "text words"),
        **dict.fromkeys(["gender", "state", "marital_status"], "words"),
        "phone": "id",
        "zip": "text words",
        "has_child": "yes/no",
    },
}
GENRES = slice(16, None)  # columns of imdb that are yes/no
CODES = {  # written as numbers; a finding has to say that they may be codes
    "taxis": ["VendorID", "RatecodeID", "PULocationID", "DOLocationID", "payment_type"],
    "mpg": ["origin"],
    "hospital": ["provider_number", "zip"],
    "beers": ["brewery_id"],
    "tax": ["area_code"],
}
REFUSED = "mutation_matrix"
ROWS, COLUMNS, MOST = 1_000_000, 20, 1.3
COMMANDS = {
    "score": ["score", "auto"],
    "impute": ["impute", "auto"],
    "cells": ["cells", "auto"],
    "select": ["select", "kernel-gaussian,mixture-transition"],
}


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default="columns,kinds,commands,seconds", help="these, between commas")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="commands of that part")
    parser.add_argument("--tables", default=",".join([*TRUTH, REFUSED]), help="tables of the commands")
    options = parser.parse_args()
    parts = options.parts.split(",")
    numbers, targets = {}, []
    folder = os.environ.get("MASKEVIDENCE_DATA")
    there = bool(folder) and (Path(folder) / "messy").is_dir()
    if not there:
        print("the messy tables need MASKEVIDENCE_DATA: left out")
    if "columns" in parts:
        numbers["columns"] = found = columns_of_people()
        targets.append(
            Target("share of columns read as people mean them", found["right"] / found["columns"], low=0.95)
        )
        targets.append(Target("columns that are wrong without a finding", found["silent"], high=0))
    if there and "kinds" in parts:
        numbers["kinds"] = found = kinds(Path(folder))
        share = found["right"] / found["columns"]
        targets.append(Target("share of columns whose kind is right", share, low=0.95))
        targets.append(Target("wrong kinds without a finding", found["silent"], high=0))
    if there and "commands" in parts:
        tables = ["mpg"] if options.quick else options.tables.split(",")
        words = {name: COMMANDS[name] for name in options.commands.split(",")}
        numbers["commands"] = attempts = commands(Path(folder), tables, words)
        failed = sum(each["code"] != 2 * (each["table"] == REFUSED) for each in attempts)
        targets.append(Target("first attempts that end otherwise than they should", failed, high=0))
    if "seconds" in parts:
        numbers["seconds"] = times = seconds()
        targets.append(Target("CPU seconds beside pandas'", times["ratio"], high=MOST))
    return finish(numbers, targets, options.json)


def path_of(folder: Path, name: str) -> Path:
    """A table of messy or dirty."""
    path = folder / "messy" / f"{name}.csv"
    return path if path.exists() else folder / "dirty" / f"{name}.dirty.csv"


def commands(
    folder: Path, tables: Sequence[str], of_names: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The exit code, CPU seconds and lines of messages of the first attempt of each command."""
    attempts, rows = [], []
    for name in tables:
        cells = [name]
        for command, words in of_names.items():
            with tempfile.TemporaryDirectory() as place:
                line = [*words, str(path_of(folder, name))]
                line += ["--out", "filled.csv"] * (command == "impute")
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = subprocess.run(
                    [sys.executable, "-m", "maskevidence", *line], cwd=place, capture_output=True, text=True
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            attempt = {"table": name, "command": command, "code": done.returncode, "seconds": spent}
            print(*attempt.values(), done.stderr.strip()[-200:], file=sys.stderr)
            attempts.append(attempt | {"error": done.stderr.strip()[-500:] * (done.returncode != 0)})
            cells.append(f"{spent:.0f}" if done.returncode == 0 else f"{spent:.0f}, exit {done.returncode}")
        rows.append(tuple(cells))
    show("CPU seconds of a first attempt without an option", ("table", *of_names), rows)
    return attempts


def kinds(folder: Path) -> dict[str, float]:
    """Count the columns whose kind is right, and those that are wrong without a finding."""
    rows, right, n, silent = [], 0, 0, 0
    for name, truth in TRUTH.items():
        path = path_of(folder, name)
        description = describe(path)
        wanted = dict.fromkeys([column.name for column in description.columns], "number") | truth
        if name == "imdb":
            wanted |= dict.fromkeys(
                [column.name for column in description.columns][GENRES], "yes/no constant"
            )
        wrong = [
            f"{column.name}: {column.kind}"
            for column in description.columns
            if column.kind not in wanted[column.name].split()
            and not (wanted[column.name] == "number" and column.kind == "constant")
        ]
        coded = {each.column for each in description.findings if each.what == "codes"}
        wrong += [f"{each}: not said to be codes" for each in CODES.get(name, []) if each not in coded]
        said = {each.column for each in description.findings}
        silent += sum(each.split(":")[0] not in said for each in wrong)
        n, right = n + len(wanted), right + len(wanted) - len(wrong)
        rows.append((name, str(len(wanted)), str(len(wanted) - len(wrong)), ", ".join(wrong) or "none"))
    try:
        describe(path_of(folder, REFUSED))
        refused = "read"
    except me.InputError as error:
        refused = str(error).partition(" is ")[2][:60]
    rows.append((REFUSED, "", "", refused))
    rows.append(("together", str(n), str(right), f"{silent} wrong in silence"))
    show("Kinds of columns", ("table", "columns", "right", "wrong"), rows)
    return {"columns": n, "right": right, "silent": silent}


def columns_of_people() -> dict[str, float]:
    """Count the columns that are read as people mean them, and those that are wrong without a finding."""
    rows, seen = [], Counter[str]()
    files = json.loads(Path(__file__).with_name("columns_people_write.json").read_text("utf-8"))
    for name, file in files.items():
        for column, how, why in judged(name, file):
            seen[how] += 1
            rows += [] if how == "right" else [(name, column, how, why)]
    show("Columns that are read otherwise than people mean them", ("file", "column", "how", "read as"), rows)
    print(f"{seen.total()} columns of {len(files)} files: {dict(seen)}")
    return {"columns": seen.total(), "right": seen["right"], "silent": seen["silent"]}


def judged(name: str, file: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each column of a file, whether it is right, told or wrong in silence, and as what it is read."""
    columns, n = file["columns"], file.get("rows", 24)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.csv"
        path.write_bytes(text_of(file, n).encode(file.get("encoding", "utf-8")))
        try:
            description, table = describe(path), read_table(path, words=True, near_unique=True)
        except me.InputError as error:
            how = "right" if file.get("refused") else "told"
            yield from ((column, how, str(error)[:60]) for column in columns)
            return
    found = {each.name: each for each in description.columns}
    said = {each.column for each in description.findings}
    for column, wanted in columns.items():
        if column not in found or description.n_rows != n:
            told = any(each.column is None for each in description.findings)
            yield column, "told" if told else "silent", f"{description.n_rows} rows, {[*found]}"[:60]
            continue
        kind, right = found[column].kind, found[column].kind in wanted["kind"].split()
        first = wanted.get("first", []) if kind in ("number", "date") else []
        values = table.values[: len(first), table.columns.index(column)].tolist() if first else []
        for value, true in zip(values, first, strict=True):
            hole = true is None or true == "told"
            right &= np.isnan(value) if hole else bool(np.isclose(value, true, rtol=1e-4))
        right &= column in said or not (wanted.get("told") or "told" in first)
        how = "right" if right else "told" if column in said else "silent"
        yield column, how, f"{kind} {[round(value, 4) for value in values]}"


def text_of(file: Mapping[str, Any], n: int) -> str:
    """The text of a file of columns, whose cells go round."""
    mark, columns = file.get("delimiter", ";"), file["columns"]
    written = io.StringIO()
    rows = [[each["cells"][k % len(each["cells"])] for each in columns.values()] for k in range(n)]
    csv.writer(written, delimiter=mark, lineterminator=file.get("end", "\n")).writerows(rows)
    names = file.get("names", mark.join(columns))
    return f"{file.get('above', '')}{names}\n{written.getvalue()}{file.get('below', '')}"


def seconds() -> dict[str, float]:
    """CPU seconds to read a table of numbers."""
    n = 20_000 if is_quick() else ROWS
    with tempfile.TemporaryDirectory() as place:
        path, rng = Path(place) / "t.csv", np.random.default_rng(0)
        values = (rng.normal(size=(n, COLUMNS)).round(4) * 10 ** rng.integers(0, 4, COLUMNS)).round(4)
        values[:, ::4] = values[:, ::4].round()
        write_csv(
            pa.table({f"c{j}": column for j, column in enumerate(values.T)}), path
        )  # as pandas, far faster
        ways = {
            "reader": lambda: read_table(path).values,
            "pandas": lambda: pd.read_csv(path).to_numpy(float),
        }
        assert np.array_equal(ways["reader"](), ways["pandas"]())
        timings = interleaved(ways, rounds=1 if is_quick() else 3, clock=time.process_time)
    ratio = 1 / times_faster(timings, "pandas", "reader")
    row = (f"{n:,} × {COLUMNS}", *(f"{timing.median:.2f}" for timing in timings.values()), f"{ratio:.2f}")
    show(f"CPU seconds to read; {machine()}", ("table", "reader", "pandas", "ratio"), [row])
    return {"reader": timings["reader"].median, "pandas": timings["pandas"].median, "ratio": ratio}


if __name__ == "__main__":
    sys.exit(main())
