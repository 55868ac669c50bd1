"""Shared by all benchmarks: interleaved timings, the speed of the machine, tables, targets and the exit code.

Import this module before torch: threads that spin while they wait would slow down the other contestant.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


@dataclass(frozen=True)
class Timing:
    """Seconds of each round of one contestant.

    Attributes:
        seconds: one entry per round, in order.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Target:
    """A number and what it has to reach.

    Attributes:
        name: what is measured.
        value: the number measured.
        low: smallest acceptable value.
        high: largest acceptable value.
    """

    name: str
    value: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def reached(self) -> bool:
        return self.low <= self.value <= self.high

    @property
    def asked(self) -> str:
        if self.high == math.inf:
            return f"at least {self.low:g}"
        return f"at most {self.high:g}" if self.low == -math.inf else f"{self.low:g} to {self.high:g}"


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    warmups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time functions in turn, a, b, a, b, ..., so that a change in the machine's speed affects all of them.

    A quick run has one round and no warm-up.

    Args:
        contestants: functions to time, by name.
        rounds: number of timed runs of each function.
        warmups: number of runs of each function before that, which are not timed.
        clock: seconds; `time.process_time` counts those of this process alone, on a busy machine.
    """
    rounds, warmups = (1, 0) if is_quick() else (rounds, warmups)
    for _ in range(warmups):
        for run in contestants.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def timed(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    """What a call gives, and its seconds, of CPU time by default."""
    start = clock()
    return call(), clock() - start


def times_faster(timings: Mapping[str, Timing], slow: str, fast: str) -> float:
    """Ratio of the two medians."""
    return timings[slow].median / timings[fast].median


def spread_of_ratio(timings: Mapping[str, Timing], slow: str, fast: str) -> str:
    """Smallest and largest ratio of the two within a round, as text."""
    ratios = [s / f for s, f in zip(timings[slow].seconds, timings[fast].seconds, strict=True)]
    return f"{min(ratios):.3g} to {max(ratios):.3g}"


def machine() -> str:
    """The cores, threads and versions that timings depend on, in one line."""
    import torch

    return (
        f"{os.cpu_count()}-core {platform.machine()} CPU, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks accept: --json and --quick."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="a tiny run that shows that the command works")
    return parser


def random_bert(n_ids: int, hidden: int, layers: int, heads: int, **more: Any) -> Any:
    """A BERT with random weights, always the same; `more` are entries of its configuration."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    shape = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    config = BertConfig(vocab_size=n_ids, **shape, **({"intermediate_size": 4 * hidden} | more))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BertForMaskedLM(config).eval()


def resident(name: str) -> float:
    """MiB of this process by Linux, now (VmRSS) or at its peak (VmHWM); getrusage has the parent's peak."""
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


def mean_and_se(values: Any, digits: int = 3, sign: str = "") -> str:
    """Mean ± standard error over runs."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
    return f"{array.mean():{sign}.{digits}f} ± {error:.{digits}f}"


def is_quick() -> bool:
    """Whether this is a quick run, which times everything once."""
    return "--quick" in sys.argv


def data(*parts: str) -> Path:
    """A file or folder of the data sets; ends the program if there are none."""
    if "MASKEVIDENCE_DATA" not in os.environ:
        print("MASKEVIDENCE_DATA is not set; set it to the folder of the data sets", file=sys.stderr)
        raise SystemExit(2)
    return Path(os.environ["MASKEVIDENCE_DATA"], *parts)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a title and a Markdown table, in a form that can be pasted into the docs."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.MARKDOWN)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=200, highlight=False)
    with console.capture() as printed:
        console.print(table, markup=False)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    print("\n".join(["", title, "", *filter(None, lines)]), flush=True)


def show_results(
    title: str, name: str, columns: Mapping[str, str], results: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print a row for each result; a column has a heading and a template such as "{ours:,.0f}"."""
    rows = [
        (what, *(cell.format_map(result) for cell in columns.values())) for what, result in results.items()
    ]
    show(title, (name, *columns), rows)


def finish(numbers: dict[str, Any], targets: Sequence[Target], json_file: Path | None) -> int:
    """Print the targets, write the JSON, and return the exit code: 0 if every target is reached, else 1.

    A quick run is too small for its targets: they are not printed, and the exit code is 0.
    """
    if targets and not is_quick():
        rows = [(t.name, f"{t.value:.4g}", t.asked, "yes" if t.reached else "NO") for t in targets]
        show("Targets", ("what", "measured", "required", "reached"), rows)
    if json_file is not None:
        record = [{"name": t.name, "value": t.value, "asked": t.asked, "reached": t.reached} for t in targets]
        command = " ".join(["python", *sys.argv])
        document = {"command": command, "machine": machine(), **numbers, "targets": record}
        json_file.write_text(json.dumps(document, indent=2) + "\n")
    return 0 if is_quick() or all(target.reached for target in targets) else 1
