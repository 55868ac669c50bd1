"""Requests of the harness as questions, each with all choices of a document."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maskevidence.integrations.lm_eval.harness_tasks import (
    Contest,
    choices_of,
    contests_of,
    metrics_of,
    reads_greedy,
)
from maskevidence.integrations.lm_eval.settings import Settings

Pair = tuple[str, str]  # a context and a continuation, the arguments of a request
EMPTY = ""


@dataclass(frozen=True)
class Asked:
    """A question in words.

    Attributes:
        pairs: the context and continuation of each choice.
        contests: the raced decisions; empty if the task reads the values.
        greedy: whether the task reads which choices are greedy.
    """

    pairs: tuple[Pair, ...]
    contests: tuple[Contest, ...] = ()
    greedy: bool = False

    @property
    def after_nothing(self) -> tuple[Pair, ...]:
        """The choices after an empty context, if a decision reads their values."""
        if not any(contest.against_empty for contest in self.contests):
            return ()
        return tuple((EMPTY, continuation) for _, continuation in self.pairs)


def asked_questions(
    requests: Sequence[Any], tasks: Mapping[str, Any], settings: Settings
) -> tuple[list[Asked], dict[int, tuple[int, int]]]:
    """The distinct questions of requests: first the ones without a race, then the raced ones.

    Args:
        requests: the harness's instances.
        tasks: the harness's tasks by name, if they were found.
        settings: whether decisions are raced, and the metrics and greediness of unknown tasks.

    Returns:
        The questions, and for each request the numbers of its question and of its choice.
    """
    documents: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        documents[request.task_name, request.doc_id].append(index)
    alone: dict[Pair, bool] = {}
    raced: dict[tuple[Pair, ...], Asked] = {}
    chosen: list[Any] = [None] * len(requests)  # the key in `raced`, and the number of the choice
    for (name, _), indices in documents.items():
        task = tasks.get(name)
        greedy = {"always": True, "never": False}.get(settings.greedy, task is None or reads_greedy(task))
        contests, n_choices = _contests(task, [requests[index] for index in indices], settings)
        by_number = {requests[index].idx: _pair(requests[index]) for index in indices}
        numbers = range(n_choices)
        question = tuple(by_number[number] for number in numbers) if contests else ()
        if question:
            raced[question] = Asked(question, contests, greedy)
        for index in indices:
            number = requests[index].idx
            if question and number < n_choices:
                chosen[index] = (question, number)
            else:
                pair = _pair(requests[index])
                alone[pair] = alone.get(pair, False) or (greedy and pair[0] != EMPTY)
    asked = [Asked((pair,), greedy=greedy) for pair, greedy in alone.items()] + list(raced.values())
    number_of = {each.pairs: number for number, each in enumerate(asked) if each.contests}
    number_alone = {each.pairs[0]: number for number, each in enumerate(asked) if not each.contests}
    where = {
        index: (number_alone[_pair(request)], 0)
        if chosen[index] is None
        else (number_of[chosen[index][0]], chosen[index][1])
        for index, request in enumerate(requests)
    }
    return asked, where


def _pair(request: Any) -> Pair:
    context, continuation = request.args[:2]
    return context, continuation


def _contests(task: Any, requests: Sequence[Any], settings: Settings) -> tuple[tuple[Contest, ...], int]:
    """The raced decisions between the requests of a document, and the number of choices."""
    numbers = {request.idx for request in requests}
    if not settings.racing:
        return (), 0
    metrics = settings.metrics if settings.metrics is not None else None if task is None else metrics_of(task)
    if task is not None and getattr(task, "OUTPUT_TYPE", None) != "multiple_choice":
        return (), 0
    choices = None if task is None else choices_of(task, requests[0].doc)
    if choices is None:
        choices = [request.args[1].strip() for request in sorted(requests, key=lambda request: request.idx)]
    n = len(choices)
    if n < 2 or numbers not in ({*range(n)}, {*range(2 * n)}):
        return (), 0
    return tuple(contests_of(metrics, choices)), n
