"""Mutants of a wild type: substitutions such as "A1P:D2N", and whole sequences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.data.table import place_of
from maskevidence.errors import InputError

_SUBSTITUTION = re.compile(r"([^\W\d_])(-?\d+)([^\W\d_])")
WILD_TYPE = ("WT", "wt", "_wt")


@dataclass(frozen=True)
class Mutant:
    """A mutant of a wild type."""

    name: str  # the text of the user
    sites: tuple[int, ...]  # the positions that differ from the wild type, from 0, in ascending order
    residues: str  # the letters of the mutant there
    # the whole sequence if letters were inserted or deleted, which has no sites; otherwise None
    sequence: str | None = None


def parse_mutants(
    wild_type: str,
    mutants: Sequence[str],
    start: int = 1,
    sequences: Sequence[str] | None = None,
    lines: Sequence[int] | None = None,
) -> list[Mutant]:
    """Read mutants as substitutions, or as whole sequences.

    A substitution is a letter of the wild type, its number and the new letter; several are joined by colons.
    A sequence of the wild type's length is a set of substitutions, one of another length is an insertion or
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
        maskevidence.errors.InputError: row 0 (from 0), 'K3R': the wild type has T at 3, not K; give the \
number of its first letter by --start (start=)
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
    """The letters of a mutant.

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
        match = _SUBSTITUTION.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"{where}: {_short(part)!r} is not a substitution; write A1P, several as A1P:D2N, or a "
                "whole sequence, as for a deletion"
            )
        before, number, after = match.groups()
        site = int(number) - start
        if not 0 <= site < len(wild_type):
            raise InputError(
                f"{where}: there is no site {number}; the wild type has the sites {start} to "
                f"{start + len(wild_type) - 1} (--start is the number of its first letter)"
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
