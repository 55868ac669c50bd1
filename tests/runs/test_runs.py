"""Run directories: what is written is what was scored, and a kill at any moment changes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from pyarrow import parquet

import maskevidence as me
from command_line import CommandLine, files_in, start
from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.runs import (
    DataSource,
    Manifest,
    RunDirectory,
    list_parts,
    read_run,
    record_run,
    rows_per_block,
)

N_ROWS, N_FEATURES = 70, 6
DESIGNS = [
    me.EverySize(2),
    me.RandomSize(8),
    me.Orderings(3),
    me.LeaveOneOut(),
    me.Exhaustive(),
    me.FixedRate(0.5),
    me.Rates((0.2, 0.5, 0.9), masks_per_size=2),
]
ESSENTIALS = ("log_evidence", "mask_se", "mask_df", "data_se", "n_tokens", "n_bytes", "n_masks")


def a_model(seed: int = 0) -> me.models.Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N_FEATURES, N_FEATURES))
    return me.models.Gaussian(
        torch.zeros(N_FEATURES).double(), torch.from_numpy(root @ root.T + np.eye(N_FEATURES))
    )


def some_tokens(n_rows: int = N_ROWS, *, n_bytes: bool = False) -> me.Tokens:
    """Complete rows, with holes in every seventh."""
    values = np.random.default_rng(1).normal(size=(n_rows, N_FEATURES))
    values[::7, 2] = np.nan
    tokens = me.Tokens.from_array(values, ids=np.arange(n_rows) * 3 + 5)
    if not n_bytes:
        return tokens
    return me.Tokens(tokens.values, tokens.maskable, tokens.context, tokens.ids, 4 * tokens.n_tokens + 1)


def a_manifest(model: me.MaskedModel, tokens: me.Tokens, design: MaskDesign, **changes: object) -> Manifest:
    key = MaskKey(0, changes.get("masks", "own"))
    settings = {
        "model": "a model",
        "conditionals": model.conditionals,
        "data": DataSource(name="rows", fingerprint="0" * 64, n_observations=len(tokens), columns=[]),
        "design": design.settings(),
        "masks": "own",
        "seed": 0,
        "rows_per_block": rows_per_block(model, tokens, design, key),
    }
    return Manifest.model_validate(settings | changes)


def rows_of(folder: Path | str) -> pandas.DataFrame:
    """All rows of a run's Parquet files, sorted; to be compared to the last bit."""
    table = parquet.read_table(Path(folder) / "scores").to_pandas()
    return table.sort_values(["id", "draw", "size"], ignore_index=True)


def same_rows(first: Path | str, second: Path | str) -> bool:
    a, b = rows_of(first), rows_of(second)
    return list(a.columns) == list(b.columns) and all(
        a[name].to_numpy().tobytes() == b[name].to_numpy().tobytes() for name in a.columns
    )


def numbers_of(folder: Path | str) -> dict[str, object]:
    """estimate.json without what a folder's name or the moment may change."""
    content = json.loads((Path(folder) / "estimate.json").read_text())
    return {name: value for name, value in content.items() if name not in ("command", "versions")}


class Counting(torch.nn.Module):
    """A model that counts the masks that it was asked for."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.model = a_model()
        self.n_masks = 0

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        self.n_masks += len(masked)
        return self.model.log_conditionals(tokens, masked)


class Budgeted(Counting):
    """A model that makes its own batches, of 60 tokens each and the shortest first."""

    def batches(self, n_present: np.ndarray) -> Iterable[np.ndarray]:
        order = np.argsort(n_present, kind="stable")
        return np.array_split(order, int(np.ceil(n_present.sum() / 60)))


class TestRecord:
    @pytest.mark.parametrize("masks", ["own", "shared"])
    @pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
    @pytest.mark.parametrize("build", [a_model, Counting, Budgeted])
    def test_holds_what_an_estimate_in_memory_scores(
        self, tmp_path: Path, build: Callable[[], me.MaskedModel], design: MaskDesign, masks: str
    ) -> None:
        model, tokens = build(), some_tokens(n_bytes=True)
        record_run(RunDirectory(tmp_path), a_manifest(model, tokens, design, masks=masks), model, tokens)
        found = read_run(tmp_path).estimate
        wanted = me.estimate_evidence(model, tokens, design, masks=masks)
        for name in ("id", "draw", "size", "n_tokens", "n_bytes"):
            np.testing.assert_array_equal(getattr(found.scores, name), getattr(wanted.scores, name))
        np.testing.assert_allclose(found.scores.score, wanted.scores.score, rtol=1e-12)
        for name in ESSENTIALS:
            number = getattr(wanted, name)
            assert getattr(found, name) == (number and pytest.approx(number, rel=1e-9)), name
        assert found.kind == wanted.kind

    def test_is_plain_parquet(self, tmp_path: Path) -> None:
        model, tokens = a_model(), some_tokens()
        record_run(RunDirectory(tmp_path), a_manifest(model, tokens, me.EverySize(2)), model, tokens)
        rows = pandas.read_parquet(tmp_path / "scores")
        assert list(rows.columns) == ["id", "draw", "size", "n_tokens", "score", "n_bytes"]
        assert rows["n_bytes"].isna().all()
        by_observation = rows["score"].groupby(rows["id"]).sum() / 2
        assert by_observation.mean() == pytest.approx(read_run(tmp_path).estimate.log_evidence)

    @pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
    def test_has_the_same_bits_however_often_it_is_saved(self, tmp_path: Path, design: MaskDesign) -> None:
        model, tokens = a_model(), some_tokens()
        for name, save_every in (("often", 0.0), ("once", 1e9)):
            folder = RunDirectory(tmp_path / name)
            record_run(folder, a_manifest(model, tokens, design), model, tokens, save_every=save_every)
        assert (
            len(list_parts(tmp_path / "often" / "scores"))
            > len(list_parts(tmp_path / "once" / "scores"))
            == 1
        )
        assert same_rows(tmp_path / "often", tmp_path / "once")

    def test_scores_only_what_is_missing(self, tmp_path: Path) -> None:
        model, tokens, folder = Counting(), some_tokens(), RunDirectory(tmp_path)
        manifest = a_manifest(model, tokens, me.EverySize(2))
        total = record_run(folder, manifest, model, tokens, save_every=0.0)
        assert total == model.n_masks == 2 * int(tokens.n_tokens.sum())
        before = rows_of(tmp_path)
        lost = [part.path for part in list_parts(folder.scores)][3:20:4]
        n_lost = sum(parquet.read_metadata(path).num_rows for path in lost)
        for path in lost:
            path.unlink()
        assert record_run(folder, manifest, model, tokens) == n_lost
        assert model.n_masks == total + n_lost
        assert record_run(folder, manifest, model, tokens) == 0
        pandas.testing.assert_frame_equal(rows_of(tmp_path), before, check_exact=True)

    def test_an_interrupt_saves_what_was_scored(self, tmp_path: Path) -> None:
        class Interrupted(Counting):
            def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
                if self.n_masks > 300:
                    raise KeyboardInterrupt
                return super().log_conditionals(tokens, masked)

        model, tokens, folder = Interrupted(), some_tokens(), RunDirectory(tmp_path)
        manifest = a_manifest(model, tokens, me.EverySize(2))
        with pytest.raises(KeyboardInterrupt):
            record_run(folder, manifest, model, tokens)
        saved = len(rows_of(tmp_path))
        assert saved == model.n_masks
        fresh = Counting()
        record_run(folder, manifest, fresh, tokens)
        assert fresh.n_masks == 2 * int(tokens.n_tokens.sum()) - saved

    def test_leftovers_of_a_killed_write_go(self, tmp_path: Path) -> None:
        model, tokens, folder = a_model(), some_tokens(), RunDirectory(tmp_path)
        manifest = a_manifest(model, tokens, me.EverySize(2))
        folder.begin(manifest)
        (folder.scores / ".blocks-0.abc.tmp").write_bytes(b"half")
        (tmp_path / ".run.json.abc.tmp").write_bytes(b"half")
        (tmp_path / ".model.tmp").mkdir()
        record_run(folder, manifest, model, tokens)
        assert not [name for name in files_in(tmp_path) if "tmp" in name]
        assert not (tmp_path / ".model.tmp").exists()


class TestMoreMasks:
    @pytest.mark.parametrize(
        ("few", "many"),
        [
            (me.RandomSize(8), me.RandomSize(16)),
            (me.EverySize(2), me.EverySize(5)),
            (me.Orderings(2), me.Orderings(4)),
            (me.FixedRate(0.5, 2), me.FixedRate(0.5, 3)),
            (me.Rates((0.2, 0.8), 1), me.Rates((0.2, 0.8), 3)),
        ],
        ids=lambda design: design.name,
    )
    def test_are_added_to_those_that_are_there(
        self, tmp_path: Path, few: MaskDesign, many: MaskDesign
    ) -> None:
        model, tokens = a_model(), some_tokens()
        folder, whole = RunDirectory(tmp_path / "grown"), RunDirectory(tmp_path / "whole")
        first = record_run(folder, a_manifest(model, tokens, few), model, tokens)
        old = {part.path.name for part in list_parts(folder.scores)}
        second = record_run(folder, a_manifest(model, tokens, many), model, tokens)
        total = record_run(whole, a_manifest(model, tokens, many), model, tokens)
        assert first + second == total
        assert old <= {part.path.name for part in list_parts(folder.scores)}
        grown, fresh = rows_of(folder.path), rows_of(whole.path)
        np.testing.assert_allclose(grown["score"], fresh["score"], rtol=1e-12)
        pandas.testing.assert_frame_equal(grown.drop(columns="score"), fresh.drop(columns="score"))
        a, b = (read_run(run.path).estimate for run in (folder, whole))
        assert (a.log_evidence, a.mask_se, a.data_se) == pytest.approx((b.log_evidence, b.mask_se, b.data_se))

    def test_after_a_kill_while_adding(self, tmp_path: Path) -> None:
        model, tokens, folder = a_model(), some_tokens(), RunDirectory(tmp_path / "a")
        whole = RunDirectory(tmp_path / "b")
        for target, lose in ((folder, True), (whole, False)):
            for orders in (2, 3, 5):
                manifest = a_manifest(model, tokens, me.Orderings(orders))
                record_run(target, manifest, model, tokens, save_every=0.0)
                if lose:
                    for part in list_parts(target.scores)[::3]:
                        part.path.unlink()
        record_run(folder, a_manifest(model, tokens, me.Orderings(5)), model, tokens)
        a, b = rows_of(folder.path), rows_of(whole.path)
        np.testing.assert_allclose(a["score"], b["score"], rtol=1e-12)
        pandas.testing.assert_frame_equal(a.drop(columns="score"), b.drop(columns="score"))

    def test_fewer_are_refused(self, tmp_path: Path) -> None:
        model, tokens, folder = a_model(), some_tokens(), RunDirectory(tmp_path)
        record_run(folder, a_manifest(model, tokens, me.EverySize(4)), model, tokens)
        with pytest.raises(me.InputError, match=r"another run \(masks_per_size 2 instead of 4\)"):
            record_run(folder, a_manifest(model, tokens, me.EverySize(2)), model, tokens)


class TestDamage:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> RunDirectory:
        model, tokens, folder = a_model(), some_tokens(), RunDirectory(tmp_path / "run")
        record_run(folder, a_manifest(model, tokens, me.EverySize(2)), model, tokens, save_every=0.0)
        return folder

    @pytest.mark.parametrize("damage", ["truncated", "a byte changed", "empty"])
    def test_is_found_and_only_that_part_is_redone(self, folder: RunDirectory, damage: str) -> None:
        before = rows_of(folder.path)
        part = list_parts(folder.scores)[5].path
        n_rows, content = parquet.read_metadata(part).num_rows, bytearray(part.read_bytes())
        content[len(content) // 2] ^= 1
        part.write_bytes(
            {"truncated": content[: len(content) // 2], "a byte changed": content, "empty": b""}[damage]
        )
        with pytest.raises(me.InputError, match=r"is damaged; run the command in run\.json again"):
            read_run(folder.path)
        model, tokens = a_model(), some_tokens()
        assert record_run(folder, a_manifest(model, tokens, me.EverySize(2)), model, tokens) == n_rows
        pandas.testing.assert_frame_equal(rows_of(folder.path), before, check_exact=True)

    def test_a_part_that_is_missing_is_not_summarised_over(self, folder: RunDirectory) -> None:
        list_parts(folder.scores)[5].path.unlink()
        with pytest.raises(me.InputError, match="is not finished, 1 of its 24 blocks"):
            read_run(folder.path)

    def test_scores_that_are_there_twice_are_refused(self, folder: RunDirectory) -> None:
        part = list_parts(folder.scores)[5]
        copy = part.path.name.replace(part.checksum, "0" * 16)
        (folder.scores / copy).write_bytes(part.path.read_bytes())
        with pytest.raises(me.InputError, match="holds scores twice"):
            read_run(folder.path)


@pytest.fixture
def one_thread() -> Iterable[None]:
    """As many threads as the processes that are killed have: with others, sums may round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """A saved model and a table of 600 rows."""
    a_model().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(600, N_FEATURES)))
    return tmp_path / "model", tmp_path / "rows.npy"


@pytest.mark.usefixtures("one_thread")
class TestKill:
    def test_at_five_random_moments(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        command = ("score", *saved, "--masks-per-size", 20, "--save-every", 0, "--threads", 1, "--out")
        assert run(*command, tmp_path / "whole").code == 0
        n_parts = len(list_parts(tmp_path / "whole" / "scores"))
        assert n_parts >= 30
        rng = np.random.default_rng(3)
        n_saved = []
        for k in range(5):
            out = tmp_path / f"killed-{k}"
            process = start(*command, out)
            moment = int(rng.integers(0, n_parts))
            deadline = time.monotonic() + 60
            while len(list_parts(out / "scores")) < moment and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            n_saved.append(len(list_parts(out / "scores")))
            assert run(*command, out).code == 0
            assert same_rows(out, tmp_path / "whole")
            assert numbers_of(out) == numbers_of(tmp_path / "whole")
        assert len(set(n_saved)) > 1
        assert any(0 < saved < n_parts for saved in n_saved)

    def test_before_the_model_is_kept(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        command = ("score", "ppca:2", saved[1], "--limit", 100, "--out")
        assert run(*command, tmp_path / "a").code == 0
        for name in (
            "estimate.json",
            "curve.csv",
            "curve.png",
            "model/config.json",
            "model/model.safetensors",
        ):
            (tmp_path / "a" / name).rename(tmp_path / "gone")
        (tmp_path / "a" / "model").rmdir()
        for part in list_parts(tmp_path / "a" / "scores"):
            part.path.unlink()
        assert run(*command, tmp_path / "a").code == 0
        assert run(*command, tmp_path / "b").code == 0
        assert same_rows(tmp_path / "a", tmp_path / "b")

    def test_a_run_that_goes_on_is_scored_by_the_model_that_was_kept(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        command = ("score", "ppca:2", saved[1], "--limit", 300, "--save-every", 0, "--out", tmp_path / "a")
        assert run(*command).code == 0
        before = rows_of(tmp_path / "a")
        other = me.models.load(tmp_path / "a" / "model")
        with torch.no_grad():
            other.mean += 1.0
        other.save(tmp_path / "a" / "model")
        list_parts(tmp_path / "a" / "scores")[0].path.unlink()
        assert run(*command).code == 0
        changed = rows_of(tmp_path / "a")["score"] != before["score"]
        assert changed.any()
        assert not changed.all()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small file system needs root"
)
class TestMounts:
    def test_a_full_disk_stops_cleanly_and_the_run_goes_on_when_there_is_space(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        command = ("score", *saved, "--masks-per-size", 20, "--save-every", 0, "--threads", 1, "--out")
        assert run(*command, tmp_path / "whole").code == 0
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
        try:
            (disk / "other").write_bytes(bytes(600_000))
            for _ in range(2):  # the second finds the disk as full as the first left it
                result = run(*command, disk / "a")
                assert "no space is left for" in result.error
                assert "run the same command again" in result.error
            parts = list_parts(disk / "a" / "scores")
            assert parts
            assert not [name for name in files_in(disk) if "tmp" in name]
            (disk / "other").unlink()
            written = {part.path: part.path.stat().st_mtime_ns for part in parts}
            assert run(*command, disk / "a").code == 0
            assert {path: path.stat().st_mtime_ns for path in written} == written
            assert same_rows(disk / "a", tmp_path / "whole")
            assert numbers_of(disk / "a") == numbers_of(tmp_path / "whole")
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_read_only_folder(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", disk], check=True)
        try:
            command = ("score", *saved, "--limit", 50, "--out")
            assert run(*command, disk / "a").code == 0
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            assert "cannot be written (Read-only file system)" in run(*command, disk / "b").error
            # what is finished can still be read, and what is not cannot go on
            assert "was finished before" in " ".join(run(*command, disk / "a").out.split())
            assert "cannot be written" in run(*command, disk / "a", "--overwrite").error
            summarized = run("summarize", disk / "a")
            assert summarized.code == 2
            assert "cannot be written (Read-only file system)" in summarized.err
        finally:
            subprocess.run(["umount", disk], check=True)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight shards of a run, and the run."""
    folder = tmp_path_factory.mktemp("shards")
    model, tokens = a_model(), some_tokens()
    for k in range(1, 9):
        manifest = a_manifest(model, tokens, me.RandomSize(8), shard=(k, 8))
        record_run(RunDirectory(folder / str(k)), manifest, model, tokens)
    record_run(RunDirectory(folder / "run"), a_manifest(model, tokens, me.RandomSize(8)), model, tokens)
    return folder


class TestShards:
    def test_summarised_give_what_one_run_gives(
        self,
        shards: Path,
        tmp_path: Path,
        run: CommandLine,
    ) -> None:
        names = [shards / str(k) for k in (5, 1, 2, 3, 4, 8, 7, 6)]
        assert run("summarize", *names, "--out", tmp_path / "whole").code == 0
        assert run("summarize", shards / "run").code == 0
        assert same_rows(tmp_path / "whole", shards / "run")
        whole, one = numbers_of(tmp_path / "whole"), numbers_of(shards / "run")
        assert whole.pop("closed_form") == pytest.approx(one.pop("closed_form"), rel=1e-12)
        assert whole == one
        assert (tmp_path / "whole" / "curve.csv").read_bytes() == (shards / "run" / "curve.csv").read_bytes()

    def test_only_print_without_out(self, shards: Path, run: CommandLine) -> None:
        before = files_in(shards)
        result = run("summarize", *(shards / str(k) for k in range(1, 9)), "--json", "-")
        estimate = read_run(shards / "run").estimate
        assert json.loads(result.out)["log_evidence"] == estimate.log_evidence
        assert files_in(shards) == before

    def test_one_alone_says_what_it_is(self, shards: Path) -> None:
        assert any("shard 3 of 8" in note for note in read_run(shards / "3").result()["notes"])

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (["1", "2", "3"], "these are the shards 1/8, 2/8, 3/8; give each of 1/8 to 8/8 once"),
            (["1", "1", "2", "3", "4", "5", "6", "7"], "give each of 1/8 to 8/8 once"),
            (["run", "run"], "these are the shards 1/1, 1/1"),
        ],
    )
    def test_that_are_not_all_there(
        self,
        shards: Path,
        run: CommandLine,
        names: list[str],
        message: str,
    ) -> None:
        assert message in run("summarize", *(shards / name for name in names)).error

    def test_of_another_run(self, shards: Path, tmp_path: Path, run: CommandLine) -> None:
        model, tokens = a_model(), some_tokens()
        manifest = a_manifest(model, tokens, me.RandomSize(8), shard=(2, 8), seed=1)
        record_run(RunDirectory(tmp_path), manifest, model, tokens)
        assert "no shard of the run" in run("summarize", shards / "1", tmp_path).error

    def test_into_one_of_them(self, shards: Path, run: CommandLine) -> None:
        result = run("summarize", shards / "1", shards / "2", "--out", shards / "1", "--overwrite")
        assert "is one of the runs" in result.error

    @pytest.mark.parametrize("word", ["0/8", "9/8", "3", "3/", "a/b", "-1/8", "1/8/2"])
    def test_malformed(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        word: str,
    ) -> None:
        result = run("score", *saved, "--shard", word, "--out", tmp_path / "a")
        assert f"shard '{word}'; write which of how many, from 1/8 to 8/8" in result.error
        assert not (tmp_path / "a").exists()

    def test_more_than_there_are_blocks(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        result = run("score", *saved, "--limit", 5, "--shard", "1/8", "--out", tmp_path / "a")
        assert "make at most 5 shards" in result.error
        assert not (tmp_path / "a").exists()


class TestSummarize:
    def test_makes_all_from_the_scores_again(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        out = tmp_path / "a"
        assert run("score", *saved, "--limit", 50, "--out", out).code == 0
        names = ("estimate.json", "curve.csv", "curve.png")
        before = {name: (out / name).read_bytes() for name in names}
        for name in names:
            (out / name).unlink()
        assert run("summarize", out).code == 0
        assert {name: (out / name).read_bytes() for name in names} == before

    def test_no_run(self, tmp_path: Path, run: CommandLine) -> None:
        assert "there is no run in" in run("summarize", tmp_path).error


class TestTwoProcesses:
    def test_the_second_is_refused_with_the_first_ones_pid_until_that_is_gone(self, tmp_path: Path) -> None:
        holder = (
            "import sys, time; from pathlib import Path; from maskevidence.runs.lock import locked\n"
            "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        model, tokens = a_model(), some_tokens()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            manifest = a_manifest(model, tokens, me.LeaveOneOut())
            with pytest.raises(me.InputError, match=f"process {process.pid} is writing into"):
                record_run(RunDirectory(tmp_path), manifest, model, tokens)
        finally:
            process.kill()
            process.communicate()
        assert record_run(RunDirectory(tmp_path), manifest, model, tokens) > 0
        assert not (tmp_path / ".lock.pid").exists()

    def test_a_lock_that_is_a_symbolic_link_is_refused_and_not_followed(self, tmp_path: Path) -> None:
        model, tokens, precious = a_model(), some_tokens(), tmp_path / "precious"
        precious.write_text("text")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / ".lock").symlink_to(precious)
        manifest = a_manifest(model, tokens, me.LeaveOneOut())
        with pytest.raises(
            me.InputError, match=r"lock' is a symbolic link; remove it, or give another"
        ) as raised:
            record_run(RunDirectory(tmp_path / "run"), manifest, model, tokens)
        assert "\n" not in str(raised.value)
        assert precious.read_text() == "text"

    def test_the_process_number_is_not_written_through_a_symbolic_link(self, tmp_path: Path) -> None:
        model, tokens, precious = a_model(), some_tokens(), tmp_path / "precious"
        precious.write_text("text")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / ".lock.pid").symlink_to(precious)
        manifest = a_manifest(model, tokens, me.LeaveOneOut())
        assert record_run(RunDirectory(tmp_path / "run"), manifest, model, tokens) > 0
        assert precious.read_text() == "text"


class TestAnotherRun:
    @pytest.fixture
    def first(self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine) -> Path:
        out = tmp_path / "a"
        assert run("score", *saved, "--limit", 50, "--masks-per-size", 2, "--out", out).code == 0
        return out

    @pytest.mark.parametrize(
        ("words", "difference"),
        [
            (["--design", "leave-one-out"], "design leave-one-out instead of every-size"),
            (["--masks-per-size", "1"], "masks_per_size 1 instead of 2"),
            (["--seed", "5"], "seed 5 instead of 0"),
            (["--masks", "shared"], "masks shared instead of own"),
            (["--limit", "49"], "n_observations 49 instead of 50"),
            (["--shard", "1/2"], "shard [1, 2] instead of [1, 1]"),
        ],
    )
    def test_is_refused_unless_overwritten(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        words: list[str],
        difference: str,
    ) -> None:
        before = {name: (first / name).read_bytes() for name in files_in(first)}
        settings = {"--limit": "50", "--masks-per-size": "2"} | dict(
            zip(words[::2], words[1::2], strict=True)
        )
        if "leave-one-out" in words:
            del settings["--masks-per-size"]
        command = ["score", *saved, "--out", first, *(word for pair in settings.items() for word in pair)]
        error = run(*command).error
        assert "holds another run" in error
        assert difference in error
        assert {name: (first / name).read_bytes() for name in files_in(first)} == before
        assert run(*command, "--overwrite").code == 0
        assert run(*command).code == 0  # it is the same run now

    def test_with_other_weights(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        a_model(seed=9).save(saved[0])
        error = run("score", *saved, "--limit", 50, "--masks-per-size", 2, "--out", first).error
        assert "holds another run (model_fingerprint" in error

    def test_with_other_values(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        values = np.load(saved[1])
        values[7, 3] += 1e-9
        np.save(saved[1], values)
        error = run("score", *saved, "--limit", 50, "--masks-per-size", 2, "--out", first).error
        assert "holds another run (fingerprint" in error

    def test_of_a_newer_schema(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        content = json.loads((first / "run.json").read_text())
        (first / "run.json").write_text(json.dumps(content | {"schema_version": 7, "more": 1}))
        message = "has schema 7, written by a newer maskevidence (this one reads 1); update maskevidence"
        command = ("score", *saved, "--limit", 50, "--masks-per-size", 2, "--out", first)
        assert message in run(*command).error
        assert message in run("summarize", first).error
        assert message in run("compare", first, first).error
        assert run(*command, "--overwrite").code == 0

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 1}'])
    def test_of_a_run_json_that_cannot_be_read(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        content: str,
    ) -> None:
        (first / "run.json").write_text(content)
        assert "is no run.json that this version can read" in run("score", *saved, "--out", first).error
        assert "is no run.json that this version can read" in run("summarize", first).error

    def test_a_folder_of_something_else(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
    ) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "model").write_text("precious")
        for words in ([], ["--overwrite"]):
            assert "holds files of no run" in run("score", *saved, "--out", tmp_path / "mine", *words).error
        assert files_in(tmp_path / "mine") == {"model"}
        assert "is a file" in run("score", *saved, "--out", tmp_path / "mine" / "model").error


def test_importing_the_package_loads_neither_pyarrow_nor_pydantic() -> None:
    check = "import sys, maskevidence; print(sorted({'pyarrow', 'pydantic', 'pandas'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
