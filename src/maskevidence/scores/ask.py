"""The one place that asks a model for the log-probabilities of many hidden tokens.

A question is a row of tokens with some hidden. Its visible tokens are its context, and the model is asked for
the values at the hidden places. An `Asker` packs contexts into calls of the model, and `Reads` asks each
distinct context once, whatever the values at its hidden places are.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Integer
from torch import Tensor

from maskevidence.errors import InputError, NumericalError
from maskevidence.model import (
    HasBatches,
    HasLogDistributions,
    HasTimedBatches,
    HasUnmaskedLogDistributions,
    MaskedModel,
    asked,
    beside,
    not_finite,
)
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

Ints = Int64[np.ndarray, " _"]
Part = slice | Int64[np.ndarray, " _"]

_ROWS = 1024  # in a call of a model that does not say how many
_NUMBERS = 2**24  # log-probabilities of a call: 64 MiB in single precision
_MANY_VALUES = 2**15  # what a vocabulary is taken for before the first answer tells its size
_HIDDEN, _ABSENT, _SEEN = -1, -2, -3  # in place of a token's id; _SEEN - id if it is visible and asked for


@runtime_checkable
class Contexts(Protocol):
    """Rows of tokens with some hidden, which are made when the model is about to be asked."""

    @property
    def n_present(self) -> Ints:
        """Shape (n,); the number of tokens of each row, visible and hidden, by which calls are packed."""
        ...

    @property
    def n_hidden(self) -> Ints:
        """Shape (n,); how many of them are hidden, which decides the memory of their distributions."""
        ...

    def take(self, part: Part) -> tuple[Tokens, Bool[Tensor, "b D"]]:
        """Some of the rows, and which of their tokens are hidden, shape (b, D)."""
        ...


@dataclass(frozen=True)
class MaskedRows:
    """The contexts of masks of observations.

    Attributes:
        tokens: B observations.
        row: shape (n,); the position 0..B-1 of each mask's observation.
        n_hidden: shape (n,); the size of each mask.
        masked: gives some of the masks, shape (b, D).
    """

    tokens: Tokens
    row: Ints
    n_hidden: Ints
    masked: Callable[[Part], Bool[Tensor, "b D"]]

    @cached_property
    def n_present(self) -> Ints:
        return (self.tokens.maskable | self.tokens.context).sum(1).cpu().numpy()[self.row]

    def take(self, part: Part) -> tuple[Tokens, Bool[Tensor, "b D"]]:
        return self.tokens[torch.from_numpy(self.row[part]).to(self.tokens.ids.device)], self.masked(part)


class Answer(NamedTuple):
    """What a model says of some contexts.

    Attributes:
        part: which contexts.
        tokens: their b rows.
        hidden: shape (b, D).
        log_probs: shape (b, D), the log-probability of each hidden token, nats; or, of distributions, shape
            (n_hidden, V), that of every value of each hidden token, row by row.
    """

    part: Part
    tokens: Tokens
    hidden: Bool[Tensor, "b D"]
    log_probs: Float[Tensor, "n m"]


class Asker:
    """Asks a model, in calls that fit its device and memory, without gradients.

    Args:
        model: any `MaskedModel`.
        batch_size: how many rows go into one call; None leaves it to the model, and takes 1,024 rows for a
            model without `batches`.
        timed: whether a model may choose the size of its calls by a trial, which changes the last bits.
        advance: is told how many rows were answered since the last call.

    Attributes:
        n_calls: how many times the model was called so far.
        n_passes: how many rows went through it.

    Example:
        >>> import maskevidence as me
        >>> normal, x = me.models.Gaussian(torch.zeros(2), torch.eye(2)), Tokens.from_array([[0.0, 0.0]])
        >>> masks, same = torch.tensor([[True, False], [True, True]]), np.zeros(2, dtype=np.int64)
        >>> contexts = MaskedRows(x, same, np.array([1, 2]), masks.__getitem__)
        >>> asker = Asker(normal, batch_size=1)
        >>> answers = list(asker.conditionals(contexts))
        >>> [round(answer.log_probs.sum().item(), 2) for answer in answers], asker.n_calls
        ([-0.92, -1.84], 2)
    """

    def __init__(
        self,
        model: MaskedModel,
        batch_size: int | None = None,
        *,
        timed: bool = False,
        advance: Advance | None = None,
    ) -> None:
        self.model, self.batch_size, self.timed, self.advance = model, batch_size, timed, advance
        self.n_calls = self.n_passes = 0
        self._n_values = _MANY_VALUES

    def conditionals(
        self, contexts: Contexts, among: Ints | None = None, *, share: bool = False
    ) -> Iterator[Answer]:
        """Ask for the log-probability of each hidden token; the reader checks that it is finite.

        Args:
            contexts: the rows.
            among: which of them; by default all.
            share: whether rows that look the same are one pass of the model, whatever their hidden tokens
                are; of tokens that are whole numbers. The model then needs `log_distributions`.

        Raises:
            InputError: a mask that is empty or hides a token that is not maskable, an answer that is not of
                shape (b, D), or tokens that cannot be shared.
        """
        if share:
            yield from _shared(self, contexts, among)
            return
        for part in self._calls(contexts, among):
            tokens, hidden = self._beside(*contexts.take(part))
            with torch.no_grad():
                log_probs = asked(self.model, tokens, hidden)
            yield Answer(part, tokens, hidden, log_probs)
            self._count(len(hidden))

    def distributions(
        self, contexts: Contexts, among: Ints | None = None, *, unmasked: bool = False
    ) -> Iterator[Answer]:
        """Ask for the log-probabilities of all values at hidden places, of which the model sees nothing.

        Args:
            contexts: the rows.
            among: which of them; by default all.
            unmasked: whether the model sees the tokens that it is asked for.

        Raises:
            InputError: a model that does not list the values of hidden tokens, or an answer that is not of
                shape (n_hidden, V).
        """
        for part in self._calls(contexts, among):
            for few in self._within_memory(contexts.n_hidden, part):
                tokens, hidden = self._beside(*contexts.take(few))
                with torch.no_grad():
                    listed = self._listed(tokens, hidden, unmasked=unmasked)
                self._n_values = listed.shape[1]
                yield Answer(few, tokens, hidden, listed)
                self._count(len(hidden))

    def _listed(
        self, tokens: Tokens, hidden: Bool[Tensor, "b D"], *, unmasked: bool
    ) -> Float[Tensor, "n_hidden V"]:
        """The model's answer of distributions, after a check of its shape."""
        if unmasked:
            assert isinstance(self.model, HasUnmaskedLogDistributions)
            return self.model.unmasked_log_distributions(tokens, hidden)
        name = type(self.model).__name__
        if not isinstance(self.model, HasLogDistributions):
            raise InputError(f"{name} has no log_distributions, which lists the values of hidden tokens")
        blank = replace(tokens, values=tokens.values.masked_fill(hidden, 0))
        listed = self.model.log_distributions(blank, hidden)
        if not isinstance(listed, Tensor) or listed.ndim != 2 or len(listed) != int(hidden.sum()):
            raise InputError(
                f"log_distributions of {name} answers for other places than the {int(hidden.sum())} that are "
                "hidden; it must give a tensor of shape (n_hidden, V), row by row"
            )
        return listed

    def _beside(self, tokens: Tokens, hidden: Bool[Tensor, "b D"]) -> tuple[Tokens, Bool[Tensor, "b D"]]:
        tokens = beside(self.model, tokens)
        return tokens, hidden.to(tokens.maskable.device)

    def _count(self, n_rows: int) -> None:
        self.n_calls += 1
        self.n_passes += n_rows
        if self.advance is not None:
            self.advance(n_rows)

    def _calls(self, contexts: Contexts, among: Ints | None) -> Iterator[Part]:
        """The rows of each call; longest first where the model packs rows of different lengths."""
        n_present = contexts.n_present if among is None else contexts.n_present[among]
        parts: Iterable[Part]
        if isinstance(self.model, HasBatches) and self.batch_size is not None:
            order = np.argsort(-n_present, kind="stable")
            parts = (order[part] for part in slices(len(order), self.batch_size))
        elif not isinstance(self.model, HasBatches):
            parts = slices(len(n_present), self.batch_size or _ROWS)
        elif self.timed and isinstance(self.model, HasTimedBatches):
            parts = self.model.timed_batches(n_present)
        else:
            parts = self.model.batches(n_present)
        yield from parts if among is None else (among[part] for part in parts)

    def _within_memory(self, n_hidden: Ints, part: Part) -> Iterator[Ints]:
        """Parts of a call whose distributions fit into memory, at least one row each."""
        rows = np.arange(len(n_hidden))[part]
        while len(rows):
            room = _NUMBERS // self._n_values
            n = max(1, int(np.searchsorted(np.cumsum(n_hidden[rows]), room, side="right")))
            yield rows[:n]
            rows = rows[n:]


def mean_score(
    answer: Float[Tensor, "B D"], tokens: Tokens, scored: Bool[Tensor, "B D"]
) -> Float[Tensor, " B"]:
    """The mean of a model's answer over the tokens that count, after a check that it is finite there."""
    scored = scored.to(answer.device)
    total = (answer * scored).sum(1)  # finite if every term is, at a fraction of the work of the following
    if not bool(torch.isfinite(total).all()):
        log_conditionals = torch.where(scored, answer, 0.0)
        total = log_conditionals.sum(1)
        if not bool(torch.isfinite(total).all()):
            raise not_finite(log_conditionals, tokens)
    return total / scored.sum(1)


class Reads:
    """Questions about rows of token ids, of which those that look the same are one pass of the model.

    Args:
        largest: the largest id; it decides how many bytes a token takes.

    Attributes:
        n_asked: how many questions were asked, repetitions included.

    Example:
        >>> reads, row = Reads(largest=9), np.array([5, 6, 7])
        >>> reads.ask(row, np.array([1])), reads.ask(row, np.array([1]), values=np.array([8]))
        ((0, slice(0, 1, None)), (0, slice(1, 2, None)))
        >>> import maskevidence as me
        >>> model = me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 10), mask_token_id=9)
        >>> asker = Asker(model)
        >>> reads.answers(asker).round(2), asker.n_passes
        (array([-2.3, -2.3]), 1)
    """

    def __init__(self, largest: int) -> None:
        self.n_asked = 0
        self._dtype = np.min_scalar_type(_SEEN - largest)
        self._number: dict[bytes, int] = {}
        self._n_hidden = array("q")
        self._context = array("q")  # of each question
        self._values = array(self._dtype.char)

    def __len__(self) -> int:
        """The number of distinct contexts."""
        return len(self._number)

    def ask(
        self,
        ids: Integer[np.ndarray, " n"],
        places: Integer[np.ndarray, " k"],
        values: Integer[np.ndarray, " k"] | None = None,
        *,
        unmasked: bool = False,
    ) -> tuple[int, slice]:
        """Ask for the log-probabilities of values at some places of a row, where its own tokens are hidden.

        Args:
            ids: the row; -2 where there is no token.
            places: where tokens are hidden, in ascending order.
            values: what is asked for at each place; by default the row's own tokens.
            unmasked: whether the model sees the row's own tokens at these places.

        Returns:
            The number of the context, and where the answers will be.
        """
        row = ids.astype(self._dtype)
        values = row[places] if values is None else values.astype(self._dtype)
        row[places] = _SEEN - row[places] if unmasked else _HIDDEN
        number = self._number.setdefault(row.tobytes(), len(self._number))
        if number == len(self._n_hidden):
            self._n_hidden.append(len(places))
        first = len(self._values)
        self._context.append(number)
        self._values.frombytes(values.tobytes())
        self.n_asked += 1
        return number, slice(first, len(self._values))

    def answers(self, asker: Asker) -> Float64[np.ndarray, " n_reads"]:
        """Ask for all contexts once, and give the log-probabilities of all values, nats.

        A context with one value at each place is asked for that value, and another for its distributions.

        Raises:
            NumericalError: a log-probability that is not finite.
        """
        contexts = _Distinct(
            [np.frombuffer(row, dtype=self._dtype) for row in self._number],
            np.frombuffer(self._n_hidden, dtype=np.int64),
            np.frombuffer(self._context, dtype=np.int64),
            np.frombuffer(self._values, dtype=self._dtype),
        )
        answers = np.empty(len(self._values))
        unmasked, several = contexts.unmasked, contexts.several
        for kind in (unmasked, ~unmasked & ~several, ~unmasked & several):
            among = np.flatnonzero(kind)
            if not len(among):
                continue
            seen = bool(unmasked[among[0]])
            listed = seen or bool(several[among[0]])
            found = (
                asker.distributions(contexts, among, unmasked=seen)
                if listed
                else asker.conditionals(contexts, among)
            )
            for answer in found:
                reads, place = contexts.reads(np.arange(len(kind))[answer.part])
                at = torch.from_numpy(place).to(answer.log_probs.device)
                if listed:
                    values = torch.from_numpy(contexts.values[reads].astype(np.int64)).to(at.device)
                    log_probs = answer.log_probs[at, values]
                else:
                    log_probs = answer.log_probs[answer.hidden][at]
                answers[reads] = log_probs.double().cpu().numpy()
        if not np.isfinite(answers).all():
            value = answers[~np.isfinite(answers)][0]
            raise NumericalError(
                f"the log-probability of a hidden token is {value}; a model must give every token a "
                "probability above 0"
            )
        return answers


@dataclass(frozen=True)
class _Distinct:
    """The distinct contexts of some questions.

    Attributes:
        rows: the ids of each context, or what stands in place of them.
        n_hidden: shape (n,).
        context: shape (n_questions,); the context of each question.
        values: shape (n_reads,); what is asked for, question by question.
    """

    rows: list[Integer[np.ndarray, " _"]]
    n_hidden: Ints
    context: Ints
    values: Integer[np.ndarray, " n_reads"]

    @cached_property
    def n_present(self) -> Ints:
        return np.array([np.count_nonzero(row != _ABSENT) for row in self.rows])

    @cached_property
    def unmasked(self) -> Bool[np.ndarray, " n"]:
        """Whether the model sees the tokens that it is asked for."""
        return np.array([bool((row <= _SEEN).any()) for row in self.rows])

    @cached_property
    def _start(self) -> Ints:
        """Where the values of each question begin."""
        n_reads = self.n_hidden[self.context]
        return np.cumsum(n_reads) - n_reads

    @cached_property
    def _by_context(self) -> tuple[Ints, Ints]:
        """The questions in the order of their contexts, and where those of each context begin."""
        order = np.argsort(self.context, kind="stable")
        return order, np.searchsorted(self.context[order], np.arange(len(self.rows) + 1))

    @cached_property
    def _first(self) -> Ints:
        """Where the values of each context's first question begin."""
        order, bounds = self._by_context
        return self._start[order[bounds[:-1]]]

    @cached_property
    def several(self) -> Bool[np.ndarray, " n"]:
        """Whether questions about a context ask for different values."""
        n_reads = self.n_hidden[self.context]
        differ = self.values != self.values[_ranges(self._first[self.context], n_reads)]
        several = np.zeros(len(self.rows), dtype=np.bool_)
        several[np.repeat(self.context, n_reads)[differ]] = True
        return several

    def reads(self, part: Ints) -> tuple[Ints, Ints]:
        """All reads of some contexts, and the position of each among the hidden tokens of these contexts."""
        order, bounds = self._by_context
        n_questions = bounds[part + 1] - bounds[part]
        questions = order[_ranges(bounds[part], n_questions)]
        n_hidden = self.n_hidden[part]
        begin = np.repeat(np.cumsum(n_hidden) - n_hidden, n_questions)
        n_reads = self.n_hidden[self.context[questions]]
        return _ranges(self._start[questions], n_reads), _ranges(begin, n_reads)

    def take(self, part: Part) -> tuple[Tokens, Bool[Tensor, "b D"]]:
        number = np.arange(len(self.rows))[part]
        rows = np.full((len(number), max(len(self.rows[k]) for k in number)), _ABSENT, dtype=np.int64)
        for line, k in zip(rows, number, strict=True):
            line[: len(self.rows[k])] = self.rows[k]
        hidden = (rows == _HIDDEN) | (rows <= _SEEN)
        ids = np.where(rows <= _SEEN, _SEEN - rows, np.maximum(rows, 0))
        if not self.unmasked[number[0]]:
            ids[hidden] = self.values[_ranges(self._first[number], self.n_hidden[number])]
        values, places, context = map(torch.from_numpy, (ids, hidden, rows >= 0))
        return Tokens(values, places, context, torch.from_numpy(number)), places


def _shared(asker: Asker, contexts: Contexts, among: Ints | None) -> Iterator[Answer]:
    """The conditionals of contexts of which those that look the same are one pass."""
    number = np.arange(len(contexts.n_present)) if among is None else among
    parts = [number[part] for part in slices(len(number), _ROWS)]
    reads = Reads(2**31 + _SEEN - 1)
    begin = [0]
    for part in parts:
        tokens, hidden = contexts.take(part)
        if tokens.values.is_floating_point() or tokens.values.ndim != 2:
            raise InputError(
                "contexts are shared between tokens that are whole numbers, one for each place; these have "
                f"shape {tuple(tokens.values.shape)} and dtype {tokens.values.dtype}"
            )
        absent = ~(tokens.maskable | tokens.context)
        rows = tokens.values.masked_fill(absent, _ABSENT).cpu().numpy()
        for row, masked in zip(rows, hidden.cpu().numpy(), strict=True):
            end = reads.ask(row, np.flatnonzero(masked))[1].stop
        begin.append(end)
    answers = reads.answers(asker)
    for part, first, end in zip(parts, begin, begin[1:], strict=False):
        tokens, hidden = contexts.take(part)
        log_probs = torch.zeros(hidden.shape, dtype=torch.float64)
        log_probs[hidden.cpu()] = torch.from_numpy(answers[first:end])
        yield Answer(part, tokens, hidden, log_probs)


def _ranges(start: Ints, count: Ints) -> Ints:
    """start_0, start_0 + 1, ... `count_0` numbers, then those from start_1, and so on."""
    before = np.cumsum(count) - count
    return np.repeat(start - before, count) + np.arange(int(count.sum()))


def slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, total, size))
