"""Parquet files beyond memory: peak memory and CPU seconds of `score` and `cells` with a saved model.

    python benchmarks/row_groups.py [--rows 800000,1600000 --columns 20 --gigabytes 1.6] [--suggestions]

Each command runs in a process of its own: at once, in all memory, and by row groups, with an address space of
some gigabytes (`ulimit -v`), of which the libraries take about one. What row groups take may not grow with
the file but for the numbers of each row, about 130 bytes.

`--suggestions` measures instead what `cells` takes in 200 x 300, some 450 of whose cells it describes: with
its suggestions (units and swaps of columns) tried for all cells at once, in parts, or for none of them.
"""

import sys

from _timing import Target, arguments, finish, is_quick, machine, show

# isort: split
import argparse
import os
import resource
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import maskevidence as me

_ROWS_OF_GROUP = 50_000
_MOST_BYTES_A_ROW = 300


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1000,2000" if is_quick() else "800000,1600000")
    parser.add_argument("--columns", type=int, default=5 if is_quick() else 20)
    parser.add_argument("--gigabytes", type=float, default=1.6)
    parser.add_argument(
        "--suggestions", action="store_true", help="memory of the suggestions of cells, instead"
    )
    parser.add_argument("--tried", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tried is not None:
        with_suggestions(options.tried)
        return 0
    if options.suggestions:
        return finish(*suggestions(), options.json)
    sizes = [int(word) for word in options.rows.split(",")]
    lines, peaks = [], dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("trusted.parquet", 500, options.columns, seed=1)
        fitted = write("fitted.parquet", 500, options.columns, seed=3)
        me.models.PPCA(options.columns, 2).fit(fitted).save("model")
        for n in sizes:
            write("t.parquet", n, options.columns, seed=2)
            for name, words in (("score", "--design random-size:1"), ("cells", "--trusted trusted.parquet")):
                command = f"-m maskevidence {name} model t.parquet {words} --overwrite --out {name}".split()
                for way, limit in (("at once", None), ("by row groups", options.gigabytes)):
                    megabytes, seconds = measured(command, limit)
                    peaks.setdefault(f"{name} {way}", []).append(megabytes)
                    size = Path("t.parquet").stat().st_size / 2**20
                    lines.append((f"{n:,}", f"{size:,.0f}", name, way, f"{megabytes:,.0f}", f"{seconds:.1f}"))
        os.chdir("/")
    show(machine(), ("rows", "MiB of the file", "command", "way", "peak MiB", "CPU seconds"), lines)
    more = (sizes[-1] - sizes[0]) / 2**20
    targets = []
    for way, (*_, last) in peaks.items():
        if way.endswith("groups") and not is_quick():
            grown = (last - peaks[way][0]) / more
            targets.append(Target(f"{way}: bytes more for each row more", grown, high=_MOST_BYTES_A_ROW))
    return finish({"lines": lines}, targets, options.json)


def write(name: str, n: int, width: int, seed: int) -> me.data.Table:
    """A file of rows of two factors, a cell in a thousand wrong; its rows."""
    rng, weights = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(2, width))
    columns = [f"c{j}" for j in range(width)]
    with parquet.ParquetWriter(name, pa.schema([(column, pa.float64()) for column in columns])) as file:
        for start in range(0, n, _ROWS_OF_GROUP):
            size = (min(_ROWS_OF_GROUP, n - start), width)
            x = rng.normal(size=(size[0], 2)) @ weights + rng.normal(size=size)
            x[rng.random(size) < 1e-3] += 10.0
            file.write_table(pa.table(dict(zip(columns, x.T, strict=True))))
    return me.data.Table(name, x, tuple(columns), np.arange(len(x)))


def suggestions() -> tuple[dict[str, list[float]], list[Target]]:
    """Peak MiB and CPU seconds of `cells`, by how many suggestions are tried at once."""
    ways = {"at once": 2**40, "in parts": 2**21, "no suggestions": 0}
    found = {way: [*measured([__file__, "--tried", str(most)], None)] for way, most in ways.items()}
    lines = [(way, f"{peak:,.0f}", f"{seconds:.1f}") for way, (peak, seconds) in found.items()]
    show(machine(), ("suggestions", "peak MiB", "CPU seconds"), lines)
    return found, [Target("MiB in parts", found["in parts"][0], high=1000.0)]


def with_suggestions(most: int) -> None:
    """Find wrong cells and suggest values for them, trying at most `most` cells at once."""
    from maskevidence.tables.wrong_cells import wrong_cells as search

    rng, (n, width) = np.random.default_rng(0), (20, 6) if is_quick() else (200, 300)
    x = rng.normal(size=(n, 5)) @ rng.normal(size=(5, width)) + rng.normal(size=(n, width))
    x[rng.random(x.shape) < 0.0045] *= 100
    search._MOST_TRIED = most
    if not most:
        search._suggested = lambda judge, rows, *_: [""] * len(rows)
    print(len(search.wrong_cells("kernel-gaussian", x).cells), "cells are described", file=sys.stderr)


def measured(words: list[str], gigabytes: float | None) -> tuple[float, float]:
    """Peak resident memory in MiB, and CPU seconds, of a command of Python."""
    limit = resource.RLIM_INFINITY if gigabytes is None else int(gigabytes * 2**30)
    limited = partial(resource.setrlimit, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    command = [sys.executable, *words, *(["--quick"] if is_quick() and "--tried" in words else [])]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=limited)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(words)} ended with exit code {child.returncode}")
    return used.ru_maxrss / 2**10, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
