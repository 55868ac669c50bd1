"""Control variates of random sizes: no bias whatever is predicted, and tighter intervals that cover."""

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.evidence.control_variates import (
    Prediction,
    SizeCurves,
    fitted_curves,
    logit_rate,
    predict_by_size,
)
from maskevidence.core.evidence.score_means import curves_of, mean_of_scores
from maskevidence.core.evidence.standard_errors import t_half_width
from maskevidence.core.masks.design import MaskKey, drawn_masks
from maskevidence.core.scores.record import Scores
from maskevidence.core.tokens import positions

LENGTHS = np.array([3, 6, 6, 4])


def scores_of_sizes(seed: int) -> np.ndarray:
    """A score for every observation and size, shape (4, 7)."""
    return np.random.default_rng(seed).normal(size=(len(LENGTHS), LENGTHS.max() + 1))


def record(design: me.RandomSize, lengths: np.ndarray, score, seed: int = 0) -> me.ScoreTable:
    """A record whose scores are `score(row, size, rng)`."""
    ids = np.arange(len(lengths))
    maskable = np.arange(lengths.max()) < lengths[:, None]
    drawn = drawn_masks(design, MaskKey(seed), ids, maskable, position=positions(ids))
    values = score(drawn.row, drawn.size, np.random.default_rng(seed))
    return me.ScoreTable(drawn.row, drawn.draw, drawn.size, lengths[drawn.row], values).sorted()


def test_no_prediction_biases_the_estimate() -> None:
    """The expectation over all sizes, with curves and levels that have nothing to do with the scores."""
    rng = np.random.default_rng(0)
    truth = scores_of_sizes(1)
    curves = SizeCurves(np.array([-1.0, 0.3, 2.0]), 10.0 * rng.normal(size=(2, 3)))
    for row, length in enumerate(LENGTHS):
        size = np.arange(1, length + 1)  # each with probability 1 / length
        table = me.ScoreTable(
            np.full(length, row), size, size, np.full(length, length), truth[row, 1 : length + 1]
        )
        for fold in (0, 1):
            prediction = Prediction(curves, np.full(length, fold), np.full(length, rng.normal()))
            n_draws = np.full(length, 8)
            each = prediction.contributions(table, length / n_draws, n_draws)
            assert 8 * each.mean() == pytest.approx(truth[row, 1 : length + 1].sum(), abs=1e-12)


def test_a_prediction_has_not_seen_the_masks_of_its_replicate() -> None:
    design = me.RandomSize(16, 4)
    rows = np.full(6, 9)
    table = record(design, rows, lambda row, size, rng: rng.normal(size=len(row)))
    replicate = table.draw % 4
    changed = me.ScoreTable(
        table.id, table.draw, table.size, table.n_tokens, table.score + 5.0 * (replicate == 2) * table.size
    )
    before, after = (
        predict_by_size(one, replicate, 4, fitted_curves(one, replicate, 4)) for one in (table, changed)
    )
    of_two = replicate == 2
    expected = [p.curves.at(table.size, table.n_tokens, p.fold) + p.level for p in (before, after)]
    np.testing.assert_allclose(expected[0][of_two], expected[1][of_two], rtol=0, atol=1e-12)
    assert not np.allclose(expected[0][~of_two], expected[1][~of_two], rtol=0, atol=0.1)


def slow_curve(table: me.ScoreTable, knots: np.ndarray, strength: float) -> np.ndarray:
    """The values at the knots, by least squares on rows that are centred within observations.

    A knot with fewer than three masks near it lies on the line between its neighbours, or equals the nearest.
    """
    near = np.column_stack(
        [np.interp(logit_rate(table.size, table.n_tokens), knots, unit) for unit in np.eye(len(knots))]
    )
    all_knots, knots = knots, knots[near.sum(0) >= 3]
    design, target = [], []
    for row in np.unique(table.id):
        at = table.id == row
        place = logit_rate(table.size[at], table.n_tokens[at])
        hats = np.column_stack([np.interp(place, knots, unit) for unit in np.eye(len(knots))])
        share = table.n_tokens[at][0] / table.n_tokens.max()
        design.append(share * (hats - hats.mean(0)))
        target.append(share * (table.score[at] - table.score[at].mean()))
    x, y = np.concatenate(design), np.concatenate(target)
    scale = np.trace(x.T @ x) / len(knots)
    penalty = np.sqrt(strength * scale) * np.diff(np.eye(len(knots)), 2, axis=0)
    whole = np.concatenate([x, penalty])
    values = np.linalg.lstsq(whole, np.concatenate([y, np.zeros(len(penalty))]), rcond=None)[0]
    return np.interp(all_knots, knots, values)


def test_curves_are_those_of_plain_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    strength = 0.01
    monkeypatch.setattr("maskevidence.core.evidence.control_variates._PENALTIES", np.array([strength]))
    lengths = np.repeat([8, 12, 12, 20], 5)
    table = record(
        me.RandomSize(8, 4), lengths, lambda row, size, rng: row + np.log(size) + rng.normal(size=len(row))
    )
    replicate = table.draw % 4
    curves = fitted_curves(table, replicate, 4)
    for fold in range(4):
        slow = slow_curve(table.select(replicate != fold), curves.knots, strength)
        found = curves.values[fold]
        np.testing.assert_allclose(found - found.mean(), slow - slow.mean(), atol=1e-9)


def test_what_follows_from_the_size_alone_leaves_the_error() -> None:
    lengths = np.full(40, 30)

    def score(row: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return -np.exp(size / 10) + 0.05 * rng.normal(size=len(row))

    table = record(me.RandomSize(8), lengths, score)
    replicate = table.draw % 8
    prediction = predict_by_size(table, replicate, 8, fitted_curves(table, replicate, 8))
    each = prediction.contributions(table, np.full(len(table), 30 / 8), np.full(len(table), 8))
    within = np.bincount(table.id * 8 + replicate, weights=8 * each).reshape(40, 8).std(axis=1, ddof=1)
    assert within.mean() < 1.2 * 30 * 0.05  # of the noise alone; without the curve it is about 180


def test_few_masks_of_long_observations_do_not_make_the_error_larger() -> None:
    """Most of 135 sizes are never drawn: a straight line through noise would be far off at their ends."""
    design, lengths = me.RandomSize(8), np.full(5, 135)
    plain, ours = [], []
    for seed in range(60):
        table = record(
            design,
            lengths,
            lambda row, size, rng: 0.3 * row - 3 + rng.normal(size=len(row)) / np.sqrt(size),
            seed,
        )
        prediction = predict_by_size(table, table.draw % 8, 8, fitted_curves(table, table.draw % 8, 8))
        weight, n_draws = np.full(len(table), 135 / 8), np.full(len(table), 8)
        plain.append((weight * table.score).sum())
        ours.append(prediction.contributions(table, weight, n_draws).sum())
    assert np.std(ours) < 1.1 * np.std(plain)


@pytest.mark.parametrize(
    ("n_rows", "n_tokens"),
    [(100, 178), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((100, 110), (200, 64)))],
)
def test_the_error_is_told_where_scores_follow_the_parity_of_the_size(n_rows: int, n_tokens: int) -> None:
    """No curve predicts it; a golden sequence of sizes had 5.8 times the error of 178 tokens that it told."""
    design, n_seeds, errors, covered = me.RandomSize(8), 100, [], []
    truth = float((np.arange(1, n_tokens + 1) % 2).sum())
    for seed in range(n_seeds):
        table = record(design, np.full(n_rows, n_tokens), lambda row, size, rng: size % 2 * 1.0, seed)
        found = mean_of_scores(table, design, MaskKey(seed)).mean
        errors.append((found.mean - truth, found.mask_se))
        covered.append(abs(found.mean - truth) <= t_half_width(found.mask_se, found.mask_df, 0.95))
    true, told = np.sqrt(np.mean(np.square(errors), axis=0))
    assert true < told * (1 + 4 / np.sqrt(2 * n_seeds))
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_seeds)


def test_a_curve_of_many_masks_is_fitted_to_rows_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows at the end have another curve, as in a table that is sorted by a column."""
    lengths = np.full(200, 12)
    table = record(me.RandomSize(8), lengths, lambda row, size, rng: np.where(row < 100, 1.0, 3.0) * size)
    scores, design, key = Scores.of(table), me.RandomSize(8), MaskKey(0)
    whole = curves_of(scores, design, key)
    monkeypatch.setattr("maskevidence.core.evidence.score_means.MAX_MASKS", len(table) // 4)
    part = curves_of(scores, design, key)
    assert whole is not None
    assert part is not None
    assert not np.array_equal(whole.values, part.values)
    slopes = [(curves.values[:, -1] - curves.values[:, 0]) / 11 for curves in (whole, part)]
    np.testing.assert_allclose(slopes, 2.0, atol=0.15)


def test_a_curve_needs_8_degrees_of_freedom() -> None:
    """Two rows of 4 draws leave 6 - 2 to each fold, too few to see its error; four rows leave 12 - 4."""
    for n_rows, flat in ((2, True), (4, False)):
        row, draw = (grid.ravel() for grid in np.indices((n_rows, 4)))
        size = (row + draw) % 2 + 1
        table = me.ScoreTable(row, draw, size, np.full(len(row), 2), -3.0 * size)
        curves = fitted_curves(table, draw, 4)
        assert np.allclose(curves.values, 0.0) == flat
