"""The page of a selection: candidates, and how holes are filled."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.show.parts import Group
from maskevidence.data import read_table
from maskevidence.runs.folder import read_sealed, write_sealed
from maskevidence.tables.selection_page import read_selection

pytest.importorskip("matplotlib", reason="the extra plots is not installed")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine) -> Path:
    """A selection on a table with holes, and words for them."""
    monkeypatch.chdir(tmp_path)
    x = me.models.PPCA(4, 1, seed=1).sample(80, seed=2)
    frame = pd.DataFrame(x, columns=list("abcd")).round(4)
    frame.insert(0, "who", [f"row {k}" for k in range(80)])
    frame["note"] = "text"
    frame = frame.astype(object)
    frame.loc[[3, 5, 9], "b"] = "?"
    frame.to_csv("t.csv", index=False)
    words = "--id-column who --missing ? --drop note --components 1-2 --folds 3 --out chosen"
    result = run("select", "factor-analysis,gaussian", "t.csv", *words.split())
    assert result.code == 0, result.err
    return Path("chosen")


def test_the_page_says_what_was_chosen_and_how_holes_are_filled(chosen: Path, run: CommandLine) -> None:
    result = run("report", chosen, "--out", "page.html")
    assert result.code == 0, result.err
    html = Path("page.html").read_text()
    text = " ".join(re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", html, flags=re.S).split())
    said = json.loads((chosen / "selection.json").read_text())
    assert f"Chosen: {said['choice']}, highest held-out log evidence" in text
    for candidate in said["candidates"]:
        assert f" {candidate['name']} " in text
    assert "without a model" in text
    assert "far below the others" not in text  # of rows that the model was fitted to
    assert "maskevidence select factor-analysis,gaussian t.csv" in text
    assert "3 candidates, each fitted in 3 folds" in text


def test_known_values_are_filled_by_models_that_have_not_seen_them(chosen: Path) -> None:
    said = json.loads((chosen / "selection.json").read_text())
    x = read_table("t.csv", id_column="who", missing=["?"], drop=["note"]).values
    _, _, k = said["choice"].partition(":")
    wrong = []
    for rows in np.array_split(np.random.default_rng(0).permutation(80), 3):
        new = me.models.FactorAnalysis(4, int(k)) if k else me.models.Gaussian(n_features=4)
        model, hidden = new.fit(np.delete(x, rows, axis=0)), x[rows].copy()
        hidden[:, 1] = np.nan
        wrong.append(model.impute(hidden).values[:, 1] - x[rows, 1])
    error = np.sqrt(np.nanmean(np.concatenate(wrong) ** 2))
    assert list(said["fills"]) == ["b"]
    fill = said["fills"]["b"]
    assert (fill["holes"], fill["words"]) == (3, False)
    assert [fill["quality"], fill["without"]] == pytest.approx([error, np.nanstd(x[:, 1])], rel=1e-4)
    (group,) = (part for part in read_selection(chosen).parts if isinstance(part, Group))
    (holes,) = group.parts
    assert holes.rows == [["b", "3", f"{error:.3g}", f"{np.nanstd(x[:, 1]):.3g}"]]


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_a_column_of_noise_is_filled_no_better_than_by_its_mean(share: float) -> None:
    """By a model that was fitted to the same rows it was filled with .61 of the error; with copies, too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 25))
    x[rng.random(x.shape) < 0.05] = np.nan
    x = np.concatenate([x, x[: int(60 * share)]])
    fills = me.select(x, "factor-analysis", (8, 9), folds=3).fills
    assert np.mean([fill.quality / fill.without for fill in fills.values()]) > 1


def test_words_have_the_share_that_is_filled_right(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = me.models.MaskedNetwork.fit
    monkeypatch.setattr(me.models.MaskedNetwork, "fit", lambda self, rows: fit(self, rows, epochs=30))
    word = np.random.default_rng(0).choice(["x", "y", "y"], size=120).astype(object)
    frame = pd.DataFrame({"a": word, "b": np.where(word == "x", "u", "v")})
    frame.loc[[3, 8], "b"] = None
    fill = me.select(frame, "masked-net:8x1,masked-net:9x1", folds=2).fills["b"]
    assert (fill.holes, fill.words, fill.quality) == (2, True, 1.0)
    assert fill.without == pytest.approx(frame["b"].value_counts(normalize=True).max())


def test_what_cannot_be_shown_is_one_line(chosen: Path, run: CommandLine) -> None:
    assert "is a selection, which has a page of its own" in run("report", chosen, chosen).error
    file = chosen / "selection.json"
    content = json.loads(file.read_text())
    for name in ("candidates", "data", "smallest"):
        file.write_text(json.dumps(content | {name: []}))
        assert "selection.json' was changed after it was written; select" in run("report", chosen).error
    file.write_text(json.dumps(content))
    Path("t.csv").unlink()  # the page needs no data
    assert run("report", chosen, "--out", "page.html").code == 0
    assert not Path("report.html").exists()


def test_a_selection_of_another_version_is_one_line(chosen: Path, run: CommandLine) -> None:
    content = read_sealed(chosen / "selection.json", "")
    del content["fills"]
    write_sealed(chosen / "selection.json", content)
    error = run("report", chosen, "--out", "page.html").error
    assert (
        error == "'chosen' is a selection of another version, without 'fills'; select again with --overwrite"
    )
