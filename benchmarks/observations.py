"""Writing the observations of a run: microseconds a row by columns and by cells, and as Parquet.

All give the same content; the lines by columns and by cells are equal to the last byte. Beside them stand a
floor, the digits of the numbers alone, and pyarrow's writer of CSV. Takes twenty seconds.
"""

import sys
import time

from _timing import Target, arguments, finish, interleaved, is_quick, machine, show, times_faster

# isort: split
import io
from functools import partial
from typing import Any

import numpy as np
from pyarrow import csv, parquet

from maskevidence.core.evidence.result import Rows
from maskevidence.core.support.files import csv_text
from maskevidence.runs.observation_files import csv_in_parts, listed, parquet_of


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    n = 1000 if is_quick() else 100_000
    numbers, rows = {}, []
    for name, labels in (("no labels", [""] * n), ("labels", [f'row "{k}", of many' for k in range(n)])):
        table = made_up(tuple(labels))
        ways = {
            "cells": lambda table=table: by_cells(table),
            "columns": lambda table=table: "".join(csv_in_parts([table])),
        }
        ways["digits"] = partial(digits, table)
        ways["pyarrow"] = partial(by_pyarrow, parquet.read_table(io.BytesIO(b"".join(parquet_of([table])))))
        ways["parquet"] = lambda table=table: b"".join(parquet_of([table]))
        assert by_cells(table) == ways["columns"]()
        assert parquet.read_table(io.BytesIO(ways["parquet"]())).to_pydict() == listed(table)
        timings = interleaved(ways, rounds=5, clock=time.process_time)
        faster = times_faster(timings, "cells", "columns")
        numbers[name] = {way: timing.median / n * 1e6 for way, timing in timings.items()} | {"faster": faster}
        rows.append((name, *(f"{numbers[name][way]:.2f}" for way in ways), f"{faster:.1f}"))
    show(f"{n:,} rows, µs of CPU a row; {machine()}", ("rows", *ways, "times"), rows)
    aim = Target("times faster by columns, no labels", numbers["no labels"]["faster"], low=2.8)
    return finish({"microseconds": numbers}, [aim], options.json)


def made_up(labels: tuple[str, ...]) -> Rows:
    """Observations with errors, of which every seventh is not known."""
    generator, n = np.random.default_rng(0), len(labels)
    error = generator.random(n)
    error[::7] = np.nan
    size = np.full(n, 20)
    columns = {"id": np.arange(n), "label": labels, "n_tokens": size, "n_bytes": 5 * size}
    columns |= {"log_evidence": generator.normal(size=n), "mask_se": error, "mask_df": error * 3}
    return columns | dict.fromkeys(("per_token", "pll", "closed_form"))


def by_cells(table: Rows) -> str:
    """The lines from a csv writer."""
    columns = listed(table)
    return csv_text(columns, zip(*columns.values(), strict=True))


def digits(table: Rows) -> list[list[str]]:
    """The digits of the numbers of each column."""
    columns = (column for column in table.values() if isinstance(column, np.ndarray))
    return [list(map(type(column[0].item()).__repr__, column.tolist())) for column in columns]


def by_pyarrow(table: Any) -> bytes:
    csv.write_csv(table, sink := io.BytesIO())
    return sink.getvalue()


if __name__ == "__main__":
    sys.exit(main())
