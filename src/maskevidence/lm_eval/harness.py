"""Access to the harness's internals: the metrics of its tasks, its cache, and Monte-Carlo errors of metrics.

The harness passes requests to a model without their tasks. This module finds the tasks in the stack frame of
the calling evaluation. If a task is not found, all masks are scored for each of its values.

The Monte-Carlo error of a metric is its standard deviation over redrawn masks.
"""

import math
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, UntrustedFileWarning
from maskevidence.core.show.parts import Page, Table
from maskevidence.core.support.provenance import differences
from maskevidence.lm_eval.values import ScoredValue

_EVALUATOR = "lm_eval.evaluator"
# Multiple-choice metrics that depend only on which choice has the largest value.
BY_LARGEST_VALUE = {"acc": "sum", "f1": "sum", "mcc": "sum", "acc_norm": "characters", "acc_bytes": "bytes"}
_GREEDY_METRIC = "exact_match"
_KEY = "maskevidence: what the answers depend on"
_REDRAWS = 64
_EQUAL = 1e-5  # relative rounding error between equal choices in different calls
_own_files: set[Path] = set()  # caches that this process created


class Contest(NamedTuple):
    """A decision between choices: the largest scale · log evidence wins."""

    name: str  # the metric decided
    scale: Float64[np.ndarray, " n_choices"]  # 1 over the choice's length for a normalised metric


def calling_tasks() -> dict[str, Any]:
    """The tasks of the evaluation that calls the model, by name; empty outside an evaluation."""
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
    """Whether a task uses the greedy flags; True if its metrics are unknown."""
    metrics = metrics_of(task)
    if metrics is None:
        return True
    return (_GREEDY_METRIC if task.OUTPUT_TYPE == "multiple_choice" else "acc") in metrics


def contests_of(metrics: Sequence[str] | None, choices: Sequence[str]) -> list[Contest]:
    """The decisions that multiple-choice metrics depend on; empty if a metric needs the values.

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
    """The texts of a document's choices; None if the task does not list them."""
    try:
        return [str(choice) for choice in task.doc_to_choice(doc)]
    except (AttributeError, TypeError, KeyError, ValueError):
        return None


class AnswerCache:
    """Write finished answers into the harness's cache, several in one transaction.

    The harness reads Python pickles from the cache, which can run any code: a warning names a file that this
    process did not write, before it is read.
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
        if stored is None:
            self.database[_KEY] = dict(settings)
        elif different := differences(stored, settings):
            raise InputError(
                f"the cache of --use_cache holds answers of another run ({'; '.join(different)}); "
                "give a new name"
            )

    def add(self, method: str, answers: Sequence[tuple[tuple[Any, ...], Any]]) -> None:
        """Store answers by their requests' arguments, in one transaction."""
        if self.database is None:
            return
        from lm_eval.api.model import hash_args

        self.database.update({hash_args(method, arguments): answer for arguments, answer in answers})


class _Document(NamedTuple):
    """A task's document with its requests and the model's answers."""

    doc: Any
    requests: list[Any]
    answers: list[Any]

    @property
    def values(self) -> list[ScoredValue | None]:
        """The value of each answer; None for generated text."""
        numbers = [answer[0] if isinstance(answer, tuple | list) else answer for answer in self.answers]
        return [number if isinstance(number, ScoredValue) else None for number in numbers]


def task_errors(task: Any) -> dict[str, Any]:
    """The Monte-Carlo errors of a task's metrics.

    The values are redrawn 64 times within their errors, jointly for each document, and the harness's
    functions compute the metrics of each redraw. `mask_se` of a metric is its standard deviation over the
    redraws. A perplexity whose error is larger than itself also has both for its logarithm.
    """
    documents = list(_documents(task))
    values = [value for document in documents for value in document.values if value is not None]
    report: dict[str, Any] = {"documents": len(documents)}
    if not values:
        return report
    if getattr(task, "OUTPUT_TYPE", "") == "multiple_choice":
        tied = Counter(name for each in documents for name in set().union(*_ties(task, each)))
        report["ties"] = dict(sorted(tied.items()))
    base, redrawn = defaultdict(list), defaultdict(list)
    for document in documents:
        result = task.process_results(document.doc, document.answers)
        repeated = [result] * _REDRAWS
        if any(value is not None and value.mask_se for value in document.values):
            repeated = [task.process_results(document.doc, answers) for answers in _drawn_anew(document)]
        for metric, value in result.items():
            base[metric].append(value)
            redrawn[metric].append([redraw[metric] for redraw in repeated])
    report["metrics"] = {metric: _with_error(task, metric, base[metric], redrawn[metric]) for metric in base}
    return report


def _with_error(task: Any, metric: str, items: list[Any], redrawn: list[list[Any]]) -> dict[str, float]:
    aggregate = task.aggregation()[metric]
    totals = [float(aggregate([item[k] for item in redrawn])) for k in range(_REDRAWS)]
    moves = min(totals) < max(totals)
    value, mask_se = float(aggregate(items)), float(np.std(totals, ddof=1)) if moves else 0.0
    of_metric = {"value": value, "mask_se": mask_se}
    if metric.endswith("perplexity") and mask_se > value > 0:  # useful only on the log scale
        of_metric |= {"log_value": math.log(value), "log_mask_se": float(np.std(np.log(totals), ddof=1))}
    return of_metric


def _documents(task: Any) -> Iterator[_Document]:
    """A task's documents that have answers, in order."""
    by_number = defaultdict(list)
    for request in task.instances:
        if request.resps:
            by_number[request.doc_id].append(request)
    for requests in by_number.values():
        requests.sort(key=lambda request: request.idx)
        yield _Document(requests[0].doc, requests, [request.resps[0] for request in requests])


def _noise(values: Sequence[ScoredValue | None]) -> Float64[np.ndarray, "n_redraws n_values"]:
    """Simulated errors of the values; values scored on the same masks share their draws."""
    noise = np.zeros((_REDRAWS, len(values)))
    for column, value in enumerate(values):
        if value is not None and value.n_draws > 1:
            z = np.random.default_rng([value.draws_key, 0]).standard_normal((_REDRAWS, value.n_draws))
            noise[:, column] = z @ value.deviations * np.sqrt(value.n_draws / (value.n_draws - 1))
    return noise


def _drawn_anew(document: _Document) -> Iterator[list[Any]]:
    values = document.values
    for off in _noise(values):
        yield [
            answer if value is None else _replaced(answer, float(value) + float(error))
            for answer, value, error in zip(document.answers, values, off, strict=True)
        ]


def _replaced(answer: Any, value: float) -> Any:
    return (value, *answer[1:]) if isinstance(answer, tuple | list) else value


def _ties(task: Any, document: _Document) -> list[set[str]]:
    """For each answer, the metrics in which it ties: after a race, or with equal leading values."""
    values = document.values
    tied = [set() if value is None else set(value.ties) for value in values]
    choices = choices_of(task, document.doc) or []
    metrics = [name for name in metrics_of(task) or () if name in BY_LARGEST_VALUE]
    if len(choices) < 2 or len(choices) > len(values) or None in values:
        return tied
    for contest in contests_of(metrics, choices):
        scaled = np.array(values[: len(choices)], dtype=np.float64) * contest.scale
        equal = np.flatnonzero(scaled >= scaled.max() - _EQUAL * (1 + abs(scaled.max())))
        for choice in equal if len(equal) > 1 else ():
            tied[choice].add(contest.name)
    return tied


def evidence_report(tasks: Mapping[str, Any], answerer: Any, model: Mapping[str, Any]) -> dict[str, Any]:
    """The errors of all tasks, as JSON values."""
    return {
        **model,
        "passes": answerer.scorer.asker.n_passes,
        "contexts_cut": answerer.n_cut,
        "choices_without_token": answerer.n_without_token,
        "tasks": {name: task_errors(task) for name, task in tasks.items()},
    }


def errors_page(tasks: Mapping[str, Any]) -> Page:
    """A page with the metrics' Monte-Carlo errors and the number of ties, to print below the harness's table.

    A perplexity with an error larger than itself is shown on the log scale, where the error is symmetric.

    Example:
        >>> metrics = {"acc": {"value": 0.5, "mask_se": 0.01}}
        >>> entry = {"documents": 8, "ties": {"acc": 2}, "metrics": metrics}
        >>> errors_page({"arc_easy": entry}).parts[0].rows
        [['arc_easy', 'acc', '0.5', '0.01', '2 of 8']]
    """
    rows = []
    for task, entry in tasks.items():
        for metric, each in entry.get("metrics", {}).items():
            name, value, error = metric, each["value"], each["mask_se"]
            if "log_value" in each:
                name, value, error = f"log({metric})", each["log_value"], each["log_mask_se"]
            decided = metric in BY_LARGEST_VALUE and "ties" in entry
            ties = f"{entry['ties'].get(metric, 0):,} of {entry['documents']:,}" if decided else ""
            rows.append([task, name, f"{value:.4g}", f"{error:.2g}", ties])
    words = "mask_se is the standard error due to the masks; Stderr above is due to the documents."
    table = Table(["task", "metric", "value", "mask_se", "ties"], rows, words=(0, 1))
    return Page("", "Errors of the masks", parts=[table, words])


def write_errors(tasks: Mapping[str, Any]) -> None:
    """Append each value's error to the answers that the harness logs."""
    for task in tasks.values():
        for document in _documents(task):
            for request, value, tied in zip(
                document.requests, document.values, _ties(task, document), strict=True
            ):
                if value is not None and not isinstance(request.resps[-1], dict):
                    request.resps.append(value.errors() | ({"tied": sorted(tied)} if tied else {}))
