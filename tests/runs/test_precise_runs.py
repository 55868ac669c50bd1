"""Runs whose number of masks follows from a target: stages, kills, other targets, and what excludes them."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.command.options import RunOptions
from maskevidence.command.score import score
from maskevidence.runs import read_run, score_into
from maskevidence.runs.blocks import list_parts, write_part
from maskevidence.tables.table_options import RowOptions
from recorded_runs import N_FEATURES, make_model, read_numbers, same_rows

pytestmark = pytest.mark.usefixtures("one_thread", "every_block_saved")


@pytest.fixture(scope="module", autouse=True)
def no_picture() -> Iterator[None]:
    """Runs without curve.png, which takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maskevidence.runs.summary.draw_into", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A saved model and a table of 70 rows."""
    folder = tmp_path_factory.mktemp("data")
    make_model().save(folder / "model")
    np.save(folder / "rows.npy", np.random.default_rng(1).normal(size=(70, N_FEATURES)))
    return str(folder / "model"), str(folder / "rows.npy")


def record(data: tuple[str, str], out: Path, target: str | None, draws: int | None = None) -> dict:
    design = None if draws is None else f"random-size:{draws},replicates={draws}"
    run = RunOptions(out=out, target_se=target)
    return dict(score(*data, design, options=RowOptions(), run=run).content)


@pytest.fixture(scope="module")
def whole(data: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of several stages that nothing has interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    record(data, folder, "0.05")
    return folder


def test_has_the_rows_of_a_fixed_number_of_draws(data: tuple[str, str], whole: Path, tmp_path: Path) -> None:
    found = json.loads((whole / "estimate.json").read_text())
    draws = found["design"]["draws"]
    assert draws > 8
    assert found["mask_se"] <= 0.05
    assert f"the draws ended at {draws} for each observation: the mask error is" in found["notes"][-1]
    fixed = record(data, tmp_path / "fixed", None, draws)
    assert same_rows(whole, tmp_path / "fixed")
    assert (fixed["log_evidence"], fixed["mask_se"]) == (found["log_evidence"], found["mask_se"])
    model, rows = me.models.load(data[0]), np.load(data[1])
    in_memory = me.estimate_evidence(model, rows, me.Precise(target_se=0.05))
    assert in_memory.design == found["design"]
    assert in_memory.log_evidence == pytest.approx(found["log_evidence"], rel=1e-12)
    assert list(in_memory.notes) == found["notes"]
    assert read_run(whole).estimate.notes == in_memory.notes


@pytest.mark.parametrize("n_parts", [1, 41])
def test_a_kill_changes_nothing(
    data: tuple[str, str], whole: Path, tmp_path: Path, n_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first stage, and in a later one; the rows have 24 blocks."""
    written = 0

    def write(*arguments: object) -> object:
        nonlocal written
        if written == n_parts:
            raise KeyboardInterrupt
        written += 1
        return write_part(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(score_into, "write_part", write)
        with pytest.raises(KeyboardInterrupt):
            record(data, tmp_path / "run", "0.05")
    assert len(list_parts(tmp_path / "run" / "scores")) == n_parts
    record(data, tmp_path / "run", "0.05")
    assert same_rows(tmp_path / "run", whole)
    assert read_numbers(tmp_path / "run") == read_numbers(whole)


def test_another_target_goes_on_from_the_draws_that_are_there(data: tuple[str, str], tmp_path: Path) -> None:
    first = record(data, tmp_path / "run", "0.1")
    parts = {part.path for part in list_parts(tmp_path / "run" / "scores")}
    again = record(data, tmp_path / "run", "0.2")
    assert again == first, "it has been reached"
    finer = record(data, tmp_path / "run", "0.04")
    assert finer["design"]["draws"] > first["design"]["draws"]
    assert parts < {part.path for part in list_parts(tmp_path / "run" / "scores")}
    assert "target of 0.04 nats is reached" in finer["notes"][-1]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["precise"]["target_se"] == 0.04


def test_goes_on_from_a_run_of_random_sizes(data: tuple[str, str], tmp_path: Path) -> None:
    score(*data, "random-size:4", options=RowOptions(), run=RunOptions(out=tmp_path / "run"))
    found = record(data, tmp_path / "run", "0.04")
    assert found["design"]["replicates"] == 4
    assert found["design"]["draws"] % 4 == 0
    assert found["mask_se"] <= 0.04


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *(
            (("--target-se", word), f"--target-se {word!r}; give nats above 0, such as 0.05, or a share")
            for word in ("0", "nan", "inf%", "x")
        ),
        *(
            (
                ("--target-se", word),
                f"--target-se {word!r}; write a limit on the masks of all observations as 1%",
            )
            for word in ("1%,100", "1%,max_passes=x", "1%,max_passes=", "1%,max_passes=9,max_passes=9", "1%,")
        ),
        (("--target-se", "0.1,max_passes=0"), "max_passes=0; give a whole number of 1 or more"),
        (("--target-se", "0.1,max_passes=100"), "max_passes=100 is too few: the error of 70 obs"),
        (
            ("--target-se", "0.1", "--design", "random-size:8"),
            "finds the number of masks, which --design random-size:8 sets; give one",
        ),
        (("--target-se", "0.1", "--design", "every-size"), "draws random sizes; leave --design"),
        (("--target-se", "0.1", "--design", "random-size:shared"), "--target-se needs own masks"),
        (("--target-se", "10%", "--shard", "1/2"), "with --target-se √(N/100)·10%, and give every"),
    ],
)
def test_what_excludes_a_target(
    run: CommandLine, data: tuple[str, str], words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert message in run("score", *data, *words, "--out", tmp_path / "out").error
    assert not (tmp_path / "out").exists()


def test_the_command_says_where_it_ended(run: CommandLine, data: tuple[str, str]) -> None:
    assert "note: the draws ended at 8 for each observation" in run("score", *data, "--target-se", "20%").out
    too_small = run("score", *data, "--target-se", "1e-9", "--limit", "1")
    assert "would reach" in " ".join(too_small.out.split())
