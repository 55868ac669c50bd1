"""Scores, models and run.json that do not belong together are refused, and so are scores of two versions."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import parquet

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.command.options import RunOptions
from maskevidence.command.pages.reported_runs import read_runs
from maskevidence.command.score import score
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from maskevidence.runs.blocks import list_parts
from maskevidence.runs.folder import write_sealed
from maskevidence.tables.table_options import RowOptions
from recorded_runs import make_manifest, make_model, make_tokens, read_rows, same_rows
from refusals import one_line

DESIGN = me.EverySize(2)
FOREIGN = r"\.parquet' does not belong to this run .*; remove it"
CHANGED = "run.json' was changed after it was written"
ANOTHER_MODEL = "model' is not the model that was fitted for this run; restore it"

pytestmark = pytest.mark.usefixtures("every_block_saved")


def score_into(
    folder: Path, design: me.MaskDesign = DESIGN, seed_of_model: int = 0, **changes: object
) -> RunDirectory:
    """A run with a part for each block."""
    model, tokens, run = make_model(seed_of_model), make_tokens(), RunDirectory(folder)
    manifest = make_manifest(model, tokens, design, **changes)
    record_run(run, manifest, model, tokens, Recording(save_every=0.0))
    return run


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run without its lock."""
    return {name: (folder / name).read_bytes() for name in files_in(folder) - {".lock"}}


def refused_by_all(folder: RunDirectory, message: str, **changes: object) -> None:
    """Reading, reporting and resuming the run are refused in one line, and change nothing."""
    before = contents(folder.path)
    for use in (read_run, lambda path: read_runs([path]), lambda path: score_into(path, **changes)):
        one_line(partial(use, folder.path), match=message)
    assert contents(folder.path) == before


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    return score_into(tmp_path_factory.mktemp("whole")).path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> RunDirectory:
    """A copy of it."""
    return RunDirectory(shutil.copytree(whole, tmp_path / "a"))


class TestForeignParts:
    @pytest.mark.parametrize(
        "changes",
        [{"seed": 5}, {"seed_of_model": 5, "model_fingerprint": "1" * 64}, {"versions": {}}],
        ids=["seed", "model", "versions"],
    )
    def test_of_another_run(
        self,
        tmp_path: Path,
        folder: RunDirectory,
        whole: Path,
        changes: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        if "versions" in changes:
            monkeypatch.setattr("maskevidence.runs.score_into.__version__", "0.1.9")
            changes = {"versions": {"maskevidence": "0.1.9"}}
        other = score_into(tmp_path / "b", **changes)
        monkeypatch.undo()
        own, foreign = (list_parts(run.scores)[3] for run in (folder, other))
        shutil.copy(foreign.path, folder.scores)
        refused_by_all(folder, FOREIGN)
        own.path.unlink()
        refused_by_all(folder, FOREIGN)
        (folder.scores / foreign.path.name).unlink()
        score_into(folder.path)
        assert same_rows(folder.path, whole)

    def test_under_another_name_or_of_more_masks(
        self, folder: RunDirectory, whole: Path, tmp_path: Path
    ) -> None:
        gone, part = list_parts(folder.scores)[3:5]
        gone.path.unlink()
        moved = folder.scores / part.path.name.replace("000004-000005", "000003-000004")
        shutil.copy(part.path, moved)
        refused_by_all(folder, FOREIGN)
        moved.unlink()
        more = score_into(shutil.copytree(whole, tmp_path / "b"), me.EverySize(3))
        added = [part for part in list_parts(more.scores) if part.piece.first_repeat == 2]
        shutil.copy(added[0].path, folder.scores)
        refused_by_all(folder, FOREIGN)

    def test_a_name_that_no_part_of_the_run_can_have(self, folder: RunDirectory) -> None:
        foreign = folder.scores / f"blocks-000000-{10**20}_repeats-0000-0002_{'0' * 16}.parquet"
        foreign.write_bytes(b"")
        refused_by_all(folder, FOREIGN)

    @pytest.mark.parametrize("shard", [[0, 0], [0, 1], [3, 2]])
    def test_a_shard_that_is_none(self, folder: RunDirectory, shard: list[int]) -> None:
        content = json.loads((folder.path / "run.json").read_text()) | {"shard": shard}
        del content["seal"]
        write_sealed(folder.path / "run.json", content)
        refused_by_all(folder, "is not a run.json that this version can read")

    def test_the_same_run_can_be_put_together(
        self, folder: RunDirectory, whole: Path, tmp_path: Path
    ) -> None:
        """A part of another shard is foreign to a shard; the run takes those of its shards and its copies."""
        first, second = (score_into(tmp_path / str(k), shard=(k, 2)) for k in (1, 2))
        for of, places in ((first.scores, range(0, 12, 2)), (whole / "scores", range(15, 20))):
            for place in places:
                list_parts(folder.scores)[place].path.unlink()
                shutil.copy(list_parts(of)[place].path, folder.scores)
        assert same_rows(folder.path, whole)
        assert read_run(folder.path).estimate.log_evidence == read_run(whole).estimate.log_evidence
        shutil.copy(list_parts(second.scores)[0].path, first.scores)
        refused_by_all(first, FOREIGN, shard=(1, 2))


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows, and two equal runs with a model that was fitted to them."""
    folder = tmp_path_factory.mktemp("scored")
    rng = np.random.default_rng(2)
    np.save(folder / "rows.npy", rng.normal(size=(150, 4)) @ rng.normal(size=(4, 4)))
    for name in "ab":
        options = RunOptions(out=folder / name)
        score("ppca:1", str(folder / "rows.npy"), "every-size:2", options=RowOptions(), run=options)
    return folder


@pytest.fixture
def out(scored: Path, tmp_path: Path) -> Path:
    """A copy of the first run, with the second one at its side."""
    shutil.copytree(scored / "b", tmp_path / "b")
    return Path(shutil.copytree(scored / "a", tmp_path / "a"))


@pytest.fixture
def fitted(scored: Path, out: Path) -> tuple[object, ...]:
    """The command of this run."""
    return ("score", "ppca:1", scored / "rows.npy", "--design", "every-size:2", "--out", out)


class TestChangedManifest:
    @pytest.mark.parametrize("edit", [{"seed": 3}, {"conditionals": "learned"}, {"seal": None}], ids=str)
    def test_is_refused(
        self, run: CommandLine, fitted: tuple[object, ...], out: Path, edit: dict[str, Any]
    ) -> None:
        content = json.loads((out / "run.json").read_text())
        (out / "run.json").write_text(json.dumps(content | edit))
        assert CHANGED in run("summarize", out).error
        assert CHANGED in run(*fitted).error

    def test_of_its_data_is_refused_by_every_command(
        self, run: CommandLine, fitted: tuple[object, ...], out: Path
    ) -> None:
        content, other = json.loads((out / "run.json").read_text()), out.with_name("b")
        content["data"]["n_observations"] = 29
        (out / "run.json").write_text(json.dumps(content))
        page = out.with_name("report.html")
        for words in (
            fitted,
            ("summarize", out),
            ("compare", out, other),
            ("compare", other, out),
            ("report", out, other, "--out", page),
        ):
            assert CHANGED in run(*words).error, words
        assert not page.exists()
        assert run(*fitted, "--overwrite").code == 0
        assert run("compare", out, other).code == 0

    def test_is_accepted_with_other_spaces_and_another_order(
        self, run: CommandLine, fitted: tuple[object, ...], out: Path
    ) -> None:
        content = json.loads((out / "run.json").read_text())
        (out / "run.json").write_text(json.dumps(dict(reversed(content.items())), indent=7))
        assert "was finished before" in " ".join(run(*fitted).out.split())


class TestChangedModel:
    @pytest.mark.parametrize("damage", ["weights", "another file", "a file less"])
    def test_is_refused(self, run: CommandLine, fitted: tuple[object, ...], out: Path, damage: str) -> None:
        if damage == "weights":
            other = me.models.load(out / "model")
            with torch.no_grad():
                other.mean += 1e-9
            other.save(out / "model")
        elif damage == "another file":
            (out / "model" / "tokenizer.json").write_text("{}")
        else:
            (out / "model" / "config.json").unlink()
        assert ANOTHER_MODEL in run("summarize", out).error
        list_parts(out / "scores")[0].path.unlink()
        (out / "estimate.json").unlink()
        before = files_in(out)
        assert ANOTHER_MODEL in run(*fitted).error
        assert files_in(out) == before

    def test_is_refused_before_there_are_scores(
        self, run: CommandLine, fitted: tuple[object, ...], out: Path
    ) -> None:
        shutil.rmtree(out / "scores")
        me.models.PPCA(4, 1).save(out / "model")
        assert ANOTHER_MODEL in run(*fitted).error

    def test_a_missing_one_is_asked_for_where_it_is_needed(
        self, run: CommandLine, fitted: tuple[object, ...], out: Path
    ) -> None:
        (out / "model" / ".DS_Store").write_text("of a file manager, which does not count")
        assert run("summarize", out).code == 0
        shutil.rmtree(out / "model")
        assert run("summarize", out).code == 0
        list_parts(out / "scores")[0].path.unlink()
        assert "model of the run in" in run(*fitted).error
        assert not (out / "model").exists()

    def test_shards_with_different_models_are_not_one_run(
        self, run: CommandLine, tmp_path: Path, fitted: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fit = me.models.PPCA.fit

        def perturbed(self: me.models.PPCA, *args: Any, **options: Any) -> Any:
            """Another processor may fit with other last bits."""
            model = fit(self, *args, **options)
            with torch.no_grad():
                model.mean += 1e-12
            return model

        one, same, other = (tmp_path / name for name in ("1", "2", "other"))
        assert run(*fitted[:-1], one, "--shard", "1/2").code == 0
        assert run(*fitted[:-1], same, "--shard", "2/2").code == 0
        monkeypatch.setattr(me.models.PPCA, "fit", perturbed)
        assert run(*fitted[:-1], other, "--shard", "2/2").code == 0
        error = run("summarize", one, other).error
        assert "is not a shard of the run" in error
        assert "a model that was fitted with another result" in error
        assert run("summarize", one, same, "--out", tmp_path / "whole").code == 0
        assert same_rows(tmp_path / "whole", fitted[-1])
        me.models.PPCA(4, 1).save(tmp_path / "whole" / "model")
        assert ANOTHER_MODEL in run("summarize", tmp_path / "whole").error


class TestVersions:
    """Runs of other versions are made by telling this one that it is another."""

    MESSAGE = r"are by maskevidence 0\.1\.9, and this is .*; go on with that version, or start again with"

    @pytest.fixture
    def old(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
        with monkeypatch.context() as patch:
            patch.setattr("maskevidence.runs.score_into.__version__", "0.1.9")
            return score_into(tmp_path / "old", versions={"maskevidence": "0.1.9"})

    def test_a_finished_run_is_read(
        self, old: RunDirectory, whole: Path, tmp_path: Path, run: CommandLine
    ) -> None:
        assert same_rows(old.path, whole)
        assert read_run(old.path).estimate.log_evidence == read_run(whole).estimate.log_evidence
        score_into(old.path)
        assert read_run(old.path).manifest.version == "0.1.9"
        new = score_into(tmp_path / "new", seed_of_model=4).path
        assert " by maskevidence 0.1.9" in " ".join(run("compare", old.path, new).out.split())

    @pytest.mark.parametrize("damage", [True, False])
    def test_a_partial_run_is_not_resumed(self, old: RunDirectory, damage: bool) -> None:
        part = list_parts(old.scores)[4].path
        if damage:
            part.write_bytes(part.read_bytes()[:-9])
        else:
            part.unlink()
        before = files_in(old.path)
        one_line(lambda: score_into(old.path), match=self.MESSAGE)
        assert files_in(old.path) == before
        shutil.rmtree(old.scores)  # nothing is left of the other version
        score_into(old.path)
        assert read_run(old.path).manifest.version == me.__version__

    def test_a_run_is_not_extended(self, old: RunDirectory) -> None:
        before = read_rows(old.path)
        with pytest.raises(me.InputError, match=self.MESSAGE):
            score_into(old.path, me.EverySize(3))
        assert read_rows(old.path).equals(before)


def test_a_part_is_still_plain_parquet(whole: Path) -> None:
    part = list_parts(whole / "scores")[0]
    assert set(parquet.read_metadata(part.path).metadata) == {b"ARROW:schema", b"n_model_calls", b"seal"}
