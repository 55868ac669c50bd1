"""Sequences as one token per letter, in windows if they are longer than the model reads."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64

from maskevidence import Tokens
from maskevidence.data.table import place_of
from maskevidence.errors import InputError, UnknownTokensWarning
from maskevidence.integrations.proteins.conventions import Base, Pair, Side
from maskevidence.integrations.proteins.mutants import Mutant, mutated
from maskevidence.scores import Reads

_INSERTED = 2**32  # above every position of a wild type


class Letters:
    """The tokens of single letters, each looked up once."""

    def __init__(self, model: Any, letters: str = "") -> None:
        self.model = model
        self._token: dict[str, int | None] = {}
        distinct = sorted(set(letters))
        if distinct and getattr(model, "tokenizer", None) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownTokensWarning)  # `check` names the letter
                tokens = model.tokens(distinct, allow_unknown=True)
            self._keep(distinct, tokens, model.tokenizer.unk_token_id)

    def __call__(self, letter: str) -> int | None:
        """The token of a letter; None if the tokenizer does not know it."""
        if letter not in self._token:
            try:
                self._keep([letter], self.model.tokens([letter]), None)
            except InputError:  # unknown tokens are refused
                self._token[letter] = None
        return self._token[letter]

    def _keep(self, letters: Sequence[str], tokens: Tokens, unknown: int | None) -> None:
        for row, letter in enumerate(letters):
            own = tokens.values[row][tokens.maskable[row]].tolist()
            self._token[letter] = own[0] if len(own) == 1 and own[0] != unknown else None

    def check(self, letters: str, where: str) -> None:
        """Raise an InputError that begins with `where` for an unknown letter."""
        unknown = next((letter for letter in letters if not letter.isalpha() or self(letter) is None), None)
        if unknown is not None:
            reason = f"the model does not know the letter {unknown!r}"
            if not unknown.isalpha():
                reason = f"{unknown!r} is no letter"
            raise InputError(f"{where}: {reason}; correct it or leave it out")


def as_base(letters: Letters, sequence: str) -> Base:
    """A sequence as tokens."""
    tokens = letters.model.tokens([sequence])
    column = np.flatnonzero(tokens.maskable[0].cpu().numpy())
    own = tokens.values[0].cpu().numpy()[column]
    alone = [letters(letter) for letter in sequence]
    if own.tolist() != alone:
        raise InputError(
            f"the tokenizer cuts {len(sequence)} letters into {len(own)} tokens that are not single "
            "letters; give a model whose tokens are single residues or bases"
        )
    absent = ~(tokens.maskable | tokens.context)
    return Base(tokens.values.masked_fill(absent, Reads.ABSENT)[0].cpu().numpy(), column)


def room_of(letters: Letters, wild_type: str) -> int | None:
    """How many letters the model reads, without special tokens; None if there is no limit."""
    limit = getattr(letters.model, "max_tokens", None)
    if limit is None:
        return None
    tokens = letters.model.tokens([wild_type[0]])
    return int(limit - tokens.context.sum())


def window(position: int, n: int, room: int | None) -> tuple[int, int]:
    """The window of a sequence of n letters around a position, as ProteinGym cuts it: start and stop.

    Example:
        >>> [window(position, 100, 20) for position in (3, 50, 97)]
        [(0, 20), (40, 60), (80, 100)]
        >>> window(3, 100, None)
        (0, 100)
    """
    if room is None or n <= room:
        return 0, n
    half = room // 2
    if position < half:
        return 0, room
    if position >= n - half:
        return n - room, n
    return position - half, position + half


def pairs_of(letters: Letters, wild_type: str, mutants: Sequence[Mutant]) -> tuple[list[Pair], list[str]]:
    """Pair each mutant with the wild type, in a window if the model cannot read all; and notes on windows."""
    letters.check(wild_type, "the wild type")
    room, n = room_of(letters, wild_type), len(wild_type)
    bases: dict[str, Base] = {}

    def base_of(sequence: str) -> Base:
        if sequence not in bases:
            bases[sequence] = as_base(letters, sequence)
        return bases[sequence]

    pairs = []
    for row, mutant in enumerate(mutants):
        residues = mutant.residues if mutant.sequence is None else mutant.sequence
        tokens = [token for letter in residues if (token := letters(letter)) is not None]
        if len(tokens) < len(residues):
            letters.check(residues, _named(row, mutant))
        if mutant.sequence is not None:
            if room is not None and max(len(mutant.sequence), n) > room:
                raise InputError(
                    f"{_named(row, mutant)}: the model reads {room} letters, and insertions and deletions of "
                    "longer sequences have no common window; leave it out"
                )
            pairs.append(_of_indel(base_of(wild_type), base_of(mutant.sequence), wild_type, mutant))
            continue
        middle = sum(mutant.sites) // len(mutant.sites) if mutant.sites else n // 2
        first, last = window(middle, n, room)
        if mutant.sites and not first <= mutant.sites[0] <= mutant.sites[-1] < last:
            raise InputError(
                f"{_named(row, mutant)}: its sites are too far apart for a window of {last - first} letters, "
                "which is what the model reads; leave it out"
            )
        base = base_of(wild_type[first:last])
        sites = tuple([site - first for site in mutant.sites]) if first else mutant.sites
        filled = dict(zip(sites, tokens, strict=True))
        pairs.append(Pair(sites, Side(base, filled), Side(base, {})))
    notes = []
    if room is not None and n > room:
        notes.append(
            f"the wild type has {n:,} letters and the model reads {room:,}: each mutant is scored in a "
            "window around the mean of its sites, cut as in ProteinGym"
        )
    return pairs, notes


def _named(row: int, mutant: Mutant) -> str:
    return f"{place_of(row, None)}, {mutant.name[:40]!r}"


def _of_indel(wild_type: Base, mutant: Base, letters: str, indel: Mutant) -> Pair:
    """An insertion or deletion and its wild type, aligned at their equal beginnings and ends."""
    columns = _aligned(letters, mutated(letters, indel))
    return Pair((), Side(mutant, {}, columns), Side(wild_type, {}))


def _aligned(wild_type: str, mutant: str) -> Int64[np.ndarray, " n"]:
    """Numbers of the mutant's letters: those of the wild type in the common beginning and end.

    Example:
        >>> _aligned("MKTA", "MKGTA").tolist() == [0, 1, 2 + 2**32, 2, 3]
        True
    """
    n = min(len(wild_type), len(mutant))
    same = (k for k in range(n) if wild_type[k] != mutant[k])
    front = next(same, n)
    back = next((k for k in range(n - front) if wild_type[-1 - k] != mutant[-1 - k]), n - front)
    columns = np.arange(len(mutant)) + _INSERTED
    columns[:front] = np.arange(front)
    if back:
        columns[-back:] = np.arange(len(wild_type) - back, len(wild_type))
    return columns
