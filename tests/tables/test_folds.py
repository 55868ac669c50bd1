"""Copies of a row are in one fold; other rows are divided as ever."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.support.keyed_random import first_copies, held_out_first, n_nearly_equal
from maskevidence.core.table import Table
from maskevidence.sklearn import PPCA, MaskedNetworkDensity
from maskevidence.sklearn.residuals import held_out_residuals
from maskevidence.tables.by_name import parse_model
from maskevidence.tables.choosing import choosing
from maskevidence.tables.folds import folds_of
from maskevidence.tables.gaussian import kernel_choice
from maskevidence.tables.network import masked_network
from maskevidence.tables.wrong_cells import wrong_cells


def table(n: int, seed: int = 0, width: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width))


def leaders(rows: np.ndarray) -> list[int]:
    """The first row that equals each, by comparing all pairs."""
    equal = ((rows[:, None] == rows) | (np.isnan(rows[:, None]) & np.isnan(rows))).all(2)
    return equal.argmax(1).tolist()


@pytest.mark.parametrize("shares", [(0.05,), (0.3,), (0.1, 0.1, 0.1), (1.0,)])
@pytest.mark.parametrize("n_folds", [2, 5, 20])
def test_copies_are_in_one_fold_and_folds_are_even(shares: tuple[float, ...], n_folds: int) -> None:
    """Also with missing cells and both zeros."""
    rng = np.random.default_rng(1)
    x = table(120)
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 0] = np.where(rng.random(120) < 0.5, 0.0, x[:, 0])
    rows = np.concatenate([x, *(x[: int(share * 120)] for share in shares)])
    rows[120:, 0] *= np.where(rows[120:, 0] == 0, -1.0, 1.0)  # -0.0 equals 0.0
    assert first_copies(rows).tolist() == leaders(rows)
    folds = folds_of(rows, n_folds, np.random.default_rng(2))
    assert sorted(np.concatenate(folds).tolist()) == list(range(len(rows)))
    of_row = np.empty(len(rows), dtype=int)
    for k, fold in enumerate(folds):
        of_row[fold] = k
    assert (of_row == of_row[leaders(rows)]).all()
    sizes = np.bincount(of_row)
    assert sizes.max() - sizes.min() <= max(1, np.bincount(leaders(rows)).max())
    again = folds_of(rows, n_folds, np.random.default_rng(2))
    assert all(np.array_equal(a, b) for a, b in zip(folds, again, strict=True))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (20, 20), (103, 5)])
def test_rows_without_copies_are_divided_as_by_a_random_order(n: int, k: int) -> None:
    expected = np.array_split(np.random.default_rng(5).permutation(n), k)
    parts = folds_of(table(n), k, np.random.default_rng(5))
    assert all(np.array_equal(a, b) for a, b in zip(parts, expected, strict=True))
    order = np.random.default_rng(6).permutation(n)
    out, left = held_out_first(table(n), order, n // 3)
    assert np.array_equal(out, order[: n // 3])
    assert np.array_equal(left, order[n // 3 :])


def test_fewer_different_rows_than_folds_give_fewer_folds() -> None:
    """Leave-one-out of rows that stand twice leaves both out."""
    folds = folds_of(np.tile(table(10), (2, 1)), 20, np.random.default_rng(0))
    assert sorted(sorted((fold % 10).tolist()) for fold in folds) == [[i, i] for i in range(10)]


def test_a_row_that_fills_a_fifth_of_the_table_is_in_every_fold() -> None:
    rows = np.concatenate([table(60), np.tile(table(1, seed=1), (40, 1))])
    assert all(20 > (fold >= 60).sum() > 0 for fold in folds_of(rows, 5, np.random.default_rng(0)))


@pytest.mark.parametrize("n", range(1, 12))
def test_held_out_rows_share_no_row_with_the_others(n: int) -> None:
    rows = table(6)[[0, 1, 2, 3, 4, 5, 1, 1, 4, 0, 0, 0]]
    for seed in range(5):
        out, left = held_out_first(rows, np.random.default_rng(seed).permutation(12), n)
        assert sorted([*out, *left]) == list(range(12))
        assert len(out) > 0 < len(left)
        assert not set(map(tuple, rows[out])) & set(map(tuple, rows[left]))
        assert abs(len(out) - n) <= 3


KINDS = ["related", "two codes", "mostly zero", "few yes/no", "agreeing", "codes", "one column", "answers"]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_that_may_be_chance_are_no_copies(kind: str) -> None:
    rng = np.random.default_rng(3)
    z = rng.integers(0, 50, size=500)
    rounded = np.repeat(rng.normal(size=(500, 1)), 2, axis=1) + 0.1 * rng.normal(size=(500, 2))
    kinds = {
        "related": rounded.round(1),
        "two codes": np.stack([z, 7 * z % 50], 1),
        "mostly zero": np.where(rng.random((500, 2)) < 0.8, 0, rng.normal(size=(500, 2))),
        "few yes/no": rng.random((500, 6)) < 0.5,
        "agreeing": (rng.random((500, 1)) < 0.5) ^ (rng.random((500, 40)) < 0.002),
        "codes": np.stack([z, 7 * z % 50, z // 10], 1),  # a country, its code, its continent
        "one column": rng.integers(0, 400, size=(500, 1)),
        "answers": np.where(rng.random((500, 1)) < 0.1, 3, rng.integers(1, 6, size=(500, 30)))
        + (rng.random((500, 30)) < 0.02),  # a tenth of the people tick the middle
    }
    assert first_copies(kinds[kind].astype(float)).tolist() == list(range(500))


@pytest.mark.parametrize("share", [0.02, 0.3])
@pytest.mark.parametrize("kind", ["two numbers", "whole numbers", "questions", "wide"])
def test_copies_in_tables_of_few_columns_or_values_are_found(kind: str, share: float) -> None:
    rng = np.random.default_rng(4)
    kinds = {
        "two numbers": table(200, width=2),
        "whole numbers": np.round(2 * table(200, width=8)),
        "questions": rng.integers(1, 6, size=(200, 30)).astype(float),
        "wide": table(200, width=300),
    }
    rows = kinds[kind]
    rows = np.concatenate([rows, rows[: int(200 * share)]])
    assert first_copies(rows).tolist() == leaders(rows)
    assert len(set(first_copies(rows).tolist())) == 200


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("k", [2, 5])
def test_copies_of_few_rows_with_two_columns_are_found(width: int, k: int) -> None:
    """By chance, independent columns with these values have 8 equal pairs; with values of their own none."""
    rng = np.random.default_rng(5)
    rows = table(60, width=width)[rng.integers(0, 60, 60 * k)]
    assert first_copies(rows).tolist() == leaders(rows)


def test_a_table_that_was_repeated_has_its_rows_back() -> None:
    """Even if equal rows may be chance: each of k equal rows are copies."""
    rng = np.random.default_rng(6)
    for rows in (rng.integers(0, 12, size=(100, 2)).astype(float), table(80, width=2).round(1)):
        first = first_copies(np.tile(rows, (3, 1)))
        assert np.bincount(np.bincount(first)).tolist()[1:] == [0, 0, len(rows)]
        assert (np.tile(rows, (3, 1))[first] == np.tile(rows, (3, 1))).all()
    balanced = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 2, axis=0)
    assert first_copies(balanced).tolist() == list(range(8))


def test_nearly_equal_rows_differ_in_one_cell() -> None:
    rows = table(50)
    near, twice, other = rows[:7].copy(), rows[:7].copy(), rows[20:25].copy()
    near[range(7), [0, 1, 2, 3, 4, 0, 1]] = np.nan
    other[:, :2] += 1
    assert n_nearly_equal(np.concatenate([rows, twice, near, other])) == 7
    assert n_nearly_equal(rows) == 0


Divisions = Iterator[tuple[np.ndarray, np.ndarray]]  # rows that a model is fitted to, and those held out


class Divided(Exception):
    """Ends a fit when its rows are divided."""


def stopping(found: dict[str, Any]) -> Callable[..., Any]:
    def note(*given: Any, **named: Any) -> Any:
        found.update(named, given=given)
        raise Divided

    return note


def by_select(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    plan, _ = choosing._plan(x, choosing.candidates("ppca", (1, 2)), 5, None, MaskKey(0))
    for fold in plan.folds:
        yield np.delete(x, fold, axis=0), x[fold]


def by_cells(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    given = choosing.as_table(x)
    build, _ = parse_model("gaussian")
    task = wrong_cells._by_word(build, given, None, (5, 0))
    for each in task.sittings:
        yield np.delete(x, each.places, axis=0), x[each.places]


def by_trusted_cells(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    build, _ = parse_model("gaussian")
    task = wrong_cells._by_word(build, choosing.as_table(x), choosing.as_table(x), (5, 0))
    sittings = task.sittings
    for number, each in enumerate(sittings):
        yield np.concatenate([one.clean for k, one in enumerate(sittings) if k != number]), each.clean


def by_the_choice_of_kernels(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    found: dict[str, Any] = {}
    patch.setattr(kernel_choice, "best_shrinkage", stopping(found))
    with pytest.raises(Divided):
        kernel_choice.choose_kernels(x)
    yield from found["given"][0]


def by_early_stopping(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    found: dict[str, Any] = {}
    patch.setattr(masked_network, "fit", stopping(found))
    with pytest.raises(Divided):
        me.models.MaskedNetwork(x.shape[1], width=4).fit(x)
    yield found["given"][1].values.numpy(), found["held_out"].values.numpy()


def by_the_gaussian_of_a_network(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    model, found = me.models.MaskedNetwork(x.shape[1], width=4), dict[str, Any]()
    patch.setattr(masked_network, "fit", stopping(found))
    with pytest.raises(Divided):
        model.fit(x, held_out=x)
    assert model.gaussian is not None
    fold = np.array([model.gaussian.fold_of[i] for i in range(len(x))])
    for k in range(10):
        yield x[fold != k], x[fold == k]


def by_the_density_of_scikit_learn(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    found: dict[str, Any] = {}
    patch.setattr(me.models.MaskedNetwork, "fit", stopping(found))
    with pytest.raises(Divided):
        MaskedNetworkDensity(random_state=0).fit(np.tile(x, (1, 9)))
    yield found["given"][1][:, : x.shape[1]], found["held_out"][:, : x.shape[1]]


def by_residuals(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    fitted: list[np.ndarray] = []
    fit = PPCA.fit
    patch.setattr(PPCA, "fit", lambda self, rows: (fitted.append(rows), fit(self, rows))[1])
    held_out_residuals(PPCA(1), x, 5, np.random.default_rng(0))
    for train in fitted:
        seen = set(map(tuple, train))
        # the rows that are left are those held out, if copies are together
        assert sum(tuple(row) in seen for row in x) == len(train)
        yield train, np.array([row for row in x if tuple(row) not in seen])


def by_a_split(x: np.ndarray, patch: pytest.MonkeyPatch) -> Divisions:
    given = Table("the data", x, tuple("abcde"), np.arange(len(x)))
    train, test = given.split(0.3, 0)
    yield train.values, test.values


@pytest.mark.parametrize(
    "divided",
    [
        by_select,
        by_cells,
        by_trusted_cells,
        by_the_choice_of_kernels,
        by_early_stopping,
        by_the_gaussian_of_a_network,
        by_the_density_of_scikit_learn,
        by_residuals,
        by_a_split,
    ],
)
def test_no_fit_knows_a_copy_of_a_row_that_it_is_judged_by(
    divided: Callable[[np.ndarray, pytest.MonkeyPatch], Divisions], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = table(400)
    x = np.concatenate([x, x[:120]])[np.random.default_rng(0).permutation(520)]
    divisions = list(divided(x, monkeypatch))
    assert divisions
    for train, out in divisions:
        known = set(map(tuple, train.round(9)))
        assert len(out) >= 20
        assert not any(tuple(row) in known for row in out.round(9))
