"""Training from Python: results without output, and what the objective words mean."""

from dataclasses import replace
from pathlib import Path

import pytest

import maskevidence as me
from command_line import files_in
from maskevidence.command.train import train
from maskevidence.huggingface.training_options import TextTraining
from maskevidence.tables.table_options import RowTraining
from maskevidence.tables.train_rows import parse_objective
from text_models import SENTENCES


def test_rows_are_trained_and_resumed_without_output(
    four_columns: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = RowTraining(tmp_path / "m", seed=1, epochs=4)
    trained = train("ppca:1", four_columns, options)
    again = train("ppca:1", four_columns, options)
    assert capfd.readouterr() == ("", "")
    assert trained is not None
    assert again is not None
    assert trained.content["dropped_columns"] == ["same"]
    assert (trained.content["n_train"], trained.content["n_test"]) == (48, 12)
    assert (trained.content["resumed_from"], again.content["resumed_from"]) == (None, 4)
    assert again.content["log_evidence_held_out"] == trained.content["log_evidence_held_out"]
    assert me.models.load(tmp_path / "m").columns == ["a", "b", "c"]


def test_a_finished_training_is_read_and_not_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "text.txt").write_text("".join(f"{SENTENCES[i % 4]}\n" for i in range(60)))
    options = TextTraining(tmp_path / "m", batch_size=4, steps=2, block_size=16, vocabulary_size=60)
    trained = train("masked-lm", str(tmp_path / "text.txt"), options)
    again = train("masked-lm", str(tmp_path / "text.txt"), options)
    assert capfd.readouterr().out == ""
    assert trained is not None
    assert again is not None
    assert again.lines == [
        f"This training in {tmp_path / 'm'} was finished before; --overwrite trains again."
    ]
    assert again.content == trained.content
    assert trained.lines[0].startswith(f"Written to {tmp_path / 'm'}: ")
    assert set(trained.lines[0].split(": ")[1].split(", ")) <= files_in(tmp_path / "m")
    monkeypatch.setenv("RANK", "1")  # another process of torchrun ends, too
    assert train("masked-lm", str(tmp_path / "text.txt"), options) is None


def test_a_larger_vocabulary_and_a_training_that_diverges_are_told(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "text.txt").write_text("".join(f"{SENTENCES[i % 4]}\n" for i in range(60)))
    options = TextTraining(tmp_path / "m", batch_size=4, steps=2, block_size=16, vocabulary_size=3)
    trained = train("masked-lm", str(tmp_path / "text.txt"), options)
    assert trained is not None
    assert "pieces, not 3: the letters" in trained.content["notes"][-1]
    options = replace(options, out=tmp_path / "n", learning_rate=1e9)
    with pytest.raises(me.NumericalError, match="a lower --learning-rate"):
        train("masked-lm", str(tmp_path / "text.txt"), options)


def test_a_design_draws_one_mask_of_each_kind_by_default() -> None:
    for word, design in (
        ("every-size", me.EverySize(1)),
        ("random-size", me.RandomSize(1, 1)),
        ("random-size:3", me.RandomSize(3, 1)),
        ("random-size:8,replicates=4", me.RandomSize(8, 4)),
        ("orderings", me.Orderings(1)),
        ("fixed-rate:0.15", me.FixedRate(0.15, 1)),
        ("fixed-rate:0.15,masks-per-size=2", me.FixedRate(0.15, 2)),
        ("leave-one-out", me.LeaveOneOut()),
    ):
        objective = parse_objective(word, seed=5)
        assert isinstance(objective, me.MaskedObjective)
        assert (objective.design, objective.settings()["seed"]) == (design.in_training(), 5)
    assert parse_objective("every-size:2,shared").settings()["masks"] == "shared"
    assert parse_objective("iwae:5").settings()["samples"] == 5
    for word, message in (
        ("likelihood:3", "write likelihood alone"),
        ("likelihood,shared", "write likelihood alone"),
        ("elbo:3", "write elbo, or iwae:5"),
        ("random-size:per-token", "train records no scores of tokens"),
        ("policy:entropy", "is for scoring only"),
    ):
        with pytest.raises(me.InputError, match=message):
            parse_objective(word)
