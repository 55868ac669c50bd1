"""What ten users do in their first hour, each in ten lines: the scripts on the page run as they are."""

import ast
import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command_line import CommandLine
from image_models import saved, small_vit_mae, smooth_images
from paper.__main__ import main as paper_main
from protein_models import save_protein_model
from text_models import SENTENCES, save_bert

PAGE = (Path(__file__).parents[2] / "docs" / "first_hours.md").read_text()
BLOCK = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```(\w+)\n(.*?)^```$", re.M | re.S)
SCRIPTS = {title: (language, code) for title, language, code in BLOCK.findall(PAGE)}
INSTALL = re.compile(r"^(?:# )?pip install '?\.(?:\[[\w,-]+\])?'?$")
VAE = """
import torch

encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
"""


def lines_of(name: str) -> list[str]:
    """The lines of a script."""
    return [line for line in SCRIPTS[name][1].splitlines() if line.strip()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, and random numbers and modules as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules, state = set(sys.modules), torch.get_rng_state()
    yield tmp_path
    torch.set_rng_state(state)
    if "my_vae" not in modules:
        sys.modules.pop("my_vae", None)


@pytest.fixture
def typed(name: str, run: CommandLine, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Do what a script says, in this process, and return what it prints."""

    def do() -> str:
        language, code = SCRIPTS[name]
        if language == "sh":
            return "".join(map(command, lines_of(name)[1:]))
        capsys.readouterr()
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
        return capsys.readouterr().out

    def command(line: str) -> str:
        if line.startswith("maskevidence "):
            done = run(*shlex.split(line)[1:])
            assert done.code == 0, done.err
            return done.out
        if line.startswith("python -m paper "):
            capsys.readouterr()
            assert paper_main(shlex.split(line)[3:]) == 0
            return capsys.readouterr().out
        return subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True).stdout

    return do


def script(name: str, *, slow: bool = True) -> pytest.MarkDecorator:
    """The script that a test runs."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if slow else [])])


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def numbers(file: Path, x: Any) -> None:
    """A table with a header; NaN is an empty cell."""
    cells = (["" if np.isnan(value) else f"{value:.6g}" for value in row] for row in x)
    file.write_text("\n".join(",".join(row) for row in [list("abcdefgh")[: x.shape[1]], *cells]) + "\n")


def test_ten_scripts_of_at_most_ten_lines() -> None:
    assert list(SCRIPTS) == re.findall(r"^## (.+)$", PAGE, re.M)
    assert len(SCRIPTS) == 10
    for name in SCRIPTS:
        assert INSTALL.match(lines_of(name)[0]), f"the first line of {name} installs what it needs"
        code = [line for line in lines_of(name) if not line.lstrip().startswith("#")]
        assert len(code) <= 10, name


@script("A table with holes", slow=False)
def test_a_table_with_holes(here: Path, typed: Callable[[], str]) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(50, 5))
    numbers(here / "table.csv", np.where(rng.random(x.shape) < 0.1, np.nan, x))
    said = typed()
    assert json.loads((here / "runs/chosen/selection.json").read_text())["choice"].endswith(":2")
    filled = np.array([list(row.values())[:5] for row in rows(here / "filled.csv")], dtype=float)
    assert filled.shape == x.shape
    assert np.isfinite(filled).all()
    assert "a_sd" in said


@script("Sentences and two BERTs")
def test_sentences(here: Path, typed: Callable[[], str]) -> None:
    save_bert(here / "my-bert")
    save_bert(here / "other-bert", num_hidden_layers=1)
    lines = [f'{k},"{sentence}"' for k, sentence in enumerate(SENTENCES)]
    (here / "sentences.csv").write_text("\n".join(["id,sentence", *lines]))
    assert "nats per text" in typed()
    assert [float(row["log_evidence"]) < 0 for row in rows(here / "runs/mine/observations.csv")] == [True] * 5


@script("A VAE of your own")
def test_a_vae_of_ones_own(here: Path, typed: Callable[[], str]) -> None:
    (here / "my_vae.py").write_text(VAE)
    numbers(here / "held_out.csv", np.random.default_rng(0).integers(0, 2, (12, 6)))
    said = typed()
    assert re.match(r"-\d+\.\d+ ± \d\.\d+", said), said
    assert "approximate" in said


@script("Pictures of different sizes")
def test_a_folder_of_images_of_mixed_sizes(here: Path, typed: Callable[[], str]) -> None:
    image = pytest.importorskip("PIL.Image")
    shape = {"image_size": 224, "patch_size": 56, "num_channels": 3}
    saved(small_vit_mae(**shape), here / "my-vit-mae")
    (here / "photos").mkdir()
    for number, size in enumerate((40, 60, 33, 80, 50, 45, 70, 36)):
        image.fromarray(smooth_images(1, size, 3, seed=number)[0]).save(here / "photos" / f"{number}.png")
    typed()
    assert {row["label"] for row in rows(here / "runs/photos/observations.csv")} < {
        f"{n}.png" for n in range(8)
    }


@script("Proteins")
def test_proteins(here: Path, typed: Callable[[], str]) -> None:
    save_protein_model(here / "my-esm")
    (here / "proteins.fasta").write_text(">first\nMSIQHFRVAL\n>second\nMSIQHFKVALIP\n")
    (here / "wild_type.fasta").write_text(">wild type\nMSIQHFRVAL\n")
    (here / "mutants.csv").write_text("mutant\nM1G\nS2G:I3W\n")
    typed()
    assert [row["label"] for row in rows(here / "runs/proteins/observations.csv")] == ["first", "second"]
    assert len(rows(here / "runs/variants/variants.csv")) == 2


@script("A benchmark of the lm-evaluation-harness")
def test_the_harness(here: Path, typed: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """ARC as the harness defines it, with two questions of our own in place of its data."""
    pytest.importorskip("lm_eval")
    import datasets
    import lm_eval.tasks

    from harness_tasks import installed, local, write_lines

    choices = {"label": ["A", "B"], "text": ["the rain", "a dog"]}
    asked = {"question": "who sleeps?", "choices": choices, "answerKey": "B"}
    questions = write_lines(here / "arc.jsonl", [asked, asked | {"question": "who falls?", "answerKey": "A"}])
    (here / "tasks").mkdir()
    (here / "tasks" / "arc.yaml").write_text(json.dumps(local(installed("arc/arc_easy.yaml"), questions)))
    whole = lm_eval.tasks.TaskManager
    own = {"include_defaults": False, "include_path": str(here / "tasks")}
    monkeypatch.setattr("lm_eval.tasks.TaskManager", lambda *a, **k: whole(*a, **k | own))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(here / "cache"))
    save_bert(here / "my-bert")
    state = np.random.get_state()
    assert "arc_easy" in typed()
    np.random.set_state(state)
    assert json.loads((here / "out/evidence.json").read_text())["tasks"]["arc_easy"]["documents"] == 2


@script("A training script")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")  # by transformers on a CPU
def test_a_trainer(here: Path, typed: Callable[[], str]) -> None:
    save_bert(here / "my-bert")
    (here / "texts.txt").write_text("\n".join(SENTENCES * 5))
    assert "evidence_log_evidence" in typed()


@script("A model of your own", slow=False)
def test_a_model_of_ones_own(here: Path, typed: Callable[[], str]) -> None:
    rng = np.random.default_rng(0)
    numbers(here / "numbers.csv", (rng.normal(size=(40, 5)) + rng.normal(size=(40, 1))) / 2**0.5)
    assert "unbiased" in typed()


@script("The paper's Table 1")
def test_table_1(here: Path, typed: Callable[[], str]) -> None:
    assert "-60.44" in typed().replace("−", "-")
    assert [row["masks_per_size"] for row in rows(here / "table-1/table_1.csv")] == ["1", "10"]


@pytest.mark.slow
def test_a_notebook() -> None:
    """Each line that is an expression is what a cell shows."""
    names: dict[str, Any] = {}
    shown = []
    for line in ast.parse(SCRIPTS["A notebook"][1]).body:
        if isinstance(line, ast.Expr):
            shown.append(eval(compile(ast.Expression(line.value), "cell", "eval"), names))
        else:
            exec(compile(ast.Module([line], []), "cell", "exec"), names)
    assert len(shown) == 2
    assert all("<svg" in result._repr_html_() for result in shown)
