"""The inside of the harness: which answers its tasks read, and its cache of answers.

The harness gives a model requests without their tasks. This module looks the tasks up in the frame of the
evaluation that calls the model. If a task is not found, all masks are scored for each of its values.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError, UntrustedFileWarning

_EVALUATOR = "lm_eval.evaluator"
# Metrics of a multiple choice that read only which choice has the largest value.
BY_LARGEST_VALUE = {"acc": "sum", "f1": "sum", "mcc": "sum", "acc_norm": "characters", "acc_bytes": "bytes"}
_GREEDY_METRIC = "exact_match"
_KEY = "maskevidence: what the answers depend on"
_own_files: set[Path] = set()  # caches that were empty when this process opened them


class Contest(NamedTuple):
    """A decision between choices: the largest of scale · log evidence."""

    name: str  # the metric that reads it
    scale: Float64[np.ndarray, " n_choices"]  # 1 over the choice's length for a normalised metric


def calling_tasks() -> dict[str, Any]:
    """The tasks by name of the evaluation that calls the model; empty outside an evaluation."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == _EVALUATOR:
            tasks = frame.f_locals.get("eval_tasks")
            if tasks is None and isinstance(frame.f_locals.get("loaded"), Mapping):
                tasks = frame.f_locals["loaded"].get("tasks")
            if isinstance(tasks, Mapping):
                return dict(tasks)
        frame = frame.f_back  # type: ignore[assignment]
    return {}


def metrics_of(task: Any) -> tuple[str, ...] | None:
    """The metrics that the harness computes for a task; None if the task computes its own."""
    listed = getattr(task, "_metric_fn_list", None)
    config = getattr(task, "config", None)
    if listed is None or config is None or callable(getattr(config, "process_results", None)):
        return None
    return tuple(listed)


def reads_greedy(task: Any) -> bool:
    """Whether a task reads which continuations are greedy; True if its metrics are unknown."""
    metrics = metrics_of(task)
    if metrics is None:
        return True
    return (_GREEDY_METRIC if task.OUTPUT_TYPE == "multiple_choice" else "acc") in metrics


def contests_of(metrics: Sequence[str] | None, choices: Sequence[str]) -> list[Contest]:
    """The decisions that metrics of a multiple choice read; empty if a metric reads the values.

    Example:
        >>> [contest.name for contest in contests_of(["acc", "acc_norm"], ["yes", "no"])]
        ['acc', 'acc_norm']
        >>> contests_of(["acc", "brier_score"], ["yes", "no"])
        []
    """
    if metrics is None or not set(metrics) <= {*BY_LARGEST_VALUE, _GREEDY_METRIC}:
        return []
    length = {
        "sum": np.ones(len(choices)),
        "characters": np.array([float(max(1, len(choice))) for choice in choices]),
        "bytes": np.array([float(max(1, len(choice.encode()))) for choice in choices]),
    }
    first: dict[str, str] = {}  # the first metric of each scale
    for name in metrics:
        if name in BY_LARGEST_VALUE:
            first.setdefault(BY_LARGEST_VALUE[name], name)
    return [Contest(name, 1 / length[scale]) for scale, name in first.items()]


def choices_of(task: Any, doc: Any) -> list[str] | None:
    """The texts of the choices of a document; None if the task does not list them."""
    try:
        return [str(choice) for choice in task.doc_to_choice(doc)]
    except (AttributeError, TypeError, KeyError, ValueError):
        return None


class AnswerCache:
    """Writes finished answers into the harness's cache, several at once as one transaction.

    The harness reads Python pickles from the cache, which can run any code: a file that this process did not
    write is named in a warning before anything is read from it.
    """

    def __init__(self, hook: Any, settings: Mapping[str, str]) -> None:
        self.database = getattr(hook, "dbdict", None)
        if self.database is None:
            return
        file, filled = Path(self.database.filename).absolute(), len(self.database) > 0
        if not filled:
            _own_files.add(file)
        elif file not in _own_files:
            warnings.warn(
                f"--use_cache reads {file}, which this run has not written, as Python pickles, and these can "
                "run any code; use a cache only if you trust who wrote it",
                UntrustedFileWarning,
                stacklevel=2,
            )
        stored = self.database.get(_KEY)
        if stored is None and filled:
            raise InputError(
                "the cache of --use_cache holds answers of another kind of model; give a new name"
            )
        if stored is not None and stored != dict(settings):
            names = sorted(name for name in {*stored, *settings} if stored.get(name) != settings.get(name))
            raise InputError(
                f"the cache of --use_cache holds answers with another {' and '.join(names)}; give a new name"
            )
        if stored is None:
            self.database[_KEY] = dict(settings)

    def add(self, method: str, answers: Sequence[tuple[tuple[Any, ...], Any]]) -> None:
        """Write answers under the arguments of their requests, in one transaction."""
        if self.database is None:
            return
        from lm_eval.api.model import hash_args

        self.database.update({hash_args(method, arguments): answer for arguments, answer in answers})
