"""MODEL as FILE.py:FUNCTION, and runs of estimates from Python."""

import json
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.data import read_table
from maskevidence.report import read_runs, write_report
from maskevidence.runs import read_run

CODE = """
import math
import pathlib
import torch
import neighbour

pathlib.Path(__file__).with_name("was run").touch()


class Normal(torch.nn.Module):
    conditionals = "exact"

    def __init__(self):
        super().__init__()
        self.mean = torch.nn.Parameter(torch.tensor(neighbour.MEAN, dtype=torch.float64))

    def log_conditionals(self, tokens, masked):
        answer = -0.5 * (tokens.values - self.mean) ** 2 - 0.5 * math.log(2 * math.pi)
        return torch.where(masked, answer, 0.0)


class Plain:
    conditionals = "exact"

    def log_conditionals(self, tokens, masked):
        return torch.where(masked, -tokens.values**2, 0.0)


class Peeks(Normal):
    def log_conditionals(self, tokens, masked):
        return super().log_conditionals(tokens, masked) + torch.where(masked, tokens.values.roll(1, 1), 0.0)


class Fails(Normal):
    def log_conditionals(self, tokens, masked):
        raise ValueError("two\\nlines")


class Waits(Plain):
    async def log_conditionals(self, tokens, masked):
        return super().log_conditionals(tokens, masked)


class Agrees(Plain):
    def log_conditionals(self, tokens, masked):
        return masked


class Ends(Plain):
    def log_conditionals(self, tokens, masked):
        raise SystemExit(0)


class Pipe(Plain):
    def log_conditionals(self, tokens, masked):
        raise BrokenPipeError(32, "Broken pipe")


class Prints(Plain):
    def log_conditionals(self, tokens, masked):
        print("asked")
        return super().log_conditionals(tokens, masked)


def make():
    return Normal()


def a_class():
    return Plain


def ends():
    raise SystemExit(0)


def beyond():
    raise BaseException("beyond")


async def waits():
    return Plain()


def raises():
    return {}["key"]


def number():
    return 3


def needs(name):
    return name


PI = 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model's code and a table, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    monkeypatch.delitem(__import__("sys").modules, "neighbour", raising=False)
    Path("model.py").write_text(CODE)
    Path("neighbour.py").write_text("MEAN = 0.5")
    Path("broken.py").write_text("x = 1\ndef make(:\n")
    Path("zero.py").write_text("def make():\n    return '\0'\n")
    Path("exits.py").write_text("import sys\nsys.exit(0)\n")
    Path("instance.py").write_text("import torch\nmodel = torch.nn.Linear(1, 1)\n")
    rows = [f"r{k},{a:.3f},{b:.3f}" for k, (a, b) in enumerate(np.random.default_rng(0).normal(size=(20, 2)))]
    Path("table.csv").write_text("\n".join(["name,a,b", *rows]))
    return tmp_path


def test_the_command_gives_what_python_gives(run: CommandLine, place: Path) -> None:
    scored = run("score", "model.py:make", "table.csv", "--id-column", "name", "--out", "run", "--json", "-")
    x = read_table("table.csv", id_column="name")
    density = -0.5 * (x.values - 0.5) ** 2 - 0.5 * np.log(2 * np.pi)
    assert json.loads(scored.out)["log_evidence"] == pytest.approx(density.sum(axis=1).mean(), rel=1e-12)
    assert run("check", "model.py:make", "table.csv", "--drop", "name", "--limit", 4).code == 0
    assert run("check", "model.py:Peeks", "table.csv", "--drop", "name", "--limit", 4).code == 1
    plain = run("score", place / "model.py:Plain", "table.csv", "--id-column", "name", "--out", "plain")
    assert plain.code == 0, plain.err
    assert "plain has the highest log evidence" in run("compare", "run", "plain").out


def test_a_run_is_not_resumed_by_other_code(run: CommandLine, place: Path) -> None:
    words = ("score", "model.py:make", "table.csv", "--drop", "name", "--out", "run")
    assert run(*words).code == 0
    again = run(*words).out
    assert "was finished before" in again
    assert "model.py:make was not scored again: these are its stored scores." in again
    (place / "neighbour.py").write_text("MEAN = 0.25")
    __import__("sys").modules.pop("neighbour")
    assert "another run (model_fingerprint" in run(*words).error
    (place / "neighbour.py").write_text("MEAN = 0.5")
    __import__("sys").modules.pop("neighbour")
    (place / "model.py").write_text(CODE + "# changed\n")
    assert "another run (model_fingerprint" in run(*words).error


@pytest.mark.parametrize("changed", ["neighbour.py", pytest.param("mean.txt", marks=pytest.mark.slow)])
def test_no_run_mixes_two_models(run: CommandLine, place: Path, changed: str) -> None:
    """One of a model whose module, or data file, was changed before the run is given more masks."""
    Path("neighbour.py").write_text("SHIFT = 0.0")
    Path("mean.txt").write_text("0.5")
    code = CODE.replace(
        "def make():",
        """class Reads(Plain):
    def __init__(self):
        self.mean = float(pathlib.Path(__file__).with_name("mean.txt").read_text())

    def log_conditionals(self, tokens, masked):
        answer = -((tokens.values - self.mean - neighbour.SHIFT) ** 2)
        return torch.where(masked, answer, 0.0)


def make():""",
    )
    Path("model.py").write_text(code)
    __import__("sys").modules.pop("neighbour", None)
    words = ("score", "model.py:Reads", "table.csv", "--drop", "name", "--out", "run", "--design")
    assert run(*words, "random-size:4").code == 0
    more = run(*words, "random-size:8")
    assert more.code == 0, more.err
    Path(changed).write_text("SHIFT = 1.0" if changed == "neighbour.py" else "1.5")
    __import__("sys").modules.pop("neighbour")
    refused = run(*words, "random-size:16").error
    expected = {
        "neighbour.py": "another run (model_fingerprint",
        "mean.txt": "other scores than those stored",
    }
    assert expected[changed] in refused
    assert json.loads(Path("run/run.json").read_text())["design"]["draws"] == 8


@pytest.mark.slow
def test_a_run_is_not_extended_by_a_model_that_differs_on_some_rows(run: CommandLine, place: Path) -> None:
    Path("last.txt").write_text("0")
    Path("model.py").write_text(
        CODE.replace(
            "def make():",
            """class Reads(Plain):
    def log_conditionals(self, tokens, masked):
        other = float(pathlib.Path(__file__).with_name("last.txt").read_text())
        last = other * (tokens.ids > 14)[:, None]
        return torch.where(masked, -((tokens.values - 0.5 - last) ** 2), 0.0)


def make():""",
        )
    )
    words = ("score", "model.py:Reads", "table.csv", "--drop", "name", "--out", "run", "--design")
    assert run(*words, "random-size:4").code == 0
    assert run(*words, "random-size:8").code == 0
    Path("last.txt").write_text("1")
    assert "other scores than those stored" in run(*words, "random-size:16").error


def test_no_run_brings_code(run: CommandLine, place: Path) -> None:
    assert run("score", "model.py:make", "table.csv", "--drop", "name", "--out", "run").code == 0
    mark = place / "was run"
    mark.unlink()
    assert run("report", "run", "--out", "report.html").code == 0
    assert "a report does not run the model&#x27;s code" in Path("report.html").read_text()
    assert run("summarize", "run").code == 0
    for word in ("run", "run/model"):
        refused = run("score", word, "table.csv", "--drop", "name").error
        assert refused == (
            "the run in 'run' is of 'model.py:make', code that a run does not hold; type that as MODEL"
        )
    assert not mark.exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("no.py:make", "there is no file 'no.py'; give FILE.py:FUNCTION"),
        ("model.py", "'model.py' names no function; write FILE.py:FUNCTION, such as model.py:make"),
        ("code/model.py", "'code/model.py' names no function"),
        ("model.py:", "'model.py:' names no function"),
        ("model.py:mak", "unknown function of 'model.py', 'mak'; did you mean 'make'?"),
        ("model.py:PI", "unknown function of 'model.py', 'PI'"),
        ("model.py:number", "'model.py:number' returns no model: int has no method `log_conditionals`"),
        ("model.py:needs", "needs of 'model.py' cannot be called without arguments: missing"),
        ("model.py:raises", f"model.py, line {CODE[: CODE.index('key')].count(chr(10)) + 1}: 'key'; mend it"),
        ("model.py:Fails", f"line {CODE[: CODE.index('raise V')].count(chr(10)) + 1}: two lines; mend it"),
        ("broken.py:make", "SyntaxError in {place}/broken.py, line 2"),
        ("zero.py:make", "'zero.py' has a zero byte, which no Python file has"),
        ("exits.py:make", "SystemExit in {place}/exits.py, line 2: 0; mend it"),
        ("model.py:a_class", "'model.py:a_class' returns no model: Plain is a class; give a model of it"),
        ("model.py:ends", f"line {CODE[: CODE.index('ends():')].count(chr(10)) + 2}: 0; mend it"),
        ("model.py:beyond", "BaseException in {place}/model.py"),
        ("instance.py:model", "model of 'instance.py' is a model; write a function that returns it"),
        ("model.py:waits", "waits of 'model.py' is an async function; write def waits() instead"),
        ("model.py:Waits", "log_conditionals of Waits is an async method; write def instead of async def"),
        ("model.py:Agrees", "log_conditionals of Agrees answers yes or no; log-probabilities are real"),
        ("model.py:Ends", "SystemExit in {place}/model.py"),
        ("model.py:Pipe", "BrokenPipeError in {place}/model.py"),
    ],
)
def test_wrong_words_and_code_that_fails(run: CommandLine, place: Path, word: str, message: str) -> None:
    assert message.format(place=place.resolve()) in run("score", word, "table.csv", "--drop", "name").error


def test_what_the_code_prints_is_not_the_result(run: CommandLine, place: Path) -> None:
    scored = run("score", "model.py:Prints", "table.csv", "--drop", "name", "--json", "-")
    assert json.loads(scored.out)["n_observations"] == 20
    assert "asked" in scored.err


@pytest.mark.parametrize("words", ["impute {}", "train {} --out new", "score {} --dtype float32"])
def test_what_code_is_not_for(run: CommandLine, place: Path, words: str) -> None:
    refused = run(*words.format("model.py:make table.csv --drop name").split()).error
    assert "which check and score run" in refused or "decides that; leave it out" in refused
    assert not (place / "was run").exists()


def test_an_estimate_without_its_data_is_a_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    model = me.models.Gaussian(n_features=3).fit(x)
    for name, design in (("a", "every-size:2"), ("b", "leave-one-out")):
        estimate = me.estimate_evidence(model, x, design)
        me.save_run(estimate, tmp_path / name)
        assert read_run(tmp_path / name).estimate.to_dict().keys() == estimate.to_dict().keys()
        assert read_run(tmp_path / name).estimate.kind == estimate.kind
        assert read_run(tmp_path / name).estimate.data_se == estimate.data_se
    write_report(read_runs([tmp_path / "a"]), tmp_path / "report.html")
    assert "saved in Python without its data" in (tmp_path / "report.html").read_text()


def test_a_saved_run_compares_with_that_of_a_command(run: CommandLine, place: Path) -> None:
    assert run("score", "model.py:make", "table.csv", "--id-column", "name", "--out", "run").code == 0
    table = read_table("table.csv", id_column="name")
    model = me.models.Gaussian(n_features=2).fit(table)
    me.save_run(me.estimate_evidence(model, table), "mine", data=table, model=model)
    compared = run("compare", "run", "mine")
    assert compared.code == 0, compared.err
    assert read_run("mine").estimate.names == list(table.labels or ())


def test_an_estimate_of_moments_is_no_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    model = me.models.PPCA(n_features=3, n_components=1).fit(x)
    estimate = me.estimate_evidence(model, me.GaussianMoments.from_rows(x), "every-size:2,shared")
    with pytest.raises(InputError, match="knows no observations"):
        me.save_run(estimate, tmp_path / "run")
    assert not (tmp_path / "run").exists()
