"""Means of hidden tokens as a control variate: against plain loops, without bias, with tighter intervals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.control_variates import Prediction, fitted_curves, predict_by_size
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.evidence.score_means import mean_of_scores
from maskevidence.core.evidence.token_means import _means, token_controls
from maskevidence.core.masks.design import MaskKey, Masks
from maskevidence.core.scores.record import HiddenTokens

DESIGN = me.RandomSize(8, 4)


def record(n_rows: int = 12, seed: int = 0, n_features: int = 6) -> me.ScoreTable:
    """Scores of a PPCA on rows of which some have missing values, with those of hidden tokens."""
    model = me.models.PPCA(n_features, 2, seed=1)
    x = np.array(model.sample(n_rows, seed=seed))
    x[::3, 1] = np.nan
    return me.estimate_evidence(model, x, DESIGN, seed=seed, per_token=True).scores


def test_the_scores_of_hidden_tokens_have_the_score_as_their_mean() -> None:
    table = record()
    assert table.hidden is not None
    for mask in range(len(table)):
        entries = table.hidden[mask : mask + 1].entries(table.size[mask : mask + 1])
        assert table.hidden.log_prob[entries].mean() == pytest.approx(table.score[mask], rel=1e-5)
        assert len(set(table.hidden.column[entries].tolist())) == table.size[mask]
    halves = [table.select(table.draw % 2 == parity) for parity in (1, 0)]
    joined = me.ScoreTable.join(halves).sorted()
    assert joined.hidden is not None
    for name in ("column", "log_prob"):
        packed = [getattr(one.hidden.packed(one.size), name) for one in (joined, table)]
        np.testing.assert_array_equal(*packed)


def slow_controls(table: me.ScoreTable, prediction: Prediction) -> np.ndarray:
    """The controls by loops over folds, observations and tokens."""
    assert table.hidden is not None
    hidden = table.hidden.packed(table.size)
    masks = range(len(table))
    tokens = [
        dict(zip(hidden.column[at : at + n].tolist(), hidden.log_prob[at : at + n].tolist(), strict=True))
        for at, n in zip(hidden.start, table.size, strict=True)
    ]
    controls = np.empty(len(table))
    for fold in set(prediction.fold.tolist()):
        level = {int(table.id[k]): prediction.level[k] for k in masks if prediction.fold[k] == fold}
        of: dict[tuple[int, int], list[float]] = {}
        for k in masks:
            if prediction.fold[k] != fold:
                number = int(table.id[k])
                at = prediction.curves.at(table.size[k : k + 1], table.n_tokens[k : k + 1], np.array([fold]))
                for place, log_p in tokens[k].items():
                    of.setdefault((number, place), []).append(log_p - at[0] - level[number])
        places = sorted({place for _, place in of})
        cells = {place: [values for (_, j), values in of.items() if j == place] for place in places}
        means = {j: sum(map(sum, cells[j])) / sum(map(len, cells[j])) for j in places}
        around = sum((np.mean(v) - means[j]) ** 2 for j in places for v in cells[j])
        pooled = around / sum(len(cells[j]) - 1 for j in places)
        noise = {j: pooled / len(cells[j]) for j in places}
        between = max(0.0, np.var(list(means.values()), ddof=1) - np.mean(list(noise.values())))
        shift = {j: means[j] * between / (between + noise[j]) for j in places}
        left = {key: [value - shift[key[1]] for value in values] for key, values in of.items()}
        products = [a * b for values in left.values() for a, b in itertools.permutations(values, 2)]
        squares = [value**2 for values in left.values() for value in values]
        of_tokens = sum(products) / len(products)
        ratio = max(0.0, np.mean(squares) - of_tokens) / of_tokens if of_tokens > 0 else math.inf
        tau = {key: shift[key[1]] + sum(values) / (len(values) + ratio) for key, values in left.items()}
        for k in masks:
            if prediction.fold[k] == fold:
                number = int(table.id[k])
                mean = np.mean([tau.get((number, place), 0.0) for place in tokens[k]])
                controls[k] = mean - sum(t for (i, _), t in tau.items() if i == number) / table.n_tokens[k]
    return controls


@pytest.mark.parametrize("at_once", [10**6, 24])
def test_controls_are_those_of_plain_loops(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """All rows at once; and four at a time, where the variances come from every third row."""
    table = record()
    prediction = predict_by_size(table, table.draw % 4, 4, fitted_curves(table, table.draw % 4, 4))
    monkeypatch.setattr("maskevidence.core.evidence.token_means.MAX_CELLS", at_once)
    found = token_controls(table, prediction)
    if at_once > 100:
        np.testing.assert_allclose(found, slow_controls(table, prediction), atol=1e-9)
    else:
        assert np.corrcoef(found, slow_controls(table, prediction))[0, 1] > 0.9


def test_a_control_has_not_seen_its_replicate() -> None:
    """It follows from the tokens that a mask hides, and not from what they scored."""
    table = record()
    prediction = predict_by_size(table, table.draw % 4, 4, fitted_curves(table, table.draw % 4, 4))
    assert table.hidden is not None
    of_two = np.repeat(prediction.fold == 2, table.size)
    packed = table.hidden.packed(table.size)
    added = (3 * of_two * (packed.column % 2)).astype(np.float32)
    changed = replace(packed, log_prob=packed.log_prob + added)
    before, after = (token_controls(replace(table, hidden=one), prediction) for one in (packed, changed))
    here = prediction.fold == 2
    np.testing.assert_allclose(before[here], after[here], rtol=0, atol=1e-12)
    assert np.abs(before[~here] - after[~here]).max() > 0.01


def test_the_expectation_of_a_control_is_0_at_every_size() -> None:
    """One mask of a replicate takes the place of another: the mean over all of a size, by enumeration."""
    table = record()
    replicate = table.draw % 4
    prediction = predict_by_size(table, replicate, 4, fitted_curves(table, replicate, 4))
    assert table.hidden is not None
    packed = table.hidden.packed(table.size)
    mask = int(np.flatnonzero((table.n_tokens == 6) & (table.size == 3))[0])
    at = packed.start[mask]
    values = []
    for places in itertools.combinations(range(6), 3):
        column = packed.column.copy()
        column[at : at + 3] = places
        changed = replace(table, hidden=HiddenTokens(packed.start, column, packed.log_prob))
        values.append(token_controls(changed, prediction)[mask])
    assert np.std(values) > 0.01
    assert np.mean(values) == pytest.approx(0.0, abs=1e-12)


def test_estimates_are_unbiased_and_their_error_is_smaller() -> None:
    model = me.models.PPCA(10, 2, seed=0)
    x = model.sample(40, seed=1)
    truth = float(model.score_samples(x).mean())
    found = [me.estimate_evidence(model, x, me.RandomSize(8), seed=s, per_token=True) for s in range(40)]
    errors = np.array([one.log_evidence - truth for one in found])
    assert abs(errors.mean()) < 3.5 * errors.std(ddof=1) / math.sqrt(40)
    assert np.mean([low <= truth <= high for low, high in (one.interval() for one in found)]) >= 0.85
    without = [
        mean_of_scores(replace(one.scores, hidden=None), me.RandomSize(8), MaskKey(one.seed)).mean
        for one in found
    ]
    squares = [(one.mask_se or 0.0) ** 2 for one in found]
    assert np.mean([(one.mask_se or 0.0) ** 2 for one in without]) > 1.3 * np.mean(squares)
    assert np.mean(squares) == pytest.approx(errors.var(ddof=1), rel=0.5)


def test_the_curve_adds_up_to_the_estimate() -> None:
    table = record(24)
    complete = table.select(table.n_tokens == 6)
    estimate = summarize_scores(complete, HowScored(DESIGN, MaskKey(0), "exact"), 1)
    assert estimate.curve.area == pytest.approx(estimate.log_evidence, rel=1e-10)


def test_two_models_are_compared_by_the_differences_of_their_tokens() -> None:
    models = [me.models.PPCA(6, k, seed=k) for k in (1, 2)]
    x = models[0].sample(30, seed=0)
    with_tokens, without = (
        me.compare([me.estimate_evidence(m, x, DESIGN, per_token=kept) for m in models]).behind[0]
        for kept in (True, False)
    )
    assert with_tokens.mask_se is not None
    assert without.mask_se is not None
    assert with_tokens.mask_se < without.mask_se
    assert abs(with_tokens.difference - without.difference) < 4 * without.mask_se


@pytest.mark.parametrize(
    ("design", "masks"), [(me.EverySize(2), "own"), (me.RandomSize(8), "shared"), (me.RandomSize(1), "own")]
)
def test_designs_without_use_for_them_are_refused(design: me.MaskDesign, masks: Masks) -> None:
    model = me.models.PPCA(4, 1)
    with pytest.raises(InputError, match="belongs to random-size with own masks"):
        me.estimate_evidence(model, model.sample(5), design, masks=masks, per_token=True)


def test_means_that_are_not_shrunk_are_0_for_tokens_that_were_never_hidden() -> None:
    """Residuals without noise have no shrinkage: 0 of 0 masks is no number, and no warning either."""
    means = _means(np.array([[0.0, 3.0]]), np.array([[0.0, 2.0]]), np.zeros(2), 0.0)
    assert means.tolist() == [[0.0, 1.5]]
