"""Read tables of mutants, their wild type, and columns of numbers to compare scores with."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import is_number
from maskevidence.core.support.files import reading
from maskevidence.core.table import place_of
from maskevidence.proteins.conventions import CONVENTIONS, FEW_PASSES
from maskevidence.proteins.variant_scores import MIN_PAIRS
from maskevidence.texts.fasta import is_fasta, read_fasta
from maskevidence.texts.text_files import TextColumns, read_text_file

TABLE, SUMMARY = "variants.csv", "variants.json"


@dataclass(frozen=True)
class MutantTable:
    """The mutants of a table."""

    mutants: list[str]
    sequences: list[str] | None  # full sequences, if the table has them as well as mutants
    numbers: dict[str, Float64[np.ndarray, " N"]]  # by column
    lines: Sequence[int] | None  # the line of each mutant in its file, if the file has lines


def read_wild_type(word: str) -> tuple[str, list[str]]:
    """Read a wild type's letters from a FASTA file with one record or from the word itself; with notes.

    Example:
        >>> read_wild_type("MKT A")
        ('MKTA', [])
    """
    file = Path(word)
    if is_fasta(file) or file.is_file():
        with reading(file):
            if not file.is_file():
                raise InputError(f"there is no file {word!r}; check the path")
        _, sequences, notes = read_fasta(file)
        if len(sequences) > 1:
            raise InputError(f"{word!r} has {len(sequences)} records; give a file with the wild type alone")
        return sequences[0], notes
    letters = "".join(word.split())
    if not letters.isalpha():
        raise InputError(f"{word[:60]!r} is neither a FASTA file nor a sequence of letters; give one")
    return letters, []


def conventions_of(names: str | None) -> tuple[str, ...]:
    """Split the names of conventions at commas; by default, the conventions of few passes.

    Example:
        >>> conventions_of("joint, pll")
        ('joint', 'pll')
    """
    if names is None:
        return FEW_PASSES
    if names == "all":
        return tuple(CONVENTIONS)
    return tuple(dict.fromkeys(name.strip() for name in names.split(",")))


def read_mutants(
    data: str,
    *,
    mutant_column: str,
    sequence_column: str,
    numbers_in: Sequence[str] = (),
    limit: int | None = None,
) -> MutantTable:
    """Read a table of mutants.

    Args:
        numbers_in: columns of numbers, such as measured effects.
        limit: of the rows.
    """
    file = Path(data)
    with reading(file):
        if not file.is_file():
            raise InputError(f"there is no file {data!r}; give a .csv, .parquet or .jsonl table of mutants")
    columns = read_text_file(file, running=False)
    has_mutants, has_sequences = (name in columns.names for name in (mutant_column, sequence_column))
    if not has_mutants and not has_sequences:
        raise InputError(
            f"{data!r} has neither a column {mutant_column!r} nor {sequence_column!r}; it "
            f"has {', '.join(columns.names)} (--mutant-column, --sequence-column)"
        )
    sequences = _texts(data, columns, sequence_column, limit) if has_sequences else None
    mutants = _texts(data, columns, mutant_column, limit) if has_mutants else sequences
    assert mutants is not None
    if not mutants:
        raise InputError(f"{data!r} has no row; give a mutant or more")
    numbers = {name: _numbers(data, columns, name, limit) for name in numbers_in}
    for name, values in numbers.items():
        n_known = int((~np.isnan(values)).sum())
        if n_known < MIN_PAIRS:
            raise InputError(
                f"{data!r} has {n_known} numbers in column {name!r}; a rank correlation needs {MIN_PAIRS} or "
                "more"
            )
        if np.nanmin(values) == np.nanmax(values):
            raise InputError(
                f"{data!r} has one number alone in column {name!r}, {np.nanmin(values):g}; a rank "
                "correlation needs different ones: leave the column out"
            )
    return MutantTable(mutants, sequences if has_mutants else None, numbers, columns.lines)


def column_beside(name: str, taken: Collection[str]) -> str:
    """Rename a given column if the table of scores has a column of this name.

    Example:
        >>> column_beside("joint", ("joint", "pll"))
        'given joint'
    """
    return f"given {name}" if name in taken else name


def _texts(data: str, columns: TextColumns, name: str, limit: int | None) -> list[str]:
    values = columns.column(name)[:limit]
    for row, value in enumerate(values):
        if not isinstance(value, str):
            place = place_of(row, columns.lines)
            raise InputError(f"{data!r} has no text in column {name!r}, {place}; leave it out")
    return values


def _numbers(data: str, columns: TextColumns, name: str, limit: int | None) -> Float64[np.ndarray, " N"]:
    """Read a column of numbers; empty cells are NaN."""
    if name not in columns.names:
        raise InputError(f"{data!r} has no column {name!r}; it has {', '.join(columns.names)}")
    values: Sequence[Any] = columns.column(name)[:limit]
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            numbers[row] = float(value if is_number(str(value)) else "no number")
            if np.isinf(numbers[row]):
                raise ValueError
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{data!r} has {str(value)[:40]!r} in column {name!r}, {place_of(row, columns.lines)}, which "
                "is no finite number; correct it or leave it empty"
            ) from error
    return numbers
