"""Monte-Carlo errors of the harness's metrics: their spread over other masks."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.integrations.lm_eval.harness import (
    BY_LARGEST_VALUE,
    choices_of,
    contests_of,
    metrics_of,
)
from maskevidence.integrations.lm_eval.values import ScoredValue
from maskevidence.show.parts import Page, Table

_REDRAWS = 64


class _Document(NamedTuple):
    """A document of a task with its requests, and the model's answers to them."""

    doc: Any
    requests: list[Any]
    answers: list[Any]

    @property
    def values(self) -> list[ScoredValue | None]:
        """The value of each answer; None for generated text."""
        numbers = [answer[0] if isinstance(answer, tuple | list) else answer for answer in self.answers]
        return [number if isinstance(number, ScoredValue) else None for number in numbers]


def task_errors(task: Any) -> dict[str, Any]:
    """The errors of a task's metrics.

    The values are redrawn 64 times within their errors, jointly for each document, and the harness's
    functions compute the metrics of each redraw. `mask_se` of a metric is its standard deviation over the
    redraws. A perplexity whose error is larger than itself also has both for its logarithm.
    """
    documents = list(_documents(task))
    values = [value for document in documents for value in document.values if value is not None]
    report: dict[str, Any] = {"documents": len(documents)}
    if not values:
        return report
    report |= _decisions(task, documents)
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
    if metric.endswith("perplexity") and mask_se > value > 0:  # exp of a sum: its logarithm has an error
        of_metric |= {"log_value": math.log(value), "log_mask_se": float(np.std(np.log(totals), ddof=1))}
    return of_metric


def _documents(task: Any) -> Iterator[_Document]:
    """The documents of a task with answers, in their order."""
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


def _scale(task: Any, document: _Document) -> Float64[np.ndarray, " n"] | None:
    """The scale of the first decision of a document; None if nothing is decided."""
    if getattr(task, "OUTPUT_TYPE", "") != "multiple_choice" or None in document.values:
        return None
    choices = choices_of(task, document.doc)
    if choices is None or not 2 <= len(choices) <= len(document.values):
        return None
    metrics = [name for name in metrics_of(task) or () if name in BY_LARGEST_VALUE]
    contests = contests_of(metrics, choices)
    return contests[0].scale if contests else None


def _decisions(task: Any, documents: Sequence[_Document]) -> dict[str, Any]:
    """The number of decisions, of expected changes by other masks, and of ties."""
    turned = []
    for document in documents:
        scale = _scale(task, document)
        if scale is not None:
            values = document.values[: len(scale)]
            scores = np.array([float(value or 0.0) for value in values]) * scale
            redrawn = scores + _noise(values) * scale
            turned.append(float((redrawn.argmax(1) != scores.argmax()).mean()))
    if not turned:
        return {}
    return {"decisions": len(turned), "expected_to_turn": sum(turned), "ties": _ties(documents)}


def _ties(documents: Sequence[_Document]) -> dict[str, int]:
    """The number of documents with a tie, by metric."""
    tied = Counter(
        name
        for document in documents
        for name in {name for value in document.values if value is not None for name in value.ties}
    )
    return dict(sorted(tied.items()))


def evidence_report(tasks: Mapping[str, Any], answerer: Any, model: Mapping[str, Any]) -> dict[str, Any]:
    """The errors of all tasks, as content for JSON."""
    return {
        **model,
        "passes": answerer.scorer.n_passes,
        "contexts_cut": answerer.n_cut,
        "tasks": {name: task_errors(task) for name, task in tasks.items()},
    }


def errors_page(tasks: Mapping[str, Any]) -> Page:
    """The errors of metrics over masks and the number of ties, as a table below that of the harness.

    A perplexity whose error is larger than itself is shown on the log scale, where its error is symmetric.

    Example:
        >>> metrics = {"acc": {"value": 0.5, "mask_se": 0.01}}
        >>> entry = {"documents": 8, "decisions": 8, "ties": {"acc": 2}, "metrics": metrics}
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
            ties = f"{entry['ties'].get(metric, 0):,} of {entry['decisions']:,}" if decided else ""
            rows.append([task, name, f"{value:.4g}", f"{error:.2g}", ties])
    words = "mask_se is the standard error over masks; the Stderr above is that of the documents"
    return Page(
        "",
        "Errors of the masks",
        words,
        [Table(["task", "metric", "value", "mask_se", "ties"], rows, words=(0, 1))],
    )


def write_errors(tasks: Mapping[str, Any]) -> None:
    """Append the error of each value to the answers that the harness logs."""
    for task in tasks.values():
        for request in task.instances:
            answer = request.resps[0] if request.resps else None
            value = answer[0] if isinstance(answer, tuple) else answer
            if isinstance(value, ScoredValue) and not isinstance(request.resps[-1], dict):
                request.resps.append(value.errors())
