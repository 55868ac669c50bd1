"""Answer the harness's three kinds of requests; all choices of a document form one question."""

import math
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.support.progress import progress
from maskevidence.lm_eval.harness import (
    AnswerCache,
    Contest,
    choices_of,
    contests_of,
    metrics_of,
    reads_greedy,
)
from maskevidence.lm_eval.race import Decider, Question, Race, looks_up_to
from maskevidence.lm_eval.texts import (
    Decoding,
    Encoder,
    TextScorer,
    are_greedy,
    asked_decoding,
    up_to_stop,
    write,
)
from maskevidence.lm_eval.values import ScoredValue, Valuer, design_of, key_of_texts, summed
from maskevidence.texts.masked_lm import MaskedLM

_DECISION = "decision"
_CONFIDENCE = 0.995
_WAVE = 64  # questions, texts or contexts per batch; an interrupted run loses at most one batch
_Pairs = tuple[tuple[str, str], ...]  # contexts and continuations, as in the requests
ScoredContinuation = tuple[ScoredValue, bool]  # a continuation's value, and whether it is greedy


@dataclass(frozen=True)
class Settings:
    """Settings of the estimates."""

    score: str  # the score of a continuation; see `design_of`
    race: Race  # looks and confidence of races
    racing: bool  # whether to race decisions
    n_masks: int  # largest number of masks per continuation
    seed: int  # seed of the masks

    @classmethod
    def parse(cls, *, score: str, target: object, masks: object, seed: object) -> "Settings":
        """Parse the words of --model_args.

        Example:
            >>> Settings.parse(score="evidence", target="decision:0.99", masks=64, seed=0).race.confidence
            0.99
            >>> Settings.parse(score="evidence", target=16, masks=64, seed=0).race.looks
            (8, 12, 16)
        """
        design_of(score, 1)
        racing, confidence, n_masks = True, _CONFIDENCE, whole_word("masks", masks, 4)
        word, _, rest = str(target).partition(":")
        if word == _DECISION:
            confidence = _probability(rest) if rest else _CONFIDENCE
        else:
            racing, n_masks = False, whole_word("target", target, 4, "decision, decision:0.995 or")
        race = Race(confidence, looks_up_to(n_masks))
        return cls(score, race, racing, n_masks, whole_word("seed", seed, 0))

    def described(self) -> dict[str, str]:
        """The settings that determine the answers, as text."""
        target = f"decision:{self.race.confidence:g}" if self.racing else str(self.n_masks)
        return {"score": self.score, "target": target, "masks": str(self.n_masks), "seed": str(self.seed)}


def whole_word(name: str, value: object, least: int, words: str = "") -> int:
    """Parse a whole number of `least` or more."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least or number >= 2**63:
        raise InputError(f"{name}={value}; give {words} a whole number of {least} or more".replace("  ", " "))
    return number


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.5 < value < 1:
        raise InputError(f"target=decision:{text}; give a probability above 0.5 and below 1, such as 0.995")
    return value


class Answerer:
    """Answers the harness's requests with a masked language model.

    Args:
        max_length: the longest text that the model reads, special tokens included; None if there is no limit.

    Attributes:
        cache: where finished answers are written.
        n_cut: how many contexts were cut from the left, because the text was too long.
        n_without_token: how many choices have no token, and lose to the other choices.
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
        self.n_without_token = 0

    def continuations(self, requests: Sequence[Any], tasks: Mapping[str, Any]) -> list[ScoredContinuation]:
        """Each continuation's value given its context, and whether it is greedy."""
        questions, chosen = self._asked(requests, tasks)
        asked = list(questions.items())
        answers: dict[_Pairs, list[ScoredContinuation]] = {}
        with progress("scoring continuations", len(asked)) as advance:
            for start in range(0, len(asked), _WAVE):
                wave = asked[start : start + _WAVE]
                for (pairs, _), scored in zip(wave, self._scored([each for _, each in wave]), strict=True):
                    answers[pairs] = scored
                    self.cache.add("loglikelihood", list(zip(pairs, scored, strict=True)))
                advance(len(wave))
        found = [answers[pairs][choice] for pairs, choice in chosen]
        without = sum(value == -math.inf for value, _ in found)
        self.n_without_token += without
        if without:
            warnings.warn(
                f"{without:,} choices have no token ('' or letters that the tokenizer drops): "
                "they cannot be scored, and lose to every other choice of their questions (-inf)",
                stacklevel=2,
            )
        return found

    def _asked(
        self, requests: Sequence[Any], tasks: Mapping[str, Any]
    ) -> tuple[dict[_Pairs, Question], list[tuple[_Pairs, int]]]:
        """The distinct questions by their texts; and each request's question and choice."""
        documents: dict[tuple[Any, Any], list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            documents[request.task_name, request.doc_id].append(index)
        questions: dict[_Pairs, Question] = {}
        chosen: list[tuple[_Pairs, int]] = [((), 0)] * len(requests)
        for (name, _), indices in documents.items():
            task = tasks.get(name)
            greedy = task is None or reads_greedy(task)
            # requests may share a number, such as those of one choice, or of a task that does not count
            pairs = sorted({(requests[index].idx, tuple(requests[index].args[:2])) for index in indices})
            together = tuple(pair for _, pair in pairs)
            contests: tuple[Contest, ...] = ()
            if [number for number, _ in pairs] == list(range(len(pairs))):
                contests = self._contests(task, requests[indices[0]].doc, len(pairs))
            rivals = len(set(together)) > 1
            for index in indices:
                pair = tuple(requests[index].args[:2])
                own, choice = (together, requests[index].idx) if contests else ((pair,), 0)
                known = questions.get(own) or self._question(own)
                of_tasks = {contest.name: contest for contest in (*known.contests, *contests)}
                questions[own] = replace(
                    known,
                    contests=tuple(of_tasks.values()),
                    greedy=known.greedy or greedy,
                    rivals=known.rivals or rivals,
                )
                chosen[index] = own, choice
        return questions, chosen

    def _question(self, pairs: _Pairs) -> Question:
        """Encode a question."""
        choices = tuple(self.encoder.pair(*pair) for pair in pairs)
        self.n_cut += sum(choice.n_cut > 0 for choice in choices)
        return Question(key_of_texts(context for context, _ in pairs), choices)

    def _contests(self, task: Any, doc: Any, n_requests: int) -> tuple[Contest, ...]:
        """The decisions to race between a document's requests; empty if the task reads the values."""
        if not self.settings.racing or getattr(task, "OUTPUT_TYPE", None) != "multiple_choice":
            return ()
        choices = choices_of(task, doc)
        if choices is None or len(choices) < 2 or len(choices) != n_requests:
            return ()
        return tuple(contests_of(metrics_of(task), choices))

    def _scored(self, questions: Sequence[Question]) -> list[list[ScoredContinuation]]:
        """The value of each choice of each question, and whether it is greedy."""
        texts = [text for question in questions if question.greedy for text in question.choices]
        answers, greedy = self._answers(questions), iter(are_greedy(self.scorer, texts))
        scored = []
        for question, answer in zip(questions, answers, strict=True):
            flags = [next(greedy) if question.greedy else not text.scored for text in question.choices]
            scored.append(list(zip(answer, flags, strict=True)))
            if question.rivals:
                for choice, text in enumerate(question.choices):
                    if not text.scored:  # an empty continuation's log p = 0 would win
                        scored[-1][choice] = ScoredValue(-math.inf), False
        return scored

    def _answers(self, questions: Sequence[Question]) -> list[list[ScoredValue]]:
        """Compute the values of short continuations exactly, and estimate the others by masks."""
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
        """Generate text after each context, up to the first stop sequence."""
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
