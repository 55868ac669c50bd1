"""Score the blocks of a run by workers of a Ray cluster, or of a Ray started on this machine.

This process hands out the blocks, writes the parts and holds the lock of the run directory, so that every
engine produces the same run.

Each worker is a process that holds the model and scores one block after the other; its next block already
waits, so that it does not idle while this process writes. A worker that dies is replaced, and its blocks are
scored again. The workers are plain actors, because Ray Data would forever restart a worker that keeps dying
at the same block.
"""

import importlib
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from maskevidence import MaskedModel, ScoreTable
from maskevidence.core.errors import InputError, MaskEvidenceError, import_extra
from maskevidence.core.model import fingerprint
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.support.checks import is_out_of_memory, plain_number
from maskevidence.core.support.progress import Advance, silent
from maskevidence.runs.blocks import Done, Scorer, Work

MAX_DEATHS = 3  # deaths allowed at the same block, or in a row while the model is loaded
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0  # importing Ray and connecting takes about 2 s, many more on a busy machine
# A Ray started here sends no usage reports, and its workers run at this process's priority.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {  # argument and type of each option
    "workers": ("workers", lambda text: int(re.fullmatch("-?[0-9]+", text)[0])),  # type: ignore[index]
    "gpus": ("gpus_per_worker", plain_number),
    "address": ("address", str),
}
_DIED = object()
_CONNECT = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='error')"


@dataclass(frozen=True)
class RayEngine:
    """An `Engine` whose workers each hold the model; for `Recording`.

    The scores equal those of a run in one process with the same number of threads, to the last bit on equal
    processors. If this process is already connected to Ray (`ray.init`), that connection is used and left
    open.

    Args:
        address: address of a cluster, "HOST:PORT" or "auto"; None starts Ray on this machine and stops it
            afterwards.
        workers: number of workers; by default as many as the cluster, or this machine, has room for.
        gpus_per_worker: GPUs of each worker; with 0.5, two workers share one.
        threads: threads of each worker, which takes as many processors.
        load: loads the model in a worker; its weights must equal this process's model. None sends that model.

    Raises:
        InputError: the address has another form, or a number of workers, GPUs or threads is not possible.

    Example:
        >>> RayEngine(workers=0)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 0 workers; give 1 or more
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
            raise InputError(f"{self.address!r} is not the address of a Ray cluster; give HOST:PORT, or auto")
        gpus = self.gpus_per_worker
        if not (0.0 <= gpus < math.inf) or (gpus > 1.0 and gpus != int(gpus)):
            raise InputError(f"{gpus:g} GPUs per worker; give a share of one such as 0.5, or a whole number")

    @contextmanager
    def __call__(self) -> Iterator[Scorer]:
        """Connect to Ray, or start it if there is no address.

        Raises:
            MissingExtraError: Ray is not installed.
            InputError: no cluster answers at the address, or no machine has room for a worker; while scoring,
                workers cannot load the model, die repeatedly at the same block, or run out of memory.
        """
        # Ray reports dead workers on standard output, which is reserved for results.
        with redirect_stdout(io.StringIO()), self._connected() as ray:
            room = self._room(ray)

            def score_all(
                model: MaskedModel, work: Iterable[Work], scoring: Scoring, advance: Advance, done: Done, /
            ) -> None:
                load: Callable[[], Any] = (lambda: model) if self.load is None else self.load
                expected = None if self.load is None else fingerprint(model)
                actor = ray.remote(num_cpus=self.threads, num_gpus=self.gpus_per_worker)(Worker)
                option = "--batch-tokens" if hasattr(model, "batches") else "--batch-size"
                pool = WorkerPool(ray, actor.remote, (ray.put(load), expected, self.threads), option)
                pool.score(self.workers or room, work, scoring, advance, done)

            yield score_all

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
            with _sigterm_kept(), _loopback_only() if self.address is None else nullcontext():
                ray.init(**options)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            if self.address is not None and isinstance(error, ConnectionError):
                raise _no_answer(self.address) from error
            where = "on this machine" if self.address is None else f"at {self.address!r}"
            raise InputError(f"no connection to Ray {where}: {last_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()

    def _room(self, ray: Any) -> int:
        """The number of workers that fit on all machines of the cluster."""
        max_cpus, max_gpus, room = 0.0, 0.0, 0
        for node in ray.nodes():
            if node["Alive"]:
                cpus, gpus = (node["Resources"].get(name, 0.0) for name in ("CPU", "GPU"))
                max_cpus, max_gpus = max(max_cpus, cpus), max(max_gpus, gpus)
                fits = cpus // self.threads
                room += int(min(fits, gpus // self.gpus_per_worker) if self.gpus_per_worker else fits)
        if room == 0:
            raise InputError(
                f"a worker needs {self.threads} CPUs (--threads) and {self.gpus_per_worker:g} GPUs (gpus= in "
                f"--engine), the largest machine of the cluster has {max_cpus:g} and "
                f"{max_gpus:g}; ask for less, or add a machine"
            )
        return room


def parse_engine(word: str) -> RayEngine:
    """Parse the word of an engine.

    Args:
        word: "ray", with options after a colon: first the number of workers, then `gpus=` for each of them,
            and the `address=` of a cluster.

    Raises:
        InputError: another word, or numbers or an address that `RayEngine` refuses.

    Example:
        >>> engine = parse_engine("ray:8,gpus=0.5,address=auto")
        >>> engine.workers, engine.gpus_per_worker, engine.address
        (8, 0.5, 'auto')
    """
    name, colon, options = word.partition(":")
    values: dict[str, Any] = {}
    try:
        if name != "ray":
            raise ValueError
        for number, option in enumerate(options.split(",") if colon else ()):
            key, equals, text = option.partition("=")
            if number == 0 and not equals:
                key, text = "workers", option
            argument, parse = _OPTIONS[key]
            if argument in values:
                raise ValueError
            values[argument] = parse(text)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{word!r} is no engine; give ray, ray:8 for 8 workers, or ray:8,gpus=0.5,address=HOST:PORT"
        ) from None
    return RayEngine(**values)


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Make the Ray that is started listen on 127.0.0.1 only.

    By default Ray listens on all interfaces, and `ray.init` replaces a node address of 127.0.0.1 by the
    address of an interface. It does neither if multi-node Ray is switched off, as on macOS.
    """
    constants = importlib.import_module("ray._private.ray_constants")
    before = getattr(constants, "ENABLE_RAY_CLUSTER", True)
    constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before  # type: ignore[attr-defined]


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep the SIGTERM handler, because Ray's handler prints stack traces."""
    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_answer(address: str) -> None:
    """Check that a cluster answers, because Ray itself retries for minutes without a timeout."""
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
        "or leave the address out to use this machine"
    )


class Worker:
    """A process that holds a model and scores blocks."""

    def load(self, load: Callable[[], Any], expected: str | None, threads: int) -> str:
        """Load the model; refuse it if its fingerprint differs from `expected`.

        Returns:
            What the model's code printed.
        """
        torch.set_num_threads(threads)
        with redirect_stdout(io.StringIO()) as printed:
            self.model = load()
        if expected is not None and fingerprint(self.model) != expected:
            raise InputError(
                "its weights differ from those of the run's model; give every machine the same files"
            )
        return printed.getvalue()

    def score(self, work: Work, scoring: Scoring) -> tuple[ScoreTable, int, str]:
        """Score a block: the scores, the number of model calls, and the output printed by the model's
        code.
        """
        with redirect_stdout(io.StringIO()) as printed:
            answer = work.score(self.model, scoring, silent)
        return *answer, printed.getvalue()


class WorkerPool:
    """Workers with up to two blocks each, one in progress and the next; dead workers are replaced."""

    def __init__(
        self, ray: Any, start: Callable[[], Any], loading: tuple[Any, str | None, int], option: str
    ) -> None:
        self.ray = ray
        self.start = start
        self.loading = loading
        self.option = option
        # for each worker, its pending answers and their blocks, oldest first
        self.asked: list[tuple[Any, deque[tuple[Any, Work | None]]]] = []
        self.deaths: Counter[Any] = Counter()
        self.n_replaced = 0

    def score(
        self, n_workers: int, work: Iterable[Work], scoring: Scoring, advance: Advance, done: Done
    ) -> None:
        """Score every block once with at most `n_workers` workers, then stop the workers."""
        coming = iter(work)
        waiting = deque(islice(coming, n_workers))
        advance(0, "starting workers")
        try:
            for _ in range(len(waiting)):
                self._start_worker()
            while waiting or any(block for _, asked in self.asked for _, block in asked):
                worker, asked = self._answered()
                pending, block = asked.popleft()
                answer = self._answer(pending, block)
                if answer is _DIED:
                    self.asked = [each for each in self.asked if each[1] is not asked]
                    lost = [each for _, each in (*reversed(asked), (None, block)) if each is not None]
                    waiting.extendleft(lost)
                    self._start_worker()
                    continue
                # The last blocks go to whichever worker is ready first.
                while waiting and (not asked or (len(asked) < 2 and len(waiting) >= n_workers)):
                    asked.append(self._ask(worker, waiting.popleft(), scoring))
                    waiting.extend(islice(coming, max(0, n_workers - len(waiting))))
                advance(0, "scoring masks" + self._replaced())
                *result, printed = answer
                sys.stderr.write(printed)  # as in one process
                if block is not None:
                    done(block.piece, *result)
                    advance(len(result[0]))
        finally:
            for worker, _ in self.asked:
                self.ray.kill(worker)

    def _ask(self, worker: Any, block: Work, scoring: Scoring) -> tuple[Any, Work]:
        return worker.score.remote(with_own_memory(block), scoring), block

    def _answered(self) -> tuple[Any, deque[tuple[Any, Work | None]]]:
        """Wait for a worker's oldest answer: workers answer in order, and die at the oldest block."""
        pending = [answer for _, asked in self.asked for answer, _ in asked]
        (ready,), _ = self.ray.wait(pending, num_returns=1)
        return next(each for each in self.asked if any(answer == ready for answer, _ in each[1]))

    def _start_worker(self) -> None:
        worker = self.start()
        self.asked.append((worker, deque([(worker.load.remote(*self.loading), None)])))

    def _answer(self, pending: Any, work: Work | None) -> Any:
        """A worker's answer, or _DIED."""
        errors = self.ray.exceptions
        try:
            answer = self.ray.get(pending)
        except errors.RayTaskError as error:
            raise self._explain(error, work) from error
        except errors.RayError as error:  # the worker, its machine or the answer was lost
            self.count_death(error, work)
            return _DIED
        if work is None:
            self.deaths.pop(None, None)
        return answer if work is not None else (answer,)

    def count_death(self, error: Exception, work: Work | None) -> None:
        """Count a worker's death, at a block or while loading the model; give up after `MAX_DEATHS`."""
        piece = None if work is None else work.piece
        self.deaths[piece] += 1
        self.n_replaced += 1
        if self.deaths[piece] < MAX_DEATHS:
            return
        where = "while it loaded the model" if piece is None else f"at block {piece.first_block}"
        if isinstance(error, self.ray.exceptions.OutOfMemoryError):
            raise InputError(f"{MAX_DEATHS} workers ran out of memory {where}; {self._advice()}") from error
        raise InputError(
            f"{MAX_DEATHS} workers died {where}, one after the other, as they do when a machine runs out "
            f"of memory; {self._advice()}"
        ) from error

    def _explain(self, error: Any, work: Work | None) -> Exception:
        """Turn a worker's exception into a one-line error if it is of an expected kind."""
        cause = error.cause
        if is_out_of_memory(cause):
            return InputError(f"a worker ran out of memory ({last_line(cause)}); {self._advice()}")
        if work is None:
            return InputError(f"a worker could not load the model: {last_line(cause)}")
        if isinstance(cause, self.ray.exceptions.RayError):
            return InputError(f"a worker could not read its block: {last_line(cause)}")
        return cause if isinstance(cause, Exception) else error

    def _replaced(self) -> str:
        return f" ({self.n_replaced} workers replaced)" if self.n_replaced else ""

    def _advice(self) -> str:
        return f"lower {self.option} for less in a call, or give --engine fewer workers"


def with_own_memory(work: Work) -> Work:
    """Copy the rows of a block, because a slice would send all rows of its source."""
    return work._replace(rows=work.rows[torch.arange(len(work.rows))])


def last_line(error: object) -> str:
    """The last line of an error's message, without the traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    is_clear = isinstance(error, MaskEvidenceError | OSError) or len(lines) > 1
    return line.rstrip(".") if is_clear else f"{type(error).__name__}: {line.rstrip('.')}"
