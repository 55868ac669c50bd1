"""Sequences in FASTA files, plain or gzipped; of alignments (A2M, A3M), the sequences without their gaps."""

from pathlib import Path
from typing import NamedTuple

from maskevidence.core.errors import InputError
from maskevidence.texts.text_store import Lines

FASTA_SUFFIXES = (".fa", ".fasta", ".fas", ".faa", ".fna", ".ffn", ".pep", ".a2m", ".a3m")
_ALIGNMENTS = (".a2m", ".a3m")
_GAPS = "-."
_BREAK = "|"  # between the chains of a protein
_NO_SINGLE_RESIDUE = "XBZJ"  # any residue, D or N, E or Q, I or L


class Records(NamedTuple):
    """The records of a FASTA file."""

    names: list[str]  # the first word of each header, without ">"
    sequences: list[str]  # the letters of each record
    notes: list[str]  # changes of the letters, and letters of no single residue; one sentence each


def is_fasta(file: Path) -> bool:
    """Whether a file name ends in .fa, .fasta, .fas, .faa, .fna, .ffn, .pep, .a2m or .a3m, and maybe .gz.

    Example:
        >>> is_fasta(Path("a.fasta")), is_fasta(Path("B.A3M.gz")), is_fasta(Path("a.txt"))
        (True, True, False)
    """
    return file.name.lower().removesuffix(".gz").endswith(FASTA_SUFFIXES)


def read_fasta(file: Path) -> Records:
    """Read the records of a FASTA file.

    An alignment is recognised by its suffix or by gaps (- and .): the gaps are dropped, and the small
    letters of its insertions become capital ones. In other files the letters stay as they are. A `*` at the
    end of a protein stands for its stop and is dropped.

    Args:
        file: the file; gzip is recognised by its content.

    Raises:
        InputError: a file that cannot be read, is not FASTA, or has a record without a letter or with
            another character.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "two.fasta"
        >>> _ = file.write_text(">a first\\nMK\\nTA\\n>b\\nM-kA\\n")
        >>> read_fasta(file)[:2]
        (['a', 'b'], ['MKTA', 'MKA'])
    """
    names: list[str] = []
    parts: list[list[str]] = []
    for number, line in enumerate(Lines(file), start=1):
        if line.startswith(">"):
            words = line[1:].split()
            names.append(words[0] if words else "")
            parts.append([])
        elif parts:
            parts[-1].append("".join(line.split()))
        elif line.strip() and not line.startswith(";"):
            raise InputError(
                f"{str(file)!r} is not FASTA: line {number} comes before the first header; begin each record "
                "with a line such as >NAME"
            )
    if not parts:
        raise InputError(f"{str(file)!r} has no record; begin each with a line such as >NAME")
    sequences, notes = _letters(file, ["".join(lines) for lines in parts])
    for place, (name, sequence) in enumerate(zip(names, sequences, strict=True)):
        if not sequence:
            raise InputError(f"record {place} ({name!r}) of {str(file)!r} has no letter; leave it out")
        strange = {sign for sign in {*sequence} if not sign.isalpha() and sign != _BREAK}
        wrong = min(strange, key=sequence.index, default=None)
        if wrong is not None:
            what = "a stop, within its sequence" if wrong == "*" else "which is no letter"
            raise InputError(
                f"record {place} ({name!r}) of {str(file)!r} has {wrong!r}, {what}; correct it or "
                "leave it out"
            )
    return Records(names, sequences, [*notes, *_unusual(sequences)])


def _unusual(sequences: list[str]) -> list[str]:
    """A note on letters that stand for no single residue.

    Example:
        >>> _unusual(["MKX", "XXB", "MK"])
        ['letters of no single residue are scored as letters of their own: X (3), B (1), in 2 of 3 sequences']
    """
    counts = {
        letter: sum(sequence.upper().count(letter) for sequence in sequences) for letter in _NO_SINGLE_RESIDUE
    }
    found = [f"{letter} ({n:,})" for letter, n in counts.items() if n]
    if not found:
        return []
    n_with = sum(not {*_NO_SINGLE_RESIDUE}.isdisjoint(sequence.upper()) for sequence in sequences)
    return [
        f"letters of no single residue are scored as letters of their own: {', '.join(found)}, in "
        f"{n_with:,} of {len(sequences):,} sequences"
    ]


def _letters(file: Path, sequences: list[str]) -> tuple[list[str], list[str]]:
    """The sequences without gaps and stops, and notes on these changes."""
    notes = []
    ending = file.name.lower().removesuffix(".gz")
    n_gaps = sum(sequence.count(gap) for sequence in sequences for gap in _GAPS)
    if n_gaps or ending.endswith(_ALIGNMENTS):
        aligned = str.maketrans("", "", _GAPS)
        n_small = sum(
            sequence.count(letter) for sequence in sequences for letter in {*sequence} if letter.islower()
        )
        sequences = [sequence.translate(aligned).upper() for sequence in sequences]
        notes.append(
            f"an alignment: gaps were dropped ({n_gaps:,}), and small letters made capital ones ({n_small:,})"
        )
    n_stops = sum(sequence.endswith("*") for sequence in sequences)
    if n_stops:
        sequences = [sequence.removesuffix("*") for sequence in sequences]
        notes.append(
            f"the * at the end of a sequence, a stop, was dropped ({n_stops:,} of {len(sequences):,})"
        )
    return sequences, notes
