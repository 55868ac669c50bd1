"""The word auto: which model a table gets, in cells, impute and score; and candidates that take no words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.table import as_table
from maskevidence.tables.choosing import auto
from maskevidence.tables.choosing.auto import auto_word, to_fill

rng = np.random.default_rng(0)
SICK = rng.random(90) < 0.5
WORDS = pd.DataFrame(
    {
        "ward": np.where(SICK, "A", "B"),
        "fever": rng.normal(36.0 + 3.0 * SICK, 0.3).round(1),
        "n": rng.poisson(3, 90),
    }
)


def test_numbers_alone_get_the_kernels() -> None:
    word, notes = auto_word(as_table(WORDS[["fever", "n"]]))
    assert word == "kernel-gaussian"
    assert "all columns are numbers" in notes[0]


def test_with_words_the_highest_held_out_evidence_decides() -> None:
    word, notes = auto_word(as_table(WORDS))
    best, other = me.select(
        as_table(WORDS), "mixture-transition,kernel-gaussian", folds=3, design="random-size:4"
    ).candidates
    assert word == best.name
    assert "the highest held-out evidence of 90 rows; nats per row behind it: " in notes[0]
    assert notes[0].endswith(f"{other.name} {best.log_evidence - other.log_evidence:.3g}")


def test_holes_are_filled_by_the_model_that_fills_them_best() -> None:
    """A price that recurs is more probable by counts, and nearer to the truth by kernels."""
    draw = np.random.default_rng(4)
    weight = draw.normal(size=240)
    price = np.round(20 * weight + draw.normal(size=240))
    rows = pd.DataFrame({"shop": draw.choice(["a", "b"], 240), "weight": weight.round(3), "price": price})
    rows["again"] = [f"p{value:.0f}" for value in price]
    holed = as_table(rows.assign(price=rows["price"].where(rows.index > 40), again=rows["again"]))
    (by_evidence, _), (by_filling, notes) = (auto_word(holed, fills=fills) for fills in (False, True))
    assert (by_evidence, by_filling) == ("mixture-transition", "kernel-gaussian")
    assert "kernel-gaussian, which fills hidden cells best; errors, of those of the mean" in notes[0]


def test_a_network_is_tried_with_many_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()

    def ranked(rows: object, words: list[str], *_: object, **__: object) -> list[object]:
        asked.append(words)
        raise me.InputError("stop")

    monkeypatch.setattr(auto, "first_candidate", ranked)
    monkeypatch.setattr(auto, "TAKE_WORDS", ("kernel-gaussian", "other", "masked-net"))
    many = as_table(pd.concat([WORDS] * 12, ignore_index=True))
    for rows, network in ((as_table(WORDS), True), (many, True), (many, False)):
        with pytest.raises(me.InputError):
            auto_word(rows, network=network)
    assert ["masked-net" in words for words in asked] == [False, True, False]


@pytest.mark.parametrize("depends", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_network_is_chosen_where_its_first_fold_is_ahead(depends: bool) -> None:
    draw = np.random.default_rng(1)  # c follows from a and b together, and from neither alone
    a, b, other = draw.integers(3, size=(3, 1_200))
    letters = np.array(["x", "y", "z"])
    table = pd.DataFrame({"a": letters[a], "b": letters[b], "c": letters[(a + b) % 3 if depends else other]})
    word, notes = auto_word(as_table(table))
    assert (word == "masked-net") == depends
    assert notes[0].endswith(" after 20 epochs on one of 3 folds")
    assert ("ahead of" in notes[0]) == depends


@pytest.mark.slow
@pytest.mark.parametrize("depends", [True, False])
def test_a_network_is_chosen_where_it_fills_one_column_better(depends: bool) -> None:
    """It is not judged by the evidence of the other columns, and learns the column with holes alone."""
    draw = np.random.default_rng(2)
    a, b, other = draw.integers(3, size=(3, 1_200))
    letters = np.array(["x", "y", "z"])
    c = letters[(a + b) % 3 if depends else other]
    whole = pd.DataFrame({"a": letters[a], "b": letters[b], "c": c, "n": draw.normal(size=1_200).round(2)})
    hidden = whole.index % 20 == 0
    holed = whole.assign(c=whole["c"].where(~hidden))
    word, notes = auto_word(as_table(holed), fills=True)
    assert (word == "masked-net") == depends
    assert notes[0].endswith(" after 20 epochs on one of 3 folds") == depends
    if depends:
        filled = me.impute("auto", holed).to_frame()
        assert (filled["c"] == whole["c"])[hidden].mean() > 0.9


@pytest.mark.parametrize(("n_holed", "learned"), [(1, [0]), (2, [0, 1]), (3, None)])
def test_a_network_to_fill_most_columns_learns_all(n_holed: int, learned: list[int] | None) -> None:
    values = np.random.default_rng(0).normal(size=(9, 4))
    values[0, :n_holed] = np.nan
    assert to_fill(me.models.MaskedNetwork, as_table(values))(4).columns_to_fill == learned


def test_the_commands_take_it(run: CommandLine, tmp_path: Path) -> None:
    holed = WORDS.mask(np.random.default_rng(1).random(WORDS.shape) < 0.1)
    holed.to_csv(tmp_path / "t.csv", index=False)
    filled = run("impute", "auto", tmp_path / "t.csv", "--out", tmp_path / "f.csv")
    assert "note: auto: " in filled.out
    table = pd.read_csv(tmp_path / "f.csv")
    there = holed["ward"].isna() & holed["fever"].notna()
    assert (table["ward"] == WORDS["ward"])[there].mean() > 0.9
    assert "note: auto: " in run("score", "auto", tmp_path / "t.csv").out
    assert "note: auto: " in run("cells", "auto", tmp_path / "t.csv").out
    assert (
        "auto is decided by a table"
        in run("train", "auto", tmp_path / "t.csv", "--out", tmp_path / "m").error
    )


def test_python_takes_it() -> None:
    assert me.wrong_cells("auto", WORDS).notes[0].startswith("auto: ")
    holed = WORDS.assign(ward=WORDS["ward"].where(WORDS.index > 9), one=1.0)
    filled = me.impute("auto", holed).to_frame()
    assert (filled["ward"] == WORDS["ward"]).mean() > 0.95
    numbers = WORDS[["fever", "n"]].to_numpy(dtype=float)
    numbers[:5, 1] = np.nan
    assert np.isfinite(me.impute("auto", numbers).values).all()


def test_candidates_that_cannot_take_words_are_left_out_with_a_note() -> None:
    selection = me.select(WORDS, "gaussian,ppca,kernel-gaussian", folds=3)
    assert selection.choice == "kernel-gaussian"
    assert len(selection.candidates) == 1
    assert selection.notes[0] == "column 'ward' holds words: left out gaussian, ppca, which cannot take words"
    with pytest.raises(
        me.InputError,
        match="which gaussian, ppca cannot take; mixture-transition, kernel-gaussian, masked-net can",
    ):
        me.select(WORDS, "gaussian,ppca")


def test_a_column_with_one_known_value_is_no_hindrance() -> None:
    table = WORDS.assign(once=np.nan)
    table.loc[4, "once"] = 2.5
    assert auto_word(as_table(table))[0] == auto_word(as_table(WORDS))[0]
