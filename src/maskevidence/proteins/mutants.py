"""Parse mutants of a wild type (substitutions such as "A1P:D2N", or whole sequences) into tokens.

Sequences that are longer than the model reads are cut into windows.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.scores import Reads
from maskevidence.core.show import count
from maskevidence.core.table import place_of
from maskevidence.proteins.conventions import Base, Pair, Side

_SUBSTITUTION = re.compile(r"(?:p\.)?([^\W\d_])(-?\d+)([^\W\d_])")
_OF_HGVS = re.compile(r"(?:p\.)?\(?([A-Za-z]{3})(-?\d+)([A-Za-z]{3})\)?")  # p.Lys2Arg
_NAMES = "AlaCysAspGluPheGlyHisIleLysLeuMetAsnProGlnArgSerThrValTrpTyr"
_THREE_LETTERS = {_NAMES[3 * k : 3 * k + 3].lower(): x for k, x in enumerate("ACDEFGHIKLMNPQRSTVWY")}
_BASES = "ACGTUN"
_SEVERAL = "BJXZ"  # letters for an unknown or ambiguous residue
_INSERTED = 2**32  # larger than every position of a wild type
WILD_TYPE = ("WT", "wt", "_wt")


@dataclass(frozen=True)
class Mutant:
    """A mutant of a wild type."""

    name: str  # as the user wrote it
    sites: tuple[int, ...]  # positions that differ from the wild type, from 0, ascending
    residues: str  # the mutant's letters at these sites
    # the whole sequence of an insertion or deletion, which has no sites; otherwise None
    sequence: str | None = None


def parse_mutants(
    wild_type: str,
    mutants: Sequence[str],
    start: int = 1,
    sequences: Sequence[str] | None = None,
    lines: Sequence[int] | None = None,
) -> list[Mutant]:
    """Parse mutants: substitutions or whole sequences.

    A substitution is a letter of the wild type, its number and the new letter, or HGVS's p.Lys2Arg; several
    are joined by colons. Small letters are read as capitals where the wild type has the capital. A sequence
    of the wild type's length is parsed into substitutions; a sequence of another length is an insertion or
    deletion. "WT" is the wild type. Substitutions that change nothing are left out.

    Args:
        wild_type: its letters.
        mutants: the mutants.
        start: the number of the first letter of the wild type.
        sequences: the whole sequence of each mutant, to check against it.
        lines: the line of each mutant in its file, for messages.

    Raises:
        InputError: a text is not a mutant of this wild type; the message names its line or row.

    Example:
        >>> [(mutant.sites, mutant.residues) for mutant in parse_mutants("MKTA", ["K2R", "M1A:A4G", "MKTG"])]
        [((1,), 'R'), ((0, 3), 'AG'), ((3,), 'G')]
        >>> parse_mutants("MKTA", ["K3R"])
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: row 0 (from 0), 'K3R': the wild type has T at 3, not K; give \
the number of its first letter by --start (start=)
    """
    parsed = []
    for row, text in enumerate(mutants):
        where, text = f"{place_of(row, lines)}, {_short(text)!r}", text.strip()
        if text in WILD_TYPE:
            parsed.append(Mutant(text, (), ""))
        elif any(character.isdigit() for character in text):
            parsed.append(_from_substitutions(wild_type, text, start, where))
        else:
            parsed.append(_from_sequence(wild_type, text, where))
        if sequences is not None and mutated(wild_type, parsed[-1]) != sequences[row].strip():
            raise InputError(
                f"{where}: its mutated sequence {_short(sequences[row])!r} is another one; correct one of "
                f"the two"
            )
    return parsed


def mutated(wild_type: str, mutant: Mutant) -> str:
    """The full sequence of a mutant.

    Example:
        >>> mutated("MKTA", Mutant("K2R", (1,), "R"))
        'MRTA'
    """
    if mutant.sequence is not None:
        return mutant.sequence
    letters = list(wild_type)
    for site, residue in zip(mutant.sites, mutant.residues, strict=True):
        letters[site] = residue
    return "".join(letters)


def _from_substitutions(wild_type: str, text: str, start: int, where: str) -> Mutant:
    changed: dict[int, str] = {}
    for part in text.split(":"):
        before, number, after = _as_letters(part.strip())
        if not number:
            raise InputError(
                f"{where}: {_short(part)!r} is not a substitution; write A1P or p.Ala1Pro, several as "
                "A1P:D2N, or a whole sequence, as for a deletion"
            )
        site = int(number) - start
        if not 0 <= site < len(wild_type):
            raise InputError(
                f"{where}: there is no site {number}; the wild type has the sites {start} to "
                f"{start + len(wild_type) - 1} (--start is the number of its first letter)"
            )
        if wild_type[site] == before.upper() != before:
            before, after = before.upper(), after.upper()
        if wild_type[site] != before and wild_type[site].upper() == before:
            raise InputError(
                f"{where}: the wild type has a small {wild_type[site]} at {number}; write it in capitals"
            )
        if wild_type[site] != before:
            raise InputError(
                f"{where}: the wild type has {wild_type[site]} at {number}, not {before}; give the number "
                "of its first letter by --start (start=)"
            )
        if site in changed:
            raise InputError(f"{where}: site {number} is changed twice; leave one of them out")
        changed[site] = after
    return _of_sites(text, wild_type, changed)


def _as_letters(text: str) -> tuple[str, str, str]:
    """Split a substitution into old letter, number and new letter; empty strings for other text."""
    match = _SUBSTITUTION.fullmatch(text)
    if match is not None:
        return match[1], match[2], match[3]
    match = _OF_HGVS.fullmatch(text)
    before, after = (_THREE_LETTERS.get(match[k].lower() if match else "", "") for k in (1, 3))
    return (before, match[2], after) if match and before and after else ("", "", "")


def _from_sequence(wild_type: str, text: str, where: str) -> Mutant:
    letters = "".join(text.split())
    if not letters:
        raise InputError(f"{where}: there is no mutant; write A1P, several as A1P:D2N, or a whole sequence")
    if not letters.isalpha():
        other = next(character for character in letters if not character.isalpha())
        raise InputError(f"{where}: {other!r} is no letter; write the mutant's own sequence, without gaps")
    if len(letters) != len(wild_type):
        return Mutant(text, (), "", letters)
    changed = {site: letter for site, letter in enumerate(letters) if letter != wild_type[site]}
    return _of_sites(text, wild_type, changed)


def _of_sites(name: str, wild_type: str, changed: dict[int, str]) -> Mutant:
    sites = sorted([site for site, letter in changed.items() if letter != wild_type[site]])
    return Mutant(name, tuple(sites), "".join([changed[site] for site in sites]))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _tokens_of_letters(model: Any, letters: str) -> dict[str, int]:
    """Map each letter that the tokenizer knows to its token."""
    found: dict[str, int] = {}
    for letter in sorted(set(letters)):
        with suppress(InputError):  # unknown tokens raise
            tokens = model.tokens([letter])
            own = tokens.values[0][tokens.maskable[0]].tolist()
            found |= {letter: own[0]} if len(own) == 1 else {}
    return found


def _check_letters(token: Mapping[str, int], letters: str, where: str) -> None:
    unknown = next((letter for letter in letters if not letter.isalpha() or letter not in token), None)
    if unknown is not None:
        reason = f"the model does not know the letter {unknown!r}; correct it or leave it out"
        if not unknown.isalpha():
            reason = f"{unknown!r} is no letter; correct it or leave it out"
        elif unknown.upper() in token:
            reason = f"{unknown!r} is a small letter, and the model knows {unknown.upper()!r}; write capitals"
        raise InputError(f"{where}: {reason}")


def _as_base(model: Any, token: Mapping[str, int], sequence: str) -> Base:
    """Encode a sequence; refuse tokens other than single letters."""
    tokens = model.tokens([sequence])
    column = np.flatnonzero(tokens.maskable[0].cpu().numpy())
    own = tokens.values[0].cpu().numpy()[column]
    if own.tolist() != [token.get(letter) for letter in sequence]:
        raise InputError(
            f"the tokenizer cuts {len(sequence)} letters into {len(own)} tokens that are not single "
            "letters; give a model whose tokens are single residues or bases"
        )
    absent = ~(tokens.maskable | tokens.context)
    return Base(tokens.values.masked_fill(absent, Reads.ABSENT)[0].cpu().numpy(), column)


def _room_of(model: Any, wild_type: str) -> int | None:
    """The number of letters that the model reads, without special tokens; None if unlimited."""
    limit = getattr(model, "max_tokens", None)
    return None if limit is None else int(limit - model.tokens([wild_type[0]]).context.sum())


def window(position: int, n: int, room: int | None) -> tuple[int, int]:
    """Start and stop of ProteinGym's window around a position in a sequence of n letters.

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


def pairs_of_mutants(model: Any, wild_type: str, mutants: Sequence[Mutant]) -> tuple[list[Pair], list[str]]:
    """Pair each mutant with the wild type, in a window if the sequence is too long; add notes on windows."""
    letters = [mutant.sequence or mutant.residues for mutant in mutants]
    every = "".join([wild_type, *letters])
    token = _tokens_of_letters(model, every + every.upper())
    _check_letters(token, wild_type, "the wild type")
    room, n = _room_of(model, wild_type), len(wild_type)
    bases: dict[str, Base] = {}

    def base_of(sequence: str) -> Base:
        if sequence not in bases:
            bases[sequence] = _as_base(model, token, sequence)
        return bases[sequence]

    pairs = []
    for row, mutant in enumerate(mutants):
        _check_letters(token, letters[row], _named(row, mutant))
        if mutant.sequence is not None:
            if room is not None and max(len(mutant.sequence), n) > room:
                raise InputError(
                    f"{_named(row, mutant)}: the model reads {room} letters, and insertions and deletions of "
                    "longer sequences have no common window; leave it out"
                )
            side = Side(base_of(mutant.sequence), {}, _aligned(wild_type, mutant.sequence))
            pairs.append(Pair((), side, Side(base_of(wild_type), {})))
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
        filled = {site: token[letter] for site, letter in zip(sites, mutant.residues, strict=True)}
        pairs.append(Pair(sites, Side(base, filled), Side(base, {})))
    notes = _notes_on(mutants, wild_type)
    if room is not None and n > room:
        notes.append(
            f"the wild type has {n:,} letters and the model reads {room:,}: each mutant is scored in a "
            "window around the mean of its sites, cut as in ProteinGym"
        )
    return pairs, notes


def _notes_on(mutants: Sequence[Mutant], wild_type: str) -> list[str]:
    """Notes on letters that are no residue, and on repeated mutants."""
    notes = []
    unclear = [each.name for each in mutants if set(each.sequence or each.residues) & {*_SEVERAL}]
    if unclear and set(wild_type) - {*_BASES}:
        notes.append(
            f"{count(len(unclear), 'mutant')} with B, J, X or Z, unknown or ambiguous residues (first: "
            f"{_short(unclear[0])!r}): their scores are scores of letters, not of mutations"
        )
    first: dict[object, int] = {}
    keys = [(each.sites, each.residues, each.sequence) for each in mutants]
    again = [mutants[row].name for row, key in enumerate(keys) if first.setdefault(key, row) < row]
    if again:
        notes.append(
            f"{count(len(again), 'row')} with the mutant of an earlier row (first: {_short(again[0])!r}): "
            "each is scored, and counts in rank correlations"
        )
    return notes


def _named(row: int, mutant: Mutant) -> str:
    return f"{place_of(row, None)}, {mutant.name[:40]!r}"


def _aligned(wild_type: str, mutant: str) -> Int64[np.ndarray, " n"]:
    """Number the mutant's letters; those in the common prefix and suffix get the wild type's numbers.

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
