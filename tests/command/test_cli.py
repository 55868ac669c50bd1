"""The command line: numbers, files, and one line for each error."""

import json
import subprocess
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import maskevidence as me
from command_line import PROGRAM, CommandLine, files_in


def a_table(folder: Path, n_rows: int = 60, n_columns: int = 5, seed: int = 0) -> Path:
    """Rows of a PPCA model as CSV."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns))
    values += 0.5 * rng.normal(size=values.shape)
    lines = [
        ",".join(f"x{j}" for j in range(n_columns)),
        *(",".join(map(repr, row.tolist())) for row in values),
    ]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return folder / "table.csv"


class TestScore:
    def test_prints_a_table_and_leaves_a_run(self, tmp_path: Path, run: CommandLine) -> None:
        out = tmp_path / "runs" / "a"
        run.draws = True
        result = run("score", "ppca:2", a_table(tmp_path), "--out", out)
        assert result.code == 0
        assert result.err == ""
        text = " ".join(result.out.split())
        for words in (
            "log evidence",
            "nats per row",
            "mask error",
            "data error",
            "in closed form",
            "by masks",
            "unbiased",
        ):
            assert words in text
        left = {name for name in files_in(out) if not name.startswith(("scores/", ".lock"))}
        model = {"model/config.json", "model/model.safetensors"}
        observations = {"observations.csv", "closed_form.parquet"}
        assert left == {"run.json", "estimate.json", "curve.csv", "curve.png", *observations, *model}
        estimate = json.loads((out / "estimate.json").read_text())
        keys = (
            "log_evidence mask_se mask_df data_se kind n_observations n_tokens n_masks n_model_calls "
            "design masks seed versions command"
        )
        assert set(keys.split()) <= set(estimate)
        low, high = estimate["interval_95"]
        assert low < estimate["log_evidence"] < high
        assert estimate["log_evidence"] - low >= high - estimate["log_evidence"] - 1e-12
        curve = (out / "curve.csv").read_text().splitlines()
        assert curve[0] == "size,rate,score,mask_se,data_se,n_masks"
        assert sum(float(line.split(",")[2]) for line in curve[1:]) == pytest.approx(estimate["log_evidence"])

    def test_a_default_run_of_wide_rows_goes_on(self, tmp_path: Path, run: CommandLine) -> None:
        words = ("score", "ppca:2", a_table(tmp_path, n_columns=30), "--out", tmp_path / "a")
        assert run(*words).code == 0
        estimate = json.loads((tmp_path / "a" / "estimate.json").read_text())
        assert estimate["design"]["name"] == "random-size"
        assert any("% of the data error; the design every-size:4" in note for note in estimate["notes"])
        assert "was finished before" in run(*words).out
        assert "holds another run" in run(*words, "--design", "every-size:4").error
        assert run(*words, "--design", "every-size:2", "--overwrite").code == 0
        assert run(*words).code == 0  # the design of the run, and more of it
        assert json.loads((tmp_path / "a" / "run.json").read_text())["design"]["name"] == "every-size"

    def test_json_alone_on_standard_output(self, tmp_path: Path, run: CommandLine) -> None:
        result = run("score", "gaussian", a_table(tmp_path), "--json", "-")
        assert json.loads(result.out)["kind"] == "unbiased"
        assert "log evidence" in result.err

    @pytest.mark.parametrize("word", ["gaussian", "ppca:2", "factor-analysis:2"])
    def test_a_saved_model_scored_again_gives_the_same_numbers(
        self, tmp_path: Path, run: CommandLine, word: str
    ) -> None:
        table, out = a_table(tmp_path), tmp_path / "a"
        first = json.loads(run("score", word, table, "--out", out, "--json", "-").out)
        again = json.loads(run("score", out / "model", table, "--test-fraction", "0.2", "--json", "-").out)
        for name in ("log_evidence", "mask_se", "data_se", "closed_form"):
            assert again[name] == pytest.approx(first[name], rel=1e-12)

    def test_a_saved_model_finds_its_columns_in_another_order(self, tmp_path: Path, run: CommandLine) -> None:
        table, out = a_table(tmp_path), tmp_path / "a"
        assert run("score", "ppca:2", table, "--out", out).code == 0
        rows = [line.split(",") for line in table.read_text().splitlines()]
        turned = tmp_path / "turned.csv"
        turned.write_text(
            "\n".join(",".join([*row[::-1], "0"]) for row in rows).replace("x0,0", "x0,more", 1) + "\n"
        )
        command = ("--design", "leave-one-out", "--json", "-")
        first = json.loads(run("score", out / "model", table, *command).out)
        assert (
            json.loads(run("score", out / "model", turned, *command).out)["log_evidence"]
            == first["log_evidence"]
        )

    def test_depends_on_the_seed_alone(self, tmp_path: Path, run: CommandLine) -> None:
        table = a_table(tmp_path)

        def number(*words: object) -> float:
            return json.loads(run("score", "gaussian", table, "--json", "-", *words).out)["log_evidence"]

        assert number("--seed", 3) == pytest.approx(number("--seed", 3, "--batch-size", 7), rel=1e-12)
        assert number("--seed", 3) != number("--seed", 4)

    def test_a_finished_run_is_shown_again(self, tmp_path: Path, run: CommandLine) -> None:
        command = ("score", "gaussian", a_table(tmp_path), "--out", tmp_path / "a", "--json", "-")
        first = run(*command)
        before = {name: (tmp_path / "a" / name).stat().st_mtime_ns for name in files_in(tmp_path / "a")}
        second = run(*command)
        assert second.out == first.out
        assert "was finished before" in " ".join(second.err.split())
        assert {name: (tmp_path / "a" / name).stat().st_mtime_ns for name in before} == before

    def test_without_matplotlib_says_what_is_missing(
        self, tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
        result = run("score", "gaussian", a_table(tmp_path), "--out", tmp_path / "a")
        assert result.code == 0
        assert "curve.png was not drawn" in result.out
        assert "pipinstall'.[plots]'" in "".join(result.out.split())
        assert (tmp_path / "a" / "curve.csv").exists()
        assert not (tmp_path / "a" / "curve.png").exists()


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The exit code and both outputs, without a traceback, as a shell sees them."""
    table = a_table(tmp_path)
    good = subprocess.run(
        [*PROGRAM, "score", "gaussian", str(table), "--json", "-"], capture_output=True, text=True
    )
    assert good.returncode == 0
    assert json.loads(good.stdout)["n_observations"] == 12
    bad = subprocess.run([*PROGRAM, "score", "gaussian", "x.csv"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert bad.stderr == "error: there is no file 'x.csv'; check the path\n"


def test_version(run: CommandLine) -> None:
    assert run("--version").out == f"maskevidence {me.__version__}\n"
    assert "score" in run().out


class TestMissingValues:
    """The first table with holes, in raw units: spreads from 10⁻³ to 10²."""

    def table(self, folder: Path) -> Path:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 7)) + 0.3 * rng.normal(size=(150, 7))
        x = (x + 5) * 10.0 ** np.array([-3, -1, 0, 0, 1, 1, 2])
        x[rng.random(x.shape) < 0.12] = np.nan
        file = folder / "table.csv"
        lines = (",".join("" if np.isnan(value) else repr(float(value)) for value in row) for row in x)
        file.write_text("\n".join([",".join("abcdefg"), *lines]) + "\n")
        return file

    @pytest.mark.filterwarnings("default::maskevidence.core.errors.ConvergenceWarning")
    def test_a_fit_that_ends_early_is_a_note(
        self, tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fit = me.models.PPCA.fit
        monkeypatch.setattr(me.models.PPCA, "fit", lambda self, x: fit(self, x, max_iterations=3))
        result = run("score", "ppca:4", self.table(tmp_path))
        assert result.code == 0
        note = next(line for line in result.err.splitlines() if line.startswith("note: "))
        assert "did not converge in 3 iterations: the last ones still changed the log evidence by " in note


@pytest.mark.parametrize("value", [None, 7, [7]])
def test_a_result_that_was_changed_is_one_line(run: CommandLine, tmp_path: Path, value: object) -> None:
    """An edit of any entry in the estimate.json of a finished run is refused, except for the notes."""
    words = ("score", "gaussian", a_table(tmp_path), "--design", "every-size:2", "--out", tmp_path / "run")
    assert run(*words).code == 0
    file = tmp_path / "run" / "estimate.json"
    whole = file.read_bytes()
    written = json.loads(whole)
    for name in written:
        file.write_text(json.dumps(written | {name: value}))
        result = run(*words)
        if written[name] == value or name == "notes":
            assert result.code == 0, name
        else:
            assert "estimate.json' was changed after it was written" in result.error, name
    edited = written | {"log_evidence": written["log_evidence"] + 0.01}
    file.write_text(json.dumps(edited))
    assert "maskevidence summarize" in run(*words).error
    assert run("summarize", tmp_path / "run").code == 0
    assert file.read_bytes() == whole
    assert "was finished before" in " ".join(run(*words).out.split())


@pytest.mark.parametrize("finished", [False, True])
def test_a_bug_of_ours_is_not_told_as_a_change_of_the_users(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    """The remedy was --overwrite, which deletes the run."""
    words = ("score", "gaussian", a_table(tmp_path), "--design", "every-size:2", "--out", tmp_path / "run")
    assert not finished or run(*words).code == 0

    def broken(*_: object) -> NoReturn:
        raise KeyError("mask_se")

    monkeypatch.setattr("maskevidence.command.scoring.page_of_numbers", broken)
    result = run(*words)
    assert result.code == 70
    assert "internal error, please report: KeyError in " in result.err
    assert "changed" not in result.err
