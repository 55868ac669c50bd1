"""Scoring on Ray: the scores of a local run, even if workers die, and one line for each error.

Ray is started twice: for the module, and by the command that is killed.
"""

import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine, start
from listening import listening
from maskevidence.command.options import RunOptions
from maskevidence.command.score import score
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.packed_tokens import PackedTokens
from maskevidence.ray import RayEngine
from maskevidence.ray import engine as ray_engine
from maskevidence.ray.engine import WorkerPool, with_own_memory
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from maskevidence.runs.blocks import Piece, Work, list_parts, local_engine
from maskevidence.tables.table_options import RowOptions
from ray_models import (
    Budgeted,
    Troubled,
    be_impossible,
    kill_myself,
    load_nothing,
    take_all_memory,
    wait_to_be_killed,
)
from recorded_runs import (
    checked_observations,
    make_manifest,
    make_model,
    make_tokens,
    read_numbers,
    same_rows,
)
from refusals import one_line
from short_texts import Softmax, some_tokens

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("one_thread", "every_block_saved")  # as many as workers have
slow = pytest.mark.slow  # one test with a cluster is enough for each change


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Ray with four logical processors; this process is connected to it."""
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        helpers = str(Path(__file__).parents[2] / "helpers")  # for the models below
        patch.setenv("PYTHONPATH", helpers, prepend=os.pathsep)
        ray.init(address="local", num_cpus=4, **options)
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()


def kill_waiting_worker(marker: Path, killed: list[int]) -> None:
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.append(int(marker.read_text()))
    os.kill(killed[0], signal.SIGKILL)


def record(
    folder: Path, model: Any, design: MaskDesign | None = None, tokens: Any = None, **options: Any
) -> Path:
    """Record a run of `model` on 70 rows in 24 blocks."""
    tokens, design = make_tokens(n_bytes=True) if tokens is None else tokens, design or me.EverySize(2)
    manifest = make_manifest(model, tokens, design, rows_per_block=3, masks=options.pop("masks", "own"))
    record_run(RunDirectory(folder), manifest, model, tokens, Recording(save_every=0.0, **options))
    return folder


@pytest.mark.usefixtures("cluster")
class TestRows:
    @pytest.mark.parametrize(
        ("workers", "design", "masks"),
        [
            pytest.param(1, me.RandomSize(8), "own", marks=slow),
            (2, me.EverySize(2), "own"),
            pytest.param(4, me.Orderings(2), "shared", marks=slow),
        ],
    )
    def test_equal_those_of_a_local_run_when_a_worker_is_killed(
        self, tmp_path: Path, workers: int, design: MaskDesign, masks: str
    ) -> None:
        killed: list[int] = []
        marker = tmp_path / "marker"
        model = Troubled(make_model(), partial(wait_to_be_killed, marker))
        killer = threading.Thread(target=kill_waiting_worker, args=(marker, killed))
        killer.start()
        on_ray = record(tmp_path / "ray", model, design, masks=masks, engine=RayEngine(workers=workers))
        killer.join()
        assert killed[0] != os.getpid()
        local = record(tmp_path / "local", Troubled(make_model(), int), design, masks=masks)
        assert same_rows(on_ray, local)
        assert read_run(on_ray).result() == read_run(local).result()

    @slow
    def test_equal_those_of_a_local_run_where_their_tokens_lie_in_a_file(self, tmp_path: Path) -> None:
        tokens = some_tokens(70)
        parts = PackedTokens((tokens[k : k + 16] for k in range(0, 70, 16)), pad=3)
        on_ray, local, whole = (
            record(tmp_path / name, Softmax(), me.RandomSize(8), rows, engine=engine)
            for name, rows, engine in (
                ("ray", parts, RayEngine(workers=2)),
                ("local", parts, local_engine),
                ("whole", tokens, local_engine),
            )
        )
        assert same_rows(on_ray, local)
        assert same_rows(on_ray, whole)

    @slow
    def test_with_a_target_and_the_scores_of_hidden_tokens(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The stages follow from all scores, whoever has computed them; all are scored on one connection."""
        monkeypatch.setattr("maskevidence.runs.summary.draw_into", lambda *_: None)
        make_model().save(tmp_path / "model")
        np.save(tmp_path / "rows.npy", make_tokens(40).values.numpy())
        found = []
        for engine in ("ray:1", None):
            run = RunOptions(out=tmp_path / str(engine), target_se="0.05", engine=engine)
            words = (str(tmp_path / "model"), str(tmp_path / "rows.npy"), "random-size:per-token")
            score(*words, options=RowOptions(), run=run)
            found.append(read_run(run.out).estimate)
        on_ray, local = found
        assert on_ray.design["draws"] > 4
        assert on_ray.mask_se <= 0.05
        assert (on_ray.log_evidence, on_ray.mask_se, on_ray.notes) == (
            local.log_evidence,
            local.mask_se,
            local.notes,
        )
        for name in ("draw", "score"):
            np.testing.assert_array_equal(
                getattr(on_ray.scores.sorted(), name), getattr(local.scores.sorted(), name)
            )


@slow
@pytest.mark.usefixtures("cluster")
class TestErrors:
    @pytest.mark.parametrize(
        ("model", "trouble", "words"),
        [
            (Troubled, kill_myself, r"3 workers died at block 5, .* --batch-size"),
            (Budgeted, take_all_memory, r"memory \(.*alloc.*\); .* --batch-tokens"),
            (Troubled, be_impossible, r"^a score of observation 50 is -inf$"),
        ],
    )
    def test_is_reported_in_one_line(
        self, tmp_path: Path, model: Any, trouble: Callable[[], None], words: str
    ) -> None:
        kind = me.NumericalError if trouble is be_impossible else me.InputError
        one_line(
            lambda: record(tmp_path, model(make_model(), trouble), engine=RayEngine(workers=1)),
            match=words,
            error=kind,
        )
        assert len(list_parts(tmp_path / "scores")) == 5  # the blocks before the trouble are saved
        healthy = Troubled(make_model(), int)
        assert same_rows(record(tmp_path, healthy), record(tmp_path / "b", healthy))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"load": load_nothing}, "a worker could not load the model: there is no such disk"),
            (
                {"load": partial(make_model, seed=1)},
                "model: its weights differ from those",
            ),
            ({"gpus_per_worker": 1.0}, r"needs 1 CPUs \(--threads\) and 1 GPUs .* has 4 and 0; ask for less"),
            ({"threads": 5}, r"needs 5 CPUs \(--threads\) and 0 GPUs"),
        ],
    )
    def test_before_a_block_is_scored(self, tmp_path: Path, options: dict[str, Any], words: str) -> None:
        one_line(lambda: record(tmp_path / "a", make_model(), engine=RayEngine(**options)), match=words)
        assert ("load" in options) == (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("error", "block", "words"),
    [
        (ray.exceptions.OutOfMemoryError("low"), 3, "3 workers ran out of memory at block 3; lower --b"),
        (ray.exceptions.ActorDiedError(), None, "3 workers died while it loaded the model, one after "),
    ],
)
def test_deaths_are_counted(error: Exception, block: int | None, words: str) -> None:
    pool = WorkerPool(ray, lambda: None, (None, None, 1), "--batch-tokens")
    work = None if block is None else Work(Piece(block, block + 1, 0, 1), make_tokens())
    pool.count_death(error, work)
    pool.count_death(error, work)
    with pytest.raises(me.InputError, match=words):
        pool.count_death(error, work)


def test_a_block_is_sent_without_other_rows() -> None:
    rows = make_tokens(1000)
    block = with_own_memory(Work(Piece(0, 1, 0, 1), rows[slice(0, 10)]))
    assert len(pickle.dumps(block)) < 5_000 < len(pickle.dumps(rows[slice(0, 10)]))


class TestCommand:
    @slow
    @pytest.mark.usefixtures("cluster")
    @pytest.mark.parametrize("kind", ["fitted", "target", "masked-lm", "whole words"])
    def test_equals_a_local_run(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        kind: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The draws to a target follow from all scores, whoever has computed them."""
        words: tuple[object, ...] = ("score", "ppca:2", saved[1])
        if kind == "target":
            words = (*words, "--target-se", "0.05", "--design", "random-size:per-token")
        elif kind != "fitted":
            pytest.importorskip("transformers", reason="transformers is not installed")
            from text_models import SENTENCES, save_bert

            save_bert(tmp_path / "bert")
            named = [f'"{text}",t{place}' for place, text in enumerate(8 * SENTENCES)]
            (tmp_path / "texts.csv").write_text("\n".join(["text,name", *named]))
            monkeypatch.chdir(tmp_path)  # workers run in another folder and need the whole path
            words = ("score", "./bert", "texts.csv", "--id-column", "name")
        if kind == "whole words":
            words = (*words, "--whole-words", "--design", "leave-one-out")
        local, on_ray = tmp_path / "local", tmp_path / "ray"
        assert run(*words, "--threads", 1, "--out", local).code == 0
        result = run(*words, "--out", on_ray, "--engine", "ray:1", "--json", "-")
        assert result.code == 0, result.err
        assert result.out.startswith("{")
        assert same_rows(on_ray, local)
        assert read_numbers(on_ray) == read_numbers(local)
        assert checked_observations(on_ray) == checked_observations(local)

    @slow
    @pytest.mark.parametrize(
        ("end", "code", "engine", "again"),
        [
            (signal.SIGKILL, -signal.SIGKILL, "ray:1", ("--engine", "ray:1")),  # it starts a Ray of its own
            (signal.SIGINT, 130, "ray:1,address={}", ()),
        ],
    )
    def test_a_killed_run_is_resumed_by_either_engine(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        cluster: str,
        end: signal.Signals,
        code: int,
        engine: str,
        again: tuple[str, ...],
    ) -> None:
        design = ("--limit", 150, "--design", "every-size:10", "--batch-size", 3)
        words, out = ("score", *saved, *design, "--out"), tmp_path / "killed"
        assert run(*words, tmp_path / "whole", "--threads", 1).code == 0
        process = start(*words, out, "--engine", engine.format(cluster))
        deadline = time.monotonic() + 240
        while len(list_parts(out / "scores")) < 3:
            assert time.monotonic() < deadline, "no scores within four minutes"
            time.sleep(0.005)
        if end == signal.SIGKILL and Path("/proc/net/tcp").exists():
            heard = listening(process.pid)
            assert {"127.0.0.1"} <= heard <= {"127.0.0.1", "::ffff:127.0.0.1"}  # for this machine alone
        process.send_signal(signal.SIGSTOP)
        assert f"process {process.pid} is writing into" in run(*words, out).error
        process.send_signal(end)
        process.send_signal(signal.SIGCONT)
        _, messages = process.communicate(timeout=120)
        assert process.returncode == code
        assert "Traceback" not in messages
        kept = {part.path: part.path.stat().st_mtime_ns for part in list_parts(out / "scores")}
        assert 2 < len(kept) < len(list_parts(tmp_path / "whole" / "scores"))
        assert run(*words, out, *again).code == 0
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert same_rows(out, tmp_path / "whole")
        assert read_numbers(out) == read_numbers(tmp_path / "whole")

    def test_needs_ray_and_an_address_that_answers(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ray_engine, "ANSWER_SECONDS", 0.5)
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        words = ("score", *saved, "--out", tmp_path / "a", "--engine")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            errors = [run(*words, f"ray:address={address}").error]
        errors.append(run(*words, f"ray:address={address}").error)  # nobody listens there any more
        for error in errors:
            assert error.startswith(f"no Ray cluster answers at '{address}'; start one with `ray start")
        monkeypatch.setitem(sys.modules, "ray", None)
        assert run(*words, "ray").error == (
            "--engine ray needs ray, which is not installed; "
            "in the folder of the repository, install it with: pip install '.[ray]'"
        )
        assert not (tmp_path / "a").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--engine", "ray"), "--engine ray needs --out"),
            (("--engine", "ray:0"), "0 workers; give 1 or more"),
            (("--engine", "ray:8,gpus=1.5"), "1.5 GPUs per worker; give a share"),
            (("--engine", "ray:address=here"), "'here' is not the address of a Ray cluster; give HOST:PORT"),
            *(
                (("--engine", word), f"{word!r} is no engine; give ray, ray:8 for 8 workers")
                for word in ("ray:", "ray:8,9", "ray:gpu=1")
            ),
        ],
    )
    def test_refuses_options_that_exclude_each_other(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        words: tuple[object, ...],
        message: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert message in run("score", *saved, *words).error
        assert not (tmp_path / "a").exists()


class FakeWorker:
    """A worker in this process that answers in turn, and dies at blocks as often as it is told."""

    def __init__(self, fake: "FakeRay") -> None:
        self.fake, self.dead, self.n_done = fake, False, 0
        self.todo: list[Any] = []  # in turn
        self.load = self.score = self

    def remote(self, first: Any, *_: Any) -> tuple["FakeWorker", Any, int]:
        self.todo.append(first)
        return self, first, len(self.todo)


class FakeRay:
    """As much of Ray as the pool needs; `wait` tells of any answer, not of the oldest."""

    exceptions = ray.exceptions

    def __init__(self, deaths: dict[int, int]) -> None:
        self.deaths, self.most, self.turn = deaths, 0, 0

    def wait(self, pending: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        self.most = max(self.most, len(pending))
        self.turn += 3
        return [pending[self.turn % len(pending)]], []

    def get(self, answer: Any) -> Any:
        worker, asked, number = answer
        while worker.n_done < number and not worker.dead:
            work = worker.todo[worker.n_done]
            worker.n_done += 1
            block = work.piece.first_block if isinstance(work, Work) else None
            worker.dead = self.deaths.get(block, 0) > 0
            self.deaths[block] = self.deaths.get(block, 0) - worker.dead
        if worker.dead:
            raise ray.exceptions.ActorDiedError
        return ([block], 1, f"block {block}\n") if isinstance(asked, Work) else "loaded\n"

    def kill(self, _worker: Any) -> None:
        pass


def test_two_blocks_wait_at_each_worker_and_the_oldest_one_is_blamed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Block 3 kills two workers, block 4 two others: neither kills three, whatever waited behind it."""
    rows, begun, scored = make_tokens(20), [], []

    def work() -> Iterator[Work]:
        for k in range(20):
            begun.append(k)
            yield Work(Piece(k, k + 1, 0, 1), rows[k : k + 1])

    fake = FakeRay({3: 2, 4: 2})

    def done(piece: Piece, table: Any, _calls: int) -> None:
        assert table == [piece.first_block]
        assert len(begun) <= len(scored) + 7  # two at each worker, and two that wait
        scored.append(piece.first_block)

    pool = WorkerPool(fake, lambda: FakeWorker(fake), (None, None, 1), "--batch-tokens")
    pool.score(2, work(), None, lambda *_: None, done)
    assert sorted(scored) == list(range(20))
    assert {piece.first_block: n for piece, n in pool.deaths.items()} == {3: 2, 4: 2}
    assert fake.most == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "block 19\n" in captured.err
    fake.deaths[5] = 3
    with pytest.raises(me.InputError, match="3 workers died at block 5"):
        pool.score(2, work(), None, lambda *_: None, lambda *_: None)
