"""Run directories: the cost of saving, and the time to summarise a large run.

Overhead: a run with a run directory, including the summary, is compared with the same estimate in memory.
Summary: one million rows in 20 parts are summarised. Takes about three minutes on two cores. `kills.py` kills
commands and gives them again.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, random_bert, show, spread_of_ratio

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.runs import (
    DataSource,
    Manifest,
    RunDirectory,
    read_run,
    record_run,
    rows_per_block,
    write_summary,
)
from rows import made_up_run

PROGRAM = (sys.executable, "-c", "from maskevidence.command.app import main; main()")
MAX_OVERHEAD = 0.03
MAX_SECONDS = 5.0


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in (overhead, summary):
            numbers[part.__name__], asked = part(Path(folder) / part.__name__, options.quick)
            targets += asked
    print(f"\n{machine()}")
    return finish(numbers, targets, options.json)


def overhead(folder: Path, quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """Time a run with a run directory against the same estimate in memory, in turn."""
    folder.mkdir()
    rows, numbers, targets = [], {}, []
    for name, (model, tokens, design) in subjects(quick).items():
        places = iter(range(10_000))

        def in_memory(model: Any = model, tokens: me.Tokens = tokens, design: Any = design) -> None:
            me.estimate_evidence(model, tokens, design)

        def on_disk(
            model: Any = model,
            tokens: me.Tokens = tokens,
            design: Any = design,
            name: str = name,
            places: Any = places,
        ) -> None:
            out = RunDirectory(folder / f"{name.replace(' ', '-')}-{next(places)}")
            record_run(out, manifest_of(model, tokens, design), model, tokens)
            run = read_run(out.path)
            run.result()

        timings = interleaved({"in memory": in_memory, "run directory": on_disk}, rounds=7)
        ratios = [d / m for m, d in zip(*(t.seconds for t in timings.values()), strict=True)]
        extra = float(np.median(ratios)) - 1.0
        numbers[name] = {key: timing.seconds for key, timing in timings.items()} | {"overhead": extra}
        rows.append(
            (
                name,
                *(f"{timing.median:.2f} s" for timing in timings.values()),
                f"{extra:+.1%}",
                spread_of_ratio(timings, "run directory", "in memory"),
            )
        )
        targets.append(Target(f"overhead, {name}", extra, high=MAX_OVERHEAD))
    columns = ("model and rows", "in memory", "run directory", "overhead", "range of ratios")
    show("Cost of a run directory, summary included (median of the ratios within a round)", columns, rows)
    return numbers, targets


def subjects(quick: bool) -> dict[str, tuple[Any, me.Tokens, me.MaskDesign]]:
    """Models to time: a Gaussian on rows of 20 numbers, and a 2-layer BERT with random weights on texts."""
    rng = np.random.default_rng(0)
    n_rows, width = 50 if quick else 10_000, 20
    root = rng.normal(size=(width, width))
    covariance = torch.from_numpy(root @ root.T + np.eye(width))
    gaussian = me.models.Gaussian(torch.zeros(width, dtype=torch.float64), covariance)
    cases: dict[str, tuple[Any, me.Tokens, me.MaskDesign]] = {
        f"gaussian, {n_rows:,} rows of {width}": (
            gaussian,
            me.Tokens.from_array(rng.normal(size=(n_rows, width))),
            me.EverySize(2),
        )
    }
    try:
        network = random_bert(30_522, 128, 2, 2, max_position_embeddings=64)
    except ImportError:
        return cases
    from maskevidence.texts.masked_lm import MaskedLM

    model = MaskedLM(network, mask_token_id=103)
    n_texts = 4 if quick else 120
    lengths = rng.integers(12, 61, size=n_texts)
    inside = torch.arange(60)[None, :] < torch.from_numpy(lengths)[:, None]
    tokens = me.Tokens(
        values=torch.from_numpy(rng.integers(1000, 30_000, size=(n_texts, 60))),
        maskable=inside,
        context=torch.zeros_like(inside),
        ids=torch.arange(n_texts),
        n_bytes=torch.from_numpy(5 * lengths),
    )
    cases[f"2-layer BERT, {n_texts} texts"] = (model, tokens, me.RandomSize(8))
    return cases


def manifest_of(model: Any, tokens: me.Tokens, design: me.MaskDesign) -> Manifest:
    return Manifest(
        model="a model",
        conditionals=model.conditionals,
        data=DataSource(name="rows", fingerprint="", n_observations=len(tokens), columns=[]),
        design=design.settings(),
        masks="own",
        seed=0,
        rows_per_block=rows_per_block(model, tokens, design, MaskKey()),
    )


def summary(folder: Path, quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """Time the summary of one million rows: 125,000 texts of 20 tokens with 8 masks each."""
    n, n_parts = (200, 2) if quick else (125_000, 20)
    run = RunDirectory(made_up_run(folder, n, seed=0, n_parts=n_parts))

    def in_process() -> None:
        read = read_run(folder)
        write_summary(run, read, read.result())

    command = [*PROGRAM, "summarize", str(folder)]
    timings = interleaved(
        {
            "reading the files, computing and writing the summary": in_process,
            "the whole command, including program start": lambda: subprocess.run(
                command, check=True, capture_output=True, env=os.environ
            ),
        },
        rounds=5,
    )
    n_rows = len(read_run(folder).estimate.scores)
    rows = [(name, f"{timing.median:.2f} s") for name, timing in timings.items()]
    show(f"Summary of {n_rows:,} rows in {n_parts} parts", ("what", "median"), rows)
    numbers = {name: timing.seconds for name, timing in timings.items()} | {"rows": n_rows}
    first = next(iter(timings.values()))
    return numbers, [Target("seconds for a million rows", first.median, high=MAX_SECONDS)]


if __name__ == "__main__":
    sys.exit(main())
