"""Sequences in FASTA files, plain or gzipped; of alignments (A2M, A3M), the sequences without their gaps."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from maskevidence.core.errors import InputError
from maskevidence.texts.text_store import Lines, TextStore

FASTA_SUFFIXES = (".fa", ".fasta", ".fas", ".faa", ".fna", ".ffn", ".pep", ".a2m", ".a3m")
_ALIGNMENTS = (".a2m", ".a3m")
_GAPS = "-."
_WITHOUT_GAPS = str.maketrans("", "", _GAPS)
_BREAK = "|"  # between the chains of a protein
_NO_SINGLE_RESIDUE = "XBZJ"  # any residue, D or N, E or Q, I or L


class Records(NamedTuple):
    """The records of a FASTA file; many of them lie in a temporary file."""

    names: Sequence[str]  # the first word of each header, without ">"
    sequences: Sequence[str]  # the letters of each record
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
        (('a', 'b'), ('MKTA', 'MKA'))
    """
    names, whole, sequences, notes = TextStore(), TextStore(), TextStore(), list[str]()
    n_gaps = n_small = n_stops = 0
    for name, sequence in _records(file):
        names.append(name)
        whole.append(sequence)
        n_gaps += sum(map(sequence.count, _GAPS))
        n_small += 0 if sequence.isupper() else sum(map(str.islower, sequence))
    if not names:
        raise InputError(f"{str(file)!r} has no record; begin each with a line such as >NAME")
    aligned = n_gaps > 0 or file.name.lower().removesuffix(".gz").endswith(_ALIGNMENTS)
    if aligned:
        notes.append(
            f"an alignment: gaps were dropped ({n_gaps:,}), and small letters made capital ones ({n_small:,})"
        )
    for place, (name, sequence) in enumerate(zip(names, whole, strict=True)):
        letters = sequence.translate(_WITHOUT_GAPS).upper() if aligned else sequence
        n_stops += letters.endswith("*")
        letters = letters.removesuffix("*")
        _check(letters, f"record {place} ({name!r}) of {str(file)!r}")
        sequences.append(letters)
    if n_stops:
        notes.append(f"the * at the end of a sequence, a stop, was dropped ({n_stops:,} of {len(names):,})")
    return Records(names.in_memory(), sequences.in_memory(), [*notes, *_unusual(sequences)])


def _records(file: Path) -> Iterator[tuple[str, str]]:
    """The name and the signs of each record."""
    name, parts = None, list[str]()
    for number, line in enumerate(Lines(file), start=1):
        if line.startswith(">"):
            if name is not None:
                yield name, "".join(parts)
            name, parts = next(iter(line[1:].split()), ""), []
        elif name is not None:
            parts.append("".join(line.split()))
        elif line.strip() and not line.startswith(";"):
            raise InputError(
                f"{str(file)!r} is not FASTA: line {number} comes before the first header; begin each record "
                "with a line such as >NAME"
            )
    if name is not None:
        yield name, "".join(parts)


def _check(sequence: str, record: str) -> None:
    """Refuse a sequence without letters, or with another sign."""
    if not sequence:
        raise InputError(f"{record} has no letter; leave it out")
    strange = {sign for sign in {*sequence} if not sign.isalpha() and sign != _BREAK}
    wrong = min(strange, key=sequence.index, default=None)
    if wrong is not None:
        what = "a stop, within its sequence" if wrong == "*" else "which is no letter"
        raise InputError(f"{record} has {wrong!r}, {what}; correct it or leave it out")


def _unusual(sequences: Sequence[str]) -> list[str]:
    """A note on letters that stand for no single residue.

    Example:
        >>> _unusual(["MKX", "XXB", "MK"])
        ['letters of no single residue are scored as letters of their own: X (3), B (1), in 2 of 3 sequences']
    """
    counts, n_with = dict.fromkeys(_NO_SINGLE_RESIDUE, 0), 0
    for sequence in map(str.upper, sequences):
        here = [letter for letter in counts if letter in sequence]
        n_with += bool(here)
        for letter in here:
            counts[letter] += sequence.count(letter)
    found = [f"{letter} ({many:,})" for letter, many in counts.items() if many]
    note = f"letters of no single residue are scored as letters of their own: {', '.join(found)}, in "
    return [f"{note}{n_with:,} of {len(sequences):,} sequences"] if found else []
