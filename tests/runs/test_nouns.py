"""What an observation and a token are called is recorded where the data are encoded."""

from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from maskevidence.runs import RunDirectory
from protein_models import save_protein_model


def test_no_wording_of_a_note_decides_what_a_protein_is(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maskevidence.texts.encoding.RESIDUES", "said in other words")
    (tmp_path / "family.fasta").write_text(">a\nMKTAY\n>b\nMKTAW\n>c\nMRTAY\n")
    model, out = tmp_path / "model", tmp_path / "run"
    save_protein_model(model)
    scored = run("score", model, tmp_path / "family.fasta", "--design", "every-size:2", "--out", out)
    assert "per residue" in scored.out
    assert "3 proteins, 15 residues" in " ".join(scored.out.split())
    source = RunDirectory(out).existing_manifest().data
    assert (source.noun, source.token) == ("protein", "residue")
    again = run("summarize", out)
    assert "per residue" in again.out


def test_no_name_of_a_column_makes_an_image(run: CommandLine, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(tmp_path / "snow.csv", x, delimiter=",", header="patches of snow,depth", comments="")
    scored = run("score", "ppca:1", tmp_path / "snow.csv", "--out", tmp_path / "run")
    assert "8 rows" in scored.out
    assert RunDirectory(tmp_path / "run").existing_manifest().data.noun == "row"
