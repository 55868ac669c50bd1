"""FASTA files: equal names and letters of no single residue are noted, other characters refused."""

import gzip
from pathlib import Path

import pytest

from maskevidence.core.errors import InputError
from maskevidence.texts.fasta import read_fasta
from maskevidence.texts.text_files import read_texts


def test_equal_names_and_letters_of_no_single_residue_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "proteins.fasta"
    file.write_text(">a one\nMKXX\n>b\nMZKA*\n>a two\nMKTA\n>c\nMKxA\n")
    assert read_fasta(file).sequences == ("MKXX", "MZKA", "MKTA", "MKxA")
    stops, letters, names = read_texts(str(file)).notes
    assert read_fasta(file).notes == [stops, letters]
    assert stops.startswith("the * at the end of a sequence, a stop, was dropped (1 of 4)")
    assert letters == (
        "letters of no single residue are scored as letters of their own: X (3), Z (1), in 3 of 4 sequences"
    )
    assert names == "only 3 of the 4 names of the texts are different: 'a' 2 times"


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "proteins.fasta.gz"
    file.write_bytes(gzip.compress(b">a\n" + b"M" * 11_000_000))
    with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
        read_fasta(file)
    file.write_bytes(gzip.compress(b">a\n" + b"M" * 1_000_000))
    assert len(read_fasta(file).sequences[0]) == 1_000_000


def test_only_line_ends_end_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.fasta").write_text(">a\u2028MKV\x0bx\nMK\r\n>b\nTA", newline="")
    assert read_fasta(tmp_path / "a.fasta")[:2] == (("a", "b"), ("MK", "TA"))


def test_plain_files_have_no_notes(tmp_path: Path) -> None:
    file = tmp_path / "proteins.fasta"
    file.write_text(">a\nMKTA\n>b\nMKUO\n")
    assert read_fasta(file).notes == []


@pytest.mark.parametrize(
    ("letters", "reason"),
    [("MK*TA", "'*', a stop, within its sequence"), ("MK1TA", "'1', which is no letter")],
)
def test_other_characters_are_refused(tmp_path: Path, letters: str, reason: str) -> None:
    file = tmp_path / "proteins.fasta"
    file.write_text(f">a\nMKTA\n>b\n{letters}\n")
    with pytest.raises(InputError, match="record 1 \\('b'\\)") as refused:
        read_fasta(file)
    assert f"has {reason}; correct it or leave it out" in str(refused.value)
