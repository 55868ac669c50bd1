"""Bad commands by the hundred: mutated files, paths of every kind, and values that no option takes.

Commands and options are read from the program itself, so that new ones take part without being listed.
"""

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyarrow import parquet

from bad_files import mutate
from maskevidence.commands.app import app
from protein_models import save_protein_model
from small_world import RUNS, write_runs, write_world

Prepare = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """A command that should succeed, or be refused in one line.

    Attributes:
        kind: of the badness.
        words: after the program's name.
        prepare: makes the world bad before the command runs.
        targets: the paths that the command may write into, besides those of --out and --json.
    """

    kind: str
    words: tuple[str, ...]
    prepare: Prepare = lambda _: None
    targets: tuple[str, ...] = field(default=())

    def may_write(self, world: Path) -> tuple[str, ...]:
        """All paths that the command may write into, relative to its world; links are followed."""
        named = [after for word, after in itertools.pairwise(self.words) if word in ("--out", "--json")]
        named += [one.split("/")[0] for one in named if ".." in one]  # a folder that the path goes through
        return tuple(
            os.path.relpath(os.path.realpath(world / one), os.path.realpath(world))
            for one in (*self.targets, *named)
        )


def build_world(folder: Path) -> None:
    """Small valid data, models, runs and trainings, and paths of every bad kind."""
    write_runs(write_world(folder))
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 4))
    np.save(folder / "data" / "table.npy", values)
    table = pa.table({name: values[:, j] for j, name in enumerate("abcd")})
    parquet.write_table(table, folder / "data" / "table.parquet")
    parquet.write_table(pa.table({"text": ["a cat", "the rain falls"]}), folder / "data" / "texts.parquet")
    save_protein_model(folder / "models" / "protein")
    (folder / "data" / "mutants.csv").write_text("mutant,effect\nM1A,0.5\nK2R:T3A,1\nT3A,2\nA4G,0\n")
    (folder / "data" / "wild_type.fasta").write_text(">wild type\nMKTAYIAK\n")
    for name in ("home", "temporary"):
        (folder / name).mkdir()
    bad = folder / "bad"
    (bad / "empty folder").mkdir(parents=True)
    (bad / "full folder").mkdir()
    (bad / "full folder" / "mine.txt").write_text("mine")
    (bad / "empty file").touch()
    (bad / "text").write_text("one\n")
    (bad / "loop").symlink_to("loop")
    (bad / "dangling").symlink_to("nowhere")
    (bad / "to null").symlink_to("/dev/null")
    os.mkfifo(bad / "fifo")
    (bad / "not allowed").mkdir(mode=0)


def copy_world(valid: Path, world: Path) -> None:
    """A copy of a world, FIFOs and symbolic links included."""

    def copy(source: str, target: str) -> None:
        if Path(source).is_fifo():
            os.mkfifo(target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(valid, world, symlinks=True, copy_function=copy)


PATHS = (
    *(
        "",
        " ",
        ".",
        "..",
        "/",
        "-",
        "bad",
        "bad/empty folder",
        "bad/full folder",
        "bad/empty file",
        "bad/text",
    ),
    *("bad/loop", "bad/loop/x", "bad/dangling", "bad/to null", "bad/not allowed/x", "bad/text/x", "bad/fifo"),
    *("/dev/null", "/dev/full", "/dev/null/x", "/proc/self/mem", "a" * 300, "a/" * 2100, "no/such/place"),
    *("no such file.csv", "x.npy", "x.jsonl", "hub:../../x", "hub:", "\udcff.csv", "data", "runs", "models"),
    *(
        "data/table.csv:train",
        "data/table.csv:",
        "ppca:2",
        "~",
        "$HOME",
        "data/*.csv",
        "glue/qnli",
        "digits:x",
    ),
)
NUMBERS = (
    *(
        "",
        " ",
        "x",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1",
        "2",
        "1.5",
        "1e3",
        "0x10",
        "٣",
        "1_0",
        "²",
        "--",
        "-0",
    ),
    *("2147483648", "9223372036854775807", "9223372036854775808", "1" + "0" * 30, "1e308", "1e-320", "1,5"),
)
WORDS = (
    *(
        "",
        " ",
        "x",
        "a,b",
        ",",
        "\udcff",
        "\U0001d518",
        "a" * 300,
        "../..",
        "0",
        "1/0",
        "0/2",
        "3/2",
        "-1/2",
        "1/1",
    ),
    *(
        "28x",
        "0x0",
        "100000000x100000000",
        "4x4",
        "nan",
        ":",
        "a:b:c",
        "[MASK]",
        "%s",
        "{}",
        "\n",
        "cuda:99",
        "gpu",
    ),
    *(
        "fixed-rate:2",
        "fixed-rate:nan",
        "rates:0.01-0.99-0.000000001",
        "rates:0.9-0.1-0.1",
        "leave-one-out:1",
    ),
    *(
        "threshold:x",
        "threshold:-inf",
        "a,a",
        "0.1,2",
        "0.1,nan",
        "1,2,3,-4",
        "9" * 40,
        "exhaustive",
        "elbo:5",
    ),
)
MODELS = (
    *(
        "ppca:0",
        "ppca:99",
        "ppca:1.5",
        "ppca:" + "9" * 30,
        "factor-analysis:9",
        "vae:",
        "vae:1000000000",
        "gaussian:2",
    ),
    *("bernoulli-pca:2", "bernoulli-vae:2", "PPCA:2", "ppca :2", "masked-lm", "no-body/no-model", "a/b/c"),
)
# Options that say how long to work: large values are not mistakes.
WORK = ("--steps", "--epochs", "--patience", "--workers")
# Commands whose valid form takes minutes: they get only what has to be refused.
LONG = ("paper", "lm-eval")
REFUSED = (
    *(("--threads", "0"), ("--seed", "x"), ("--seeds", "nan"), ("--out", "bad/text"), ("extra",)),
    *(("--no-such-option",), ("--out", "bad/text/x"), ("--json", "bad/full folder"), ("--out", "a" * 300)),
)

_MASKED_LM = (
    "masked-lm",
    "data/running.txt",
    "--config",
    "models/bert",
    "--steps",
    "1",
    "--block-size",
    "16",
)
_VIT_MAE = ("vit-mae", "data/images", "--config", "models/vit-mae", "--steps", "1")
_VARIANTS = ("models/protein", "data/mutants.csv")
VALID: dict[tuple[str, ...], list[tuple[str, ...]]] = {
    ("score",): [
        ("ppca:2", "data/table.csv"),
        ("gaussian", "data/holes.csv"),
        ("bernoulli-pca:1", "data/binary.csv"),
        ("models/vae", "data/table.csv", "--limit", "10"),
        ("factor-analysis:1", "data/table.npy"),
        ("models/bert", "data/texts.jsonl"),
        ("models/vit-mae", "data/images"),
        ("models/bert", "data/texts.jsonl", "--limit", "3", "--design", "policy:confidence,blocks=4"),
        ("ppca:2", "data/table.csv", "--limit", "20", "--design", "exhaustive:order-mixture"),
        ("ppca:2", "data/table.csv", "--design", "random-size:8,per-token"),
        ("ppca:2", "data/table.csv", "--target-se", "0.5", "--max-passes", "400"),
        ("gaussian", "data/holes.csv", "--target-relative", "0.2"),
    ],
    ("plan",): [
        ("ppca:2", "data/table.csv", "--target-se", "0.5"),
        ("gaussian", "data/table.csv", "--target-se", "0.5"),
        (
            "models/bert",
            "data/texts.jsonl",
            "--limit",
            "4",
            "--target-relative",
            "0.1",
            "--design",
            "random-size:per-token",
        ),
    ],
    ("bias",): [("models/ppca", "data/table.csv", "--limit", "20")],
    ("variants",): [
        (*_VARIANTS, "--wild-type", "MKTAYIAK"),
        (*_VARIANTS, "--wild-type", "data/wild_type.fasta", "--measured", "effect", "--out", "out"),
    ],
    ("check",): [("models/ppca", "data/table.csv", "--limit", "10")],
    ("train",): [
        ("ppca:1", "data/table.csv", "--epochs", "2", "--out", "out"),
        (*_MASKED_LM, "--batch-size", "2", "--out", "out"),
        (*_VIT_MAE, "--batch-size", "2", "--out", "out"),
    ],
    ("select",): [("ppca,gaussian", "data/table.csv", "--components", "1-2", "--folds", "2")],
    ("impute",): [
        ("ppca:1", "data/holes.csv", "--out", "out.csv"),
        ("models/ppca", "data/table.csv", "--draws", "2", "--out", "out.parquet"),
    ],
    ("summarize",): [("runs/shard-1", "runs/shard-2", "--out", "out"), ("runs/table",)],
    ("compare",): [("runs/table", "runs/factor-analysis")],
    ("report",): [("runs/table", "--out", "out.html"), ("runs/text", "runs/tokens", "--out", "out.html")],
    ("show", "reconstructions"): [("models/vit-mae", "data/images", "--images", "1", "--out", "out")],
}
RESUMED = ("table", "text", "partial", "train-ppca")


def cases(seed: int) -> Iterator[Case]:
    """Bad commands without end, the kinds in turn; equal seeds give equal cases."""
    rng = random.Random(seed)
    kinds = (
        _bad_data,
        _bad_option,
        _bad_model,
        _bad_path,
        _bad_option,
        _bad_run,
        _bad_combination,
        _bad_word,
    )
    for place in itertools.count():
        yield kinds[place % len(kinds)](random.Random(rng.random()))


@cache
def commands() -> dict[tuple[str, ...], list[Any]]:
    """The parameters of every command, by the command's words."""
    found: dict[tuple[str, ...], list[Any]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                walk(inner, (*path, name))
        else:
            found[path] = command.params

    walk(typer.main.get_command(app), ())
    return found


def _valid(rng: random.Random, path: tuple[str, ...] | None = None) -> tuple[str, ...]:
    path = path or rng.choice(sorted(VALID))
    return (*path, *rng.choice(VALID[path]))


def _targets(words: tuple[str, ...]) -> tuple[str, ...]:
    """What a command writes into without being told by an option."""
    if words[:1] in (("summarize",), ("report",)):
        return ("report.html", *(word for word in words[1:] if not word.startswith("-")))
    if words[:2] == ("show", "reconstructions"):
        return ("reconstructions",)
    if words[:1] == ("impute",):
        return ("filled.csv",)
    return ()


def _damage(paths: list[str], rng: random.Random) -> Prepare:
    """Make one of the files below some paths bad."""
    choice, seed = rng.random(), rng.random()

    def prepare(world: Path) -> None:
        files: list[Path] = []
        for path in paths:
            inside = world / path
            files += sorted(p for p in inside.rglob("*") if p.is_file()) if inside.is_dir() else [inside]
        file = files[int(choice * len(files))]
        own = random.Random(seed)
        what = own.random()
        if what < 0.06:
            file.unlink()
        elif what < 0.1:
            file.unlink()
            {0: file.mkdir, 1: lambda: os.mkfifo(file), 2: lambda: file.symlink_to(file.name)}[
                own.randrange(3)
            ]()
        else:
            mutate(file, own)

    return prepare


def _bad_data(rng: random.Random) -> Case:
    of_tables = [("score",), ("score",), ("bias",), ("train",), ("select",), ("impute",)]
    path = rng.choice([*of_tables, ("show", "reconstructions")])
    words = list(_valid(rng, path))
    place = len(path) + 1
    if words[place] == "data/table.csv":
        words[place] = rng.choice(
            ["data/table.csv", "data/holes.csv", "data/table.npy", "data/table.parquet"]
        )
    if words[place] == "data/texts.jsonl":
        words[place] = rng.choice(["data/texts.jsonl", "data/running.txt", "data/texts.parquet"])
    return Case("data", tuple(words), _damage([words[place]], rng), ("out",))


def _bad_model(rng: random.Random) -> Case:
    model, data = rng.choice(
        [
            ("models/ppca", "data/table.csv"),
            ("models/vae", "data/table.csv"),
            ("models/bert", "data/texts.jsonl"),
            ("models/vit-mae", "data/images"),
        ]
    )
    words: tuple[str, ...] = ("score", model, data, "--limit", "6")
    if model == "models/ppca" and rng.random() < 0.3:
        words = ("bias", model, data, "--limit", "6")
    elif model == "models/bert" and rng.random() < 0.3:
        words = (
            "train",
            "masked-lm",
            "data/running.txt",
            "--config",
            model,
            "--steps",
            "1",
            "--block-size",
            "8",
        )
        words += ("--batch-size", "2", "--out", "out")
    return Case("model", words, _damage([model], rng))


def _bad_run(rng: random.Random) -> Case:
    name = rng.choice(sorted(RUNS))
    run = f"runs/{name}"
    resumed = tuple(RUNS[name].split()) if name in RESUMED else ()
    words = rng.choice(
        [
            ("summarize", run),
            ("summarize", run, "runs/shard-2", "--out", "out"),
            ("compare", run, rng.choice(["runs/factor-analysis", "runs/orderings", "runs/image"])),
            ("report", run, "--out", "out.html"),
            ("report", run, "runs/table", "--out", "out.html"),
            *([resumed] * 2 if resumed else []),
        ]
    )
    return Case("run", words, _damage([run], rng), (run,))


def _bad_path(rng: random.Random) -> Case:
    """A bad path in place of an argument, or of --out or --json."""
    path = rng.choice(sorted(VALID))
    words = list(_valid(rng, path))
    bad = rng.choice(PATHS)
    given = [
        place for place, word in enumerate(words) if word.startswith(("data/", "models/", "runs/", "out"))
    ]
    how = rng.choice(["word", "word", "--out", "--json"])
    if how == "word" or (how == "--out" and path in (("bias",), ("check",), ("compare",), ("impute",))):
        words[rng.choice(given)] = bad
    else:
        if how == "--json" and (path == ("report",) or "fifo" in bad):
            bad = rng.choice(["bad/full folder", "bad/text/x"])
        words += [how if how != "--json" or path != ("report",) else "--out", bad]
    targets = _targets(tuple(words))
    return Case("path", tuple(words), targets=(*targets, *((bad,) if bad and not os.path.isabs(bad) else ())))


def _value(rng: random.Random, option: Any) -> str:
    name, annotation = option.opts[0], option.type_descriptor.annotation
    if name in ("--out", "--json"):
        return rng.choice([path for path in PATHS if "fifo" not in path])
    if annotation in (int, float):
        numbers = [n for n in NUMBERS if name not in WORK or len(n) < 3]
        return rng.choice(numbers)
    return rng.choice(WORDS)


def _options(rng: random.Random, path: tuple[str, ...], count: int) -> list[str]:
    named = [option for option in commands()[path] if option.opts[0].startswith("--")]
    words: list[str] = []
    for option in rng.sample(named, min(count, len(named))):
        flag_alone = getattr(option, "is_flag", False)
        words += [option.opts[0]] if flag_alone else [option.opts[0], _value(rng, option)]
    return words


def _bad_option(rng: random.Random) -> Case:
    path = rng.choice([*sorted(VALID), *[("score",), ("train",)] * 4])
    words = (*_valid(rng, path), *_options(rng, path, 1))
    return Case("option", words, targets=_targets(words))


def _bad_combination(rng: random.Random) -> Case:
    """Several options at once, or a long command with a word that it has to refuse."""
    if rng.random() < 0.2:
        group = rng.choice(LONG)
        path = rng.choice([path for path in sorted(commands()) if path[0] == group])
        bad = rng.choice(REFUSED)
        return Case("long command", (*path, *bad))
    path = rng.choice(sorted(VALID))
    words = (*_valid(rng, path), *_options(rng, path, rng.choice([2, 3, 4])))
    return Case("options", words, targets=_targets(words))


def _bad_word(rng: random.Random) -> Case:
    """Words missing, doubled, swapped or strange."""
    words = list(_valid(rng))
    start = 2 if words[0] == "show" else 1
    what = rng.randrange(5)
    if what == 0:
        words = words[: rng.randrange(len(words))]
    elif what == 1:
        words.insert(rng.randrange(len(words) + 1), rng.choice([*WORDS, "--no-such-option", "-x", "--out"]))
    elif what == 2 and len(words) > start + 1:
        words[start], words[start + 1] = words[start + 1], words[start]
    else:
        words[start] = rng.choice([*MODELS, *WORDS])
    return Case("word", tuple(words), targets=_targets(tuple(words)))
