"""Ask a model for log-probabilities of hidden tokens, in calls that fit its device and memory.

A context is a row of tokens of which some are hidden. An `Asker` packs contexts into calls of the model.
`Reads` asks each distinct context once, whatever the values of its hidden tokens are.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Integer
from torch import Tensor

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.model import (
    HasLogDistributions,
    HasUnmaskedLogDistributions,
    MaskedModel,
    asked,
    check_masses,
    conditionals_of,
    device_of,
    not_finite,
    refuse_training_mode,
    to_device_of,
)
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.devices import computes_ahead, fetched
from maskevidence.core.support.progress import Advance
from maskevidence.core.tokens import Tokens

IntVector = Integer[np.ndarray, " _"]
RowIndex = slice | IntVector

Masked = Bool[Tensor, "b D"]
LogProbs = Float[Tensor, "n m"]
_ROWS = 1024  # rows per call for a model without `batches`
_NUMBERS = 2**24  # log-probabilities per call: 64 MiB in single precision
_MANY_VALUES = 2**15  # assumed vocabulary size before the first answer
_HIDDEN, ABSENT = -1, -2  # stand for the id of a hidden or absent token


@runtime_checkable
class Contexts(Protocol):
    """Rows of tokens with hidden ones, built only when the model is called."""

    @property
    def n_present(self) -> IntVector:
        """Number of visible and hidden tokens of each row, shape (n,); calls are packed by it."""
        ...

    @property
    def n_hidden(self) -> IntVector:
        """Number of hidden tokens of each row, shape (n,); their distributions take memory."""
        ...

    def take(self, part: RowIndex) -> tuple[Tokens, Masked]:
        """Return some rows and their masks of hidden tokens, shape (b, D)."""
        ...


@dataclass(frozen=True)
class MaskedRows:
    """Contexts made of observations and masks.

    Attributes:
        tokens: B observations.
        row: shape (n,); the position 0..B-1 of each mask's observation.
        n_hidden: shape (n,); the size of each mask.
        masked: gives some of the masks, shape (b, D).
    """

    tokens: Tokens
    row: IntVector
    n_hidden: IntVector
    masked: Callable[[RowIndex], Masked]

    @cached_property
    def n_present(self) -> IntVector:
        return (self.tokens.maskable | self.tokens.context).sum(1).cpu().numpy()[self.row]

    def take(self, part: RowIndex) -> tuple[Tokens, Masked]:
        row = torch.from_numpy(self.row[part]).long()
        return self.tokens[row.to(self.tokens.ids.device)], self.masked(part)


class Answer(NamedTuple):
    """A model's log-probabilities for some contexts.

    Attributes:
        part: the positions of the contexts.
        tokens: their b rows.
        hidden: shape (b, D).
        log_probs: shape (b, D), the log-probability of each hidden token, nats; for distributions shape
            (n_hidden, V), the log-probability of every value of each hidden token, row by row.
    """

    part: RowIndex
    tokens: Tokens
    hidden: Masked
    log_probs: LogProbs


class Asker:
    """Asks a model without gradients, in calls that fit its device and memory.

    A call that a GPU has too little memory for is halved, and so are later ones as large.

    Args:
        model: any `MaskedModel`.
        batch_size: how many rows go into one call; None leaves it to the model, and takes 1,024 rows for a
            model without `batches`.
        timed: whether a model may choose the size of its calls by a trial, which changes the last bits.
        advance: called with the number of rows that were answered since its last call.
        any_mode: whether a model in training mode is asked, too.

    Raises:
        InputError: a model in training mode, whose dropout is on.

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
        any_mode: bool = False,
    ) -> None:
        if not any_mode:
            refuse_training_mode(model)
        self.model = model
        self.batch_size = None if batch_size is None else whole_number("batch_size", batch_size, 1)
        self.timed, self.advance = timed, advance
        self.n_calls = self.n_passes = 0
        self._n_values = _MANY_VALUES
        self._room: int | None = None  # most tokens per call, set once a larger call ran out of memory

    def conditionals(
        self, contexts: Contexts, among: IntVector | None = None, *, share: bool = False
    ) -> Iterator[Answer]:
        """Ask for the log-probability of each hidden token; the caller checks that it is finite.

        Args:
            contexts: the rows.
            among: which of them; by default all.
            share: whether rows with the same visible tokens share one pass of the model; for tokens and a
                model and tokens that `check_listed` accepts.

        Raises:
            InputError: a mask that is empty or hides a token that is not maskable, or an answer that is not
                of shape (b, D).
        """
        if share:
            yield from _shared(self, contexts, among)
            return
        parts, ask, ahead = self._calls(contexts, among), partial(conditionals_of, self.model), False
        if hasattr(self.model, "launched") and computes_ahead(device_of(self.model)):
            ask, ahead = partial(asked, self.model, self.model.launched), True
        answers = chain.from_iterable(self._answers(contexts, part, ask, ahead) for part in parts)
        yield from self._ahead(answers) if ahead else answers

    def _ahead(self, answers: Iterator[Answer]) -> Iterator[Answer]:
        """Fetch each answer from the device after the next call is drawn, packed and under way."""
        waiting: tuple[Answer, Callable[[], None]] | None = None
        for answer in chain(answers, [None]):
            under_way = None
            if answer is not None:
                log_probs, wait = fetched(answer.log_probs)
                under_way = answer._replace(log_probs=log_probs), wait
            if waiting is not None:
                waiting[1]()
                check_masses(self.model, waiting[0].tokens, waiting[0].log_probs)
                yield waiting[0]
            waiting = under_way

    def distributions(
        self, contexts: Contexts, among: IntVector | None = None, *, unmasked: bool = False
    ) -> Iterator[Answer]:
        """Ask for the log-probabilities of all values at hidden places, whose values the model does not see.

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
                for answer in self._answers(contexts, few, partial(self._listed, unmasked=unmasked)):
                    self._n_values = answer.log_probs.shape[1]
                    yield answer

    def _answers(
        self,
        contexts: Contexts,
        part: RowIndex,
        ask: Callable[[Tokens, Masked], LogProbs],
        ahead: bool = False,
    ) -> Iterator[Answer]:
        """Answer a call, split into parts if the device lacks memory for all its tokens.

        A call that is launched `ahead` gets its tokens in the processor's memory.
        """
        if self._room is not None:
            rows = np.arange(len(contexts.n_present))[part]
            n_parts = -(-len(rows) * int(contexts.n_present[rows].max()) // self._room)
            if min(len(rows), n_parts) > 1:
                for few in np.array_split(rows, min(len(rows), n_parts)):
                    yield from self._answers(contexts, few, ask, ahead)
                return
        tokens, hidden = contexts.take(part)
        if not ahead:
            tokens = to_device_of(self.model, tokens)
            hidden = hidden.to(tokens.maskable.device)
        log_probs = None
        try:
            with torch.no_grad():
                log_probs = ask(tokens, hidden)
        except torch.OutOfMemoryError:
            if len(hidden) == 1:
                raise
            self._room = max(1, len(hidden) * int(contexts.n_present[part].max()) // 2)
        if log_probs is not None:
            yield Answer(part, tokens, hidden, log_probs)
            self.n_calls, self.n_passes = self.n_calls + 1, self.n_passes + len(hidden)
            if self.advance is not None:
                self.advance(len(hidden))
            return
        torch.cuda.empty_cache()  # now that the error, which held the results, is gone
        yield from self._answers(contexts, part, ask, ahead)

    def _listed(self, tokens: Tokens, hidden: Masked, *, unmasked: bool) -> Float[Tensor, "n_hidden V"]:
        """Ask for distributions and check their shape."""
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

    def _calls(self, contexts: Contexts, among: IntVector | None) -> Iterator[RowIndex]:
        """Yield the rows of each call, longest first if the model packs rows of different lengths."""
        parts: Iterable[RowIndex]
        if not hasattr(self.model, "batches"):
            n_rows = len(contexts.n_hidden if among is None else among)
            parts = slices(n_rows, self.batch_size or _ROWS)
            yield from parts if among is None else (among[part] for part in parts)
            return
        n_present = contexts.n_present if among is None else contexts.n_present[among]
        if self.batch_size is not None:
            order = np.argsort(-n_present, kind="stable")
            parts = (order[part] for part in slices(len(order), self.batch_size))
        elif self.timed and hasattr(self.model, "timed_batches"):
            parts = self.model.timed_batches(n_present)
        else:
            parts = self.model.batches(n_present)
        yield from parts if among is None else (among[part] for part in parts)

    def _within_memory(self, n_hidden: IntVector, part: RowIndex) -> Iterator[IntVector]:
        """Split a call so that the distributions of each part fit into memory, one row at least."""
        rows = np.arange(len(n_hidden))[part]
        while len(rows):
            room = _NUMBERS // self._n_values
            n = max(1, int(np.searchsorted(np.cumsum(n_hidden[rows]), room, side="right")))
            yield rows[:n]
            rows = rows[n:]


def mean_score(
    answer: Float[Tensor, "B D"], tokens: Tokens, scored: Bool[Tensor, "B D"]
) -> Float[Tensor, " B"]:
    """Average the log-probabilities of the scored tokens of each row; raise if the sum is not finite."""
    scored = scored.to(answer.device)
    answer = answer.float() if answer.element_size() < 4 else answer  # half precision would round the sum
    total = (answer * scored).sum(1)  # finite if every term is; cheaper than checking each term
    if not bool(torch.isfinite(total).all()):
        log_conditionals = torch.where(scored, answer, 0.0)
        total = log_conditionals.sum(1)
        if not bool(torch.isfinite(total).all()):
            raise not_finite(log_conditionals, tokens)
    return total / scored.sum(1)


class Reads:
    """Requests for log-probabilities in rows of token ids; rows with equal visible tokens share a pass.

    Args:
        largest: the largest id; it decides how many bytes a token takes.

    Attributes:
        ABSENT: the id of a place without a token.
        n_asked: how many rows were asked for, repetitions included.

    Example:
        >>> reads, row, hidden = Reads(largest=9), np.array([5, 6, 7]), np.array([1])
        >>> reads.ask(row, hidden), reads.ask(row, hidden, values=np.array([8]))
        ((0, slice(0, 1, None)), (0, slice(1, 2, None)))
        >>> import maskevidence as me
        >>> model = me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 10), mask_token_id=9)
        >>> asker = Asker(model)
        >>> reads.answers(asker).round(2), asker.n_passes
        (array([-2.3, -2.3]), 1)
    """

    ABSENT: ClassVar[int] = ABSENT

    def __init__(self, largest: int) -> None:
        self.n_asked = 0
        self._dtype = np.min_scalar_type(-1 - largest)
        self._number: dict[bytes, int] = {}
        self._context, self._place, self._value = array("i"), array("i"), array(self._dtype.char)

    def __len__(self) -> int:
        """Number of distinct contexts."""
        return len(self._number)

    def ask(
        self,
        ids: Integer[np.ndarray, " n"],
        hidden: Integer[np.ndarray, " k"],
        places: Integer[np.ndarray, " m"] | None = None,
        values: Integer[np.ndarray, " m"] | None = None,
    ) -> tuple[int, slice]:
        """Ask for the log-probabilities of values at some places of a row.

        Args:
            ids: the row; `ABSENT` where there is no token.
            hidden: the places that the model does not see; without any, it sees the tokens that are read.
            places: the places that are read; by default all hidden places.
            values: the value that is read at each of them; by default the row's own.

        Returns:
            The number of the context, and where the answers will be.
        """
        row = ids.astype(self._dtype)
        places = hidden if places is None else places
        values = row[places] if values is None else values.astype(self._dtype)
        row[hidden] = _HIDDEN
        number = self._number.setdefault(row.tobytes(), len(self._number))
        first = len(self._value)
        self._context.frombytes(np.full(len(places), number, dtype=np.int32).tobytes())
        self._place.frombytes(places.astype(np.int32).tobytes())
        self._value.frombytes(values.tobytes())
        self.n_asked += 1
        return number, slice(first, len(self._value))

    def answers(self, asker: Asker) -> Float64[np.ndarray, " n_reads"]:
        """Ask for all contexts once, and return the log-probability of each read, nats.

        A context with one value at each place is asked for that value, and another for its distributions.

        Raises:
            NumericalError: a log-probability that is not finite.
        """
        contexts = _Distinct(
            [np.frombuffer(row, dtype=self._dtype) for row in self._number],
            np.frombuffer(self._context, dtype=np.int32),
            np.frombuffer(self._place, dtype=np.int32),
            np.frombuffer(self._value, dtype=self._dtype),
        )
        answers = np.empty(len(self._value))
        masked, several = contexts.n_masked > 0, contexts.several
        for kind in (masked & ~several, masked & several, ~masked):
            among = np.flatnonzero(kind)
            if len(among) and masked[among[0]] and not several[among[0]]:
                for answer in asker.conditionals(contexts, among):
                    reads, row, column = contexts.reads(answer.part)
                    answers[reads] = answer.log_probs.double().cpu().numpy()[row, column]
            elif len(among):
                for answer in asker.distributions(contexts, among, unmasked=not masked[among[0]]):
                    reads, row, column = contexts.reads(answer.part)
                    width = answer.hidden.shape[1]
                    rank = answer.hidden.flatten().cumsum(0).cpu().numpy()[row * width + column] - 1
                    at = torch.from_numpy(np.stack([rank, contexts.value[reads]])).to(answer.hidden.device)
                    answers[reads] = answer.log_probs[at[0], at[1]].double().cpu().numpy()
        if not np.isfinite(answers).all():
            value = answers[~np.isfinite(answers)][0]
            raise NumericalError(
                f"the log-probability of a hidden token is {value}; a model must give every token a "
                "probability above 0"
            )
        return answers


@dataclass(frozen=True)
class _Distinct:
    """The distinct contexts behind the requests."""

    # the ids of each context, with -1 for a hidden and -2 for an absent token
    rows: list[Integer[np.ndarray, " _"]]
    context: Integer[np.ndarray, " n_reads"]  # number of each read's context
    column: Integer[np.ndarray, " n_reads"]  # column of each read
    value: Integer[np.ndarray, " n_reads"]  # value of each read

    @cached_property
    def n_present(self) -> IntVector:
        return np.array([np.count_nonzero(row != ABSENT) for row in self.rows], dtype=np.int64)

    @cached_property
    def n_masked(self) -> IntVector:
        """Number of tokens of each context that the model does not see."""
        return np.array([np.count_nonzero(row == _HIDDEN) for row in self.rows], dtype=np.int64)

    @property
    def n_hidden(self) -> IntVector:
        n_reads = np.diff(self._in_order[1])  # at most this many places if none is hidden
        return np.where(self.n_masked > 0, self.n_masked, n_reads)

    @cached_property
    def _in_order(self) -> tuple[IntVector, IntVector]:
        """The reads sorted by context and column, and the start of each context."""
        order = np.lexsort([self.column, self.context])
        return order, np.searchsorted(self.context[order], np.arange(len(self.rows) + 1))

    @cached_property
    def several(self) -> Bool[np.ndarray, " n"]:
        """Whether a place of the context is read at several values."""
        order, _ = self._in_order
        context, column, value = self.context[order], self.column[order], self.value[order]
        differ = (np.diff(context) == 0) & (np.diff(column) == 0) & (value[1:] != value[:-1])
        several = np.zeros(len(self.rows), dtype=np.bool_)
        several[context[1:][differ]] = True
        return several

    def reads(self, part: RowIndex) -> tuple[IntVector, IntVector, IntVector]:
        """The reads of some contexts, with the row (among these contexts) and column of each."""
        order, begin = self._in_order
        number = np.arange(len(self.rows))[part]
        n_reads = begin[number + 1] - begin[number]
        row = np.repeat(np.arange(len(number)), n_reads)
        before = np.cumsum(n_reads) - n_reads
        reads = order[np.repeat(begin[number] - before, n_reads) + np.arange(len(row))]
        return reads, row, self.column[reads].astype(np.int64)

    def take(self, part: RowIndex) -> tuple[Tokens, Masked]:
        number = np.arange(len(self.rows))[part]
        rows = np.full((len(number), max(len(self.rows[k]) for k in number)), ABSENT, dtype=np.int64)
        for line, k in zip(rows, number, strict=True):
            line[: len(self.rows[k])] = self.rows[k]
        context, hidden = rows >= 0, rows == _HIDDEN
        reads, row, column = self.reads(part)
        if self.n_masked[number[0]]:
            rows[row, column] = self.value[reads]
        else:
            hidden[row, column] = True
        values, places, visible = map(torch.from_numpy, (rows.clip(0), hidden, context & ~hidden))
        return Tokens(values, places, visible, torch.from_numpy(number)), places


def check_listed(model: MaskedModel, tokens: Tokens, what: str, instead: str) -> None:
    """Raise an InputError unless a model lists the values of tokens, as `what` needs, with advice."""
    if not isinstance(model, HasLogDistributions):
        raise InputError(
            f"{what} needs the distributions of hidden tokens, and {type(model).__name__} has no "
            f"log_distributions; {instead}"
        )
    if tokens.values.is_floating_point() or tokens.values.ndim != 2:
        raise InputError(
            f"{what} needs tokens that are whole numbers, one for each place; these have shape "
            f"{tuple(tokens.values.shape)} and dtype {tokens.values.dtype}"
        )


def _shared(asker: Asker, contexts: Contexts, among: IntVector | None) -> Iterator[Answer]:
    """Yield conditionals, with one pass for all contexts that have the same visible tokens."""
    number = np.arange(len(contexts.n_present)) if among is None else among
    parts = [number[part] for part in slices(len(number), _ROWS)]
    reads = Reads(2**31 - 1)
    begin = [0]
    for part in parts:
        tokens, hidden = contexts.take(part)
        absent = ~(tokens.maskable | tokens.context)
        rows = tokens.values.masked_fill(absent, ABSENT).cpu().numpy()
        for row, masked in zip(rows, hidden.cpu().numpy(), strict=True):
            end = reads.ask(row, np.flatnonzero(masked))[1].stop
        begin.append(end)
    answers = reads.answers(asker)
    if asker.advance is not None:
        asker.advance(reads.n_asked - len(reads))
    for part, first, end in zip(parts, begin, begin[1:], strict=False):
        tokens, hidden = contexts.take(part)
        log_probs = torch.zeros(hidden.shape, dtype=torch.float64)
        log_probs[hidden.cpu()] = torch.from_numpy(answers[first:end])
        yield Answer(part, tokens, hidden, log_probs)


def slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, total, size))
