"""A small campaign of bad input: random commands succeed, or end in one line and leave nothing.

The options are read from the program itself, so that a new option takes part without being listed.
"""

import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pyarrow as pa
import pytest
import typer.main
from pyarrow import parquet

from forked import exit_code, fork
from maskevidence.command.app import app, main
from small_world import RUNS, write_runs, write_world

N_QUICK, N_CASES, SECONDS, MEMORY = 4, 32, 60, 6 * 2**30
VALID = [
    *("score ppca:2 data/table.csv", "score gaussian data/holes.csv"),
    *("score bernoulli-pca:1 data/binary.csv", "score models/vae data/table.csv --limit 10"),
    *("score factor-analysis:1 data/table.npy", "score ppca:2 data/table.parquet"),
    "score models/ppca data/table.csv --design random-size:8,per-token",
    "score ppca:2 data/table.csv --limit 20 --design exhaustive:order-mixture",
    "score ppca:2 data/table.csv --target-se 0.5,max_passes=400",
    *("check models/ppca data/table.csv --limit 10", "train ppca:1 data/table.csv --epochs 2 --out out"),
    *(RUNS["partial"], RUNS["train-ppca"]),
    "select ppca,gaussian data/table.csv --components 1-2 --folds 2",
    *("impute ppca:1 data/holes.csv --out out.csv", "impute models/ppca data/table.csv --out out.parquet"),
    *("summarize runs/shard-1 runs/shard-2 --out out", "summarize runs/table"),
    *("compare runs/table runs/factor-analysis", "report runs/table --out out.html"),
]
MADE = ("table", "factor-analysis", "shard-1", "shard-2", "partial", "train-ppca")
PATHS = [
    *("", " ", ".", "..", "/", "-", "bad", "data", "runs", "models", "ppca:2", "~", "$HOME", "data/*.csv"),
    *("hub:", "bad/empty folder", "bad/full folder", "bad/empty file", "bad/text", "bad/text/x"),
    *("bad/loop", "bad/loop/x", "bad/dangling", "bad/to null", "/dev/null", "/dev/full", "/dev/null/x"),
    *("/proc/self/mem", "\udcff.csv", "a" * 300, "a/" * 2100, "no/such/place", "no such file.csv", "x.npy"),
    *("x.jsonl", "hub:../../x", "digits:x", "data/table.csv:train", "data/table.csv:"),
]
NUMBERS = [
    *("", " ", "x", "nan", "inf", "-inf", "-1", "0", "1", "2", "1.5", "1e3", "0x10", "٣", "1_0", "²", "--"),
    *("-0", "2147483648", "9223372036854775807", "9223372036854775808", "1" + "0" * 30, "1e308", "1e-320"),
    "1,5",
]
WORDS = [
    *("", " ", "x", "a,b", ",", "\udcff", "\U0001d518", "a" * 300, "../..", "1/0", "0/2", "3/2", "-1/2"),
    *("28x", "100000000x100000000", "nan", ":", "a:b:c", "[MASK]", "%s", "{}", "\n", "cuda:99", "gpu"),
    *("9" * 40, "elbo:5", "fixed-rate:2", "fixed-rate:nan", "rates:0.01-0.99-0.000000001"),
    *("rates:0.9-0.1-0.1", "leave-one-out:1", "ppca:0", "ppca:99", "ppca:1.5", "ppca:" + "9" * 30, "vae:"),
    *("vae:1000000000", "gaussian:2", "PPCA:2", "no-body/no-model", "a/b/c", "--no-such-option", "-x"),
]
CELLS = [
    *("", " ", "nan", "inf", "1e400", "1e200", "-1e-320", "1" + "0" * 40, "abc", "1,5", '"', "\x00", "٣"),
    "−1",
]
JSON_VALUES = [
    *(None, True, -1, 0, 7, 2**31, 2**53 + 1, 2**70, 1e308, float("nan"), 0.5, "", "x", "../../x"),
    *("/dev/null", "\ud800", [], [[]], {}, {"a": 1}),
]
# Options that say how long to work: large values are not mistakes.
WORK = ("--steps", "--epochs", "--patience")
# Known only after the work has begun: a training that diverges keeps its folder, and a disk becomes full.
_BEGUN = re.compile(r"the loss is .* at step|no space is left")


@dataclass(frozen=True)
class Case:
    """A command that should succeed, or be refused in one line; one of its files may be damaged first."""

    kind: str
    words: list[str]
    damaged: str | None = None

    def may_write(self, world: Path) -> list[str]:
        """The paths that the command may write into, relative to its world; links are followed."""
        named = [after for word, after in itertools.pairwise(self.words) if word in ("--out", "--json")]
        named += [word for word in self.words if word.startswith("runs") or word in PATHS]
        paths = ["report.html", "filled.csv", *named, *(path.split("/")[0] for path in named if ".." in path)]
        return [os.path.relpath(os.path.realpath(world / path), os.path.realpath(world)) for path in paths]


@dataclass(frozen=True)
class Outcome:
    """Exit code, both outputs, the paths that changed, and whether a process was left behind."""

    code: int
    out: str = ""
    err: str = ""
    changed: tuple[str, ...] = ()
    alive: bool = False

    def fault(self, targets: list[str]) -> str | None:
        """What is wrong, in a few words: neither a success nor a refusal in one line; None if nothing is."""
        if self.alive:
            return "leaves a process behind"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        lines = [line for line in self.err.splitlines() if not line.startswith("note: ")]
        if any("Warning" in line for line in lines):
            return "a bare warning"
        if self.code == 2:
            if len(lines) != 1 or not lines[0].startswith("error: "):
                return "not one line"
            if not _BEGUN.search(self.err):
                if self.out:
                    return "output before a refusal"
                if any(Path(path).name not in (".lock", ".lock.pid") for path in self.changed):
                    return "leaves something behind"
        inside = [
            path for path in self.changed for to in targets if to == "." or f"{path}/".startswith(f"{to}/")
        ]
        parents = [path for path in self.changed if any(to.startswith(f"{path}/") for to in targets)]
        return "changes something outside" if set(self.changed) - {*inside, *parents} else None


@cache
def options_of(command: str) -> list[Any]:
    """The options of a command, from the program."""
    return [
        one for one in typer.main.get_command(app).commands[command].params if one.opts[0].startswith("--")
    ]


def cases(seed: int) -> Iterator[Case]:
    """Bad commands without end, the kinds in turn; equal seeds give equal cases."""
    rng = random.Random(seed)
    for kind in itertools.cycle(["file", "options", "path", "word"]):
        words = rng.choice(VALID).split()
        paths = [k for k, word in enumerate(words) if word.startswith(("data/", "models/", "runs/", "out"))]
        if kind == "file":
            read = [words[k] for k in paths if not words[k].startswith("out")]
            yield Case(kind, words, rng.choice(read))
            continue
        if kind == "options":
            options = options_of(words[0])
            for option in rng.sample(options, min(len(options), rng.choice([1, 1, 2, 3]))):
                words += (
                    [option.opts[0]]
                    if getattr(option, "is_flag", False)
                    else [option.opts[0], bad_value(rng, option)]
                )
        elif kind == "path" and rng.random() < 0.5:
            words[rng.choice(paths)] = rng.choice(PATHS)
        elif kind == "path":
            words += [rng.choice(["--out", "--json"]), rng.choice(PATHS)]
        elif rng.random() < 0.3:
            words = words[: rng.randrange(1, len(words))]
        else:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        yield Case(kind, words)


def bad_value(rng: random.Random, option: Any) -> str:
    """A value that few options take."""
    name, annotation = option.opts[0], option.type_descriptor.annotation
    if name in ("--out", "--json"):
        return rng.choice(PATHS)
    if annotation in (int, float):
        return rng.choice([number for number in NUMBERS if name not in WORK or len(number) < 3])
    return rng.choice(WORDS)


def damage(path: Path, rng: random.Random) -> None:
    """Change a file, or a file of a folder, in place."""
    file = (
        rng.choice(sorted(inside for inside in path.rglob("*") if inside.is_file()))
        if path.is_dir()
        else path
    )
    if rng.random() < 0.4 or file.suffix not in _DAMAGES:
        content = file.read_bytes()
        place = rng.randrange(len(content) + 1)
        encoded = content.decode("utf-8", "replace").encode(rng.choice(["utf-16", "utf-8-sig", "utf-32"]))
        file.write_bytes(
            rng.choice([b"", content[:place], content[:place] + b"\xff" + content[place + 1 :], encoded])
        )
    else:
        _DAMAGES[file.suffix](file, rng)


def _damage_csv(file: Path, rng: random.Random) -> None:
    rows = [line.split(",") for line in file.read_text().splitlines()]
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    cell = [*rows[:i], [*rows[i][:j], rng.choice(CELLS), *rows[i][j + 1 :]], *rows[i + 1 :]]
    constant = [rows[0], *([*row[:j], "1", *row[j + 1 :]] for row in rows[1:])]
    twice = [[*rows[0][:-1], rows[0][0]], *rows[1:]]
    huge = [rows[0], *([cell and cell + "e90" for cell in row] for row in rows[1:])]
    ragged = [*rows[:i], rows[i] * 2, *rows[i + 1 :]]
    semicolons = [[";".join(row)] for row in rows]
    forms = [
        cell,
        cell,
        constant,
        twice,
        huge,
        ragged,
        semicolons,
        rows[1:],
        rows[:1],
        rows[:2],
        [row[:1] for row in rows],
    ]
    file.write_text("\n".join(",".join(row) for row in rng.choice(forms)) + "\n")


def _damage_json(file: Path, rng: random.Random) -> None:
    content = json.loads(file.read_text())
    parent, key = rng.choice(list(_places(content)))
    parent[key] = rng.choice(JSON_VALUES)
    file.write_text(rng.choice([json.dumps(content)] * 4 + ["null", "[]", "{", "[" * 5000, '{"a": 1}']))


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON document, as its parent and its key."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from _places(content[key])


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    ".csv": _damage_csv,
    ".json": _damage_json,
}


def outcome_of(words: list[str], world: Path) -> Outcome:
    """Run a command in a fork; the folders `home` and `temporary` of its world are its own."""
    before = snapshot(world)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = fork(partial(be_the_command, words, world, out.fileno(), err.fileno()))
        code, alive = exit_code(child), True
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            alive = False
        out.seek(0)
        err.seek(0)
        texts = [stream.read().decode("utf-8", "replace") for stream in (out, err)]
    after = snapshot(world)
    changed = sorted(path for path in before | after if before.get(path) != after.get(path))
    return Outcome(code, *texts, tuple(changed), alive)


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Kind, size and time of everything in a folder, by its path; of folders the kind alone."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(root, name)
            status = os.lstat(path)
            of_file = (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ()
            found[os.path.relpath(path, folder)] = (stat.S_IFMT(status.st_mode), *of_file)
    return found


def be_the_command(words: list[str], world: Path, out: int, err: int) -> None:
    """In the fork: run the command, and end with its exit code; an alarm ends a command that hangs."""
    code = 99
    try:
        os.setsid()
        signal.alarm(SECONDS)
        for number, stream in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(stream, number)
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
        os.chdir(world)
        os.environ |= {"HOME": str(world / "home"), "TMPDIR": str(world / "temporary")}
        tempfile.tempdir = None
        sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = ["maskevidence", *words]
        jaxtyping.config.update(
            "jaxtyping_disable", True
        )  # the user's types are checked by the program itself
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small valid data, models and runs, and paths of every bad kind."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = write_runs(write_world(tmp_path_factory.mktemp("bad-input")), MADE)
    values = np.random.default_rng(0).normal(size=(40, 4))
    np.save(folder / "data" / "table.npy", values)
    parquet.write_table(pa.table(dict(zip("abcd", values.T, strict=True))), folder / "data" / "table.parquet")
    for name in ("home", "temporary", "bad/empty folder", "bad/full folder"):
        (folder / name).mkdir(parents=True)
    (folder / "bad" / "full folder" / "mine.txt").write_text("mine")
    (folder / "bad" / "empty file").touch()
    (folder / "bad" / "text").write_text("one\n")
    for name, target in (("loop", "loop"), ("dangling", "nowhere"), ("to null", "/dev/null")):
        (folder / "bad" / name).symlink_to(target)
    import_module("matplotlib.pyplot")  # once, and not in every fork
    return folder


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "number", [*range(N_QUICK), *(pytest.param(n, marks=pytest.mark.slow) for n in range(N_QUICK, N_CASES))]
)
def test_success_or_one_line(
    number: int, valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MPLCONFIGDIR", str(tmp_path / "matplotlib")
    )  # no part of what a command leaves behind
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    case = next(itertools.islice(cases(seed=7), number, None))
    world = shutil.copytree(valid, tmp_path / "world", symlinks=True)
    if case.damaged is not None:
        damage(world / case.damaged, random.Random(number))
    outcome = outcome_of(case.words, world)
    fault = outcome.fault(case.may_write(world))
    assert fault is None, f"{shlex.join(case.words)}\n{outcome}"
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
