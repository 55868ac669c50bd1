"""Answers to the harness's three kinds of requests; all choices of a document are one question."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskevidence.integrations.lm_eval.deciding import Decider, Question
from maskevidence.integrations.lm_eval.drawing import key_of_texts
from maskevidence.integrations.lm_eval.generation import (
    Decoding,
    are_greedy,
    asked_decoding,
    up_to_stop,
    write,
)
from maskevidence.integrations.lm_eval.harness import (
    AnswerCache,
    Contest,
    choices_of,
    contests_of,
    metrics_of,
    reads_greedy,
)
from maskevidence.integrations.lm_eval.scoring import Encoder, TextScorer
from maskevidence.integrations.lm_eval.settings import Settings
from maskevidence.integrations.lm_eval.values import ScoredValue, Valuer, summed
from maskevidence.models import MaskedLM
from maskevidence.support.progress import progress

_WAVE = 64  # questions, texts or contexts that are worked on together; a kill loses at most their work
Pair = tuple[str, str]  # a context and a continuation, the arguments of a request
EMPTY = ""
ScoredContinuation = tuple[ScoredValue, bool]  # the value of a continuation, and whether it is greedy


@dataclass(frozen=True)
class AskedQuestion:
    """A question in words."""

    pairs: tuple[Pair, ...]  # the context and continuation of each choice
    contests: tuple[Contest, ...] = ()  # the raced decisions; empty if the task reads the values
    greedy: bool = False  # whether the task reads which choices are greedy

    @property
    def after_nothing(self) -> tuple[Pair, ...]:
        """The choices after an empty context, if a decision reads their values."""
        if not any(contest.against_empty for contest in self.contests):
            return ()
        return tuple((EMPTY, continuation) for _, continuation in self.pairs)


def asked_questions(
    requests: Sequence[Any], tasks: Mapping[str, Any], settings: Settings
) -> tuple[list[AskedQuestion], dict[int, tuple[int, int]]]:
    """The distinct questions of requests: first the ones without a race, then the raced ones.

    Args:
        settings: whether decisions are raced, and the metrics and greediness of unknown tasks.

    Returns:
        The questions, and for each request the numbers of its question and of its choice.
    """
    documents: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        documents[request.task_name, request.doc_id].append(index)
    questions: dict[tuple[Pair, ...], AskedQuestion] = {}
    chosen: dict[int, tuple[tuple[Pair, ...], int]] = {}
    for (name, _), indices in documents.items():
        task = tasks.get(name)
        greedy = {"always": True, "never": False}.get(settings.greedy, task is None or reads_greedy(task))
        contests, n_choices = _contests(task, [requests[index] for index in indices], settings)
        pairs = {requests[index].idx: tuple(requests[index].args[:2]) for index in indices}
        raced = tuple(pairs[number] for number in range(n_choices)) if contests else ()
        if raced:
            questions[raced] = AskedQuestion(raced, contests, greedy)
        for index in indices:
            number = requests[index].idx
            if number < len(raced):
                chosen[index] = raced, number
            else:
                alone = (pairs[number],)
                repeated = alone in questions and questions[alone].greedy
                questions[alone] = AskedQuestion(
                    alone, greedy=repeated or (greedy and pairs[number][0] != EMPTY)
                )
                chosen[index] = alone, 0
    asked = sorted(questions.values(), key=lambda question: bool(question.contests))
    number_of = {question.pairs: number for number, question in enumerate(asked)}
    return asked, {index: (number_of[question], choice) for index, (question, choice) in chosen.items()}


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


class Answerer:
    """Answers requests with a masked language model.

    Args:
        max_length: the longest text that the model reads, special tokens included; None if there is no limit.

    Attributes:
        cache: where finished answers are written.
        n_cut: how many contexts were cut from the left, because the text was too long.
    """

    def __init__(
        self, model: MaskedLM, settings: Settings, batch_size: int | None, max_length: int | None
    ) -> None:
        self.settings = settings
        self.encoder = Encoder(model.tokenizer, max_length)
        self.scorer = TextScorer(model, self.encoder, batch_size)
        self._valuer = Valuer(self.scorer, settings.score, settings.seed, settings.n_masks)
        self._decider = Decider(self.scorer, settings.seed, settings.race)
        self.cache = AnswerCache(None, {})
        self.n_cut = 0

    def continuations(self, requests: Sequence[Any], tasks: Mapping[str, Any]) -> list[ScoredContinuation]:
        """The value of each continuation after its context, and whether it is greedy."""
        asked, where = asked_questions(requests, tasks, self.settings)
        answers: dict[tuple[int, int], ScoredContinuation] = {}
        values: dict[Pair, ScoredValue] = {}
        with progress("scoring continuations", len(asked)) as advance:
            for start in range(0, len(asked), _WAVE):
                wave = asked[start : start + _WAVE]
                self._find_after_nothing(wave, values)
                for number, (question, scored) in enumerate(
                    zip(wave, self._scored(wave, values), strict=True), start
                ):
                    answers |= {(number, choice): result for choice, result in enumerate(scored)}
                    if not question.contests:
                        values[question.pairs[0]] = scored[0][0]
                    self.cache.add("loglikelihood", list(zip(question.pairs, scored, strict=True)))
                advance(len(wave))
        return [answers[where[index]] for index in range(len(requests))]

    def _find_after_nothing(self, wave: Iterable[AskedQuestion], values: dict[Pair, ScoredValue]) -> None:
        """Add the values after an empty context that decisions read and no request asks for."""
        pairs = {pair for question in wave for pair in question.after_nothing} - values.keys()
        questions = [self._question(AskedQuestion((pair,)), values) for pair in sorted(pairs)]
        for pair, answer in zip(sorted(pairs), self._answers(questions), strict=True):
            values[pair] = answer[0]

    def _scored(
        self, wave: Sequence[AskedQuestion], values: Mapping[Pair, ScoredValue]
    ) -> list[list[ScoredContinuation]]:
        """The value of each choice of each question, and whether it is greedy."""
        questions = [self._question(asked, values) for asked in wave]
        self.n_cut += sum(choice.n_cut > 0 for question in questions for choice in question.choices)
        answers = self._answers(questions)
        texts = [
            text
            for asked, question in zip(wave, questions, strict=True)
            if asked.greedy
            for text in question.choices
        ]
        greedy = iter(are_greedy(self.scorer, texts))
        scored = []
        for asked, question, answer in zip(wave, questions, answers, strict=True):
            flags = [next(greedy) if asked.greedy else not text.scored for text in question.choices]
            scored.append(list(zip(answer, flags, strict=True)))
        return scored

    def _question(self, asked: AskedQuestion, values: Mapping[Pair, ScoredValue]) -> Question:
        """A question as tokens."""
        choices = tuple(self.encoder.pair(*pair) for pair in asked.pairs)
        offsets = tuple(
            -np.array([float(values[pair]) for pair in asked.after_nothing])
            if contest.against_empty
            else np.zeros(len(choices))
            for contest in asked.contests
        )
        return Question(key_of_texts(context for context, _ in asked.pairs), choices, asked.contests, offsets)

    def _answers(self, questions: Sequence[Question]) -> list[list[ScoredValue]]:
        """Compute the values of short continuations, and estimate the others by masks."""
        choices = [
            (number, choice)
            for number, question in enumerate(questions)
            for choice, text in enumerate(question.choices)
            if self._valuer.is_known(text)
        ]
        texts = [questions[number].choices[choice] for number, choice in choices]
        values = self._valuer.values(texts, [questions[number].key for number, _ in choices])
        exact: list[dict[int, ScoredValue]] = [{} for _ in questions]
        for (number, choice), value in zip(choices, values, strict=True):
            exact[number][choice] = value
        return self._decider.answers(questions, exact)

    def texts(self, requests: Sequence[Any]) -> list[ScoredValue]:
        """The log evidence of whole texts, in windows that score each token once."""
        texts = list(dict.fromkeys(request.args[0] for request in requests))
        values: dict[str, ScoredValue] = {}
        with progress("scoring texts", len(texts)) as advance:
            for start in range(0, len(texts), _WAVE):
                wave = texts[start : start + _WAVE]
                windows = [self.encoder.windows(text) for text in wave]
                questions = [
                    Question(key_of_texts([text, f"window {number}"]), (window,))
                    for text, parts_of_text in zip(wave, windows, strict=True)
                    for number, window in enumerate(parts_of_text)
                ]
                parts = iter(self._answers(questions))
                for text, parts_of_text in zip(wave, windows, strict=True):
                    values[text] = summed([next(parts)[0] for _ in parts_of_text])
                    self.cache.add("loglikelihood_rolling", [((text,), values[text])])
                advance(len(wave))
        return [values[request.args[0]] for request in requests]

    def written(self, requests: Sequence[Any], decoding: Decoding) -> list[str]:
        """The text that the model writes after each context, up to the first stop sequence."""
        by_options: dict[Decoding, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            by_options[asked_decoding(decoding, request.args[1])].append(index)
        result = [""] * len(requests)
        with progress("writing texts", len(requests)) as advance:
            for options, indices in by_options.items():
                for start in range(0, len(indices), _WAVE):
                    wave = indices[start : start + _WAVE]
                    for index, text in zip(
                        wave, self._write([requests[i] for i in wave], options), strict=True
                    ):
                        result[index] = text
                    advance(len(wave))
        return result

    def _write(self, requests: Sequence[Any], decoding: Decoding) -> list[str]:
        contexts = [self.encoder.before(request.args[0], decoding.max_tokens) for request in requests]
        self.n_cut += sum(context.n_cut > 0 for context in contexts)
        keys = [key_of_texts([request.args[0]]) for request in requests]
        texts = []
        written = write(self.scorer, contexts, decoding, keys, self.settings.seed)
        for request, ids in zip(requests, written, strict=True):
            text = self.encoder.tokenizer.decode(self.encoder.up_to_end(ids), skip_special_tokens=True)
            texts.append(up_to_stop(text, request.args[1].get("until")))
            if not request.args[1].get("do_sample", False):
                self.cache.add("generate_until", [(request.args, texts[-1])])
        return texts
