"""maskevidence variants: tables of mutants, correlations, and bad input."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.show.parts import Table
from maskevidence.core.show.pictures import ColourGrid
from maskevidence.proteins.variant_scores import best_and_worst
from maskevidence.proteins.variants_page import read_variants
from protein_models import protein_model

WILD_TYPE = "MSIQHFRVALIPFF"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT of residues as transformers saves it."""
    folder = tmp_path_factory.mktemp("model")
    protein_model("Bert", folder).save(folder)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wild type and tables of mutants."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "wt.fasta").write_text(f">wild type\n{WILD_TYPE[:7]}\n{WILD_TYPE[7:]}\n")
    mutants = [f"{WILD_TYPE[j]}{j + 24}{new}" for j in range(5) for new in "GW"] + ["S25G:I26W"]
    rows = [f"{mutant},{k / 7},{'' if k == 3 else -k}" for k, mutant in enumerate(mutants)]
    (folder / "dms.csv").write_text("\n".join(["mutant,effect,theirs", *rows]))
    sequences = [f"G{WILD_TYPE[1:]}", WILD_TYPE, f"{WILD_TYPE}G"]
    (folder / "sequences.csv").write_text("\n".join(["mutated_sequence", *sequences]))
    (folder / "both.csv").write_text(f"mutant,mutated_sequence\nM1G,G{WILD_TYPE[1:]}\nS2G,{sequences[0]}\n")
    return folder


def test_a_table_of_mutants_with_measurements(
    run: CommandLine, model: Path, world: Path, tmp_path: Path
) -> None:
    words = ("variants", model, world / "dms.csv", "--wild-type", world / "wt.fasta", "--start", 24)
    measured = ("--measured", "effect", "--given", "theirs")
    result = run(*words, *measured, "--out", tmp_path / "out", "--json", tmp_path / "all.json")
    assert result.code == 0, result.err
    for part in ("contexts asked for", "Spearman's rank correlation with effect", "wild-type-fill", "M24G"):
        assert part in result.out
    written = json.loads((tmp_path / "all.json").read_text())
    assert written["plan"]["asked"]["wild-type-fill"] == 12
    assert written["plan"]["distinct"]["wild-type-fill"] == 5
    found = written["correlations"]
    assert found["theirs"] == pytest.approx({"value": -1, "low": -1, "high": -1, "n": 10})
    assert found["joint"]["low"] <= found["joint"]["value"] <= found["joint"]["high"]
    loaded = me.models.MaskedLM.from_pretrained(model, device="cpu")
    with (tmp_path / "out" / "variants.csv").open() as file:
        rows = list(csv.DictReader(file))
    mutants = [row["mutant"] for row in rows]
    assert list(rows[0])[:3] == ["mutant", "effect", "theirs"]
    assert [row["effect"] for row in rows] == [str(k / 7) for k in range(11)]
    assert [row["theirs"] for row in rows][:5] == ["0.0", "-1.0", "-2.0", "", "-4.0"]
    expected = me.variants(loaded, WILD_TYPE, mutants, start=24)
    for name, values in expected.scores.items():
        assert np.array([float(row[name]) for row in rows]) == pytest.approx(values, abs=1e-5)
    assert [row["mutant"] for row in written["scores"]] == mutants
    assert json.loads((tmp_path / "out" / "variants.json").read_text())["n_mutants"] == 11
    assert "holds another scoring of variants" in run(*words, "--out", tmp_path / "out").error
    reported = run("report", tmp_path / "out", "--out", tmp_path / "page.html")
    assert reported.code == 0, reported.err
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == page[page.index('class="beside"') :].count("<svg") == 2
    for made in ("maskevidence variants", "Model", str(model), "Data", "dms.csv", "Wild type", "torch "):
        assert made in page
    joint, effect = (part for part in read_variants(tmp_path / "out").parts if isinstance(part, ColourGrid))
    assert joint.rows == effect.rows == [f"{WILD_TYPE[j]}{j + 24}" for j in range(5)]
    assert joint.columns == effect.columns == ["G", "W"]
    scores = next(iter(expected.scores.values()))[:10].reshape(5, 2)
    assert joint.values == pytest.approx(scores, abs=1e-5)
    assert (joint.centre, joint.reach) == pytest.approx((0.0, np.abs(scores).max()), abs=1e-5)
    assert effect.values[[0, 4], [0, 1]] == pytest.approx([0, 9 / 7])
    assert (effect.centre, effect.reach) == pytest.approx((5 / 7, 5 / 7))  # the mean of all eleven
    table = tmp_path / "out" / "variants.csv"
    table.write_text(table.read_text().replace("effect", "defect"))
    assert "variants.csv' was changed since (KeyError: 'effect')" in run("report", tmp_path / "out").error
    (tmp_path / "out" / "variants.json").write_text("{}")
    assert "variants.json' was changed after it was written" in run("report", tmp_path / "out").error


def test_scores_that_are_one_number_have_one_correlation(
    run: CommandLine, model: Path, world: Path, tmp_path: Path
) -> None:
    """With one mutated site, all conventions but `unmasked` are the same score."""
    words = ("variants", model, world / "dms.csv", "--wild-type", world / "wt.fasta", "--start", 24)
    result = run(*words, "--limit", 10, "--measured", "effect", "--out", tmp_path / "out")
    assert result.code == 0, result.err
    table = next(part for part in read_variants(tmp_path / "out").parts if isinstance(part, Table))
    assert [row[0] for row in table.rows] == [
        "wild-type-fill, mutant-fill, match-fill, mask-fill, joint, joint-mixture",
        "unmasked",
    ]


def test_whole_sequences_and_their_insertions(run: CommandLine, model: Path, world: Path) -> None:
    words = ("variants", model, world / "sequences.csv", "--wild-type", WILD_TYPE)
    assert "row 2" in run(*words).error
    result = run(*words, "--conventions", "pll,whole", "--draws", 8, "--json", "-")
    assert result.code == 0, result.err
    rows = json.loads(result.out)["scores"]
    assert rows[1]["pll"] == rows[1]["whole"] == 0
    assert rows[2]["whole_mask_se"] > 0
    half = world / "half.csv"
    half.write_text(f"mutated_sequence,effect\nG{WILD_TYPE[1:]},3\n{WILD_TYPE[:7]},1\n{WILD_TYPE},2\n")
    out = world / "half"
    ranked = ("variants", model, half, *words[3:], "--conventions", "pll", "--measured", "effect")
    result = run(*ranked, "--out", out, "--json", "-")
    assert list(json.loads(result.out)["correlations"]) == ["pll-per-residue"]
    notes = " ".join(json.loads(result.out)["notes"])
    assert "a deletion looks harmless" in notes
    assert "no rank correlation of 'pll' with 'effect': the lengths of the mutants differ" in notes
    assert (out / "variants.csv").read_text().startswith("mutant,effect,pll,pll-per-residue\n")
    assert [part.title for part in read_variants(out).parts if isinstance(part, Table)][-1] == (
        "the best and the worst by pll-per-residue: mutant minus wild type, nats"
    )
    shown = run("variants", model, world / "dms.csv", *words[3:], "--start", 24, "--conventions", "all").out
    lines = shown[shown.index("the best and the worst") :].splitlines()
    assert len(lines) < 20  # some mutants, however many conventions
    assert max(map(len, lines)) <= 80
    assert "rank by the others" in shown
    random = ("--conventions", "whole", "--start", 24, "--draws", 8)
    assert " ± 0." in run("variants", model, world / "dms.csv", *words[3:], *random).out


def test_a_stop_between_the_two_files_is_taken_up(
    run: CommandLine, model: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command completes the folder, first or with --overwrite, and a file of the user is kept."""
    words = ("variants", model, world / "dms.csv", "--wild-type", WILD_TYPE, "--start", 24, "--out")
    assert run(*words, tmp_path / "whole").code == 0
    out, whole = tmp_path / "out", tmp_path / "whole"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for options in ((), ("--overwrite",)):
        with monkeypatch.context() as context:
            context.setattr("maskevidence.proteins.variant_scores.VariantScores.to_csv", stop)
            assert run(*words, out, *options).code != 0
        assert [file.name for file in out.iterdir() if not file.name.startswith(".")] == ["variants.json"]
        assert run(*words, out).code == 0
        assert (out / "variants.csv").read_bytes() == (whole / "variants.csv").read_bytes()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "variants.csv").write_text("mine")
    assert "holds files that belong to no" in run(*words, tmp_path / "own").error


def test_scores_without_a_correlation_are_noted(run: CommandLine, model: Path, tmp_path: Path) -> None:
    """The wild type's scores are all 0."""
    (tmp_path / "same.csv").write_text("mutant,effect,theirs\nWT,1,2\nWT,2,1\nWT,3,3\n")
    words = ("variants", model, tmp_path / "same.csv", "--wild-type", WILD_TYPE, "--measured", "effect")
    result = run(*words, "--given", "theirs", "--conventions", "wild-type-fill", "--json", "-")
    assert result.code == 0, result.err
    written = json.loads(result.out)
    assert list(written["correlations"]) == ["theirs"]
    assert any("no rank correlation of 'wild-type-fill' with 'effect'" in note for note in written["notes"])


def test_a_model_is_trained_on_sequences(run: CommandLine, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = [f">p{k}\n{''.join(rng.choice(list('ACDEFGHIKLMNPQRSTVWY'), size=60 + k))}" for k in range(12)]
    (tmp_path / "family.fasta").write_text("\n".join(records))
    words = ("train", "masked-lm", tmp_path / "family.fasta", "--steps", 2, "--batch-size", 2)
    result = run(*words, "--out", tmp_path / "model")
    assert result.code == 0, result.err
    written = json.loads((tmp_path / "model" / "train.json").read_text())
    assert (written["n_train"], written["n_test"]) == (11, 1)
    said = " ".join(result.out.split())
    assert all(words in said for words in ("11 proteins to train on", "1 protein, ", "71 residues"))
    assert "nats per residue" in said
    assert "tokens alone" not in said
    model = me.models.MaskedLM.from_pretrained(tmp_path / "model", device="cpu")
    assert (model.max_tokens, len(model.tokenizer)) == (73, 25)
    (tmp_path / "one.csv").write_text("mutant\nM1K\nK2A\n")
    mutants = ("variants", tmp_path / "model", tmp_path / "one.csv", "--wild-type", "MKTAY")
    assert run(*mutants).code == 0
    again = run(*words, "--out", tmp_path / "other", "--pattern", ".")
    assert "--pattern reads a vocab.txt" in again.error


@pytest.mark.parametrize("most", [2, 9])
def test_the_best_and_the_worst_stand_with_errors_and_ranks(most: int) -> None:
    names, nan = list("abcdef"), float("nan")
    scores = {"own": np.array([1.0, -3.0, nan, 2.0, 1.0, -9.0]), "x": np.arange(6.0), "y": np.full(6, nan)}
    scores["z"] = -scores["x"]
    table = best_and_worst(names, scores, {"own": np.full(6, 0.25)}, most, {"effect": np.arange(6.0)})
    assert table.columns == ["rank", "mutant", "own", "effect", "rank by the others"]
    rows = [
        ["1", "d", "2.000 ± 0.250", "3.000", "3 to 4"],
        ["2", "a", "1.000 ± 0.250", "0.000", "1 to 6"],
        ["2", "e", "1.000 ± 0.250", "4.000", "2 to 5"],
        ["4", "b", "−3.000 ± 0.250", "1.000", "2 to 5"],
        ["5", "f", "−9.000 ± 0.250", "5.000", "1 to 6"],
    ]
    assert table.rows == ([*rows[:2], ["…", "", "", "", ""], *rows[3:]] if most == 2 else rows)
