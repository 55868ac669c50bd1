"""The masked network: what it answers is a distribution, for every kind of column, and it learns."""

import copy
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey, drawn_masks
from maskevidence.tables import base
from maskevidence.tables.network import masked_network
from maskevidence.tables.network.cell_coding import ColumnHeads
from maskevidence.tables.network.gaussian_answer import GaussianAnswer
from maskevidence.tables.network.masked_network import MaskedNetwork, _Complements
from maskevidence.tables.network.network_columns import MIXED, Column, column_from
from maskevidence.tables.rows import prepare_rows
from refusals import one_line

N_ROWS = 300


def _mixed_rows(n: int = N_ROWS, seed: int = 0) -> np.ndarray:
    """A hidden state decides a yes/no, a count, a number and an amount that is often 0; some are missing."""
    rng = np.random.default_rng(seed)
    state = rng.random(n) < 0.4
    amount = np.where(rng.random(n) < 0.7, 0.0, np.exp(rng.normal(3 + state, 1.0)))
    x = np.column_stack([state, rng.poisson(np.where(state, 6, 1)), rng.normal(3.0 * state), amount])
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 0] = np.where(np.isnan(x).all(1), 1.0, x[:, 0])
    return x


def _frame() -> pd.DataFrame:
    x = _mixed_rows()
    colour = np.where(np.isnan(x[:, 2]), "blue", np.where(x[:, 2] > 1.5, "red", "green"))
    frame = pd.DataFrame(x, columns=["state", "count", "number", "amount"]).assign(colour=colour)
    frame.loc[5, "colour"] = None
    return frame


@pytest.fixture(scope="module")
def network() -> MaskedNetwork:
    return me.models.MaskedNetwork(5, width=32, layers=1).fit(_frame(), epochs=20)


def _log_p(model: MaskedNetwork, row: list[float], column: int, values: np.ndarray) -> np.ndarray:
    """The log-probabilities of some values of a hidden cell, given the rest of a row."""
    rows = np.tile(np.array(row, dtype=float), (len(values), 1))
    rows[:, column] = values
    tokens = me.Tokens.from_array(rows)
    masked = torch.zeros(rows.shape, dtype=torch.bool)
    masked[:, column] = True
    with torch.no_grad():
        return model.log_conditionals(tokens, masked)[:, column].double().numpy()


ROW = [1.0, 4.0, 2.5, 0.0, 1.0]


def test_kinds_are_guessed_and_the_base_measure_named(network: MaskedNetwork) -> None:
    kinds = [column.kind for column in network.cells.columns]
    assert kinds == ["yes/no", "number", "number", "number", "category"]
    assert network.base_measure == MIXED
    assert network.levels == {"colour": ["blue", "green", "red"]}
    assert network.cells.columns[1].step == 1.0


def test_every_cell_has_a_total_probability_of_one(network: MaskedNetwork) -> None:
    assert np.exp(_log_p(network, ROW, 0, np.array([0.0, 1.0]))).sum() == pytest.approx(1, abs=1e-5)
    seen_and_unseen = np.array([0.0, 1.0, 2.0, 3.0])
    assert np.exp(_log_p(network, ROW, 4, seen_and_unseen)).sum() == pytest.approx(1, abs=1e-5)
    counts = np.arange(-200.0, 400.0)  # of width 1: the probability of each whole number
    assert np.exp(_log_p(network, ROW, 1, counts)).sum() == pytest.approx(1, abs=1e-3)
    u = np.linspace(-12, 12, 100_001)
    column = network.cells.columns[2]
    x = column.centre + column.scale * np.sinh(u)
    density = np.exp(_log_p(network, ROW, 2, x)) * column.scale * np.cosh(u)
    assert np.trapezoid(density, u) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("visible", [(), (0, 1), (0, 1, 2, 4)])
def test_atoms_leave_a_total_probability_of_one(network: MaskedNetwork, visible: tuple[int, ...]) -> None:
    """Counts on a grid, and an amount without steps that is often 0, whatever is visible."""
    counts, amounts = network.cells.columns[1], network.cells.columns[3]
    assert {0.0, 1.0, 2.0} <= set(counts.atoms)
    assert amounts.atoms == (0.0,)
    row = [ROW[k] if k in visible else math.nan for k in range(5)]
    grid = np.arange(-200.0, 400.0)
    assert np.exp(_log_p(network, row, 1, grid)).sum() == pytest.approx(1, abs=1e-3)
    u = np.linspace(-14, 14, 60_001)
    near = np.linspace(-2, 2, 8_001) * amounts.step
    x = np.union1d(amounts.centre + amounts.scale * np.sinh(u), near)
    density = np.exp(_log_p(network, row, 3, x))
    assert np.trapezoid(density, x) == pytest.approx(1, abs=2e-3)
    inside, outside = np.exp(_log_p(network, row, 3, np.array([0.49, 0.51]) * amounts.step))
    assert (inside - outside) * amounts.step > 0.3  # the probability of the atom


def test_atoms_are_frequent_values() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=2000), np.full(8, 3.0), np.full(7, 4.0), [5.0] * 3])
    assert column_from(x).atoms == ()  # 0.4 % of 2,018 cells are 8.07
    assert column_from(np.append(x, 3.0)).atoms == (3.0,)
    assert column_from(np.array([7.0, 7, 7, 8, 8, 9])).atoms == (7.0,)
    assert len(column_from(np.repeat(np.arange(40.0), 5)).atoms) == 24


def test_the_density_is_that_of_the_mixture_smeared_over_a_step() -> None:
    """Against differences of distribution functions in float64."""
    model = me.models.MaskedNetwork(1, width=8, layers=1, dtype=torch.float64).fit(
        np.random.default_rng(0).normal(50, 9, (60, 1)), epochs=3
    )
    column = model.cells.columns[0]
    outputs = model._answer(torch.zeros(1, 1).double(), torch.zeros(1, 1, dtype=torch.bool)).detach()
    logits, centre, log_scale = outputs.reshape(-1, 3).T.numpy()
    weights = np.exp(logits) / np.exp(logits).sum()
    x = np.array([20.0, 49.7, 55.0, 90.0])
    u = np.arcsinh((x[:, None] + np.array([-0.5, 0.5]) * column.step - column.centre) / column.scale)
    log_scale = log_scale + float(model.cells.widening)
    cdf = 1 / (1 + np.exp(-(u[:, :, None] - centre) / np.exp(log_scale)))
    expected = np.log(((cdf[:, 1] - cdf[:, 0]) * weights).sum(1) / column.step)
    assert np.allclose(_log_p(model, [0.0], 0, x), expected, atol=1e-8)


def test_the_unit_of_a_column_changes_the_density_by_its_jacobian() -> None:
    x = np.random.default_rng(3).normal(size=(80, 2))
    first, second = (me.models.MaskedNetwork(2, 16, 1).fit(x * unit, epochs=4) for unit in (1.0, 1024.0))
    answers = [
        _log_p(model, [0.3 * unit, 0.0], 1, np.array([-0.5, 0.9]) * unit)
        for model, unit in ((first, 1.0), (second, 1024.0))
    ]
    assert np.allclose(answers[1], answers[0] - math.log(1024), atol=1e-4)


def test_a_yes_no_beside_numbers_has_a_density_per_unit() -> None:
    """Its mass over the distance of its two values, as of a number with that step: times it, it sums to 1."""
    x = np.column_stack([np.arange(40.0) / 8, np.where(np.arange(40) % 3, 2.0, 6.0)])
    model = me.models.MaskedNetwork(2, 8, 1).fit(x, epochs=1)
    assert model.cells.columns[1].kind == "yes/no"
    assert 4.0 * np.exp(_log_p(model, [1.0, 0.0], 1, np.array([2.0, 6.0]))).sum() == pytest.approx(
        1, abs=1e-5
    )
    alone = me.models.MaskedNetwork(1, 8, 1).fit(x[:, 1:], epochs=1)
    assert np.exp(_log_p(alone, [0.0], 0, np.array([2.0, 6.0]))).sum() == pytest.approx(1, abs=1e-5)


def test_no_density_exceeds_one_over_the_step() -> None:
    """A constant column, and a column that is 0 most of the time, as any other."""
    rng = np.random.default_rng(1)
    zeros = np.where(rng.random(200) < 0.9, 0.0, rng.lognormal(size=200))
    x = np.column_stack([np.full(200, 7.25), zeros, rng.standard_cauchy(200)])
    model = me.models.MaskedNetwork(3, 16, 1).fit(x, epochs=10)
    assert model.cells.columns[0].step == 0.01
    for column in range(3):
        highest = _log_p(model, [7.25, 0.0, 0.0], column, x[:, column]).max()
        assert highest <= -math.log(model.cells.columns[column].step) + 1e-6
    far = _log_p(model, [7.25, 0.0, 0.0], 2, np.array([1e12, -1e12]))
    assert np.isfinite(far).all()


def test_the_gaussian_answers_by_conditioning_a_covariance() -> None:
    """Against blocks of the covariance, for masks of all sizes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) + 3.0
    answer = GaussianAnswer(5).double()
    answer.fit(x, np.arange(400), seed=0)
    covariance = torch.linalg.inv(answer.precision).numpy()
    mean, scale, shift = (getattr(answer, name).numpy() for name in ("mean", "scale", "shift"))
    assert np.allclose(np.diag(covariance), 1, atol=0.01)
    for visible in rng.random((20, 5)) < rng.random((20, 1)):
        found = answer(torch.from_numpy(x[:1]), torch.from_numpy(visible[None]))[0].numpy()
        z, seen, hidden = (x[0] - shift) / scale, np.flatnonzero(visible), np.flatnonzero(~visible)
        gain = covariance[np.ix_(hidden, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        variance = covariance[np.ix_(hidden, hidden)] - gain @ covariance[np.ix_(seen, hidden)]
        assert np.allclose(found[hidden], (mean[hidden] + gain @ (z - mean)[seen]).clip(-8, 8))
        assert np.allclose(found[5 + hidden], np.sqrt(np.diag(variance)))
        assert np.allclose(found[seen], z[seen])
        assert not found[5 + seen].any()


def test_a_row_in_training_gets_an_answer_that_does_not_know_it() -> None:
    """The hidden cell of a row is changed before the fit: the answer to the row in training is the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1)) + 0.5 * rng.normal(size=(60, 3))
    other, ids, answers = x.copy(), np.arange(60) + 100, []
    other[7, 1] += 2.0
    for table in (x, other):
        answer = GaussianAnswer(3).double()
        answer.fit(table, ids, seed=0)
        row, visible = torch.from_numpy(x[[7]]), torch.tensor([[True, False, True]])
        asked = answer(row, visible, torch.tensor([107])), answer(row, visible)
        answers.append([float(each[0, 1] * answer.scale[1] + answer.shift[1]) for each in asked])
    assert answers[0][0] == pytest.approx(answers[1][0], abs=1e-9)
    assert abs(answers[0][1] - answers[1][1]) > 1e-3


def test_pairs_of_masks_hide_every_cell_and_their_loss_is_unbiased() -> None:
    design, maskable = _Complements(2), np.ones((300, 6), dtype=np.bool_)
    maskable[::3, 2] = False
    masks = drawn_masks(design, MaskKey(3), np.arange(300), maskable)
    masked = masks.masked().reshape(300, 2, 6)
    n_tokens = maskable.sum(1)
    assert (masked.any(1) == maskable).all()
    assert (masked.sum((1, 2)) == n_tokens + 1).all()
    shares = np.bincount(masked[n_tokens == 6].sum(2).ravel(), minlength=7)[1:] / 400
    assert np.abs(shares - 1 / 6).max() < 4 * math.sqrt(5 / 36 / 200)
    model = me.models.PPCA(4, 2, seed=1)
    rows = torch.from_numpy(model.sample(50))
    objective, tokens = me.MaskedObjective(_Complements(2)), me.Tokens.from_array(rows)
    with torch.no_grad():
        losses = np.array([float(objective(model, tokens)) for _ in range(200)])
        exact = float(-model.log_evidence(tokens).mean())
    assert abs(losses.mean() - exact) < 4 * losses.std() / math.sqrt(200)


def test_a_network_in_training_mode_fills_and_draws_nothing(network: MaskedNetwork) -> None:
    training = copy.deepcopy(network).train()
    holed = [[math.nan, 1.0, 2.0, 0.0, 1.0]]
    for use in (
        lambda: training.impute(holed),
        lambda: training.draw_missing(holed),
        lambda: training.sample(2),
        lambda: training.score_samples([[1.0, 1.0, 2.0, 0.0, 1.0]]),
    ):
        with pytest.raises(
            me.InputError, match="MaskedNetwork is in training mode, in which _Dropout changes"
        ):
            use()


def test_answers_depend_on_visible_cells_alone(network: MaskedNetwork) -> None:
    tokens = network.tokens(_frame())
    masked = tokens.maskable & (torch.rand(tokens.maskable.shape, generator=torch.manual_seed(0)) < 0.5)
    hidden = ~tokens.visible(masked)
    other = torch.where(hidden & ~masked, 1.0, tokens.values)
    with torch.no_grad():
        answer = network._answer(tokens.values, ~hidden)
        assert torch.equal(answer, network._answer(torch.where(hidden, 1.0, tokens.values), ~hidden))
        changed = me.Tokens(other, tokens.maskable, tokens.context, tokens.ids)
        assert torch.equal(
            network.log_conditionals(tokens, masked), network.log_conditionals(changed, masked)
        )


def test_training_is_deterministic_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    x = _mixed_rows(120)

    def trained(**options: object) -> MaskedNetwork:
        return me.models.MaskedNetwork(4, 16, 1).fit(x, epochs=6, **options)

    first, second = trained(), trained()
    states = [model.state_dict() for model in (first, second)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])

    class Stopped(Exception):
        pass

    def stop(record: me.core.training.history.EpochRecord, model: object) -> None:
        if record.epoch == 3:
            raise Stopped

    with pytest.raises(Stopped):
        trained(checkpoint=tmp_path, checkpoint_every=1, callbacks=[stop])
    resumed = trained(checkpoint=tmp_path, checkpoint_every=1)
    assert resumed.history is not None
    assert resumed.history.resumed_from == 2
    assert all(torch.equal(states[0][name], value) for name, value in resumed.state_dict().items())


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fit_finds_its_pace_and_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    monkeypatch.setattr(masked_network, "_STEPS", 100)
    x = np.tile(_mixed_rows(90), 25) if wide else _mixed_rows(90)
    first = me.models.MaskedNetwork(x.shape[1], 16, 1).fit(x)
    zero = (first.network.skip.weight == 0).float().mean()
    assert (zero > 0.1) == wide  # few rows of many columns keep most weights at 0
    assert first.history is not None
    assert len(first.history) == 5
    assert first.history.paced

    class Stopped(Exception):
        pass

    def stop(record: me.core.training.history.EpochRecord, model: object) -> None:
        if record.epoch == 3:
            raise Stopped

    options = {"checkpoint": tmp_path, "checkpoint_every": 1}
    with pytest.raises(Stopped):
        me.models.MaskedNetwork(x.shape[1], 16, 1).fit(x, callbacks=[stop], **options)
    resumed = me.models.MaskedNetwork(x.shape[1], 16, 1).fit(x, **options)
    assert resumed.history is not None
    assert resumed.history.resumed_from == 2
    states = first.state_dict(), resumed.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_step_shrinks_some_weights_and_not_the_others() -> None:
    """AdamW's step, then max(|w| - rate * shrinkage, 0) with the sign of w."""
    weights = [torch.nn.Parameter(torch.tensor([0.5, -0.5, 0.001])) for _ in range(3)]
    plain = torch.optim.AdamW(weights[:1], lr=0.01)
    shrinking = masked_network._ShrinkingAdamW(
        [{"params": weights[1:2]}, {"params": weights[2:], "shrinkage": 20.0}], lr=0.01
    )
    for optimizer, some in ((plain, weights[:1]), (shrinking, weights[1:])):
        for weight in some:
            weight.grad = torch.tensor([1.0, 1.0, 0.0])
        optimizer.step()
    step = weights[0].data
    assert torch.equal(weights[1].data, step)
    torch.testing.assert_close(weights[2].data, step.sign() * (step.abs() - 0.2).clamp(min=0))


@pytest.mark.slow
def test_few_rows_of_many_columns_end_above_independent_columns() -> None:
    """400 rows of 500 yes/no columns, in chains of five that depend on each other."""
    rng = np.random.default_rng(0)

    def drawn(n: int) -> np.ndarray:
        x = rng.random((n, 500)) < np.random.default_rng(1).uniform(0.1, 0.9, 500)
        flips = rng.random((n, 500)) < 0.1
        for k in range(500):
            if k % 5:
                x[:, k] = x[:, k - 1] ^ flips[:, k]
        return x.astype(float)

    train, test = drawn(400), drawn(200)
    model = me.models.MaskedNetwork(500).fit(train)
    share = (train.sum(0) + 0.5) / 401
    alone = (test * np.log(share) + (1 - test) * np.log1p(-share)).sum(1).mean()
    assert model.score_samples(test).mean() > alone + 10
    assert "independent" not in " ".join(model.fit_notes)


def test_another_objective_trains_another_network() -> None:
    """One step with masks of half of the cells, from the same weights as a step with masks of all sizes."""
    x = _mixed_rows(40)
    halves = me.MaskedObjective(me.FixedRate(0.5))
    first, second = (
        me.models.MaskedNetwork(4, 8, 1).fit(x, epochs=1, **options)
        for options in ({}, {"objective": halves})
    )
    assert not torch.equal(first.network.skip.weight, second.network.skip.weight)


def test_a_saved_network_answers_the_same(network: MaskedNetwork, tmp_path: Path) -> None:
    network.save(tmp_path)
    again = me.models.load(tmp_path)
    assert again.arguments() == network.arguments()
    assert again.columns == network.columns
    frame = _frame().sample(50, random_state=1)
    assert np.array_equal(again.impute(frame).values, network.impute(frame).values)


def test_a_category_that_training_never_saw_has_the_probability_of_unseen_ones(
    network: MaskedNetwork,
) -> None:
    frame = _frame().head(3).assign(colour="violet")
    tokens = network.tokens(frame)
    masked = torch.zeros(3, 5, dtype=torch.bool)
    masked[:, 4] = True
    with torch.no_grad():
        answer = network.log_conditionals(tokens, masked)[:, 4]
    assert np.allclose(answer.numpy(), math.log(network.cells.columns[4].unseen))
    assert column_from(np.array([0.0, 0, 1, 2]), "category").unseen == 0.5  # (2 + ½) / 5
    assert column_from(np.arange(3.0).repeat(4), "category").unseen == pytest.approx(0.5 / 13)


def test_moments_are_those_of_the_density(network: MaskedNetwork) -> None:
    """Sums over counts within those of training, and integrals over numbers up to a range beyond them."""
    for column in (1, 2):
        spec = network.cells.columns[column]
        margin = 0.0 if spec.on_grid else spec.high - spec.low + spec.step
        x = np.arange(-4000.0, 4000.0) if column == 1 else np.linspace(-60, 60, 240_001)
        share = np.exp(_log_p(network, ROW, column, x)) * (x[1] - x[0])
        inside = np.clip(x, spec.low - margin, spec.high + margin)
        mean = (share * inside).sum()
        variance = (share * (inside - mean) ** 2).sum()
        holed = np.array([ROW])
        holed[0, column] = np.nan
        filled = network.impute(holed)
        assert filled.values[0, column] == pytest.approx(mean, rel=1e-5 if spec.on_grid else 0.01)
        assert filled.variance[0, column] == pytest.approx(variance, rel=1e-4 if spec.on_grid else 0.03)


def number_heads(values: np.ndarray) -> tuple[ColumnHeads, torch.Tensor]:
    """The heads of one column of numbers, and their answer for its distribution alone."""
    cells = ColumnHeads([column_from(values, "number")], density=True)
    return cells, cells.marginals(values[:, None])[None]


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).poisson(0.2, 300),  # a rare count
        np.append(np.zeros(200), [3.0, 9_000.0]),  # edges far from the median stand for others
        np.round(np.random.default_rng(1).normal(7.6, 0.05, 60), 2),
    ],
)
def test_filled_values_of_a_grid_are_the_means_of_its_probabilities(values: np.ndarray) -> None:
    cells, outputs = number_heads(values.astype(float))
    column = cells.columns[0]
    x = column.low + column.step * np.arange(-30_000, 60_000)
    share = cells.log_density(outputs.expand(len(x), -1), torch.from_numpy(x[:, None])).double()[:, 0].exp()
    share, inside = share.numpy() * column.step, x.clip(column.low, column.high)
    mean, variance = (part.item() for part in cells.moments(outputs))
    assert mean == pytest.approx(share @ inside, rel=2e-3)
    assert variance == pytest.approx(share @ (inside - share @ inside) ** 2, rel=2e-2)
    n = 20_000
    uniform = torch.rand(n, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = cells.draw(outputs.expand(n, -1), uniform).numpy()[:, 0]
    assert abs(drawn.mean() - mean) < 4 * math.sqrt(variance / n)
    assert set(drawn) <= set(np.round(x, 2))  # as decimals write them
    assert column.low <= drawn.min()
    assert drawn.max() <= column.high


def test_a_constant_column_is_filled_without_error() -> None:
    cells, outputs = number_heads(np.full(40, 5.3))
    assert [part.item() for part in cells.moments(outputs)] == [5.3, 0.0]


def test_a_number_without_steps_is_drawn_up_to_a_range_beyond_the_data() -> None:
    values = np.random.default_rng(0).standard_cauchy(200)
    cells, outputs = number_heads(values)
    n, width = 20_000, np.ptp(values)
    uniform = torch.rand(n, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = cells.draw(outputs.expand(n, -1), uniform).numpy()
    assert values.max() < drawn.max() <= values.max() + 1.01 * width
    assert abs(drawn.mean() - cells.moments(outputs)[0].item()) < 4 * drawn.std() / math.sqrt(n)


@pytest.mark.parametrize("column", range(5))
def test_draws_have_the_distribution_that_is_answered(network: MaskedNetwork, column: int) -> None:
    """z-tests of frequencies: of values, and of numbers up to each of some limits."""
    holed = np.array([ROW])
    holed[0, column] = np.nan
    n = 4_000
    draws = network.draw_missing(np.repeat(holed, n, 0), seed=column)[0, :, column]
    spec = network.cells.columns[column]
    if spec.kind == "number":
        grid = spec.centre + spec.step * np.arange(-30_000, 30_000)
        share = np.exp(_log_p(network, ROW, column, grid)) * spec.step
        limits = np.quantile(draws, [0.1, 0.5, 0.9]) + spec.step / 2
        expected = np.array([share[grid < limit].sum() for limit in limits])
        observed = np.array([(draws < limit).mean() for limit in limits])
        slack = 1.5 * share.max()  # where a limit cuts a step
    else:
        expected = np.exp(_log_p(network, ROW, column, np.array(spec.values))) / (1 - spec.unseen)
        observed = np.array([(draws == value).mean() for value in spec.values])
        slack = 1e-6
    slack = slack if spec.kind == "number" and not spec.on_grid else 2e-3
    assert (np.abs(observed - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n) + slack).all()


@pytest.mark.slow
def test_missing_cells_are_drawn_jointly() -> None:
    rng = np.random.default_rng(0)
    state = (rng.random(600) < 0.5).astype(float)
    x = np.column_stack([state, state, rng.random(600)])
    model = me.models.MaskedNetwork(3, 32, 1).fit(x, epochs=15)
    holed = np.array([[np.nan, np.nan, 0.5]] * 400)
    draws, share = model.draw_missing(holed, seed=1)[0], model.impute(holed[:1]).values[0, 0]
    assert (draws[:, 0] == draws[:, 1]).mean() > 0.95
    assert abs(draws[:, 0].mean() - share) < 4.5 * math.sqrt(share * (1 - share) / 400) + 0.02
    assert np.isin(model.sample(20)[:, :2], [0, 1]).all()


def test_it_learns_what_columns_tell_of_each_other() -> None:
    """Far better than independent columns, and within 0.1 nats of the truth it was drawn from."""
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.full(16, 0.5))
    states = np.stack(np.meshgrid(*[[0, 1]] * 4), -1).reshape(-1, 4)
    train, test = (states[rng.choice(16, n, p=joint)].astype(float) for n in (1000, 1000))
    model = me.models.MaskedNetwork(4, 32).fit(train, epochs=30)
    truth = np.log(joint[(test[:, None] == states).all(2).argmax(1)]).mean()
    share = train.mean(0)
    alone = (test * np.log(share) + (1 - test) * np.log(1 - share)).sum(1).mean()
    mixture = me.estimate_evidence(model, test[:250], "exhaustive:order-mixture").log_evidence
    truth_of_250 = np.log(joint[(test[:250, None] == states).all(2).argmax(1)]).mean()
    assert mixture > truth_of_250 - 0.1
    assert truth > alone + 0.2
    assert mixture > alone + 0.2


def test_columns_to_fill_are_learned_alone_and_better() -> None:
    """The product of two columns, by as many passes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 4))
    x[:, 3] = x[:, 0] * x[:, 1] + 0.1 * x[:, 3]
    holed, errors = x[:400].copy(), list[float]()
    holed[:, 3] = np.nan
    for columns in (None, [3]):
        model = me.models.MaskedNetwork(4, width=32)
        model.columns_to_fill = columns
        model.fit(x[400:], epochs=20)
        errors.append(float(np.sqrt(np.mean((model.impute(holed).values[:, 3] - x[:400, 3]) ** 2))))
    whole, alone = errors
    assert alone < 0.8 * whole < whole < 0.8 * x[:, 3].std()


def test_a_fit_says_where_it_is_not_above_independent_columns(network: MaskedNetwork) -> None:
    x = (np.random.default_rng(0).random((300, 30)) < 0.3).astype(float)
    model = me.models.MaskedNetwork(30, 16, 1).fit(x[:60], held_out=x[60:], epochs=12, learning_rate=0.03)
    words = r"does not beat independent columns on held-out rows \((-[\d.]+) and (-[\d.]+) nats\)"
    reached, independent = map(float, re.search(words, " ".join(model.fit_notes)).groups())
    assert reached <= independent
    share, test = (x[:60].sum(0) + 0.5) / 61, x[60:]
    exact = (test * np.log(share) + (1 - test) * np.log1p(-share)).sum(1).mean()
    assert independent == pytest.approx(exact, abs=0.01)
    assert network.fit_notes == network.history.notes  # whose columns depend on each other


def test_what_a_fit_says_is_told_by_select_and_score(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(MaskedNetwork, "_beside_independent_columns", lambda *_: ["said"])
    monkeypatch.setattr(masked_network, "_STEPS", 20)
    x = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(float)
    assert "masked-net:8x1: said" in me.select(x, "masked-net:8x1,masked-net:4x1", folds=2).notes
    np.save(tmp_path / "x.npy", x)
    assert "said" in prepare_rows("masked-net:8x1", str(tmp_path / "x.npy")).notes


def test_the_check_finds_nothing_wrong(network: MaskedNetwork) -> None:
    report = me.check_model(network, network.tokens(_frame()))
    assert not [finding for finding in report.findings if finding.status == "failed"], str(report)


BAD = {
    "a third value": (lambda m: m.score_samples([[2.0, 1, 0, 0, 0]]), "2 in column 'state'; the model was"),
    "too many columns": (lambda m: m.score_samples(np.zeros((2, 6))), "6 columns"),
    "no row": (lambda m: m.fit(np.zeros((0, 5))), "N, D >= 1"),
    "an empty column": (lambda m: m.fit([[math.nan, 1.0]] * 3), "column 0 has no observed value"),
    "an empty column with a name": (
        lambda m: m.fit(pd.DataFrame({"a": [math.nan] * 3, "b": ["x", "y", "z"]})),
        "column 'a' has no observed value",
    ),
    "an unknown kind": (lambda m: m.fit(np.eye(5), kinds={0: "binary"}), "yes/no, category, number"),
    "an unknown column": (
        lambda m: m.fit(np.eye(5), kinds={"x": "number"}),
        "names column 'x', which does not exist",
    ),
    "a yes/no of three": (
        lambda m: m.fit(np.arange(15.0).reshape(3, 5), kinds={0: "yes/no"}),
        "has 3; call it a number",
    ),
    "a third value beside a hole": (
        lambda m: m.impute([[2.0, math.nan, 0, 0, 0]]),
        "2 in column 'state'; the model was",
    ),
    "a missing column": (lambda m: m.impute(_frame().drop(columns="count")), "no column 'count'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(network: MaskedNetwork, case: str) -> None:
    call, words = BAD[case]
    model = me.models.MaskedNetwork(2) if "an empty column" in case else network
    one_line(lambda: call(model), match=words)


def test_a_row_of_missing_cells_gets_the_marginals(network: MaskedNetwork) -> None:
    filled = network.impute(np.full((1, 5), np.nan))
    assert np.isfinite(filled.values).all()
    assert (filled.variance > 0).all()


@pytest.mark.slow
def test_scales_are_those_with_the_highest_held_out_area() -> None:
    """A network without dropout is too sure of itself after 40 rows, on new rows as on the held-out ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(440, 8)) @ rng.normal(size=(8, 8))
    model = me.models.MaskedNetwork(8, width=64, dropout=0.0)
    model.fit(x[:40], held_out=x[40:80], epochs=60, patience=60)
    areas = {}
    widening = float(model.cells.widening)
    for each in (0.0, widening, widening - 0.1, widening + 0.1):
        model.cells.widening.fill_(each)
        areas[each] = [me.estimate_evidence(model, part, "random-size:8") for part in (x[40:80], x[80:])]
    assert widening > 0
    assert max(areas, key=lambda each: areas[each][0].log_evidence) == widening
    assert areas[widening][1].log_evidence > areas[0.0][1].log_evidence


def test_scales_that_are_too_wide_are_narrowed() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = me.models.MaskedNetwork(2, 8, 1).fit(x, epochs=2)
    mixtures = model.network.bias.data.reshape(2, -1, 3)
    mixtures[:, :, 2] += 1.0 - float(model.cells.widening)
    model._widen(model.tokens(x), seed=0)
    assert float(model.cells.widening) < -0.5


def test_one_row_can_be_fitted() -> None:
    model = me.models.MaskedNetwork(2, 8, 1).fit([[1.0, 2.5]], epochs=2)
    assert math.isfinite(model.score_samples([[1.0, 2.5]])[0])


@pytest.mark.parametrize(
    ("values", "step"),
    [([1.0, 3.0, 9.0], 2.0), ([0.25, 0.5, 1.0], 0.25), ([5.0] * 3, 1.0), ([7.8, 7.9, 8.1], 0.1)],
)
def test_the_step_of_a_column(values: list[float], step: float) -> None:
    assert column_from(np.array(values), "number").step == pytest.approx(step)


def test_the_scale_of_a_column_is_its_standard_deviation_if_it_is_normal() -> None:
    """Half the distance of the quantiles at one standard deviation: the unit of the network's inputs."""
    column = column_from(np.random.default_rng(0).normal(5.0, 3.0, 10_000), "number")
    assert (column.centre, column.scale) == (pytest.approx(5.0, abs=0.1), pytest.approx(3.0, rel=0.05))
    assert column_from(np.append(np.zeros(99), 10.0), "number").scale == pytest.approx(0.995, abs=0.01)


def test_impossible_settings_are_refused() -> None:
    for settings in ({"kind": "number", "step": 0.0}, {"kind": "yes/no", "values": (1.0,)}):
        with pytest.raises(me.InputError):
            Column(**settings)
    with pytest.raises(me.InputError, match="cannot be read"):
        me.models.MaskedNetwork(1, columns=[{"kind": "number", "colour": 1}])


def test_many_rows_are_scored_in_parts_and_judged_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2))
    model = me.models.MaskedNetwork(2, 8, 1).fit(rows, epochs=1)
    whole = model.score_samples(rows)
    sizes, held_out = [], []
    estimate, fit = base.estimate_evidence, masked_network.fit

    def counted(model, x, *args, **options):
        sizes.append(len(x))
        return estimate(model, x, *args, **options)

    def spied(*args, **options):
        held_out.append(len(options["held_out"]))
        return fit(*args, **options)

    monkeypatch.setattr(base, "estimate_evidence", counted)
    monkeypatch.setattr(masked_network, "fit", spied)
    monkeypatch.setattr(base, "_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(masked_network, "_MOST_HELD_OUT", 7)
    np.testing.assert_allclose(model.score_samples(rows), whole, rtol=1e-4)
    assert sizes == [64, 36]
    me.models.MaskedNetwork(2, 8, 1).fit(rows, epochs=1)
    me.models.MaskedNetwork(2, 8, 1).fit(rows, held_out=rows[:50], epochs=1)
    assert held_out == [7, 7]
