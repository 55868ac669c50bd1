"""The contexts that scores of mutants need, each computed once: which sites are hidden, which are mutated."""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from maskevidence.model import HasLogDistributions, HasUnmaskedLogDistributions, beside
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens

_ROWS_AT_ONCE = 1024
_PLACES_AT_ONCE = 2**15  # of which the distributions over the vocabulary are held at once
Letters = Int64[np.ndarray, " n"]
Answers = Float64[np.ndarray, " n_slots"]


class Base(NamedTuple):
    """A sequence as tokens, or a window of one.

    Attributes:
        tokens: one observation.
        column: shape (n,); the column of each letter.
        letters: shape (n,); the token of each letter.
    """

    tokens: Tokens
    column: Int64[np.ndarray, " n"]
    letters: Letters


class _Context(NamedTuple):
    """What decides a distribution: the base, the mutated letters that are visible, and the hidden sites."""

    base: int
    filled: tuple[tuple[int, int], ...]
    hidden: int  # bit j stands for site j


class _Numbers:
    """Columns of whole numbers that grow row by row, 8 bytes each."""

    def __init__(self, n_columns: int) -> None:
        self.columns = tuple(array("q") for _ in range(n_columns))

    def append(self, *row: int) -> None:
        for column, number in zip(self.columns, row, strict=True):
            column.append(number)

    def sorted(self) -> tuple[Int64[np.ndarray, " n"], ...]:
        """The columns in ascending order of the first."""
        columns = [np.frombuffer(column, dtype=np.int64) for column in self.columns]
        order = np.argsort(columns[0], kind="stable")
        return tuple(column[order] for column in columns)


class Contexts:
    """The distinct contexts that are asked for, with what is read off each.

    Args:
        bases: the sequences, by number.

    Attributes:
        n_asked: how many contexts were asked for, repetitions included.
    """

    def __init__(self, bases: Sequence[Base]) -> None:
        self.bases = bases
        self.n_asked = 0
        self._place: dict[_Context, int] = {}
        self._letters = _Numbers(4)  # number of the context, slot, site, token
        self._sums: list[list[tuple[int, Letters]]] = []
        self._n_slots = 0

    def __len__(self) -> int:
        return len(self._place)

    def ask(
        self, base: int, filled: Mapping[int, int], hidden: Sequence[int], *reads: tuple[int, int]
    ) -> tuple[int, range]:
        """Ask for log p of some letters in one context.

        Args:
            base: the number of the sequence.
            filled: the tokens that differ from those of the base, by site; hidden ones do not count.
            hidden: the hidden sites; none for the sequence with nothing hidden.
            reads: the sites and tokens whose log-probabilities to read.

        Returns:
            The number of the context, and the places of the answers.
        """
        place = self._number(base, filled, hidden)
        first = self._n_slots
        for site, token in reads:
            self._letters.append(place, self._n_slots, site, token)
            self._n_slots += 1
        return place, range(first, self._n_slots)

    def ask_sum(
        self, base: int, filled: Mapping[int, int], hidden: Sequence[int], letters: Letters
    ) -> tuple[int, int]:
        """Ask for the sum of log p over all hidden sites; the tokens are those of all sites, shape (n,)."""
        place = self._number(base, filled, hidden)
        self._sums[place].append((self._n_slots, letters))
        self._n_slots += 1
        return place, self._n_slots - 1

    def _number(self, base: int, filled: Mapping[int, int], hidden: Sequence[int]) -> int:
        bits = 0
        for site in hidden:
            bits |= 1 << site
        visible = tuple(sorted((site, token) for site, token in filled.items() if not bits >> site & 1))
        place = self._place.setdefault(_Context(base, visible, bits), len(self._sums))
        if place == len(self._sums):
            self._sums.append([])
        self.n_asked += 1
        return place

    def answers(self, model: HasLogDistributions) -> Answers:
        """Compute every context once, and give all that was asked for, nats, shape (n_slots,)."""
        answers = np.zeros(self._n_slots)
        computing = _Computing(model, self.bases, self._letters.sorted(), self._sums, answers)
        contexts = list(self._place)
        with torch.no_grad(), progress("scoring contexts", len(self)) as advance:
            first = n_places = 0
            for number, context in enumerate(contexts):
                size = context.hidden.bit_count() or len(self.bases[context.base].column)
                if number > first and (
                    number - first == _ROWS_AT_ONCE
                    or n_places + size > _PLACES_AT_ONCE
                    or bool(context.hidden) != bool(contexts[first].hidden)
                ):
                    computing.compute(first, contexts[first:number])
                    advance(number - first)
                    first, n_places = number, 0
                n_places += size
            if contexts:
                computing.compute(first, contexts[first:])
                advance(len(contexts) - first)
        return answers


class _Computing:
    """Computes contexts, several in one call of the model, and writes what is read off them.

    Args:
        model: the model.
        bases: the sequences, by number.
        reads: numbers of the contexts in ascending order, with the slot, site and token of each letter.
        sums: for each context, the slots and letters of the sums over its hidden sites.
        answers: shape (n_slots,); written to.
    """

    def __init__(
        self,
        model: HasLogDistributions,
        bases: Sequence[Base],
        reads: tuple[Int64[np.ndarray, " n_reads"], ...],
        sums: Sequence[Sequence[tuple[int, Int64[np.ndarray, " _"]]]],
        answers: Answers,
    ) -> None:
        self.model, self.reads, self.sums, self.answers = model, reads, sums, answers
        width = max((base.tokens.width for base in bases), default=0)
        longest = max((len(base.column) for base in bases), default=0)
        self.values = np.zeros((len(bases), width), dtype=np.int64)
        self.maskable, self.context = (np.zeros(self.values.shape, dtype=np.bool_) for _ in range(2))
        self.column = np.zeros((len(bases), longest), dtype=np.int64)
        self.n_letters = [len(base.column) for base in bases]
        for number, base in enumerate(bases):
            own = base.tokens
            self.values[number, : own.width] = own.values[0]
            self.maskable[number, : own.width], self.context[number, : own.width] = (
                own.maskable[0],
                own.context[0],
            )
            self.column[number, : len(base.column)] = base.column

    def compute(self, first: int, contexts: Sequence[_Context]) -> None:
        """Compute the contexts numbered `first` and on, all with or all without hidden sites."""
        base = np.array([context.base for context in contexts])
        values = self.values[base]
        changed = [
            (row, site, token) for row, context in enumerate(contexts) for site, token in context.filled
        ]
        if changed:
            row, site, token = np.array(changed).T
            values[row, self.column[base[row], site]] = token
        sites = [_sites(context.hidden, self.n_letters[context.base]) for context in contexts]
        row = np.repeat(np.arange(len(contexts)), [len(one) for one in sites])
        asked = np.zeros(values.shape, dtype=np.bool_)
        asked[row, self.column[base[row], np.concatenate(sites)]] = True
        log_p = self._distributions(values, base, asked, unmasked=not contexts[0].hidden)

        start, stop = np.searchsorted(self.reads[0], [first, first + len(contexts)])
        row, slot, site, token = (one[start:stop] for one in self.reads)
        row = row - first
        place = asked.ravel().cumsum()[row * values.shape[1] + self.column[base[row], site]] - 1
        self.answers[slot] = _at(log_p, place, token)
        end = np.cumsum([len(one) for one in sites])
        for row_of_sum, own in enumerate(sites):
            for slot_of_sum, letters in self.sums[first + row_of_sum]:
                places = np.arange(end[row_of_sum] - len(own), end[row_of_sum])
                self.answers[slot_of_sum] = _at(log_p, places, letters[own]).sum()

    def _distributions(
        self,
        values: Int64[np.ndarray, "B D"],
        base: Int64[np.ndarray, " B"],
        asked: Bool[np.ndarray, "B D"],
        *,
        unmasked: bool,
    ) -> torch.Tensor:
        """log p of all tokens at the places that are asked for, row by row, shape (n, V)."""
        own = (values, self.maskable[base], self.context[base], np.arange(len(values)))
        ids, maskable, context, numbers = map(torch.from_numpy, own)
        tokens = beside(self.model, Tokens(ids, maskable, context, numbers))
        where = torch.from_numpy(asked).to(tokens.values.device)
        if not unmasked:
            return self.model.log_distributions(tokens, where)
        assert isinstance(self.model, HasUnmaskedLogDistributions)
        return self.model.unmasked_log_distributions(tokens, where)


def _at(
    log_p: torch.Tensor, place: Int64[np.ndarray, " n"], token: Int64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """log p of a token at a place each."""
    at, which = (torch.from_numpy(one).to(log_p.device) for one in (place, token))
    return log_p[at, which].double().cpu().numpy()


def _sites(hidden: int, n: int) -> Int64[np.ndarray, " n_hidden"]:
    """The hidden sites in ascending order; all n of them if nothing is hidden."""
    if not hidden:
        return np.arange(n)
    bits = np.frombuffer(hidden.to_bytes((n + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
