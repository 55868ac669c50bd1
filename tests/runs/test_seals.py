"""Scores, models and run.json that do not belong together are refused, and so are scores of two versions."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import parquet

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.commands.score import score
from maskevidence.kinds.options import RowOptions, RunOptions
from maskevidence.report.reading import read_runs
from maskevidence.runs import DataSource, Recording, RunDirectory, read_run, record_run
from maskevidence.runs.parts import list_parts, read_part, write_part
from recorded_runs import make_manifest, make_model, make_tokens, read_rows, same_rows

DESIGN = me.EverySize(2)
FOREIGN = r"\.parquet' does not belong to this run .*; remove it"
CHANGED = "run.json' was changed after it was written"
OLD = {"maskevidence": "0.1.9"}

pytestmark = pytest.mark.usefixtures("every_block_saved")


def score_into(
    folder: Path, design: me.MaskDesign = DESIGN, seed_of_model: int = 0, **changes: object
) -> RunDirectory:
    """A run with a part for each block."""
    model, tokens, run = make_model(seed_of_model), make_tokens(), RunDirectory(folder)
    manifest = make_manifest(model, tokens, design, **changes)
    record_run(run, manifest, model, tokens, Recording(save_every=0.0))
    return run


def refused_by_all(folder: RunDirectory, message: str, **changes: object) -> None:
    """Reading, reporting and resuming the run are refused in one line, and change nothing."""
    before = {name: (folder.path / name).read_bytes() for name in files_in(folder.path)}
    for use in (read_run, lambda path: read_runs([path]), lambda path: score_into(path, **changes)):
        with pytest.raises(me.InputError, match=message) as refusal:
            use(folder.path)
        assert "\n" not in str(refusal.value)
    after = {name: (folder.path / name).read_bytes() for name in files_in(folder.path)}
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before


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
        [
            {"seed": 5},
            {"seed_of_model": 5, "model_fingerprint": "1" * 64},
            {"design": me.Orderings(2)},
            {"masks": "shared"},
            {"rows_per_block": 1},
            {"details": {"pixel_density": "another"}},
            {"data": DataSource(name="rows", fingerprint="1" * 64, n_observations=70, columns=[])},
            {"versions": OLD},
        ],
        ids=lambda changes: next(iter(changes)),
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

    def test_under_another_name(self, folder: RunDirectory) -> None:
        gone, part = list_parts(folder.scores)[3:5]
        gone.path.unlink()
        shutil.copy(part.path, folder.scores / part.path.name.replace("000004-000005", "000003-000004"))
        refused_by_all(folder, FOREIGN)

    def test_of_another_shard(self, tmp_path: Path) -> None:
        first, second = (score_into(tmp_path / str(k), shard=(k, 2)) for k in (1, 2))
        shutil.copy(list_parts(second.scores)[0].path, first.scores)
        refused_by_all(first, FOREIGN, shard=(1, 2))

    def test_of_more_masks(self, whole: Path, tmp_path: Path, folder: RunDirectory) -> None:
        more = RunDirectory(shutil.copytree(whole, tmp_path / "b"))
        score_into(more.path, me.EverySize(3))
        added = [part for part in list_parts(more.scores) if part.piece.first_repeat == 2]
        shutil.copy(added[0].path, folder.scores)
        refused_by_all(folder, FOREIGN)

    def test_with_the_seal_of_another_run(self, folder: RunDirectory) -> None:
        part = list_parts(folder.scores)[3]
        table, n_calls = read_part(part)
        part.path.unlink()
        write_part(folder.scores, part.piece, table, n_calls, "another run")
        refused_by_all(folder, FOREIGN)

    def test_the_same_run_can_be_put_together(
        self, folder: RunDirectory, whole: Path, tmp_path: Path
    ) -> None:
        """Parts of the same run in another folder, or of its shards, are the parts of this run."""
        shard = score_into(tmp_path / "c", shard=(1, 2))
        for of, places in ((shard.scores, range(0, 12, 2)), (whole / "scores", range(15, 20))):
            for place in places:
                list_parts(folder.scores)[place].path.unlink()
                shutil.copy(list_parts(of)[place].path, folder.scores)
        assert same_rows(folder.path, whole)
        assert read_run(folder.path).estimate.log_evidence == read_run(whole).estimate.log_evidence


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
def fitted(scored: Path, tmp_path: Path) -> tuple[object, ...]:
    """The command of a run with a fitted model, which was given before; its folder comes last."""
    for name in "ab":
        shutil.copytree(scored / name, tmp_path / name)
    words = ("--design", "every-size:2", "--out", tmp_path / "a")
    return ("score", "ppca:1", scored / "rows.npy", *words)


def refused_by_commands(run: CommandLine, command: tuple[object, ...], message: str) -> None:
    folder = Path(str(command[-1]))
    other = folder.with_name("b")
    uses: list[tuple[object, ...]] = [
        command,
        ("summarize", folder),
        ("compare", folder, other),
        ("compare", other, folder),
        ("report", folder, other, "--out", folder.with_name("report.html")),
    ]
    for words in uses:
        assert message in run(*words).error, words
    assert not folder.with_name("report.html").exists()


class TestChangedManifest:
    @pytest.mark.parametrize(
        "edit",
        [
            {"seed": 3},
            {"conditionals": "learned"},
            {"model": "ppca:2"},
            {"design": {"name": "every-size", "masks_per_size": 1}},
            {"design": {"name": "orderings", "orders": 2}},
            {"masks": "shared"},
            {"shard": [1, 2]},
            {"rows_per_block": 2},
            {"closed_form": 0.0},
            {"kept_model": None},
            {"details": {"patch_statistics": "visible"}},
            {"versions": {}},
            {"command": "another"},
            {"seal": None},
            {"seal": "0" * 64},
        ],
        ids=str,
    )
    def test_is_refused(self, run: CommandLine, fitted: tuple[object, ...], edit: dict[str, Any]) -> None:
        file = Path(str(fitted[-1])) / "run.json"
        content = json.loads(file.read_text())
        assert any(content[name] != value for name, value in edit.items())
        file.write_text(json.dumps(content | edit))
        refused_by_commands(run, fitted, CHANGED)
        assert run(*fitted, "--overwrite").code == 0
        assert run("compare", fitted[-1], Path(str(fitted[-1])).with_name("b")).code == 0

    @pytest.mark.parametrize("name", ["fingerprint", "source_fingerprint", "n_observations", "name"])
    def test_of_its_data_is_refused(self, run: CommandLine, fitted: tuple[object, ...], name: str) -> None:
        file = Path(str(fitted[-1])) / "run.json"
        content = json.loads(file.read_text())
        content["data"][name] = 29 if name == "n_observations" else "0" * 64
        file.write_text(json.dumps(content))
        refused_by_commands(run, fitted, CHANGED)

    def test_without_its_seals_is_refused(self, run: CommandLine, fitted: tuple[object, ...]) -> None:
        file = Path(str(fitted[-1])) / "run.json"
        content = json.loads(file.read_text())
        del content["seal"]
        file.write_text(json.dumps(content | {"kept_model": None}))
        refused_by_commands(run, fitted, CHANGED)

    def test_is_accepted_with_other_spaces_and_another_order(
        self, run: CommandLine, fitted: tuple[object, ...]
    ) -> None:
        file = Path(str(fitted[-1])) / "run.json"
        content = json.loads(file.read_text())
        file.write_text(json.dumps(dict(reversed(content.items())), indent=7))
        assert run("summarize", fitted[-1]).code == 0
        assert "was finished before" in " ".join(run(*fitted).out.split())


class TestChangedModel:
    @pytest.mark.parametrize("damage", ["weights", "config", "a byte", "another file", "a file less"])
    def test_is_refused(self, run: CommandLine, fitted: tuple[object, ...], damage: str) -> None:
        folder = Path(str(fitted[-1]))
        model = folder / "model"
        if damage == "weights":
            other = me.models.load(model)
            with torch.no_grad():
                other.mean += 1e-9
            other.save(model)
        elif damage == "config":
            content = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps(content | {"columns": None}))
        elif damage == "a byte":
            content = bytearray((model / "model.safetensors").read_bytes())
            content[-3] ^= 1
            (model / "model.safetensors").write_bytes(content)
        elif damage == "another file":
            (model / "tokenizer.json").write_text("{}")
        else:
            (model / "config.json").unlink()
        message = "model' is not the model that was fitted for this run; restore it"
        refused_by_commands(run, fitted, message)
        list_parts(folder / "scores")[0].path.unlink()
        (folder / "estimate.json").unlink()
        before = files_in(folder)
        assert message in run(*fitted).error
        assert files_in(folder) == before

    def test_is_refused_before_there_are_scores(self, run: CommandLine, fitted: tuple[object, ...]) -> None:
        folder = Path(str(fitted[-1]))
        shutil.rmtree(folder / "scores")
        me.models.PPCA(4, 1).save(folder / "model")
        assert "is not the model that was fitted" in run(*fitted).error

    def test_a_missing_one_is_asked_for_where_it_is_needed(
        self, run: CommandLine, fitted: tuple[object, ...]
    ) -> None:
        folder = Path(str(fitted[-1]))
        shutil.rmtree(folder / "model")
        assert run("summarize", folder).code == 0
        list_parts(folder / "scores")[0].path.unlink()
        assert "model of the run in" in run(*fitted).error
        assert not (folder / "model").exists()

    def test_hidden_files_do_not_count(self, run: CommandLine, fitted: tuple[object, ...]) -> None:
        (Path(str(fitted[-1])) / "model" / ".DS_Store").write_text("of a file manager")
        assert run("summarize", fitted[-1]).code == 0

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

        assert run(*fitted[:-1], tmp_path / "shard-1", "--shard", "1/2").code == 0
        monkeypatch.setattr(me.models.PPCA, "fit", perturbed)
        assert run(*fitted[:-1], tmp_path / "shard-2", "--shard", "2/2").code == 0
        error = run("summarize", tmp_path / "shard-1", tmp_path / "shard-2").error
        assert "is not a shard of the run" in error
        assert "a model that was fitted with another result" in error

    def test_shards_with_one_model_are(
        self, run: CommandLine, tmp_path: Path, fitted: tuple[object, ...]
    ) -> None:
        for k in (1, 2):
            assert run(*fitted[:-1], tmp_path / f"shard-{k}", "--shard", f"{k}/2").code == 0
        shards = (tmp_path / "shard-1", tmp_path / "shard-2")
        assert run("summarize", *shards, "--out", tmp_path / "whole").code == 0
        assert same_rows(tmp_path / "whole", fitted[-1])
        assert run("summarize", tmp_path / "whole").code == 0
        assert "was finished before" in " ".join(run(*fitted[:-1], tmp_path / "whole").out.split())
        me.models.PPCA(4, 1).save(tmp_path / "whole" / "model")
        assert "is not the model that was fitted" in run("summarize", tmp_path / "whole").error


class TestVersions:
    """Runs of other versions are made by telling this one that it is another."""

    MESSAGE = r"are by maskevidence 0\.1\.9, and this is .*; go on with that version, or start again with"

    @pytest.fixture
    def old(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
        return self.score_as("0.1.9", tmp_path / "old", monkeypatch)

    def score_as(
        self, version: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object
    ) -> RunDirectory:
        with monkeypatch.context() as patch:
            patch.setattr("maskevidence.runs.score_into.__version__", version)
            return score_into(folder, versions={"maskevidence": version}, **changes)

    def test_a_finished_run_is_read(self, old: RunDirectory, whole: Path) -> None:
        assert same_rows(old.path, whole)
        assert read_run(old.path).estimate.log_evidence == read_run(whole).estimate.log_evidence
        model, tokens = make_model(), make_tokens()
        assert record_run(old, make_manifest(model, tokens, DESIGN), model, tokens) == 0
        assert read_run(old.path).manifest.version == "0.1.9"

    @pytest.mark.parametrize("damage", [True, False])
    def test_a_partial_run_is_not_resumed(self, old: RunDirectory, damage: bool) -> None:
        part = list_parts(old.scores)[4].path
        if damage:
            part.write_bytes(part.read_bytes()[:-9])
        else:
            part.unlink()
        before = files_in(old.path)
        with pytest.raises(me.InputError, match=self.MESSAGE) as refusal:
            score_into(old.path)
        assert "\n" not in str(refusal.value)
        assert files_in(old.path) == before

    def test_a_run_is_not_extended(self, old: RunDirectory) -> None:
        before = read_rows(old.path)
        with pytest.raises(me.InputError, match=self.MESSAGE):
            score_into(old.path, me.EverySize(3))
        assert read_rows(old.path).equals(before)
        model, tokens = make_model(), make_tokens()
        manifest = make_manifest(model, tokens, me.EverySize(3))
        assert record_run(old, manifest, model, tokens, Recording(overwrite=True)) > len(before)

    def test_a_run_without_scores_begins_again(self, old: RunDirectory) -> None:
        shutil.rmtree(old.scores)
        score_into(old.path)
        assert read_run(old.path).manifest.version == me.__version__

    def test_shards_of_two_are_not_one_run(
        self, tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.score_as("0.1.9", tmp_path / "1", monkeypatch, shard=(1, 2))
        score_into(tmp_path / "2", shard=(2, 2))
        error = run("summarize", tmp_path / "1", tmp_path / "2").error
        assert f"is not a shard of the run in {str(tmp_path / '1')!r}" in error
        assert f"maskevidence {me.__version__} instead of 0.1.9" in error

    def test_a_comparison_of_two_says_so(
        self, old: RunDirectory, whole: Path, tmp_path: Path, run: CommandLine
    ) -> None:
        new = score_into(tmp_path / "new", seed_of_model=4).path
        text = " ".join(run("compare", old.path, new).out.split())
        assert f"'{old.path}' was scored by maskevidence 0.1.9" in text or f"'{old.path}' by 0.1.9" in text
        assert f"maskevidence {me.__version__}" in text or f"by {me.__version__}" in text
        assert "was scored by" not in run("compare", whole, new).out


def test_a_part_is_still_plain_parquet(whole: Path) -> None:
    part = list_parts(whole / "scores")[0]
    assert set(parquet.read_metadata(part.path).metadata) == {b"ARROW:schema", b"n_model_calls", b"seal"}
