"""masked-net on a table of words, counts, yes/no, numbers and holes, by every command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.table import held_out_rows
from maskevidence.tables import train_rows
from maskevidence.tables.network import masked_network
from maskevidence.tables.network.masked_network import MaskedNetwork


def mixed(n: int) -> pd.DataFrame:
    """Words that tell yes from no, a count and a number that depend on it, and holes."""
    rng = np.random.default_rng(0)
    sick = rng.random(n) < 0.4
    red = rng.random(n) < np.where(sick, 0.95, 0.05)
    frame = pd.DataFrame(
        {
            "colour": np.where(red, "red", "blue"),
            "sick": sick.astype(float),
            "count": rng.poisson(np.where(sick, 8, 1)).astype(float),
            "weight": rng.normal(3.0 * sick).round(3),
        }
    )
    return frame.mask(
        (rng.random(frame.shape) < 0.1) & (np.arange(4) > 0)
        | (np.arange(n) % 9 == 0)[:, None] & (np.arange(4) == 0)
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(masked_network, "_STEPS", 1)
    mixed(120).to_csv("t.csv", index=False)
    return tmp_path


_TRAINED: list[str] = []  # the folder of a network that all tests read


@pytest.fixture
def saved(run: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> str:
    if not _TRAINED:
        out = tmp_path_factory.mktemp("network") / "model"
        result = run("train", "masked-net:16x1", "t.csv", "--epochs", 15, "--out", out)
        assert result.code == 0, result.err
        assert "categories: colour; yes/no: sick; numbers: count, weight" in result.out.replace("\n", " ")
        _TRAINED.append(str(out))
    return _TRAINED[0]


def test_a_new_model_and_the_same_one_saved_have_equal_scores(run: CommandLine) -> None:
    new = run("score", "masked-net:8x1", "t.csv", "--out", "new", "--json", "new.json")
    assert new.code == 0, new.err
    again = run(
        "score", "new/model", "t.csv", "--test-fraction", 0.2, "--out", "again", "--json", "again.json"
    )
    assert again.code == 0, again.err
    first, second = (json.loads(Path(f"{name}.json").read_text()) for name in ("new", "again"))
    assert first["log_evidence"] == second["log_evidence"]
    runs = [json.loads(Path(name, "run.json").read_text()) for name in ("new", "again")]
    assert runs[0]["data"]["fingerprint"] == runs[1]["data"]["fingerprint"]
    assert runs[0]["data"]["options"]["words"] is True
    report = run("report", "new", "again", "--out", "report.html")
    assert report.code == 0, report.err
    assert "cannot be read any more" not in Path("report.html").read_text()


def test_holes_are_filled_by_words_and_numbers(run: CommandLine, saved: str) -> None:
    result = run("impute", saved, "t.csv", "--out", "filled.csv")
    assert result.code == 0, result.err
    before, filled = pd.read_csv("t.csv"), pd.read_csv("filled.csv")
    assert list(filled) == [*before, "colour_p", "sick_p", "count_sd", "weight_sd"]
    assert filled.notna().all(axis=None)
    assert set(filled["colour"]) == {"red", "blue"}
    expected = me.models.load(saved).impute(before)
    words = np.array(["blue", "red"])[expected.values[:, 0].astype(int)]
    assert filled["colour"].tolist() == words.tolist()
    np.testing.assert_allclose(filled["weight"], expected.values[:, 3], atol=5.1e-4)  # decimals of the column
    counts = np.unique(before["count"].dropna())  # whole numbers that exist, the nearest ones
    nearest = np.abs(expected.values[:, 2, None] - counts).min(axis=1)
    np.testing.assert_allclose(np.abs(filled["count"] - expected.values[:, 2]), nearest, atol=1e-9)
    np.testing.assert_allclose(filled["colour_p"], 1 - expected.variance[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(filled["sick"], expected.values[:, 1] >= 0.5)
    np.testing.assert_allclose(filled["sick_p"], abs(expected.values[:, 1] - 0.5) + 0.5, rtol=1e-6)
    assert (filled["sick_p"][before["sick"].notna()] == 1).all()
    assert "probability" in result.out
    np.testing.assert_allclose(filled["count_sd"], np.sqrt(expected.variance[:, 2]), rtol=1e-6)
    run("impute", saved, "t.csv", "--draws", 2, "--out", "draws.csv")
    draws = pd.read_csv("draws.csv")
    assert len(draws) == 2 * len(before)
    assert draws.notna().all(axis=None)
    assert set(draws["colour"]) == {"red", "blue"}
    assert set(draws["sick"]) == {0, 1}


def test_check_finds_nothing(run: CommandLine, saved: str) -> None:
    result = run("check", saved, "t.csv", "--limit", 10)
    assert result.code == 0, result.out + result.err


def test_numbers_are_compared_with_other_families(run: CommandLine) -> None:
    options = ("--components", "1", "--folds", 2, "--drop", "colour", "--out", "chosen")
    result = run("select", "masked-net:8x1,ppca,gaussian", "t.csv", *options)
    assert result.code == 0, result.err
    names = {one["name"] for one in json.loads(Path("chosen/selection.json").read_text())["candidates"]}
    assert names == {"masked-net:8x1", "ppca:1", "gaussian"}


def test_networks_are_compared_on_words(run: CommandLine) -> None:
    result = run("select", "masked-net:4x1,masked-net:8x1", "t.csv", "--folds", 2, "--out", "chosen")
    assert result.code == 0, result.err
    assert me.models.load("chosen/model").levels == {"colour": ["blue", "red"]}
    assert run("score", "chosen/model", "t.csv").code == 0


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("colour,sick,count,weight\ngreen,0,1,2\nred,1,,1\n", 0, ""),
        ("colour,sick,count,weight\nred,0,1,2\n", 0, ""),
        ("weight,colour,name,sick,count\n2,red,Ada,0,1\n1,blue,Bob,1,0\n", 0, ""),
        ("colour,sick,count,weight\nred,2,1,2\n", 2, "line 2 has 2 in column 'sick'"),
        ("colour,sick,weight\nred,1,2\n", 2, "has no column 'count'"),
        ("colour,sick,count,weight\nred,0,x,2\n", 2, "text in column 'count'"),
        ("colour,sick,count,weight\nred,yes,1,2\n", 2, "the saved model, or --numbers, has numbers there"),
        ("colour,sick,count,weight\nred,0,,2\nblue,1,,2\n", 0, ""),
        ("colour,sick,count,weight\n,0,1,2\n,1,1,2\n", 0, ""),
        ("Colour,sick,count,weight\nred,0,1,2\n", 2, "has no column 'colour'; it has Colour, sick"),
        ("colour,sick,count,weight\n,,,\n", 2, "has no value in line 2"),
        ("colour,sick,count,weight\nred,0,1,2\n,,,\n", 0, ""),
        ("colour,sick,count,weight\n1,0,1,2\n2,0,1,2\n", 0, ""),
    ],
)
def test_rows_that_training_has_not_seen(
    run: CommandLine, saved: str, text: str, code: int, message: str
) -> None:
    Path("new.csv").write_text(text)
    result = run("score", saved, "new.csv")
    assert result.code == code, result.err
    assert message in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_a_word_that_training_has_not_seen_has_its_own_probability(run: CommandLine, saved: str) -> None:
    """Of a row with nothing else, the score is the log-probability of all unseen words; a note says so."""
    Path("new.csv").write_text("colour,sick,count,weight\ngreen,,,\nteal,,,\ngreen,,,\nred,1,1,1\n")
    assert run("score", saved, "new.csv", "--limit", 3, "--json", "r.json").code == 0
    result, model = json.loads(Path("r.json").read_text()), me.models.load(saved)
    unseen = model.cells.columns[0].unseen
    assert result["log_evidence"] == pytest.approx(np.log(unseen), abs=1e-6)
    words = (
        f"that training has not seen (green, teal), all of which together have the probability {unseen:.2g}"
    )
    (note,) = [note for note in result["notes"] if "not seen" in note]
    assert note.startswith("3 of 3 cells of column 'colour' hold categories " + words)
    assert note.endswith("; no cell of it was seen: is it the same column?")
    frame = pd.read_csv("new.csv")
    (note,) = me.estimate_evidence(model, frame).notes[:1]
    assert note == f"3 of 4 cells of column 'colour' hold categories {words}"
    printed = " ".join(run("score", saved, "new.csv").out.split())
    assert "note: 3 of 4 cells of column 'colour' hold" in printed
    assert printed.count("training has not seen") == 1


def test_a_word_of_held_out_rows_alone_is_noted(run: CommandLine) -> None:
    words = pd.DataFrame({"colour": [*["red", "blue"] * 20, "pink"], "n": 1.0 + np.arange(41) % 7})
    words.to_csv("words.csv", index=False)
    seeds = [seed for seed in range(20) if 40 in held_out_rows(41, 0.5, seed)[1]]
    result = run("score", "masked-net:8x1", "words.csv", "--test-fraction", 0.5, "--seed", seeds[0])
    assert "1 of 20 cells of column 'colour' holds a category" in " ".join(result.out.split())
    assert "(pink)" in result.out


def test_holes_beside_a_third_value_are_not_filled(run: CommandLine, saved: str) -> None:
    Path("new.csv").write_text("colour,sick,count,weight\nred,2,,2\n")
    for options in ((), ("--draws", 2)):
        result = run("impute", saved, "new.csv", "--out", "filled.csv", *options)
        assert result.code == 2
        assert "line 2 has 2 in column 'sick'; the model was fitted to 0 and 1 alone" in result.error


def test_an_empty_column_is_filled_by_a_saved_model_alone(run: CommandLine, saved: str) -> None:
    Path("new.csv").write_text("colour,sick,count,weight\n,1,,\n,0,,2\n")
    assert run("impute", saved, "new.csv", "--out", "filled.csv").code == 0
    assert pd.read_csv("filled.csv").notna().all(axis=None)
    result = run("impute", "masked-net:8x1", "new.csv", "--out", "again.csv")
    assert result.code == 0
    assert "column 'count': no cell has a value: left out" in " ".join(result.out.split())
    assert pd.read_csv("again.csv")["colour"].isna().all()


def test_kinds_of_a_saved_model_stay(run: CommandLine, saved: str) -> None:
    for option, has in (("--categories sick", "numbers"), ("--numbers colour", "words")):
        result = run("score", saved, "t.csv", *option.split())
        assert (result.code, result.err) == (
            2,
            f"error: {option}: the model was fitted to {has} there; leave it out\n",
        )
    assert run("score", saved, "t.csv", "--categories", "colour").code == 0


def test_a_network_is_trained_and_scored_on_some_of_many_rows(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_rows, "_most_scored", lambda _: 20)
    sizes = []
    score = MaskedNetwork.score_samples
    monkeypatch.setattr(
        MaskedNetwork, "score_samples", lambda model, x: sizes.append(len(x)) or score(model, x)
    )
    result = run("train", "masked-net:8x1", "t.csv", "--epochs", 1, "--out", "model")
    assert result.code == 0, result.err
    assert sizes == [20, 20]
    assert "of more than 20 rows, that many stand for all" in " ".join(result.out.split())


def test_a_third_value_among_the_held_out_rows_makes_a_number(run: CommandLine) -> None:
    frame = mixed(80).drop(columns="colour").fillna(1.0)
    frame["sick"] = np.where(np.arange(80) == 7, 2.0, frame["sick"])
    frame.to_csv("three.csv", index=False)
    for seed in range(2):
        result = run("score", "masked-net:8x1", "three.csv", "--seed", seed, "--test-fraction", 0.5)
        assert result.code == 0, result.err
