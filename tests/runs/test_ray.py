"""Scoring on Ray: the rows of a local run, whoever dies meanwhile, and one line where something is wrong.

Ray is started twice in all: once for the module, and once by the command that is killed.
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

import pytest

import maskevidence as me
from command_line import CommandLine, start
from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from maskevidence.runs import ray as ray_engine
from maskevidence.runs.blocks import Piece
from maskevidence.runs.engine import Work
from maskevidence.runs.parts import list_parts
from maskevidence.runs.ray import RayEngine
from maskevidence.runs.ray_workers import WorkerPool, with_own_memory
from maskevidence.score import Scoring
from ray_models import (
    Budgeted,
    Troubled,
    be_impossible,
    kill_myself,
    load_nothing,
    take_all_memory,
    wait_to_be_killed,
)
from recorded_runs import a_manifest, a_model, numbers_of, same_rows, some_tokens

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("one_thread")  # as many as workers have


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Ray with four logical processors, which this process is connected to."""
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        helpers = str(Path(__file__).parents[1] / "helpers")  # for the models below
        patch.setenv("PYTHONPATH", helpers, prepend=os.pathsep)
        ray.init(address="local", num_cpus=4, **options)
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()


def kill_who_waits(marker: Path, killed: list[int]) -> None:
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.append(int(marker.read_text()))
    os.kill(killed[0], signal.SIGKILL)


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within four minutes"
        time.sleep(0.005)


def recorded(folder: Path, model: Any, design: MaskDesign | None = None, **options: Any) -> Path:
    """The folder, after a run of `model` on 70 rows in 24 blocks was made in it."""
    tokens, design = some_tokens(n_bytes=True), design or me.EverySize(2)
    manifest = a_manifest(model, tokens, design, rows_per_block=3, masks=options.pop("masks", "own"))
    record_run(RunDirectory(folder), manifest, model, tokens, Recording(save_every=0.0, **options))
    return folder


@pytest.mark.usefixtures("cluster")
class TestRows:
    @pytest.mark.parametrize(
        ("workers", "design", "masks"),
        [(1, me.RandomSize(8), "own"), (2, me.EverySize(2), "own"), (4, me.Orderings(2), "shared")],
        ids=["1", "2", "4"],
    )
    def test_are_those_of_a_local_run_when_a_worker_is_killed(
        self, tmp_path: Path, workers: int, design: MaskDesign, masks: str
    ) -> None:
        killed: list[int] = []
        marker = tmp_path / "marker"
        model = Troubled(a_model(), partial(wait_to_be_killed, marker))
        killer = threading.Thread(target=kill_who_waits, args=(marker, killed))
        killer.start()
        found = recorded(tmp_path / "ray", model, design, masks=masks, engine=RayEngine(workers=workers))
        killer.join()
        assert killed
        assert killed[0] != os.getpid()
        wanted = recorded(tmp_path / "local", Troubled(a_model(), int), design, masks=masks)
        assert same_rows(found, wanted)
        assert read_run(found).result() == read_run(wanted).result()

    def test_of_a_run_that_a_local_one_began(self, tmp_path: Path) -> None:
        design = me.Orderings(3)
        whole = recorded(tmp_path / "whole", a_model(), design)
        begun = recorded(tmp_path / "begun", a_model(), design)
        for part in list_parts(begun / "scores")[::2]:
            part.path.unlink()
        kept = {part.path: part.path.stat().st_mtime_ns for part in list_parts(begun / "scores")}
        recorded(begun, a_model(), design, engine=RayEngine(workers=1))
        assert same_rows(begun, whole)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.usefixtures("cluster")
class TestTrouble:
    @pytest.mark.parametrize(
        ("model", "kind", "words"),
        [
            (
                Troubled(a_model(), kill_myself),
                me.InputError,
                r"3 workers died at block 5, .* --batch-size",
            ),
            (
                Budgeted(a_model(), take_all_memory),
                me.InputError,
                r"memory \(.*alloc.*\); .* --batch-tokens",
            ),
            (Troubled(a_model(), be_impossible), me.NumericalError, r"^a score of observation 50 is -inf$"),
        ],
        ids=["dies", "memory", "not finite"],
    )
    def test_is_one_line(self, tmp_path: Path, model: Any, kind: type[Exception], words: str) -> None:
        with pytest.raises(kind, match=words) as raised:
            recorded(tmp_path, model, engine=RayEngine(workers=1))
        assert "\n" not in str(raised.value)
        assert len(list_parts(tmp_path / "scores")) == 5  # what was scored before is there
        healthy = Troubled(a_model(), int)
        assert same_rows(recorded(tmp_path, healthy), recorded(tmp_path / "b", healthy))

    @pytest.mark.parametrize(
        ("load", "words"),
        [
            (load_nothing, "a worker could not load the model: there is no such disk"),
            (partial(a_model, seed=1), "a worker could not load the model: its weights are not those"),
        ],
        ids=["error", "other weights"],
    )
    def test_in_loading_the_model(self, tmp_path: Path, load: Any, words: str) -> None:
        with pytest.raises(me.InputError, match=words) as raised:
            recorded(tmp_path, a_model(), engine=RayEngine(workers=1, load=load))
        assert "\n" not in str(raised.value)

    def test_of_a_machine_without_room(self, tmp_path: Path) -> None:
        for options, words in (
            ({"gpus_per_worker": 1.0}, r"needs 1 CPUs \(--threads\) and 1 GPUs .* has 4 and 0; ask for less"),
            ({"threads": 5}, r"needs 5 CPUs \(--threads\) and 0 GPUs"),
        ):
            with pytest.raises(me.InputError, match=words):
                recorded(tmp_path / "a", a_model(), engine=RayEngine(**options))
        assert not (tmp_path / "a").exists()


class TestDeaths:
    @pytest.mark.parametrize(
        ("error", "block", "words"),
        [
            (ray.exceptions.OutOfMemoryError("low"), 3, "3 workers ran out of memory at block 3; lower --b"),
            (ray.exceptions.ActorDiedError(), None, "3 workers died while it loaded the model, one after "),
        ],
        ids=["memory that Ray found short", "while the model is loaded"],
    )
    def test_are_counted(self, error: Exception, block: int | None, words: str) -> None:
        pool = WorkerPool(ray, lambda: None, (None, None, 1), "--batch-tokens")
        work = None if block is None else Work(Piece(block, block + 1, 0, 1), some_tokens())
        pool.count_death(error, work)
        pool.count_death(error, work)
        with pytest.raises(me.InputError, match=words):
            pool.count_death(error, work)


class TestSending:
    def test_a_block_is_sent_without_the_rows_around_it(self) -> None:
        rows = some_tokens(1000)
        block = with_own_memory(Work(Piece(0, 1, 0, 1), rows[slice(0, 10)]))
        assert len(pickle.dumps(block)) < 5_000 < len(pickle.dumps(rows[slice(0, 10)]))


class TestCommand:
    @pytest.mark.usefixtures("cluster")
    @pytest.mark.parametrize("kind", ["fitted", "masked-lm", "whole words"])
    def test_gives_what_a_local_run_gives(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        kind: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        words: tuple[object, ...] = ("score", "ppca:2", saved[1])
        if kind != "fitted":
            from text_models import SENTENCES, small_bert, small_tokenizer

            tokenizer = small_tokenizer()
            small_bert(tokenizer).save_pretrained(tmp_path / "bert")
            tokenizer.save_pretrained(tmp_path / "bert")
            (tmp_path / "texts.txt").write_text("\n".join(8 * SENTENCES))
            monkeypatch.chdir(tmp_path)  # workers stand elsewhere: they get the whole path
            words = ("score", "./bert", "texts.txt")
        if kind == "whole words":
            words = (*words, "--whole-words", "--design", "leave-one-out")
        local = run(*words, "--threads", 1, "--out", tmp_path / "local")
        assert local.code == 0, local.err
        found = run(*words, "--out", tmp_path / "ray", "--engine", "ray", "--workers", 1, "--json", "-")
        assert found.code == 0, found.err
        assert found.out.startswith("{")
        assert same_rows(tmp_path / "ray", tmp_path / "local")
        assert numbers_of(tmp_path / "ray") == numbers_of(tmp_path / "local")
        again = run(*words, "--out", tmp_path / "ray", "--engine", "local")
        assert "was finished before" in " ".join(again.out.split())

    def test_killed_goes_on_with_either_engine(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine, cluster: str
    ) -> None:
        design = ("--limit", 300, "--masks-per-size", 10, "--batch-size", 3)
        words = ("score", *saved, *design, "--save-every", 0, "--out")
        on_ray = ("--engine", "ray", "--workers", 1)
        assert run(*words, tmp_path / "whole", "--threads", 1).code == 0
        n_blocks = len(list_parts(tmp_path / "whole" / "scores"))
        # One starts a Ray of its own, the other goes to the one that is there.
        killed, interrupted = tmp_path / "killed", tmp_path / "interrupted"
        ends = {
            killed: (signal.SIGKILL, -signal.SIGKILL, ()),
            interrupted: (signal.SIGINT, 130, ("--address", cluster)),
        }
        for out, (end, code, address) in ends.items():
            process = start(*words, out, *on_ray, *address)
            wait_for(lambda out=out: len(list_parts(out / "scores")) > 2, "scores")
            process.send_signal(signal.SIGSTOP)
            assert f"process {process.pid} is writing into" in run(*words, out).error
            process.send_signal(end)
            process.send_signal(signal.SIGCONT)
            _, messages = process.communicate(timeout=120)
            assert process.returncode == code
            assert "Traceback" not in messages
            parts = list_parts(out / "scores")
            assert 2 < len(parts) < n_blocks
            kept = {part.path: part.path.stat().st_mtime_ns for part in parts}
            again = run(*words, out, *(on_ray if end == signal.SIGKILL else ()))
            assert again.code == 0, again.err
            assert {path: path.stat().st_mtime_ns for path in kept} == kept
            assert same_rows(out, tmp_path / "whole")
            assert numbers_of(out) == numbers_of(tmp_path / "whole")

    def test_says_which_extra_brings_ray(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        error = run("score", *saved, "--engine", "ray", "--out", tmp_path / "a").error
        assert error == (
            "--engine ray needs ray, which is not installed; install it with: pip install 'maskevidence[ray]'"
        )

    def test_gives_up_on_an_address_that_does_not_answer(
        self,
        tmp_path: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(ray_engine, "ANSWER_SECONDS", 4.0)
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            words = ("score", *saved, "--engine", "ray", "--address", address, "--out", tmp_path / "a")
            errors = [run(*words).error]
        errors.append(run(*words).error)  # now nobody listens there
        for error in errors:
            assert error.startswith(f"no Ray cluster answers at '{address}'; start one with `ray start")
        assert not (tmp_path / "a").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--engine", "ray"), "--engine ray needs --out"),
            (("--workers", 2), "--workers belongs to --engine ray; add that"),
            (("--address", "auto"), "--address belongs to --engine ray"),
            (("--gpus-per-worker", 1), "--gpus-per-worker belongs to --engine ray"),
            (("--engine", "ray", "--workers", 0, "--out", "a"), "'--workers'"),
            (("--engine", "ray", "--gpus-per-worker", 1.5, "--out", "a"), "1.5 GPUs a worker; give a share"),
            (
                ("--engine", "ray", "--address", "here", "--out", "a"),
                "'here' is not the address of a Ray cluster; give HOST:PORT",
            ),
            (("--engine", "rya", "--out", "a"), "'--engine'"),
        ],
        ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
    )
    def test_refuses_options_that_do_not_go_together(
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


def test_a_piece_of_work_counts_its_masks() -> None:
    work = Work(Piece(0, 1, 1, 3), some_tokens(10))
    scoring = Scoring(me.EverySize(4), MaskKey())
    scored, _ = work.score(a_model(), scoring, lambda _steps, _description=None: None)
    assert work.n_masks(scoring) == len(scored)
