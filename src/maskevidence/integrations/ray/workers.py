"""A pool of Ray workers that share the blocks of a run.

Each worker is a process that holds the model and scores one block after the other; the next one waits at the
worker, which does not stand idle while this process writes. A worker that dies is replaced, and its blocks
are scored again.

The workers are plain actors. Ray Data would for ever restart a worker that dies at the same block.
"""

import io
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from itertools import islice
from typing import Any

import torch

from maskevidence import ScoreTable
from maskevidence.errors import InputError, MaskEvidenceError
from maskevidence.models.fingerprints import fingerprint
from maskevidence.runs.blocks import Done, Work
from maskevidence.scores.score import Scoring
from maskevidence.support.progress import Advance

MAX_DEATHS = 3  # of workers at the same block, or one after the other while they load the model
_DIED = object()


class Worker:
    """A process that holds a model and scores blocks with it."""

    def load(self, load: Callable[[], Any], expected: str | None, threads: int) -> str:
        """Load the model, and refuse it unless it has the fingerprint `expected`, if that is given.

        Returns:
            What the model's code printed.
        """
        torch.set_num_threads(threads)
        with redirect_stdout(io.StringIO()) as printed:
            self.model = load()
        if expected is not None and fingerprint(self.model) != expected:
            raise InputError(
                "its weights are not those that the run began with; give every machine the same files"
            )
        return printed.getvalue()

    def score(self, work: Work, scoring: Scoring) -> tuple[ScoreTable, int, str]:
        """The scores of a piece, how many times the model was called, and what its code printed."""
        with redirect_stdout(io.StringIO()) as printed:
            answer = work.score(self.model, scoring, lambda _steps, _description=None: None)
        return *answer, printed.getvalue()


class WorkerPool:
    """Workers that each have up to two pieces, one to score and the next; a worker that dies is replaced."""

    def __init__(
        self, ray: Any, start: Callable[[], Any], loading: tuple[Any, str | None, int], option: str
    ) -> None:
        self.ray = ray
        self.start = start
        self.loading = loading
        self.option = option
        # of each worker: its pending answers and their pieces, the oldest first
        self.asked: list[tuple[Any, deque[tuple[Any, Work | None]]]] = []
        self.deaths: Counter[Any] = Counter()
        self.n_replaced = 0

    def score(
        self, n_workers: int, work: Iterable[Work], scoring: Scoring, advance: Advance, done: Done
    ) -> None:
        """Score every piece once with at most `n_workers` workers, then stop the workers."""
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
                # What waits at the end goes to the worker that is ready first.
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
        """A worker whose oldest answer is there: it answers in turn, and dies at the oldest piece."""
        pending = [answer for _, asked in self.asked for answer, _ in asked]
        (ready,), _ = self.ray.wait(pending, num_returns=1)
        return next(each for each in self.asked if any(answer == ready for answer, _ in each[1]))

    def _start_worker(self) -> None:
        worker = self.start()
        self.asked.append((worker, deque([(worker.load.remote(*self.loading), None)])))

    def _answer(self, pending: Any, work: Work | None) -> Any:
        """The answer of a worker, or _DIED."""
        errors = self.ray.exceptions
        try:
            answer = self.ray.get(pending)
        except errors.RayTaskError as error:
            raise self._explain(error, work) from error
        except errors.RayError as error:  # the worker, its machine, or the answer on its way was lost
            self.count_death(error, work)
            return _DIED
        if work is None:
            self.deaths.pop(None, None)
        return answer if work is not None else (answer,)

    def count_death(self, error: Exception, work: Work | None) -> None:
        """Count the death of a worker at a block, or while it loaded the model."""
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
        """The error of the worker itself, in one line if it is an expected one."""
        cause = error.cause
        if _is_out_of_memory(cause):
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
    """The same work with a copy of its rows: with a slice, all rows that it was cut from would be sent."""
    return work._replace(rows=work.rows[torch.arange(len(work.rows))])


def _is_out_of_memory(error: object) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def last_line(error: object) -> str:
    """The line of an error that says what happened, without the traces before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    is_clear = isinstance(error, MaskEvidenceError | OSError) or len(lines) > 1
    return line.rstrip(".") if is_clear else f"{type(error).__name__}: {line.rstrip('.')}"
