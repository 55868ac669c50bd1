"""Seconds and memory that rows take: the default design, a Gaussian with holes, the start, many masks.

    python benchmarks/rows.py

CPU seconds of one thread, contestants in turn. "default" draws random sizes until the masks' error is 0.4 of
the data error, "every size" is `every-size:4`; both errors are √(mask_se² + data_se²), and coverage is the
share of 95 % intervals of the masks that hold the closed form. The peers of the Gaussian are
scikit-learn's IterativeImputer and FactorAnalysis, whose fits need filled rows. The floor of a command is
`import torch`. "Memory" is the peak of a process beside what it takes before the work: rows that are scored
in memory, and the summary of a run of texts whose scores are made up, of which `compare` reads two.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, times_faster

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.runs.directory import RunDirectory
from maskevidence.runs.manifest import DataSource, Manifest
from maskevidence.runs.score_into import write_scores


def rows_of(n: int, n_features: int, seed: int = 0) -> np.ndarray:
    """Rows of five factors and noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)) @ rng.normal(size=(5, n_features)) + rng.normal(size=(n, n_features))


def default_design(n: int, n_features: int, rounds: int, n_seeds: int) -> dict[str, float]:
    """The default beside every size: CPU seconds, errors and coverage."""
    x = rows_of(n, n_features)
    model = me.models.PPCA(n_features, 5).fit(x)
    contestants = {
        "every size": lambda: me.estimate_evidence(model, x, "every-size:4", check=False),
        "default": lambda: me.estimate_evidence(model, x, check=False),
    }
    timings = interleaved(contestants, rounds, clock=time.process_time)
    every, default = (contestants[name]() for name in ("every size", "default"))
    truth = float(model.score_samples(x).mean())
    held = 0
    for seed in range(n_seeds):
        low, high = me.estimate_evidence(model, x, seed=seed, check=False).interval(0.95)
        held += low <= truth <= high
    return {
        "every size, s": timings["every size"].median,
        "default, s": timings["default"].median,
        "times faster": times_faster(timings, "every size", "default"),
        "both errors, every size": math.hypot(every.mask_se, every.data_se),
        "both errors, default": math.hypot(default.mask_se, default.data_se),
        "coverage": held / n_seeds,
    }


def gaussian_with_holes(n: int, n_features: int) -> dict[str, float]:
    """CPU seconds of fits to rows a tenth of whose cells are missing."""
    from sklearn.decomposition import FactorAnalysis
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    x = rows_of(n, n_features)
    holes = x.copy()
    holes[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    contestants = {
        "Gaussian": lambda: me.models.Gaussian(n_features=n_features).fit(holes),
        "IterativeImputer": lambda: IterativeImputer(max_iter=10).fit(holes),
        "FactorAnalysis, no holes": lambda: FactorAnalysis(5, svd_method="lapack").fit(x),
    }
    timings = interleaved(contestants, 1, 0, clock=time.process_time)
    return {f"{name}, s": timing.median for name, timing in timings.items()}


def start(folder: Path) -> dict[str, float]:
    """CPU seconds of commands as they are typed, without the work of their numbers."""
    np.savetxt(folder / "small.csv", rows_of(200, 5), delimiter=",", header="a,b,c,d,e", comments="")
    program = [sys.executable, "-c", "from maskevidence.command.app import main; main()"]
    words = {
        "import torch": [sys.executable, "-c", "import torch"],
        "score ppca:2 small.csv": [*program, "score", "ppca:2", "small.csv"],
        "score ppca:2 digits": [*program, "score", "ppca:2", "digits"],
        "a file that does not exist": [*program, "score", "ppca:2", "nothing.csv"],
        "an unknown design": [*program, "score", "ppca:2", "small.csv", "--design", "all-sizes"],
        "--help": [*program, "--help"],
    }

    def ended(command: list[str]) -> None:
        subprocess.run(command, cwd=folder, capture_output=True, check=False)

    def clock() -> float:
        times = os.times()
        return times.children_user + times.children_system

    contestants = {name: (lambda command=command: ended(command)) for name, command in words.items()}
    timings = interleaved(contestants, 5, clock=clock)
    return {name: timing.median for name, timing in timings.items()}


PEAK = """
from pathlib import Path
import numpy as np, torch, pandas, scipy.special, matplotlib.pyplot
import maskevidence as me
from maskevidence.runs import read_run
from maskevidence.runs.comparing import compare_runs
from maskevidence.runs.directory import RunDirectory
from maskevidence.runs.summary import write_summary
torch.set_num_threads(1)

def peak():
    status = Path("/proc/self/status").read_text()  # getrusage would begin with the peak of the parent
    return 1024 * int(status.split("VmHWM:")[1].split()[0])

def rows(n, n_features, design):
    x = np.random.default_rng(0).normal(size=(n, n_features))
    model = me.models.PPCA(n_features, 2).fit(x[:1000])
    me.estimate_evidence(model, x[:1000], design, check=False)
    before = peak()
    me.estimate_evidence(model, x, design, check=False)
    return peak() - before

def summary(folder):
    before = peak()
    run = read_run(folder)
    write_summary(RunDirectory(folder), run, run.result())
    return peak() - before

def compared(*folders):
    before = peak()
    compare_runs({name: read_run(folder) for name, folder in zip("ab", folders)}).to_dict()
    return peak() - before
"""


def peak_of(call: str) -> int:
    """The bytes that a call in a process of its own takes beside what it began with."""
    program = [sys.executable, "-c", f"{PEAK}\nprint({call})"]
    return int(subprocess.run(program, capture_output=True, check=True).stdout.split()[-1])


def made_up_run(folder: Path, n: int, seed: int, n_parts: int) -> Path:
    """A saved run of texts of 20 tokens with made-up scores of 8 random sizes."""
    draws, width, per_part = 8, 20, n // n_parts
    manifest = Manifest(
        model=f"model {seed}",
        conditionals="learned",
        data=DataSource(name="texts", fingerprint="", n_observations=n, columns=[], noun="text"),
        design=me.RandomSize(draws).settings(),
        masks="own",
        seed=0,
        rows_per_block=per_part,
    )
    run = RunDirectory(folder)
    run.path.mkdir()
    run.begin(manifest)
    rng, sizes = np.random.default_rng(seed), np.random.default_rng(0)
    for k in range(n_parts):
        ids, draw = (grid.ravel() for grid in np.indices((per_part, draws)))
        size = sizes.integers(1, width + 1, size=len(ids))
        level = np.repeat(rng.normal(size=per_part), draws)
        score = -3.0 - size / width + 0.2 * level + rng.normal(size=len(ids)) / np.sqrt(size)
        each = np.full(len(ids), width)
        table = me.ScoreTable(ids + k * per_part, draw, size, each, score, 5 * each)
        write_scores(run, manifest.model_copy(update={"shard": (k + 1, n_parts)}), table, per_part)
    return folder


def memory(folder: Path, n: int) -> dict[str, float]:
    """Peak bytes of rows in memory for each mask, and of runs for each text."""
    found = {}
    for design, n_masks in (("random-size:8", 8), ("every-size:1", 20)):
        found[f"{n:,} x 20, {design}, bytes a mask"] = peak_of(f"rows({n}, 20, {design!r})") / (n * n_masks)
    n_parts = max(1, n // 50_000)
    runs = [str(made_up_run(folder / name, n, seed, n_parts)) for seed, name in enumerate("ab")]
    found[f"summary of {n:,} texts, bytes a text"] = peak_of(f"summary({runs[0]!r})") / n
    found["comparison of two such runs, bytes a text"] = peak_of(f"compared(*{runs!r})") / n
    return found


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="how many estimates coverage is counted over")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows and texts whose memory is measured")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    quick = options.quick
    sizes = [(60, 24)] if quick else [(2000, 100), (300, 300)]
    numbers: dict[str, Any] = {}
    for n, n_features in sizes:
        n_seeds = 2 if quick else options.seeds
        numbers[f"{n} x {n_features}"] = default_design(n, n_features, rounds=5, n_seeds=n_seeds)
    cells = [(size, *(f"{value:.3f}" for value in found.values())) for size, found in numbers.items()]
    show("The default design of rows", ("rows x columns", *next(iter(numbers.values()))), cells)
    fits = gaussian_with_holes(*((100, 5) if quick else (3000, 60)))
    show(
        "Fits, a tenth of the cells missing", tuple(fits), [tuple(f"{value:.2f}" for value in fits.values())]
    )
    with tempfile.TemporaryDirectory() as folder:
        starts = start(Path(folder))
        bytes_of = memory(Path(folder), 1000 if quick else options.rows)
    show("Memory", ("what", "bytes"), [(name, f"{value:.0f}") for name, value in bytes_of.items()])
    floor = starts["import torch"]
    cells = [(name, f"{seconds:.2f}", f"{seconds / floor:.2f}") for name, seconds in starts.items()]
    show("The start of a command", ("command", "CPU seconds", "over import torch"), cells)
    targets = []
    if not quick:
        by_size = dict(zip(sizes, numbers.values(), strict=True))
        targets = [
            Target("2000 x 100: times faster", by_size[2000, 100]["times faster"], low=8),
            Target("300 x 300: times faster", by_size[300, 300]["times faster"], low=25),
            *(Target(f"{size}: coverage", found["coverage"], low=0.93) for size, found in numbers.items()),
            Target("Gaussian with holes, s", fits["Gaussian, s"], high=10),
            Target(
                "score of a small table over import torch",
                starts["score ppca:2 small.csv"] / floor,
                high=1.15,
            ),
            Target("an unknown design, s", starts["an unknown design"], high=0.6),
            Target("--help, s", starts["--help"], high=0.7),
            *(Target(name, value, high=80) for name, value in bytes_of.items() if name.endswith("mask")),
        ]
    return finish(numbers | {"fits": fits, "start": starts, "memory": bytes_of}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
