"""Wrong words by counts: typing errors and swapped words, their suggestions, and the rate of false calls."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.tables.counts.counted import ALL, Own
from maskevidence.tables.counts.word_judge import _broken_share, _right_share

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CITIES = ("birmingham", "montgomery", "huntsville", "tuscaloosa", "gadsden", "florence", "dothan", "mobile")


def rows_of(n: int, seed: int, open_words: bool = False) -> pd.DataFrame:
    """Cities that determine a code and a state, a kind that nothing determines; makers of any frequency."""
    rng = np.random.default_rng(seed)
    city = rng.integers(len(CITIES), size=n)
    frame = pd.DataFrame(
        {
            "city": np.array(CITIES)[city],
            "code": [f"z{35000 + 7 * k}" for k in city],
            "state": np.array(["al", "ga", "tn"])[city % 3],
            "kind": rng.choice(["acute", "critical", "childrens"], size=n, p=[0.7, 0.25, 0.05]),
        }
    )
    if open_words:
        share = 1 / np.arange(1, 401)
        frame["maker"] = [
            f"{'bcdfgklm'[k % 8]}a{'nprst'[k % 5]}o {k:03d}"
            for k in rng.choice(400, n, p=share / share.sum())
        ]
    return frame


def misspelt(frame: pd.DataFrame, share: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Some cells with another letter, one less or one more."""
    rng, spoilt, wrong = np.random.default_rng(seed), frame.copy(), np.zeros(frame.shape, dtype=bool)
    for cell in rng.permutation(frame.size)[: round(share * frame.size)]:
        i, j = divmod(int(cell), frame.shape[1])
        word, k = frame.iat[i, j], int(rng.integers(len(frame.iat[i, j])))
        new = rng.choice(list("abcdefghijklmnopqrstuvwxyz"))
        words = (word[:k] + new + word[k + 1 :], word[:k] + new + word[k:], word[:k] + word[k + 1 :])
        spoilt.iat[i, j] = words[int(rng.integers(3))]
        wrong[i, j] = spoilt.iat[i, j] != word
    return spoilt, wrong


def test_typing_errors_are_called_and_mended() -> None:
    frame, wrong = misspelt(rows_of(400, 0), 0.02, 1)
    found = me.wrong_cells("mixture-transition", frame)
    assert (found.called & wrong).sum() > 0.7 * wrong.sum()
    assert (found.called & ~wrong).sum() <= 0.1 * found.called.sum()
    right, place = rows_of(400, 0), {name: j for j, name in enumerate(frame.columns)}
    told = [
        cell.suggested == right.iat[cell.row, place[cell.column]]
        for cell in found.cells
        if wrong[cell.row, place[cell.column]]
    ]
    assert np.mean(told) > 0.9
    for cell in found.cells:  # the page shows what cells.csv suggests
        assert cell.likelier.startswith(f"{cell.suggested} {cell.probability:.2g}")
    sure = [cell.probability for cell in found.cells if cell.called]
    assert 0 < min(sure) <= max(sure) <= 1
    assert np.isfinite(found.suspicion[~np.isnan(found.suspicion)]).all()


def test_a_swapped_word_is_called() -> None:
    frame = rows_of(500, 3)
    frame.loc[7, "city"] = next(city for city in CITIES if city != frame.loc[7, "city"])
    frame.loc[11, "state"] = "al" if frame.loc[11, "state"] != "al" else "ga"
    found = me.wrong_cells("mixture-transition", frame)
    assert {(cell.row, cell.column) for cell in found.cells[:2]} == {(7, "city"), (11, "state")}
    first = {(cell.row, cell.column): cell.suggested for cell in found.cells}
    assert first[7, "city"] == rows_of(500, 3).loc[7, "city"]


def test_a_word_that_occurs_once_is_not_certainly_wrong() -> None:
    """Among makers of which many occur once, a new one is no surprise, and none is called."""
    found = me.wrong_cells("mixture-transition", rows_of(400, 5, open_words=True))
    assert found.called.sum() <= 2
    assert not found.called[:, 4].any()


def test_near_unique_text_is_listed_and_not_called() -> None:
    frame = rows_of(300, 6)
    frame["name"] = [f"n{k:04d}x" for k in range(300)]
    found = me.wrong_cells("mixture-transition", frame)
    assert not found.called[:, 4].any()
    assert any("cannot be told apart" in note and "name" in note for note in found.notes)


def test_two_writings_are_listed_with_a_note_that_says_why_none_is_called() -> None:
    frame = rows_of(300, 6)
    stopped = np.random.default_rng(2).random(300) < 0.3
    frame["code"] = frame["code"] + np.where(stopped, ".", "")
    found = me.wrong_cells("mixture-transition", frame)
    first = found.cells[: stopped.sum() // 2]
    assert np.mean([cell.column == "code" and stopped[cell.row] for cell in first]) > 0.9
    assert not found.called.any()
    assert any("cells of code may be wrong" in note and "none is called" in note for note in found.notes)


def places_of(n: int, seed: int, name: Callable[[int], str], n_places: int) -> pd.DataFrame:
    """Names of places that are one edit apart, two to an area, and a number that nothing determines."""
    rng = np.random.default_rng(seed)
    place = rng.integers(n_places, size=n)
    day = [f"{x:.2f}" for x in rng.normal(size=n)]
    return pd.DataFrame(
        {"city": [name(k) for k in place], "area": [f"ar{k // 2}" for k in place], "day": day}
    )


NAMES: dict[str, Callable[[int], str]] = {
    "numbered": lambda k: f"town {k} x",
    "codes": lambda k: f"MTL{k:04d}",
    "lettered": lambda k: f"unit-{LETTERS[k // 26]}{LETTERS[k % 26]}",
}


@pytest.mark.parametrize("named", NAMES)
def test_right_names_that_are_one_edit_apart_are_not_called(named: str) -> None:
    """A rare "town 20 x" is not a typing error for "town 21 x": common names are just as close."""
    for seed in (1, 2):
        assert not me.wrong_cells("mixture-transition", places_of(400, seed, NAMES[named], 60)).called.any()


def test_typing_errors_among_numbered_names_are_called() -> None:
    frame = places_of(800, 3, NAMES["numbered"], 60)
    spoilt = np.arange(0, 800, 50)
    frame.loc[spoilt, "city"] = frame.loc[spoilt, "city"].str.replace("town", "tpwn")
    found = me.wrong_cells("mixture-transition", frame)
    assert found.called[spoilt, 0].mean() > 0.7
    assert (found.called.sum() - found.called[spoilt, 0].sum()) <= 0.1 * found.called.sum()


def test_a_cell_breaks_no_rule_that_a_hidden_cell_of_its_row_explains() -> None:
    """The places of some rows look mistyped and are hidden; then nothing speaks for the rows' areas."""
    frame = places_of(2000, 7, NAMES["numbered"], 300)
    assert not me.wrong_cells("mixture-transition", frame).called.any()


TOWNS = [
    "berlin",
    "hamburg",
    "munich",
    "cologne",
    "frankfurt",
    "stuttgart",
    "leipzig",
    "dortmund",
    "essen",
    "bremen",
    "dresden",
    "hannover",
    "nuremberg",
    "duisburg",
    "bochum",
    "bonn",
    "kassel",
    "mainz",
    "kiel",
    "ulm",
    "jena",
    "gera",
    "halle",
    "trier",
    "worms",
    "hof",
    "celle",
    "emden",
    "bamberg",
    "fulda",
]
SELLERS = [
    name + end
    for name in ["smith", "jones", "lee", "diaz", "wong"]
    for end in ("", "son", "er", "ova", "ez", "i")
]


def towns_of(n: int, seed: int) -> pd.DataFrame:
    """A town that determines an area, and a seller that nothing determines, of falling frequency."""
    rng, share = np.random.default_rng(seed), 1 / np.arange(1, 31)
    town, seller = rng.choice(30, (2, n), p=share / share.sum())
    area = [f"A{k // 3:02d}" for k in town]
    return pd.DataFrame({"town": np.array(TOWNS)[town], "area": area, "seller": np.array(SELLERS)[seller]})


def test_rare_names_of_columns_that_say_nothing_of_one_another_are_not_called() -> None:
    # each had 13 to 45 calls when words of more than three cells did not tell how many rare ones are right
    tables = [towns_of(300, seed).drop(columns="area") for seed in range(8)]
    assert sum(me.wrong_cells("mixture-transition", table).called.any() for table in tables) <= 1


def test_a_row_that_says_nothing_of_a_column_breaks_no_rule_of_it() -> None:
    """An area beside a mistyped town is as probable as by frequency, and is right."""
    for seed in (2, 8):  # 4 and 7 areas were called
        frame, place = towns_of(2000, seed), np.arange(0, 2000, 50)
        spoilt, _ = misspelt(frame.loc[place, ["town"]], 1.0, seed)
        frame.loc[place, "town"] = spoilt["town"]
        called = me.wrong_cells("mixture-transition", frame).called
        assert called[place, 0].mean() > 0.7
        called[place, 0] = False
        assert called.sum() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("n_places", [60, 120])
@pytest.mark.parametrize("named", NAMES)
def test_the_rate_of_false_calls_holds_among_names_one_edit_apart(named: str, n_places: int) -> None:
    false = []
    for seed in range(20):
        frame, wrong = misspelt(places_of(400, seed, NAMES[named], n_places), 0.03, seed + 100)
        called = me.wrong_cells("mixture-transition", frame).called
        false.append((called & ~wrong).sum() / max(1, called.sum()))
    assert np.mean(false) <= 0.1 + 2 * np.std(false) / np.sqrt(len(false))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.01, 0.03, 0.1])
def test_the_rate_of_false_calls_holds(share: float) -> None:
    false = []
    for seed in range(20):
        frame, wrong = misspelt(rows_of(300, seed, open_words=True), share, seed + 100)
        called = me.wrong_cells("mixture-transition", frame).called
        false.append((called & ~wrong).sum() / max(1, called.sum()))
    assert np.mean(false) <= 0.1 + 2 * np.std(false) / np.sqrt(len(false))


def test_the_share_of_right_cells_is_that_of_the_formula() -> None:
    """Counted one by one: M₂ cells are so suspicious without one row more, M₃ without two."""
    rng = np.random.default_rng(0)
    first, more, most = rng.normal(size=60), rng.normal(size=60), rng.normal(size=60)
    second, third = np.maximum(first, more), np.maximum(np.maximum(first, more), most)
    expected = []
    for s in first:
        of_level = []
        for level in first[first <= s]:
            m1 = (first >= level).sum()
            m2 = (second >= level).sum() - m1
            m3 = (third >= level).sum() - m1 - m2
            right = (m2 + 0.25) * max(1.0, (m2 + 0.25) / (m3 + 0.25))
            of_level.append(min(1.0, right / m1) if level >= 1 else 1.0)
        expected.append(min(of_level))
    np.testing.assert_allclose(_right_share(first, [first, second, third]), expected)


def test_a_word_is_left_out_with_all_its_rows() -> None:
    """Without both rows of a word its probability is that of a new one, s p_new."""
    frame = rows_of(200, 8)
    frame.loc[:1, "city"] = "selma"
    model = me.models.MixtureTransition(4).fit(frame)
    rows, asked = model.table(frame).values[:1], np.array([[True, False, False, False]])
    own = Own(model.counted.rows[:1], np.array([ALL]))
    log_new = model.counted.log_spelled(0)[model.levels["city"].index("selma")]
    logits = model.weights[0, :2].detach()
    expected = [float(each) + log_new for each in torch.nn.functional.logsigmoid(logits)]
    found = model.log_each(rows, asked, ~asked, own)[0, 0]
    assert min(abs(found - each) for each in expected) < 1e-9


def test_wrong_words_are_mended_as_suggested(run: CommandLine, tmp_path: Path) -> None:
    frame, wrong = misspelt(rows_of(300, 9), 0.02, 1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = run("cells", "mixture-transition", tmp_path / "t.csv", "--out", tmp_path / "c")
    assert found.code == 0, found.err
    mend = ("impute", "mixture-transition", tmp_path / "t.csv", "--out", tmp_path / "m.csv", "--mend")
    result = run(*mend, "suggested", "--wrong", tmp_path / "c" / "cells.csv")
    assert result.code == 0, result.err
    assert "mended as suggested" in " ".join(result.out.split())
    mended = pd.read_csv(tmp_path / "m.csv")[list(frame.columns)]
    still = (mended != rows_of(300, 9)).to_numpy()
    assert still.sum() < 0.5 * wrong.sum()
    cells = pd.read_csv(tmp_path / "c" / "cells.csv").query("called")
    assert all(
        mended.loc[k, column] == word for k, column, word in cells[["row", "column", "suggested"]].values
    )
    refused = run(*mend, "suggested", "--overwrite")
    assert refused.code == 2
    assert "--wrong" in refused.err


def precision_of_order(found: me.WrongCells, wrong: np.ndarray) -> float:
    """The share of wrong cells among as many of the most suspicious ones."""
    order = np.argsort(-np.nan_to_num(found.suspicion, nan=-np.inf), axis=None, kind="stable")
    return float(wrong.ravel()[order[: wrong.sum()]].mean())


def test_a_second_writing_comes_first_and_is_not_called() -> None:
    """A value that 30 % of the rows write with a sign more; as it may mean something, it is not called."""
    frame = rows_of(600, 2, open_words=True)
    second = np.random.default_rng(3).random(600) < 0.3
    frame.loc[second, "code"] += "."
    wrong = np.zeros(frame.shape, dtype=bool)
    wrong[second, 1] = True
    found = me.wrong_cells("mixture-transition", frame)
    assert precision_of_order(found, wrong) > 0.9  # 0 without second writings
    assert not found.called[:, 1].any()


def test_the_few_that_break_a_rule_come_before_the_many_that_a_long_tail_surprises() -> None:
    """One code that stands in the rows of all cities, as if it had been filled in where it was missing."""
    rng, frame = np.random.default_rng(4), rows_of(2000, 4, open_words=True)
    frame["zip"] = 10_000 + 1_000 * frame["city"].map(CITIES.index) + rng.integers(1000, size=2000)
    wrong = np.zeros(frame.shape, dtype=bool)
    filled = rng.permutation(2000)[:40]
    frame.loc[filled, "zip"] = 1907
    wrong[filled, -1] = True
    assert (
        precision_of_order(me.wrong_cells("mixture-transition", frame), wrong) > 0.5
    )  # 0 without exceptions


def test_cells_at_once_are_those_one_by_one() -> None:
    """Without rows that are left out, by the model of the protocol, each cell hidden by itself."""
    frame, _ = misspelt(rows_of(60, 5, open_words=True), 0.05, 6)
    model = me.models.MixtureTransition(n_features=5).fit(frame)
    rows = model.table(frame).values
    rows[::7, 2] = np.nan
    seen = ~np.isnan(rows)
    every, tokens = model.log_each(rows, seen, seen, None), me.Tokens.from_array(rows)
    for j in range(5):
        masks = torch.zeros_like(tokens.maskable)
        masks[:, j] = torch.from_numpy(seen[:, j])
        with torch.no_grad():
            alone = model.log_conditionals(tokens, masks)[:, j].numpy()
        np.testing.assert_allclose(every[seen[:, j], j], alone[seen[:, j]], rtol=1e-12)


@pytest.mark.parametrize(("numbers", "n_once"), [(False, 0), (True, 0), (False, 400)])
@pytest.mark.parametrize("wrong", [False, True])
def test_one_code_in_rows_of_all_kinds_is_called_where_each_other_code_has_one_kind(
    numbers: bool, n_once: int, wrong: bool
) -> None:
    """Also among codes of which most occur once: what those break says nothing of the others."""
    rng, n = np.random.default_rng(1), 400 + n_once
    place = np.concatenate([np.arange(60, 60 + n_once), rng.integers(60, size=400)])[::-1]
    city = np.array([f"{one} {two} {three}" for one in CITIES for two in CITIES for three in CITIES])
    frame = pd.DataFrame({"city": city[place], "area": city[place // 2], "day": rng.normal(size=n).round(2)})
    code, spoilt = 1000 * (1 + place % 12) + place, np.zeros(n, dtype=bool)
    if wrong:
        spoilt[:20] = code[:20] != code[20]
        code[:20] = code[20]
    frame["code"] = code if numbers else [f"z{k}" for k in code]
    found = me.wrong_cells("mixture-transition", frame)
    assert not found.called[:, :3].any()
    assert found.called[~spoilt, 3].sum() <= 0.1 * found.called.sum()
    assert found.called[spoilt, 3].mean() > 0.5 if wrong else not found.called.any()
    assert any("the rest of the row speaks" in note for note in found.notes) == wrong
    (named,) = [note for note in found.notes if "numbers are judged by kernel-gaussian" in note]
    assert named.endswith("day, code" if numbers else "day")


def visits(seed: int, shifted: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Words that say nothing of numbers, of which some have another unit."""
    rng, n = np.random.default_rng(seed), 300
    frame = pd.DataFrame(
        {
            "town": rng.choice(CITIES, n),
            "kind": rng.choice(["acute", "critical", "childrens"], n, p=[0.7, 0.25, 0.05]),
            "sugar": rng.normal(6, 1, n).round(1),
            "mass": rng.normal(26, 4, n).round(1),
            "height": rng.normal(170, 9, n).round(),
        }
    )
    wrong = np.zeros(frame.shape, dtype=bool)
    if shifted:
        frame.loc[7, "sugar"], frame.loc[20, "mass"], frame.loc[30, "mass"] = 65.0, 260.1, -9.0
        wrong[7, 2], wrong[[20, 30], 3] = True, True
    return frame, wrong


@pytest.mark.parametrize("model", ["mixture-transition", "auto"])
def test_numbers_beside_words_are_judged_by_kernels(model: str) -> None:
    """A mass of 260.1 beside 26 was not among the first cells."""
    for seed in range(3):
        frame, wrong = visits(seed, shifted=True)
        found = me.wrong_cells(model, frame)
        assert {(cell.row, cell.column) for cell in found.cells[:3]} >= {(7, "sugar"), (20, "mass")}
        assert list(found.table.columns) == list(frame)
        assert not found.called[~wrong].any()
        suspicions = [cell.suspicion for cell in found.cells]
        assert suspicions == sorted(suspicions, reverse=True)
        assert all(found.suspicion[c.row, list(frame).index(c.column)] == c.suspicion for c in found.cells)
        assert found.called.any() or any("none of sugar, mass, height is" in note for note in found.notes)
        assert not me.wrong_cells(model, visits(seed, shifted=False)[0]).called.any()


def test_a_value_that_rows_of_some_kinds_half_expect_breaks_no_rule() -> None:
    """Pears at the price of apples were called, in one of four clean tables."""
    kinds, price = np.array(["banana", "apple", "pear", "melon"]), np.array([1.2, 2.5, 3.1, 4.5])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        kind = rng.choice(4, 500, p=[0.3, 0.3, 0.25, 0.15])
        each = (price[kind] * np.exp(rng.normal(0, 0.08, 500))).round(2)
        number = 1 + rng.poisson(6, 500)
        frame = pd.DataFrame({"kind": kinds[kind], "price": each, "number": number})
        frame["total"] = (each * number).round(2)
        assert not me.wrong_cells("mixture-transition", frame).called.any()


def test_calls_of_words_and_numbers_are_numbered_together() -> None:
    frame, wrong = misspelt(rows_of(1000, 0), 0.02, 1)
    frame["mass"] = np.random.default_rng(0).normal(26, 4, 1000).round(1)
    frame.loc[[5, 9], "mass"] = 260.1, -400.0
    found = me.wrong_cells("mixture-transition", frame)
    assert (found.called[:, :4] & wrong).sum() > 0.7 * wrong.sum()
    assert found.called[[5, 9], 4].all()
    assert sorted(found.calls[found.calls > 0]) == list(range(1, 1 + int(found.called.sum())))
    of_call = {int(found.calls[i, j]): found.suspicion[i, j] for i, j in np.argwhere(found.calls > 0)}
    assert [of_call[k] for k in sorted(of_call)] == sorted(of_call.values(), reverse=True)
    for cell in found.cells:
        at = cell.row, list(frame).index(cell.column)
        assert (cell.suspicion, cell.p_value) == (found.suspicion[at], found.p_values[at])
        assert (cell.called, cell.one_of) == (found.called[at], "")
    assert {(cell.row, cell.column) for cell in found.cells} >= {
        (i, frame.columns[j]) for i, j in np.argwhere(found.called).tolist()
    }


def test_a_yes_no_that_numbers_half_tell_is_not_called_in_any_order_of_columns() -> None:
    """Six right cells were called with the columns in reverse."""
    rng, n = np.random.default_rng(0), 300
    place, factor = rng.integers(4, size=n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "city": np.array(CITIES)[place],
            "zip": np.array(["z35", "z36", "z37", "z38"])[place],
            "state": np.array(["al", "al", "tn", "ga"])[place],
            "height": (170 + 8 * factor + 2 * rng.normal(size=n) + 3 * place).round(1),
            "weight": (70 + 9 * factor + 2 * rng.normal(size=n)).round(1),
            "ok": np.where(factor + rng.normal(size=n) > 0, "ja", "nein"),
        }
    )
    for k in range(14):
        frame.loc[k, "city"] = frame.city[k][: k % 6] + "x" + frame.city[k][k % 6 + 1 :]
    frame.loc[20:23, "state"] = "ga"
    frame = frame.mask(rng.random(frame.shape) < 0.03)
    for each in (frame, frame[frame.columns[::-1]]):
        found = me.wrong_cells("mixture-transition", each)
        assert {cell.column for cell in found.cells if cell.called} == {"city"}


def test_numbers_that_kernels_cannot_take_are_judged_by_counts() -> None:
    frame = rows_of(40, 0)
    frame["mass"] = [1.0, 2.0, *[3.0] * 38]  # with seed 9, one fold has both rows that differ
    (note,) = [
        each for each in me.wrong_cells("mixture-transition", frame, seed=9).notes if "numbers" in each
    ]
    assert note.startswith("numbers are judged by mixture-transition")


def test_a_word_that_stands_for_no_code_may_stand_in_rows_of_all_kinds() -> None:
    rng = np.random.default_rng(1)
    place = rng.integers(60, size=400)
    city = np.array([f"{one} {two} {three}" for one in CITIES for two in CITIES for three in CITIES])
    frame = pd.DataFrame(
        {"city": city[place], "area": city[place // 2], "day": rng.normal(size=400).round(2)}
    )
    frame["code"] = [f"z{1000 * (1 + k % 12) + k}" for k in place]
    frame.loc[:20, "code"] = "none"
    assert not me.wrong_cells("mixture-transition", frame).called.any()


def test_the_share_of_right_cells_of_a_value_is_told_by_the_other_values() -> None:
    """Counted one by one; a value with fewer than three broken cells has none."""
    rng = np.random.default_rng(0)
    x = rng.choice(4, size=60, p=[0.6, 0.3, 0.08, 0.02])
    first = 2 * rng.normal(size=60)
    second = np.maximum(first, rng.normal(size=60))
    third = np.maximum(second, rng.normal(size=60))
    expected = np.ones(60)
    for k, (value, s) in enumerate(zip(x, first, strict=True)):
        own, levels = x == value, []
        for level in first[own & (first <= s) & (first >= 1)]:
            m1 = (first[own] >= level).sum()
            m2, m3 = (
                ((b >= level) & (a < level) & ~own).sum() for a, b in ((first, second), (second, third))
            )
            right = (m2 + 0.25) * max(1.0, (m2 + 0.25) / (m3 + 0.25)) * max(1.0, own.sum() / (~own).sum())
            levels.append(min(1.0, right / m1))
        if (first[own] >= 1).sum() >= 3:
            expected[k] = min(levels, default=1.0)
    assert 0 < (expected < 1).sum() < 60
    np.testing.assert_allclose(_broken_share(x.astype(float), [first, second, third]), expected)


def test_a_column_with_one_short_word_is_judged() -> None:
    """Fewer letters than an n-gram has."""
    frame = rows_of(40, 0).assign(ward="x")
    assert not me.wrong_cells("mixture-transition", frame).called.any()


def test_holes_of_words_are_judged_without_warnings() -> None:
    frame = rows_of(60, 0).mask(np.random.default_rng(0).random((60, 4)) < 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(me.wrong_cells("mixture-transition", frame).suspicion).any()
