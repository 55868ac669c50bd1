"""How every part of the study runs: piece by piece, each piece one trained model and one record."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from _records import KEY, Record, Records
from maskevidence.core.errors import InputError, import_extra
from maskevidence.runs.folder import locked
from maskevidence.core.support.progress import progress

RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = Path("runs") / "study-quick"
Piece = Callable[..., Record]


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all parts share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small run, to check that it works")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"by default {RESULTS.name} beside this file")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no model after this time")
    parser.add_argument("--workers", type=int, help="models at once; by default as many as torch has threads")
    return parser


def folder_of(options: argparse.Namespace) -> Path:
    """Where the results of a run go: those of a quick one are never mixed with others."""
    return options.out or (QUICK_RESULTS if options.quick else RESULTS)


def run_pieces(name: str, piece: Piece, units: Mapping[str, Mapping[str, Any]], options: Any) -> int:
    """Train and score every model that has no record yet; the same command resumes an interrupted run.

    Args:
        name: the part of the study.
        piece: makes the record of one model from the entries of its unit; a function of an imported module.
        units: what tells the models apart, by key.
        options: from `arguments`.

    Returns:
        The exit code: 0, or 2 for data or packages that are missing, or if another run is writing there.
    """
    try:
        with locked(folder_of(options)):
            records = Records(folder_of(options), name)
            left = {key: unit for key, unit in units.items() if key not in records.by_key}
            print(f"{name}: {len(units) - len(left)} of {len(units)} models are there", flush=True)
            _run(name, piece, left, options, records)
            records.pack()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    missing = sum(key not in records.by_key for key in units)
    if missing:
        print(f"{name}: {missing} models are left; the same command goes on")
    return 0


def _run(
    name: str, piece: Piece, left: Mapping[str, Mapping[str, Any]], options: Any, records: Records
) -> None:
    end = time.monotonic() + 60 * options.minutes
    workers = min(options.workers or torch.get_num_threads(), max(1, len(left)))
    with progress(name, len(left)) as advance:
        if workers == 1:
            for key, unit in left.items():
                if time.monotonic() > end:
                    return
                records.add(_timed(piece, key, unit))
                advance(1, f"{name}: {key}")
            return
        joblib = import_extra("joblib", "hf", "training several models at once")
        with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
            waiting = (
                joblib.delayed(_timed)(piece, key, unit)
                for key, unit in left.items()
                if time.monotonic() < end
            )
            parallel = joblib.Parallel(return_as="generator_unordered", pre_dispatch=workers)
            for record in parallel(waiting):
                records.add(record)
                advance(1, f"{name}: {record[KEY]}")


def _timed(piece: Piece, key: str, unit: Mapping[str, Any]) -> Record:
    before, start = torch.get_num_threads(), time.process_time()
    torch.set_num_threads(1)  # the last digits of a sum depend on it
    try:
        found = piece(**unit)
    finally:
        torch.set_num_threads(before)
    return {KEY: key, **unit, **found, "cpu_seconds": round(time.process_time() - start, 3)}


def keyed(units: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Units by a key that names all of their entries.

    Example:
        >>> keyed([{"data_set": "iris", "seed": 1}])
        {'iris / 1': {'data_set': 'iris', 'seed': 1}}
    """
    return {" / ".join(map(str, unit.values())): unit for unit in units}
