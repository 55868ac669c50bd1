"""observations.csv: in every run, with labels that survive shards, resuming and summarize."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import maskevidence as me
from command_line import CommandLine
from maskevidence.data import read_table
from maskevidence.runs import directory, read_run, summary
from maskevidence.runs.observation_files import listed
from recorded_runs import checked_observations
from text_models import SENTENCES, save_bert

pytestmark = pytest.mark.usefixtures("every_block_saved")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small masked language model as transformers saves it."""
    return save_bert(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "table.csv"
    rows = [f'"{sentence}",s-{place % 3},{place}' for place, sentence in enumerate(SENTENCES)]
    file.write_text("\n".join(["answer,name,number", *rows]))
    return file


def test_every_kind_of_data_has_observations(
    run: CommandLine, world: Path, model: Path, table: Path, tmp_path: Path
) -> None:
    asked = {
        "rows": ("ppca:2", world / "data" / "table.csv", "--design", "leave-one-out"),
        "texts": (model, table, "--text", "answer", "--id-column", "name", "--design", "random-size:16"),
        "images": (world / "models" / "vit-mae", world / "data" / "images"),
    }
    rows = {}
    for kind, words in asked.items():
        assert run("score", *words, "--out", tmp_path / kind).code == 0
        rows[kind] = checked_observations(tmp_path / kind)
    assert all(row["pll"] == row["log_evidence"] and row["mask_se"] == "0.0" for row in rows["rows"])
    assert [row["label"] for row in rows["texts"]] == ["s-0", "s-1", "s-2", "s-0", "s-1"]
    assert [int(row["n_bytes"]) for row in rows["texts"]] == [len(text) for text in SENTENCES]
    assert all(float(row["mask_se"]) > 0 and float(row["mask_df"]) == 7 for row in rows["texts"][:3])
    assert all(row["label"].endswith(".png") for row in rows["images"])
    assert all(row["pll"] == "" for row in rows["texts"])


def test_many_observations_are_written_as_parquet(
    run: CommandLine, model: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("score", model, table, "--text", "answer", "--id-column", "name", "--design", "random-size:16")
    assert run(*command, "--out", tmp_path / "few").code == 0
    monkeypatch.setattr(summary, "MANY", len(SENTENCES))
    assert run(*command, "--out", tmp_path / "many").code == 0
    assert not (tmp_path / "many" / "observations.csv").exists()
    many = parquet.read_table(tmp_path / "many" / "observations.parquet").to_pydict()
    assert many == listed(read_run(tmp_path / "few").observations())
    monkeypatch.setattr(summary, "MANY", 10**7)
    more = (*command[:-1], "random-size:32", "--out", tmp_path / "many")  # the other file goes
    assert run(*more).code == 0
    assert not (tmp_path / "many" / "observations.parquet").exists()


def test_labels_survive_shards_and_resuming(
    run: CommandLine, model: Path, table: Path, tmp_path: Path
) -> None:
    command = ("score", model, table, "--text", "answer", "--id-column", "number", "--design")
    one, parts, whole = tmp_path / "one", [tmp_path / name for name in "12"], tmp_path / "whole"
    assert run(*command, "orderings:2", "--out", one).code == 0
    for part in parts:
        assert run(*command, "orderings:2", "--shard", f"{part.name}/2", "--out", part).code == 0
    assert [row["label"] for row in checked_observations(parts[1])] == ["2", "3", "4"]
    assert run("summarize", *parts[::-1], "--out", whole).code == 0
    assert checked_observations(whole) == checked_observations(one)
    assert read_run(whole).estimate.labels == tuple("01234")
    assert run(*command, "orderings:4", "--out", one).code == 0  # more of the same run
    for name in ("observations.csv", "estimate.json"):
        (one / name).unlink()
    assert run("summarize", one).code == 0
    assert [row["label"] for row in checked_observations(one)] == list("01234")


def test_runs_without_labels_and_labels_of_other_data(run: CommandLine, world: Path, tmp_path: Path) -> None:
    for name, words in (("table", ("ppca", "table.csv")), ("text", ("bert", "texts.jsonl"))):
        saved = ("score", world / "models" / words[0], world / "data" / words[1])
        assert run(*saved, "--out", tmp_path / name).code == 0
        (tmp_path / name / "labels.parquet").unlink(missing_ok=True)
        assert run("summarize", tmp_path / name).code == 0
        assert {row["label"] for row in checked_observations(tmp_path / name)} == {""}
    (tmp_path / "text" / "labels.parquet").write_bytes(b"nothing of the kind")
    assert "is damaged; remove it" in run("summarize", tmp_path / "text").error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--id-column", "title"), "has no column 'title'"),
        (("--id-column", "name", "--block-size", 8), "leave one of them out"),
    ],
)
def test_names_that_cannot_be_had(
    run: CommandLine, model: Path, table: Path, words: tuple[object, ...], message: str
) -> None:
    assert message in run("score", model, table, "--text", "answer", *words).error


def test_fasta_files_are_read_with_their_names(run: CommandLine, model: Path, tmp_path: Path) -> None:
    plain = ">one a dog\nrain\n>two\nsun\n\n>three\nro\nof\n"
    (tmp_path / "a.fasta").write_text(plain)
    (tmp_path / "b.fa.gz").write_bytes(gzip.compress(plain.encode()))
    words = ("--design", "random-size:8", "--out", tmp_path / "run", "--overwrite")
    for name in ("a.fasta", "b.fa.gz"):
        assert run("score", model, tmp_path / name, *words).code == 0
        rows = checked_observations(tmp_path / "run")
        assert [row["label"] for row in rows] == ["one", "two", "three"]
        assert [row["n_bytes"] for row in rows] == ["4", "3", "4"]
    (tmp_path / "x.fasta").write_text("MKT\n>one\nMK\n")
    (tmp_path / "y.fasta").write_text(">one\n>two\nMK\n")
    (tmp_path / "z.fa.gz").write_bytes(gzip.compress(plain.encode())[:20])
    for name, message in (("x.fasta", "line 1"), ("y.fasta", "record 0 ('one')"), ("z.fa.gz", "unpacked")):
        assert message in run("score", model, tmp_path / name).error


def test_gaps_of_an_alignment_are_dropped(tmp_path: Path) -> None:
    from maskevidence.texts.text_files import read_texts

    (tmp_path / "a.a3m").write_text(">q x\nMKTA\n>h\nM-taA*\n")
    texts = read_texts(str(tmp_path / "a.a3m"))
    assert texts["sequence"] == ("MKTA", "MTAA")
    assert texts.labels == ("q", "h")
    assert "gaps were dropped (1), and small letters made capital ones (2)" in texts.notes[0]
    assert "a stop, was dropped (1 of 2)" in texts.notes[1]


def test_the_closed_form_of_each_row_stands_beside_its_estimate(
    run: CommandLine, world: Path, tmp_path: Path
) -> None:
    """It is exact, the same over shards and after a stop, and belongs to its run."""
    words = ("score", "ppca:2", world / "data" / "table.csv", "--test-fraction", "0.5")
    assert run(*words, "--out", tmp_path / "one").code == 0
    rows = checked_observations(tmp_path / "one")
    exact = np.array([float(row["closed_form"]) for row in rows])
    model = me.models.load(tmp_path / "one" / "model")
    table = read_table(world / "data" / "table.csv").take(np.array([int(row["id"]) for row in rows]))
    np.testing.assert_allclose(exact, model.score_samples(table), atol=1e-9)
    estimate = read_run(tmp_path / "one").estimate
    assert estimate.closed_form is not None
    assert estimate.closed_form.tolist() == exact.tolist()
    assert estimate.to_frame()["closed_form"].tolist() == exact.tolist()
    assert np.abs(estimate.per_observation - exact).max() > 0.01  # which the masks alone do not tell

    written = (tmp_path / "one" / "closed_form.parquet").read_bytes()
    next((tmp_path / "one" / "scores").iterdir()).unlink()
    for name in ("closed_form.parquet", "estimate.json"):
        (tmp_path / "one" / name).unlink()
    assert run(*words, "--out", tmp_path / "one").code == 0
    assert (tmp_path / "one" / "closed_form.parquet").read_bytes() == written

    saved = ("score", tmp_path / "one" / "model", world / "data" / "table.csv", "--out")
    assert run(*saved, tmp_path / "whole").code == 0
    for k in "12":
        assert run(*saved, tmp_path / k, "--shard", f"{k}/2").code == 0
    assert run("summarize", tmp_path / "2", tmp_path / "1", "--out", tmp_path / "joined").code == 0
    assert checked_observations(tmp_path / "joined") == checked_observations(tmp_path / "whole")

    other = (tmp_path / "1" / "closed_form.parquet").read_bytes()
    (tmp_path / "whole" / "closed_form.parquet").write_bytes(other)
    assert "does not have the mean" in run("summarize", tmp_path / "whole").error


def test_texts_stand_in_the_last_column(
    run: CommandLine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the same over shards, with more masks, after a stop and in Parquet."""
    monkeypatch.setattr(directory, "_ROWS_OF_GROUP", 2)
    long = [*SENTENCES, "a\n" * 90]
    table = tmp_path / "table.csv"
    table.write_text("answer\n" + "\n".join(f'"{text}"' for text in long))
    command = ("score", model, table, "--text", "answer", "--long", "split", "--design")
    one, parts, whole = tmp_path / "one", [tmp_path / name for name in "12"], tmp_path / "whole"
    assert run(*command, "orderings:2", "--out", one).code == 0
    shown = [row["text"] for row in checked_observations(one)]
    assert shown == [*SENTENCES, *[" ".join("a" * 40)] * 2]  # two parts of the long one
    for part in parts:
        assert run(*command, "orderings:2", "--shard", f"{part.name}/2", "--out", part).code == 0
        assert "text" in checked_observations(part)[0]
    assert run("summarize", *parts[::-1], "--out", whole).code == 0
    for name in ("observations.csv", "texts.parquet"):
        assert (whole / name).read_bytes() == (one / name).read_bytes()
    assert run(*command, "orderings:4", "--out", one).code == 0
    assert [row["text"] for row in checked_observations(one)] == shown
    (whole / "texts.parquet").write_bytes(b"nothing of the kind")
    assert "is damaged; remove it" in run("summarize", whole).error
