"""Blocks scored by workers of a Ray cluster, or of a Ray started on this machine.

Each worker is a process that holds the model and scores one block at a time. This process hands out the
blocks, writes the parts and holds the lock of the run directory, so that a run is the same run whichever
engine makes it. A worker that dies is replaced, and its block is scored again.

Plain actors, not Ray Data: that restarts a worker for ever that dies at the same block each time.
"""

import io
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from maskevidence.errors import InputError, MaskEvidenceError, import_extra
from maskevidence.model import HasBatches, MaskedModel
from maskevidence.models.saving import fingerprint
from maskevidence.runs.engine import Done, Scorer, Work
from maskevidence.score import Scoring, score_repeats
from maskevidence.score_table import ScoreTable
from maskevidence.support.progress import Advance

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0  # a process that loads Ray and asks takes about 2, many more on a busy machine
MOST_DEATHS = 3  # of workers at the same block, or one after the other while they load the model
# Of a Ray started here: no reports to its makers, and workers as urgent as this process would be.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
_CONNECT = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='error')"


@dataclass(frozen=True)
class RayEngine:
    """An `Engine` of workers that each hold the model; for `record_run`.

    Scores are those of a run in one process with as many threads, to the last bit on equal processors. Where
    this process is connected to Ray already (`ray.init`), that connection is used and left as it is.

    Args:
        address: of a cluster, "HOST:PORT" or "auto"; None starts Ray on this machine and stops it afterwards.
        workers: how many; by default as many as the cluster, or this machine, has processors or GPUs for.
        gpus_per_worker: GPUs of each; a share such as 0.5 lets two workers have one together.
        threads: of each worker, which takes so many processors.
        load: how a worker gets the model; what it gives must have the weights of the model in this process.
            None sends that one.

    Raises:
        InputError: an address of another form, or a number of workers, GPUs or threads that makes no sense.

    Example:
        >>> RayEngine(workers=0)
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: 0 workers; give 1 or more
    """

    address: str | None = None
    workers: int | None = None
    gpus_per_worker: float = 0.0
    threads: int = 1
    load: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None and value < 1:
                raise InputError(f"{value} {name}; give 1 or more")
        if self.address not in (None, "auto") and not re.fullmatch(r"[^/\s]+:\d+", str(self.address)):
            raise InputError(
                f"the address {self.address!r} is none of a Ray cluster; give HOST:PORT, or auto"
            )
        gpus = self.gpus_per_worker
        if not (0.0 <= gpus < math.inf) or (gpus > 1.0 and gpus != int(gpus)):
            raise InputError(f"{gpus:g} GPUs a worker; give a share of one such as 0.5, or a whole number")

    @contextmanager
    def __call__(self) -> Iterator[Scorer]:
        """Connect to Ray, and start it where there is no address.

        Raises:
            MissingExtraError: Ray is not installed.
            InputError: no cluster at the address, or no machine with room for a worker; in the scoring,
                workers that cannot load the model, die at the same block each time, or run out of memory.
        """
        # Ray tells of each worker that died on the standard output, which is for results alone.
        with redirect_stdout(io.StringIO()), self._connected() as ray:
            yield partial(self._score, ray, self._room(ray))

    def _score(
        self,
        ray: Any,
        room: int,
        model: MaskedModel,
        work: Sequence[Work],
        scoring: Scoring,
        advance: Advance,
        done: Done,
        /,
    ) -> None:
        load = partial(_as_it_is, model) if self.load is None else self.load
        expected = None if self.load is None else fingerprint(model)
        actor = ray.remote(num_cpus=self.threads, num_gpus=self.gpus_per_worker)(_Worker)
        option = "--batch-tokens" if isinstance(model, HasBatches) else "--batch-size"
        sharing = _Sharing(ray, lambda: actor.remote(), (ray.put(load), expected, self.threads), option)
        sharing.score(min(self.workers or room, len(work)), work, scoring, advance, done)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        ray = import_extra("ray", "ray", "scoring on Ray")
        if ray.is_initialized():
            yield ray
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            workers = self.workers or max(1, (os.cpu_count() or 1) // self.threads)
            cpus = workers * self.threads
            options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        else:
            _check_answer(self.address)
            options["address"] = self.address
        try:
            with _own_sigterm():
                ray.init(**options)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            if self.address is not None and isinstance(error, ConnectionError):
                raise _no_answer(self.address) from error
            where = "on this machine" if self.address is None else f"at {self.address!r}"
            raise InputError(f"no connection to Ray {where}: {_last_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()

    def _room(self, ray: Any) -> int:
        """How many workers all machines of the cluster hold together.

        Raises:
            InputError: none.
        """
        most_cpus, most_gpus, room = 0.0, 0.0, 0
        for node in ray.nodes():
            if node["Alive"]:
                cpus, gpus = (node["Resources"].get(name, 0.0) for name in ("CPU", "GPU"))
                most_cpus, most_gpus = max(most_cpus, cpus), max(most_gpus, gpus)
                fits = cpus // self.threads
                room += int(min(fits, gpus // self.gpus_per_worker) if self.gpus_per_worker else fits)
        if room == 0:
            raise InputError(
                f"a worker needs {self.threads} CPUs (--threads) and {self.gpus_per_worker:g} GPUs "
                f"(--gpus-per-worker), the largest machine of the cluster has {most_cpus:g} and "
                f"{most_gpus:g}; ask for less, or add a machine"
            )
        return room


class _Worker:
    """Holds a model and scores blocks with it, in a process of its own."""

    def load(self, load: Callable[[], Any], expected: str | None, threads: int) -> None:
        torch.set_num_threads(threads)
        self.model = load()
        if expected is not None and fingerprint(self.model) != expected:
            raise InputError(
                "its weights are not those that the run began with; give every machine the same files"
            )

    def score(self, work: Work, scoring: Scoring) -> tuple[ScoreTable, int]:
        return score_repeats(
            self.model, work.rows, scoring, work.repeats, lambda _steps, _description=None: None
        )


class _Sharing:
    """Pieces shared out to workers, each of which has one at a time; a worker that dies is replaced."""

    def __init__(
        self, ray: Any, start: Callable[[], Any], loading: tuple[Any, str | None, int], option: str
    ) -> None:
        self.ray = ray
        self.start = start
        self.loading = loading
        self.option = option
        self.running: dict[Any, tuple[Any, Work | None]] = {}  # answer to come -> who works on what
        self.deaths: Counter[Any] = Counter()
        self.n_replaced = 0

    def score(
        self, n_workers: int, work: Sequence[Work], scoring: Scoring, advance: Advance, done: Done
    ) -> None:
        waiting, n_left = deque(work), len(work)
        advance(0, "starting workers")
        try:
            for _ in range(n_workers):
                self._begin()
            while n_left:
                (answer,), _ = self.ray.wait(list(self.running), num_returns=1)
                worker, one = self.running.pop(answer)
                found = self._answer(answer, one)
                if found is _DIED:
                    if one is not None:
                        waiting.appendleft(one)
                    self._begin()
                    continue
                advance(0, "scoring masks" + self._replaced())
                if one is not None:
                    done(one.piece, *found)
                    advance(scoring.n_masks(one.rows, one.repeats))
                    n_left -= 1
                if waiting:
                    following = waiting.popleft()
                    answer = worker.score.remote(_own_memory(following), scoring)
                    self.running[answer] = (worker, following)
        finally:
            for worker, _ in self.running.values():
                self.ray.kill(worker)

    def _begin(self) -> None:
        worker = self.start()
        self.running[worker.load.remote(*self.loading)] = (worker, None)

    def _answer(self, answer: Any, one: Work | None) -> Any:
        """What a worker answered, or _DIED where it is gone."""
        errors = self.ray.exceptions
        try:
            found = self.ray.get(answer)
        except errors.RayTaskError as error:
            raise self._reason(error, one) from error
        except errors.RayError as error:  # the worker, its machine, or the answer on its way
            self._count_death(error, one)
            return _DIED
        if one is None:
            self.deaths.pop(None, None)
        return found

    def _count_death(self, error: Exception, one: Work | None) -> None:
        of = None if one is None else one.piece
        self.deaths[of] += 1
        self.n_replaced += 1
        if self.deaths[of] < MOST_DEATHS:
            return
        where = "while it loaded the model" if of is None else f"at block {of.first_block}"
        if isinstance(error, self.ray.exceptions.OutOfMemoryError):
            raise InputError(f"{MOST_DEATHS} workers ran out of memory {where}; {self._lower()}") from error
        raise InputError(
            f"{MOST_DEATHS} workers died {where}, one after the other, as they do when a machine runs out "
            f"of memory; {self._lower()}"
        ) from error

    def _reason(self, error: Any, one: Work | None) -> Exception:
        """The worker's own error, in one line where it is foreseen."""
        cause = error.cause
        if _is_out_of_memory(cause):
            return InputError(f"a worker ran out of memory ({_last_line(cause)}); {self._lower()}")
        if one is None:
            return InputError(f"a worker could not load the model: {_last_line(cause)}")
        if isinstance(cause, self.ray.exceptions.RayError):
            return InputError(f"a worker could not read its block: {_last_line(cause)}")
        return cause if isinstance(cause, Exception) else error

    def _replaced(self) -> str:
        return f" ({self.n_replaced} workers replaced)" if self.n_replaced else ""

    def _lower(self) -> str:
        return f"lower {self.option} for less in a call, or --workers for fewer models on a machine"


_DIED = object()


def _as_it_is(model: Any) -> Any:
    return model


def _own_memory(work: Work) -> Work:
    """The same with a copy of the rows: of a slice, all that it was cut from would be sent."""
    return work._replace(rows=work.rows[torch.arange(len(work.rows))])


def _is_out_of_memory(error: object) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def _last_line(error: object) -> str:
    """The line that says what happened, without the traces before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    own = isinstance(error, MaskEvidenceError | OSError) or len(lines) > 1
    return line.rstrip(".") if own else f"{type(error).__name__}: {line.rstrip('.')}"


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what the signal that ends a process does: Ray's own way prints traces of the stack."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set it, Ray neither
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_answer(address: str) -> None:
    """See whether a cluster answers: Ray itself tries for minutes, and cannot be told to give up.

    Raises:
        InputError: nothing there, or something that does not answer as Ray does to a process of its own.
    """
    try:
        if address != "auto":
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        command = [sys.executable, "-c", _CONNECT, address]
        subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS)
    except (OSError, OverflowError, subprocess.TimeoutExpired) as error:
        raise _no_answer(address) from error


def _no_answer(address: str) -> InputError:
    return InputError(
        f"no Ray cluster answers at {address!r}; start one with `ray start --head`, "
        "or leave --address out to use this machine"
    )
