"""Wrong cells: the search, p-values, calls at the stated rate, and what is said of a cell."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import maskevidence as me
from maskevidence.data import Table
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.reshaped import Reshaped
from maskevidence.tables.wrong_cells.cell_search import (
    CellJudge,
    Clues,
    Facts,
    Judged,
    _beside_others,
    facts_of,
)
from maskevidence.tables.wrong_cells.planted_cells import RESTS, Right, planted
from maskevidence.tables.wrong_cells.tails import Tails
from maskevidence.tables.wrong_cells.wrong_cells import _ranks
from refusals import one_line

NAN = math.nan


def correlated(d: int = 5) -> me.models.Gaussian:
    """A density whose columns say much of each other."""
    loadings = torch.from_numpy(np.random.default_rng(7).normal(size=(d, 2)))
    covariance = loadings @ loadings.T + 0.2 * torch.eye(d, dtype=torch.float64)
    return me.models.Gaussian(torch.zeros(d, dtype=torch.float64), covariance)


def spoilt(rows: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows some of whose cells have the value of another row, three times as far from 0; and which."""
    wrong = rng.random(rows.shape) < share
    return np.where(wrong, 3 * rows[rng.permutation(len(rows))], rows), wrong


def log_normal(x: float, mean: float, variance: float) -> float:
    return -0.5 * (math.log(2 * math.pi * variance) + (x - mean) ** 2 / variance)


def log_given(model: me.models.Gaussian, row: np.ndarray, j: int, visible: list[int]) -> float:
    """log p(x_j | visible cells) by the textbook."""
    c = model.covariance.detach().numpy()
    if not visible:
        return log_normal(row[j], 0.0, c[j, j])
    weights = np.linalg.solve(c[np.ix_(visible, visible)], c[visible, j])
    return log_normal(row[j], weights @ row[visible], c[j, j] - weights @ c[visible, j])


def slow_search(model: me.models.Gaussian, facts: Facts, row: np.ndarray) -> tuple[np.ndarray, set[int]]:
    """The suspicion of each cell of a row and the hidden cells, one formula after the other."""
    cells = [j for j in range(len(row)) if not math.isnan(row[j])]

    def log_wrong(j: int) -> float:
        far = (row[j] - facts.centre[j]) / (2 * facts.scale[j])
        cauchy = 1 / (math.pi * 2 * facts.scale[j] * (1 + far**2))
        return math.log(0.5 * math.exp(log_given(model, row, j, [])) + 0.5 * cauchy)

    def suspicion(j: int, hidden: set[int]) -> float:
        return log_wrong(j) - log_given(model, row, j, [k for k in cells if k != j and k not in hidden])

    def beside(j: int, hidden: set[int]) -> float:
        others = (suspicion(k, hidden) for k in cells if k != j and k not in hidden)
        return suspicion(j, hidden) - math.log(1 + 0.01 * sum(map(math.exp, others)))

    hidden: set[int] = set()
    while len(hidden) < len(cells) // 2:
        worst = max((j for j in cells if j not in hidden), key=lambda j: suspicion(j, hidden))
        if suspicion(worst, hidden) <= 3:
            break
        hidden.add(worst)
    final = np.full(len(row), NAN)
    for j in cells:
        if j in hidden:
            final[j] = beside(j, hidden - {j})
        else:
            final[j] = max([suspicion(j, hidden), *(beside(j, hidden - {k}) for k in hidden)])
    return final, hidden


def test_the_search_is_that_of_a_slow_one() -> None:
    model, rng = correlated(), np.random.default_rng(0)
    rows, _ = spoilt(model.sample(40, seed=1), 0.15, rng)
    rows[rng.random(rows.shape) < 0.1] = NAN
    facts = facts_of(model, model.sample(300, seed=2))
    judged = CellJudge(model, facts).search(rows)
    assert judged.hidden.sum(1).max() >= 2
    for row, suspicion, hidden in zip(rows, judged.suspicion, judged.hidden, strict=True):
        expected, cells = slow_search(model, facts, row)
        assert set(np.flatnonzero(hidden).tolist()) == cells
        np.testing.assert_allclose(suspicion, expected, rtol=1e-8, atol=1e-8)


def test_batches_and_other_rows_do_not_matter() -> None:
    model = correlated()
    rows, _ = spoilt(model.sample(60, seed=1), 0.1, np.random.default_rng(0))
    facts = facts_of(model, rows)
    whole = CellJudge(model, facts).search(rows)
    parts = [CellJudge(model, facts, batch_size=7).search(part) for part in np.split(rows, [13, 14])]
    np.testing.assert_allclose(np.concatenate([part.suspicion for part in parts]), whole.suspicion, rtol=1e-9)
    assert (np.concatenate([part.hidden for part in parts]) == whole.hidden).all()


@pytest.fixture(scope="module")
def clean_tables() -> list[me.WrongCells]:
    """Many clean tables, each with trusted rows of its own."""
    model = correlated()
    tables = (model.sample(120, seed) for seed in range(40))
    return [me.wrong_cells(model, rows[60:], trusted=rows[:60]) for rows in tables]


def test_a_p_value_is_the_rank_of_its_docstring_with_ties_in_the_middle() -> None:
    """(#{trusted > s} + ½ #{trusted = s} + #{own row ≥ s}) / (all of them), counted one by one."""
    rng = np.random.default_rng(0)
    suspicion, clean = rng.integers(0, 4, size=(6, 5)).astype(float), rng.integers(0, 4, size=(9, 5)) * 1.0
    suspicion[0, 2] = suspicion[3] = clean[1, 1] = NAN
    trusted, found = clean[~np.isnan(clean)], _ranks(suspicion, clean)
    for i, row in enumerate(suspicion):
        own = row[~np.isnan(row)]
        for j, s in enumerate(row):
            above = sum(trusted > s) + sum(trusted == s) / 2 + sum(own >= s)
            expected = NAN if math.isnan(s) else above / (len(trusted) + len(own))
            assert found[i, j] == pytest.approx(expected, nan_ok=True)


@pytest.mark.slow
def test_p_values_of_clean_rows_are_uniform(clean_tables: list[me.WrongCells]) -> None:
    """z-tests of the shares below several levels, over independent tables."""
    levels = np.array([0.02, 0.1, 0.3, 0.7])
    shares = [(found.p_values[..., None] <= levels).mean((0, 1)) for found in clean_tables]
    z = (np.mean(shares, 0) - levels) / (np.std(shares, 0, ddof=1) / math.sqrt(len(shares)))
    assert np.abs(z).max() < 3.3, z


def test_a_clean_table_has_no_call_in_nine_of_ten_runs(clean_tables: list[me.WrongCells]) -> None:
    without = sum(not found.called.any() for found in clean_tables)
    assert without >= 0.9 * len(clean_tables) - 2 * math.sqrt(len(clean_tables) * 0.09)


def false_and_found(n_seeds: int, d: int, rate: float, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The share of false calls and of wrong cells that are called, for many tables of dependent columns."""
    model, false, found = correlated(d), [], []
    for seed in range(n_seeds):
        clean = model.sample(400, seed)
        rows, wrong = spoilt(clean[200:], share, np.random.default_rng(seed))
        called = me.wrong_cells(model, rows, rate, clean[:200]).called
        false.append((called & ~wrong).sum() / max(1, called.sum()))
        found.append((called & wrong).sum() / wrong.sum())
    return np.array(false), np.array(found)


def test_the_rate_is_kept_where_the_columns_depend_on_each_other() -> None:
    false, found = false_and_found(12, 6, 0.1, 0.03)
    assert false.mean() <= 0.1 + 2 * false.std(ddof=1) / math.sqrt(len(false))
    assert found.mean() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("d", "share"), [(5, 0.02), (12, 0.01), (12, 0.05)])
def test_the_rate_is_kept_over_many_tables(d: int, share: float) -> None:
    false, _ = false_and_found(200, d, 0.1, share)
    assert false.mean() <= 0.1 + 2 * false.std(ddof=1) / math.sqrt(len(false))


def twins(noise: float) -> me.models.Gaussian:
    """Three pairs of columns that say nearly the same."""
    covariance = np.kron(np.eye(3), np.ones((2, 2))) + noise * np.eye(6)
    return me.models.Gaussian(torch.zeros(6, dtype=torch.float64), torch.from_numpy(covariance))


def false_calls(found: me.WrongCells, wrong: np.ndarray) -> tuple[int, int, int]:
    """Calls that name no wrong cell, all calls, and the wrong cells that are in one."""
    holds_wrong = {int(call) for call in found.calls[wrong]}
    numbers = set(range(1, int(found.calls.max()) + 1))
    return len(numbers - holds_wrong), len(numbers), int((found.calls[wrong] > 0).sum())


def test_of_two_columns_that_say_the_same_a_call_names_both() -> None:
    model, false, calls, hit, n_wrong = twins(1e-3), 0, 0, 0, 0
    for seed in range(8):
        x, rng = model.sample(400, seed), np.random.default_rng(seed)
        wrong = rng.random((200, 6)) < 0.03
        other = x[rng.integers(200, size=(200, 6)), np.arange(6)]
        found = me.wrong_cells(model, np.where(wrong, other, x[200:]), trusted=x[:200])
        part = false_calls(found, wrong)
        false, calls, hit, n_wrong = false + part[0], calls + part[1], hit + part[2], n_wrong + wrong.sum()
        together = {int(n) for n in np.bincount(found.calls[found.calls > 0])[1:]}
        assert together <= {1, 2}
        assert (found.called <= (found.calls > 0)).all()
        named = [cell.one_of for cell in found.cells if cell.one_of]
        assert set(named) <= {"c0, c1", "c2, c3", "c4, c5"}
        assert len(named) > 20
    assert false <= 0.13 * calls
    assert hit >= 0.8 * n_wrong


def test_what_a_call_leaves_over_is_no_call() -> None:
    """Beside a called cell its twin and the rest of the row are left, at a fraction of a nat each."""
    false, calls, hit, n_wrong = 0, 0, 0, 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.normal(size=(500, 5)), 2, axis=1) + 0.03 * rng.normal(size=(500, 10))
        wrong = rng.random((250, 10)) < 0.02
        table = x[250:] + 4 * wrong * rng.choice([-1, 1], size=wrong.shape)
        part = false_calls(me.wrong_cells("kernel-gaussian", table, trusted=x[:250], folds=2), wrong)
        false, calls, hit, n_wrong = false + part[0], calls + part[1], hit + part[2], n_wrong + wrong.sum()
    assert false <= 0.1 * calls
    assert hit >= 0.9 * n_wrong


@pytest.mark.slow
def test_rows_with_many_wrong_cells_keep_nearly_the_rate() -> None:
    """5 % of the rows hold 40 % wrong cells: at most .12 of the calls are false."""
    model, shares, found = correlated(10), [], []
    for seed in range(40):
        x, rng = model.sample(600, seed), np.random.default_rng(seed)
        wrong = (rng.random((300, 10)) < 0.4) & (rng.random((300, 1)) < 0.05)
        shift = 4 * x[:300].std(0) * rng.choice([-1, 1], size=wrong.shape)
        result = me.wrong_cells(model, x[300:] + wrong * shift, trusted=x[:300])
        false, calls, hit = false_calls(result, wrong)
        shares.append(false / max(1, calls))
        found.append(hit / max(1, wrong.sum()))
    assert np.mean(shares) <= 0.12 + 2 * np.std(shares, ddof=1) / math.sqrt(len(shares))
    assert np.mean(found) > 0.3


def test_yes_no_columns_that_agree_keep_the_rate() -> None:
    """Right cells beside a wrong one have suspicions below 0, which no trusted cell need reach."""
    false, calls = 0, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = ((rng.random((400, 1)) < 0.5) ^ (rng.random((400, 6)) < 0.001)).astype(float)
        wrong = rng.random((200, 6)) < 0.03
        table = np.where(wrong, 1 - x[200:], x[200:])
        part = false_calls(me.wrong_cells("bernoulli-pca:1", table, trusted=x[:200], folds=2), wrong)
        false, calls = false + part[0], calls + part[1]
    assert calls > 60
    assert false <= 0.1 * calls


def test_copies_of_trusted_rows_count_once() -> None:
    model = correlated()
    x = model.sample(260, seed=0)
    found = me.wrong_cells(model, x[60:], trusted=np.repeat(x[:60], 5, axis=0))
    assert found.n_trusted == 60
    assert me.wrong_cells("gaussian", x[60:], trusted=np.repeat(x[:60], 5, axis=0)).n_trusted == 60


def test_without_trusted_rows_rare_is_not_wrong() -> None:
    model, calls = correlated(), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        heavy = model.sample(300, seed) / np.sqrt(rng.chisquare(3, size=(300, 1)) / 3)
        calls.append(me.wrong_cells("gaussian", heavy).calls.any())
    assert sum(calls) <= 1


def test_a_result_without_calls_says_why(few_steps: None) -> None:
    model = correlated()
    x = model.sample(330, seed=1)
    x[30:90, 2] = 60.0 + np.arange(60)
    few = me.wrong_cells(model, x[30:], trusted=x[:30])
    assert not few.calls.any()
    assert any(
        "30 trusted rows for 300 rows, fewer than about 97 calls cannot be made" in n for n in few.notes
    )
    assert few.page().headline.endswith("cells to look at; none is called")
    words = pandas.DataFrame({"a": ["x", "y"] * 100, "b": ["x", "y"] * 99 + ["x", "x"]})
    alone = me.wrong_cells("masked-net:16x1", words, folds=2)
    assert not alone.calls.any()
    assert not alone.cells or "none is called" in alone.page().headline


def test_cells_that_are_not_called_have_suggestions_too() -> None:
    x = correlated().sample(330, seed=1)
    x[30:34, 2] *= 10
    found = me.wrong_cells("gaussian", x[30:], trusted=x[:30])
    assert not found.calls.any()
    assert "÷ 10" in {cell.suggestion for cell in found.cells if cell.column == "c2"}


def test_a_set_holds_the_cells_that_explain_a_row_and_no_more() -> None:
    suspicion = np.array(
        [[9.0, 8.9, 1.0, NAN], [9.0, 2.0, 1.0, 0.0], [2.0, NAN, NAN, NAN], [-3.0, -4.0, -5.0, -6.0]]
    )
    row = np.array([0, 1, 1, 2])
    (sets,) = Clues(row, suspicion).sets([0.05])
    assert (
        sets.cells.tolist()
        == [[True, True, False, False], [True, False, False, False], [True, False, False, False]][:2]
    )
    expected = [math.log(math.exp(9) + math.exp(8.9)) - math.log1p(0.01 * math.exp(1))]
    expected += [9 - math.log1p(0.01 * (math.exp(2) + math.exp(1) + 1))]
    np.testing.assert_allclose(sets.suspicion, expected)


def test_planted_rows_are_wrong_in_some_cells_that_are_no_holes() -> None:
    model, rng = correlated(), np.random.default_rng(0)
    rows = model.sample(300, seed=1).round(1)
    rows[:, 4] = rows[:, 4] > 0
    rows[rng.random(rows.shape) < 0.2] = NAN
    spoilt, pattern = planted(rng, rows, rows, facts_of(None, rows))
    changed = (spoilt != rows) & ~np.isnan(rows)
    assert (np.isnan(spoilt) == np.isnan(rows)).all()
    assert set(spoilt[~np.isnan(spoilt[:, 4]), 4]) == {0.0, 1.0}
    assert (changed.sum(1) <= 2 * (1 + pattern // 4)).all()
    assert changed.any(1).mean() > 0.9
    assert set((pattern % 4).tolist()) == {0, 1, 2, 3}


def test_holes_are_neither_judged_nor_called() -> None:
    model, rng = correlated(), np.random.default_rng(0)
    rows, _ = spoilt(model.sample(200, seed=1), 0.1, rng)
    rows[rng.random(rows.shape) < 0.2] = NAN
    rows[3] = NAN
    found = me.wrong_cells(model, rows, trusted=model.sample(300, seed=2))
    holes = np.isnan(rows)
    assert found.called.any()
    assert not found.called[holes].any()
    assert np.isnan(found.p_values[holes]).all()
    assert not np.isnan(found.p_values[~holes]).any()


def test_the_most_suspicious_cell_comes_first_with_what_was_expected() -> None:
    model = correlated()
    rows = model.sample(500, seed=1)
    truth = rows[200:220, 2].copy()
    rows[200:220, 2] = 8 + truth
    found = me.wrong_cells(model, rows[200:], trusted=rows[:200])
    called = [cell for cell in found.cells if cell.called]
    assert len(called) >= 18
    assert {cell.column for cell in called[:15]} == {"c2"}
    assert [cell.suspicion for cell in found.cells] == sorted(
        (c.suspicion for c in found.cells), reverse=True
    )
    inside = [
        cell.low <= truth[cell.row] <= cell.high
        for cell in called
        if cell.row < 20 and cell.low is not None and cell.high is not None
    ]
    assert len(inside) >= 15
    assert np.mean(inside) > 0.7


def test_units_swaps_and_faults_of_form_are_named() -> None:
    rng = np.random.default_rng(0)
    size = np.round(rng.normal(170, 10, 700))
    x = np.column_stack(
        [size, np.round(size / 2 + rng.normal(0, 1, 700)), size - 100 + rng.normal(0, 1, 700)]
    )
    x[400:406, 0] = np.round(x[400:406, 0] / 2.54, 1)
    x[410:416, 1] *= 10
    x[420:426, :2] = x[420:426, 1::-1]
    found = me.wrong_cells("gaussian", x[400:], trusted=x[:400])
    said = {(cell.row, cell.column): cell for cell in found.cells if cell.called}
    assert [said[row, "c0"].fault for row in range(6)].count("off the grid") >= 4
    assert [said[row, "c0"].suggestion for row in range(6)] == ["× 2.54"] * 6
    assert [said[row, "c1"].suggestion for row in range(10, 16)] == ["÷ 10"] * 6
    assert [said[row, "c1"].fault for row in range(10, 16)] == ["beyond the range"] * 6
    assert [said[row, "c0"].suggestion for row in range(20, 26)].count("swap with 'c1'") >= 5


def test_no_inches_are_suggested_for_counts_and_no_unit_for_dates() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(100, 200, 400).astype(float)
    x = np.column_stack([n, 10 * n + rng.integers(-9, 9, 400), n / 7 + rng.normal(0, 0.1, 400), n])
    x[:, 3] += rng.integers(-2, 3, 400)
    right = Table("t", x[100:], ("n", "day", "size", "m"), np.arange(300))
    x[:6, 0] = np.round(2.54 * x[:6, 0])
    x[6:12, 1] *= 10
    x[12:18, 2] *= 2.54
    counts = Table("t", x[:100], right.columns, np.arange(100))
    dated = replace(counts, forms={"day": DateForm("ymd")})
    for table, of_day in ((counts, {"÷ 10"}), (dated, {""})):
        found = me.wrong_cells("gaussian", table, trusted=right).cells
        said = {(cell.row, cell.column): cell.suggestion for cell in found}
        assert not any("2.54" in said[row, "n"] for row in range(6))
        assert {said[row, "day"] for row in range(6, 12)} == of_day
        assert {said[row, "size"] for row in range(12, 18)} == {"÷ 2.54"}


def test_dates_are_shown_as_in_the_file() -> None:
    rng = np.random.default_rng(0)
    day = rng.integers(0, 300, 200).astype(float)
    x = np.column_stack([day, day + rng.normal(0, 1, 200)])
    x[5, 0] = 900.0
    table = Table("t", x, ("day", "size"), np.arange(200), forms={"day": DateForm("dmy", ".", "2024-01-01")})
    found = me.wrong_cells("gaussian", table)
    cell = found.to_frame().query("column == 'day'").iloc[0]
    assert cell["value"] == "19.06.2026"
    assert cell["low"].endswith(".2024")
    assert "19.06.2026" in str(found.page().parts)
    assert "'900'" not in str(found.page().parts)


def test_a_swap_is_said_of_both_cells_although_a_tenth_fits_too() -> None:
    rng = np.random.default_rng(7)
    size = rng.gamma(6, 14, 900) + 20
    x = np.column_stack([13 * size, 1.4 * size, size]) + rng.normal(0, (180, 18, 8), (900, 3))
    x[:40, :2] = x[:40, 1::-1]
    found = me.wrong_cells("gaussian", x[:300], trusted=x[300:]).cells
    said = {(each.row, each.column): each.suggestion for each in found}
    both = [(said.get((row, "c0")), said.get((row, "c1"))) for row in range(40)]
    assert both.count(("swap with 'c1'", "swap with 'c0'")) >= 34


def test_suggestions_are_tried_in_parts_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x = me.models.PPCA(n_features=6, n_components=2, seed=1).sample(600, seed=0)
    x[400:420, 3] *= 10
    whole = me.wrong_cells("gaussian", x[400:], trusted=x[:400])
    tried, log_wrong = list[int](), CellJudge.log_wrong
    monkeypatch.setattr(
        CellJudge, "log_wrong", lambda self, rows: tried.append(len(rows)) or log_wrong(self, rows)
    )
    monkeypatch.setattr("maskevidence.tables.wrong_cells.wrong_cells._MOST_TRIED", 0)
    assert me.wrong_cells("gaussian", x[400:], trusted=x[:400]).cells == whole.cells
    assert 0 < max(tried[-5:]) <= 11  # six units, five swaps of a single cell, without those beyond the range
    assert sum(each.suggestion == "÷ 10" for each in whole.cells) > 4


@pytest.fixture(scope="module")
def network() -> tuple[me.models.MaskedNetwork, pandas.DataFrame]:
    """Words, a yes/no and a number that say much of each other, with holes."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=900)
    frame = pandas.DataFrame(
        {
            "word": np.array(["low", "mid", "top"])[kind],
            "yes": (kind > 0).astype(float),
            "number": np.round(10.0 * kind + rng.normal(size=900), 1),
        }
    )
    frame.loc[rng.random(900) < 0.1, "number"] = NAN
    model = me.models.MaskedNetwork(n_features=3, width=32).fit(frame[:300], epochs=25)
    return model, frame


def test_words_are_judged_and_likelier_ones_named(network: Any) -> None:
    model, frame = network
    rows = frame[600:].reset_index(drop=True)
    spoilt = np.flatnonzero(rows["number"].notna() & (rows["word"] == "low"))[:20]
    rows.loc[spoilt, "word"] = "top"
    rows.loc[299, "word"], rows.loc[298, "yes"] = "tpo", 7.0
    found = me.wrong_cells(model, rows, trusted=frame[300:600])
    called = [cell for cell in found.cells if cell.called and cell.value == "top" and cell.row in spoilt]
    assert len(called) >= 15
    assert all(cell.likelier.startswith("low ") for cell in called)
    unknown = {(cell.row, cell.column, cell.value) for cell in found.cells if cell.fault == "unknown word"}
    assert unknown == {(299, "word", "tpo"), (298, "yes", 7.0)}
    assert "low" in str(found.page().parts[0])
    assert "tpo" in set(found.to_frame()["value"])


def test_of_equal_unknown_words_the_one_comes_first_whose_right_word_is_surer(network: Any) -> None:
    model, frame = network
    rows = frame[600:].reset_index(drop=True)
    rows.loc[:19, ["word", "yes", "number"]] = ["tpo", 1.0, NAN]  # mid or top
    rows.loc[20:39, ["word", "yes", "number"]] = ["tpo", 0.0, 0.0]  # low
    found = me.wrong_cells(model, rows, trusted=frame[300:600])
    order = [cell.row for cell in found.cells if cell.fault == "unknown word"]
    assert sorted(order[:20]) == list(range(20, 40))
    assert sorted(order[20:]) == list(range(20))


def test_without_trusted_rows_the_note_says_on_what_the_rate_rests() -> None:
    model, power = correlated(), []
    for seed in range(3):
        rows = model.sample(400, seed=seed + 1)
        wrong = np.random.default_rng(seed).random(rows.shape) < 0.01
        found = me.wrong_cells("gaussian", np.where(wrong, rows + 12, rows))
        assert found.n_trusted == 0
        assert any("estimated from the table itself" in note for note in found.notes)
        assert found.called[~wrong].mean() < 0.01
        power.append(found.called[wrong].mean())
    assert np.mean(power) > 0.6
    assert not me.wrong_cells("gaussian", rows).called.any()


def test_a_table_with_limits_and_a_word_that_trusted_rows_lack() -> None:
    """The search ended in an IndexError."""
    x, words = np.random.default_rng(0).normal(size=100), np.tile([0.0, 1.0], 50)
    limits, values = {"x": {1: (-np.inf, -0.5)}}, np.column_stack([words, x])
    values[1, 1] = np.nan
    known = Table("t", values, ("city", "x"), np.arange(100), levels={"city": ("a", "b")}, limits=limits)
    values = values.copy()
    values[:2, 0] = 2
    table = replace(known, values=values, levels={"city": ("a", "b", "zzz")})
    found = me.wrong_cells("kernel-gaussian", table, trusted=known)
    assert [cell.fault for cell in found.cells if cell.column == "city"] == ["unknown word"] * 2


def test_the_result_as_a_page_a_frame_and_json() -> None:
    model = correlated()
    rows = model.sample(400, seed=1)
    rows[200:215, 0] = 20.0
    table = Table("t", rows[200:], tuple("abcde"), np.arange(200), labels=tuple(f"r{k}" for k in range(200)))
    found = me.wrong_cells(model, table, trusted=rows[:200])
    frame, said, page = found.to_frame(), found.to_dict(), found.page()
    assert frame.shape[0] == len(found.cells) == len(said["cells"])
    assert frame["label"][0].startswith("r")
    assert frame["column"][0] == "a"
    assert said["n_called"] == int(found.called.sum())
    assert said["n_trusted"] == 200
    assert "<mark>" in found._repr_html_()
    assert "surprising cell" in page.notes[-1]
    assert repr(found) == f"WrongCells({said['n_called']} of 1,000 cells called wrong, rate 0.1)"


def test_a_cell_of_every_column_can_be_found() -> None:
    model = correlated()
    for j, sign in itertools.product(range(5), (-1, 1)):
        rows = model.sample(230, seed=j)
        rows[200, j] = 30.0 * sign
        cell = me.wrong_cells(model, rows[200:], trusted=rows[:200]).cells[0]
        assert (cell.row, cell.column) == (0, f"c{j}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 0.0}, "rate=0.0; give a share"),
        ({"folds": 1}, "folds=1; give a whole number of 2 or more"),
        ({"seed": -1}, "seed=-1"),
        ({"trusted": np.zeros((5, 2))}, "2 columns"),
        ({"trusted": np.full((5, 3), np.inf)}, "infinite"),
        ({"model": "gausian"}, "gausian"),
        ({"model": "gaussian", "trusted": np.zeros((3, 3))}, "3 trusted rows for 5 folds"),
        ({"table": np.zeros(3)}, "shape"),
        ({"table": [["a", "b"]]}, "table of numbers"),
    ],
)
def test_bad_input_is_refused_in_one_line(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"model": correlated(3), "table": np.ones((4, 3))} | options
    one_line(lambda: me.wrong_cells(given.pop("model"), given.pop("table"), **given), match=words)


def test_trusted_rows_that_the_model_was_fitted_to_are_refused() -> None:
    rows = correlated().sample(200, seed=0)
    model = me.models.Gaussian(n_features=5).fit(rows[:100])
    with pytest.raises(me.InputError, match="fitted to 100% of the trusted rows"):
        me.wrong_cells(model, rows[100:], trusted=rows[:100])
    assert "fitted to these rows" in me.wrong_cells(model, rows[:100]).notes[0]


def test_words_for_a_model_of_numbers_and_other_columns_are_refused(network: Any) -> None:
    _, frame = network
    with pytest.raises(me.InputError, match="holds words, which Gaussian cannot take"):
        me.wrong_cells("gaussian", frame)
    with pytest.raises(me.InputError, match="the columns word, yes, number, the table has word, number"):
        me.wrong_cells("masked-net", frame[["word", "number"]], trusted=frame[:50])


class Asked(torch.nn.Module):
    """A model that is asked for one cell after the other."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.base_measure, self.conditionals = model, model.base_measure, model.conditionals

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.model.log_conditionals(tokens, masked)
        return answer


@pytest.mark.parametrize("reshaped", [False, True])
def test_a_model_that_hides_cells_itself_judges_as_one_by_one(reshaped: bool) -> None:
    rng = np.random.default_rng(3)
    x, _ = spoilt(correlated().sample(80), 0.1, rng)
    x[rng.random(x.shape) < 0.1] = NAN
    kernels = me.models.KernelGaussian(5, 1)
    model: Any = Reshaped(kernels, x) if reshaped else kernels.fit(x)
    assert hasattr(model, "log_leave_one_out")
    facts, counted = facts_of(model, x), list[int]()
    fast = CellJudge(model, facts, 32).search(x, lambda n, *_: counted.append(n))
    slow = CellJudge(Asked(model), facts).search(x)
    assert fast.hidden.any()
    assert (fast.hidden == slow.hidden).all()
    np.testing.assert_allclose(fast.suspicion, slow.suspicion, atol=1e-10)
    assert sum(counted) == (~np.isnan(x)).sum()


def test_sets_are_ranked_by_the_right_ones_like_them():
    # 10,000 rows of 20 columns: 5,216 calls, 404 of them right, since large sets stood above cells
    rng = np.random.default_rng(0)
    suspicion, none = rng.exponential(size=(1000, 20)) * np.geomspace(0.5, 2, 20), np.zeros((1000, 20))
    nothing = Clues(np.arange(0), np.zeros((0, 20)))
    tail = Tails(Judged(suspicion, none > 0, none.astype(int), none, nothing))
    clues = Clues(np.arange(300), rng.exponential(size=(300, 20)) * 4)
    right = Right(clues, 300, tail=tail)
    sets = right.sets(clues)[RESTS.index(0.1)]
    assert (sets.cells.sum(1) > 1).any()
    assert (sets.cells.sum(1) == 1).any()
    counts = right.per_row(sets, sets)
    assert np.array_equal(np.argsort(counts, kind="stable"), np.argsort(-sets.suspicion, kind="stable"))
    assert np.allclose(counts, tail.of_sets(*clues.sets([0.1])))


def test_clean_tables_of_heavy_tailed_numbers_keep_the_rate() -> None:
    # 8, 3, 6, 0, 7, 15, 7 and 7 calls when the tail was that of the suspicions alone
    rngs = [np.random.default_rng(seed) for seed in range(8)]
    tables = [pandas.DataFrame({name: rng.pareto(1.5, 300).round(2) for name in "abcd"}) for rng in rngs]
    assert sum(me.wrong_cells("gaussian", table).called.any() for table in tables) <= 2


def test_without_trusted_rows_shifted_cells_are_called_at_the_rate() -> None:
    """1 % of the cells, 6 standard deviations off: .22 were called when they passed for a heavy tail."""
    model, shares, found = correlated(10), [], []
    for seed in range(4):
        x, rng = model.sample(300, seed), np.random.default_rng(seed)
        wrong = rng.random(x.shape) < 0.01
        result = me.wrong_cells("gaussian", x + 6 * wrong * x.std(0) * rng.choice([-1, 1], size=x.shape))
        false, calls, hit = false_calls(result, wrong)
        shares.append(false / max(1, calls))
        found.append(hit / wrong.sum())
    assert np.mean(shares) <= 0.1 + 2 * np.std(shares, ddof=1) / math.sqrt(len(shares))
    assert np.mean(found) > 0.7


def test_one_heavy_column_among_others_is_no_column_of_wrong_cells() -> None:
    with_call = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.column_stack([rng.normal(size=(300, 5)), rng.pareto(1.5, 300), np.exp(rng.normal(size=300))])
        with_call += me.wrong_cells("gaussian", x).called.any()
    assert with_call <= 1


def test_expected_values_and_intervals_of_a_column_without_negative_values_begin_at_0_or_above() -> None:
    rows = correlated().sample(300, seed=1)
    prices = np.exp(rows[:, 0] - 1)
    prices[np.argsort(prices)[:5]] = 30.0
    table = pandas.DataFrame(rows, columns=list("abcde")).assign(a=prices)
    found = me.wrong_cells("gaussian", table)
    lows = {column: [cell.low for cell in found.cells if cell.column == column] for column in "ab"}
    assert len(lows["a"]) >= 5
    assert min(cell.expected for cell in found.cells if cell.column == "a") >= 0
    assert min(lows["a"]) == 0
    assert min(lows["b"]) < 0


def test_a_cell_is_weighed_beside_all_others_of_its_row() -> None:
    suspicion = np.random.default_rng(0).normal(scale=8, size=(20, 5))
    suspicion[::3, 1] = suspicion[4] = np.nan
    weight = np.nan_to_num(suspicion, nan=-np.inf) + np.log(0.01)
    others = [np.logaddexp.reduce(np.delete(weight, k, 1), axis=1, initial=0.0) for k in range(5)]
    np.testing.assert_allclose(_beside_others(suspicion), suspicion - np.transpose(others), rtol=1e-13)
