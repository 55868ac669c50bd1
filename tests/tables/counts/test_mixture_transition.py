"""The mixture of conditionals by counts: a slow oracle, its distributions, holes, the doors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.core.tokens import Tokens
from maskevidence.tables.counts.counted import Own
from maskevidence.tables.counts.mixture_transition import MixtureTransition
from maskevidence.tables.counts.pair_counts import PRIOR, PairCounts


def mixed(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Rows of words, names, numbers, counts and yes/no that depend on one another, with holes."""
    rng = np.random.default_rng(seed)
    city = rng.integers(5, size=n)
    frame = pd.DataFrame(
        {
            "city": np.array(["Bonn", "Rome", "Oslo", "Lima", "Kyiv"])[city],
            "code": 100.0 + city,
            "name": [f"P-{k:03d}" for k in rng.integers(200, size=n)],
            "height": np.round(rng.normal(10 * city, 3), 2),
            "sick": (rng.random(n) < 0.2 + 0.1 * city).astype(float),
        }
    )
    frame.iloc[::11, 0], frame.iloc[3::7, 3] = None, np.nan
    return frame


@pytest.fixture(scope="module")
def fitted() -> MixtureTransition:
    return me.models.MixtureTransition(n_features=5).fit(mixed())


def test_a_fit_shows_its_progress_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float]] = []

    @contextmanager
    def listening(what: str, total: float) -> Iterator[Any]:
        yield lambda steps: told.append((what, steps / total))

    for module in ("counted", "mixture_transition"):
        monkeypatch.setattr(f"maskevidence.tables.counts.{module}.progress", listening)
    me.models.MixtureTransition(n_features=5).fit(mixed(30))
    assert told == [("counting words", 0.2)] * 5 + [("fit", 0.2)] * 5


def hidden(tokens: Tokens, column: int) -> torch.Tensor:
    mask = torch.zeros_like(tokens.maskable)
    mask[:, column] = tokens.maskable[:, column]
    return mask


def by_hand(model: MixtureTransition, x: np.ndarray, j: int, without: int | None = None) -> float:
    """log p(x_j | the rest) of a column of words, one count after the other."""
    counted, log_w = model.counted, model.weights[j].detach().numpy()
    table = counted.rows if without is None else np.delete(counted.rows, without, axis=0)
    known = ~np.isnan(table[:, j])
    frequency = np.mean(table[known, j] == x[j])
    total = weight = 0.0
    for part in model._parts(j):
        w = np.exp(log_w[part.weight])
        if part.given is None:
            total, weight = total + w * frequency, weight + w
            continue
        way = counted.ways[part.given]
        a = way.of(table[:, way.column])
        own = way.of(np.array([x[way.column]]))[0]
        same = known & (a == own)
        if own < 0 or not same.any():
            continue
        n_ab = (table[same, j] == x[j]).sum()
        total += w * (n_ab + PRIOR * frequency) / (same.sum() + PRIOR)
        weight += w
    whole = sum(np.exp(log_w[part.weight]) for part in model._parts(j))
    s = 1 / (1 + np.exp(-log_w[0 if weight > whole / 2 else 1]))
    place = np.searchsorted(counted.listed[j], x[j])
    return float(np.log(s * np.exp(counted._new[j][place]) + (1 - s) * total / weight))


def fitted_rows(tokens: me.Tokens) -> np.ndarray:
    """The values, NaN for holes."""
    return np.where(tokens.maskable.numpy(), tokens.values.double().numpy(), np.nan)


@pytest.mark.parametrize("left_out", [False, True])
def test_conditionals_are_those_of_counts_one_by_one(fitted: MixtureTransition, left_out: bool) -> None:
    tokens = fitted.tokens(mixed())
    for j in (0, 2):
        rows = torch.nonzero(tokens.maskable[:, j])[::17, 0]
        own = fitted.counted.own(rows.numpy()) if left_out else None
        x, masked = fitted_rows(tokens)[rows.numpy()], hidden(tokens, j)[rows].numpy()
        found = fitted.log_each(x, masked, ~np.isnan(x) & ~masked, own)[:, j]
        cells = fitted.counted.rows
        expected = [by_hand(fitted, cells[i], j, i if left_out else None) for i in rows.tolist()]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_copies_of_a_row_do_not_speak_for_it() -> None:
    frame = pd.DataFrame({"a": ["u"] * 20 + ["v"] * 20 + ["u"] * 3, "b": ["x"] * 20 + ["y"] * 20 + ["z"] * 3})
    frame["c"] = frame["d"] = [*range(40), 50, 50, 50]
    model = me.models.MixtureTransition(n_features=4).fit(frame)
    tokens = model.tokens(frame)[torch.tensor([40])]
    own = model.counted.own(np.array([40]))
    assert own.copies.tolist() == [3]
    x, asked = fitted_rows(tokens), hidden(tokens, 1).numpy()
    alone = model.log_each(x, asked, ~asked, own)[0, 1]
    counted = model.log_each(x, asked, ~asked, Own(own.cells, np.array([1])))[0, 1]
    assert counted - alone > 2


def test_total_probability_is_one(fitted: MixtureTransition) -> None:
    """Of words and yes/no over all values; of numbers over all cells, up to what lies far out."""
    base = fitted.tokens(mixed())[torch.arange(12)]
    for j in range(5):
        values, column = fitted.values_of(j), fitted.described[j]
        unit = 1.0
        if values is None:
            unit = column.step
            values = column.centre + unit * torch.arange(-150_000, 150_001).double()
        elif column.kind == "yes/no":
            unit = float(values[1] - values[0])
        for tokens in (base[torch.tensor([i])] for i in (0, 5, 11)):
            x = tokens.values.repeat(len(values), 1)
            x[:, j] = values
            there = tokens.maskable.repeat(len(values), 1)
            there[:, j] = True
            mask = torch.zeros_like(there)
            mask[:, j] = True
            every = Tokens(x, there, torch.zeros_like(there), torch.arange(len(values)))
            total = unit * float(fitted.log_conditionals(every, mask)[:, j].exp().sum().detach())
            totals = [total]
            if column.kind == "number":
                beyond = 1 - 2 * np.arctan(150_000.5 * column.step / (3 * column.scale)) / np.pi
                in_bins = any(way.bins and way.column == j for way in fitted.counted.ways)
                new = (0.5 if in_bins else 1.0) * torch.sigmoid(fitted.weights[j, :2]).detach()
                totals = [total + float(s) * beyond for s in new]
            assert min(abs(each - 1) for each in totals) < 1e-9


def test_the_referee_finds_no_fault(fitted: MixtureTransition) -> None:
    report = me.check_model(fitted, fitted.tokens(mixed(60, seed=1)), tolerance=1e-11)
    assert report.ok, report


def test_gradients_reach_the_weights(fitted: MixtureTransition) -> None:
    tokens = fitted.tokens(mixed(60, seed=1))
    score = me.score_masks(fitted, tokens, tokens.maskable).sum()
    score = score + me.score_masks(fitted, tokens, hidden(tokens, 1)).sum()
    (gradient,) = torch.autograd.grad(score, [fitted.weights])
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient != 0).any())


def test_filled_cells_are_those_that_the_rows_determine(fitted: MixtureTransition) -> None:
    held = mixed(100, seed=2).dropna().reset_index(drop=True)
    holed = held.copy()
    holed["city"] = None
    holed.loc[::2, "height"] = np.nan
    filled = fitted.impute(holed.astype({"city": object}))
    frame = filled.to_frame()
    assert (frame["city"] == held["city"]).mean() > 0.97
    error = frame["height"][::2] - held["height"][::2]
    assert float(np.sqrt(np.mean(error**2))) < 0.3 * held["height"].std()
    assert np.sqrt(filled.variance[::2, 3]).mean() == pytest.approx(np.std(error), rel=1.0)


def test_draws_have_the_moments_of_the_filled_values(fitted: MixtureTransition) -> None:
    holed = pd.DataFrame(
        {"city": ["Oslo"], "code": [102.0], "name": ["P-007"], "height": [np.nan], "sick": [np.nan]}
    )
    filled = fitted.impute(holed)
    drawn = fitted.draw_missing(pd.concat([holed] * 4000, ignore_index=True), 1, seed=3)[0]
    for j in (3, 4):
        sd = np.sqrt(filled.variance[0, j])
        assert abs(drawn[:, j].mean() - filled.values[0, j]) < 4 * sd / np.sqrt(4000)
        assert drawn[:, j].std() == pytest.approx(sd, rel=0.1)


def test_columns_are_counted_together_and_hidden_ones_not_at_all(
    fitted: MixtureTransition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 rows of 300 columns took 144 s, half of it for columns that were hidden."""
    counted, rows = fitted.counted, np.arange(0, 40)
    visible, parts = ~np.isnan(counted.rows[rows]), counted.parts(3)
    batch = counted.batch(counted.rows[rows], visible, counted.own(rows))
    together = counted.shares(parts, batch)
    asked = list[PairCounts]()
    pairs = PairCounts.pairs
    monkeypatch.setattr(PairCounts, "pairs", lambda self, a, b: asked.append(self) or pairs(self, a, b))
    monkeypatch.setattr("maskevidence.tables.counts.counted._AT_ONCE", 1)
    for one, other in zip(counted.shares(parts, batch), together, strict=True):
        assert np.array_equal(one, other)
    assert len(asked) == len(parts)
    asked.clear()
    use, _ = counted.shares(parts, batch._replace(visible=visible & False))
    assert use.sum(0).tolist() == [40.0 * (part.given is None) for part in parts]
    assert len(asked) == sum(part.given is None for part in parts)


def test_the_moments_of_bins_are_those_of_their_cells(fitted: MixtureTransition) -> None:
    counted, height = fitted.counted, 3
    part = next(p for p in counted.parts(height) if p.given is None and counted.ways[p.way].bins)
    way, column = counted.ways[part.way], counted.columns[height]
    code, sizes = way.of(counted.rows[:, height]), np.rint(np.exp(way.log_size)).astype(int)
    weight = np.bincount(code[code >= 0]) / (code >= 0).sum() / sizes
    cells = np.concatenate([start + np.arange(n) for start, n in zip(way.values, sizes, strict=True)])
    x, p = column.centre + column.step * cells, np.repeat(weight, sizes)
    batch = counted.batch(counted.rows[:1], np.ones((1, 5), dtype=bool), None)
    expected = np.array([[x @ p], [x**2 @ p]])
    assert counted.moments(height, part, batch) == pytest.approx(expected, rel=1e-9)


def test_samples_are_like_the_rows(fitted: MixtureTransition) -> None:
    rows = fitted.sample(3000, seed=0)
    assert np.corrcoef(rows[:, 1], rows[:, 3])[0, 1] > 0.9
    assert len(fitted.sample(0)) == 0


def test_it_is_saved_with_its_words(fitted: MixtureTransition, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    again, rows = me.models.load(tmp_path), mixed(50, seed=4)
    tokens = fitted.tokens(rows)
    for j in range(5):
        torch.testing.assert_close(
            again.log_conditionals(again.tokens(rows), hidden(tokens, j)),
            fitted.log_conditionals(tokens, hidden(tokens, j)),
            rtol=0,
            atol=0,
        )


@pytest.mark.slow
def test_it_beats_the_network_in_a_choice_on_words() -> None:
    frame = mixed(200)[["city", "code", "name"]].dropna().reset_index(drop=True)
    found = me.select(frame, ["mixture-transition", "masked-net:4x1"], folds=2)
    assert found.candidates[0].family in ("mixture-transition", "masked-net:4x1")
    assert str(found.chosen.family) == "mixture-transition"


def test_the_commands_take_it(run: CommandLine, tmp_path: Path) -> None:
    mixed().drop(columns="name").to_csv(tmp_path / "t.csv", index=False)
    scored = run("score", "mixture-transition", tmp_path / "t.csv", "--json", "-")
    assert scored.code == 0
    filled = run("impute", "mixture-transition", tmp_path / "t.csv", "--out", tmp_path / "f.csv")
    assert filled.code == 0
    assert not pd.read_csv(tmp_path / "f.csv").isna().any(axis=None)
    refused = run("train", "mixture-transition", tmp_path / "t.csv", "--out", tmp_path / "r")
    assert refused.code == 2


def test_bad_input_is_refused_in_one_line(fitted: MixtureTransition) -> None:
    with pytest.raises(InputError, match="n_rows"):
        me.models.MixtureTransition(3, 0)
    with pytest.raises(InputError, match="2 columns are described, the model has 5"):
        me.models.MixtureTransition(5, columns=fitted.arguments()["columns"][:2])
    rows = mixed(20)
    rows.loc[2, "sick"] = 0.5
    with pytest.raises(InputError, match="fitted to 0 and 1 alone"):
        me.estimate_evidence(fitted, rows)
