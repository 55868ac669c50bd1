"""A surrogate with a closed form as a control variate: against plain loops, without bias, with less error."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.control_variates import Prediction, SizeCurves, logit_rate, predict_by_size
from maskevidence.errors import InputError
from maskevidence.evidence import mean_of_scores
from maskevidence.masks import MaskKey
from maskevidence.standard_errors import t_half_width

DESIGN = me.RandomSize(8, 4)


class Halfway:
    """Conditionals between those of two densities, of which no joint density is known, as of a network."""

    conditionals = "learned"

    def __init__(self, one: me.MaskedModel, other: me.MaskedModel) -> None:
        self.one, self.other = one, other

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        both = [model.log_conditionals(tokens, masked) for model in (self.one, self.other)]
        return torch.where(masked, torch.logaddexp(*both) - math.log(2), 0.0)


def subject(n_rows: int = 16, n_features: int = 6) -> tuple[Halfway, me.models.PPCA, np.ndarray]:
    """A model without a closed form, a surrogate that was fitted to the scored rows, and rows with holes."""
    truth = me.models.PPCA(n_features, 2, seed=1)
    x = np.array(truth.sample(n_rows, seed=0))
    control = me.models.PPCA(n_features, 1).fit(x)
    x[::3, 1] = np.nan
    return Halfway(truth, me.models.PPCA(n_features, 2, seed=2)), control, x


def record(*, per_token: bool = False) -> me.ScoreTable:
    model, control, x = subject()
    return me.estimate_evidence(model, x, DESIGN, per_token=per_token, control=control).scores


def test_a_surrogate_scores_the_same_masks() -> None:
    model, control, x = subject()
    table = record(per_token=True)
    alone = me.estimate_evidence(control, x, DESIGN, per_token=True).scores
    np.testing.assert_array_equal(table.control, alone.score)
    evidence = control.score_samples(x)
    np.testing.assert_allclose(table.control_evidence, evidence[table.id], rtol=1e-12)
    assert table.hidden is not None
    assert alone.hidden is not None
    np.testing.assert_array_equal(
        table.hidden.packed(table.size).control, alone.hidden.packed(table.size).log_prob
    )
    without = me.estimate_evidence(model, x, DESIGN).scores
    np.testing.assert_array_equal(without.score, table.score)


def test_no_slope_biases_the_estimate() -> None:
    """The expectation over all masks of all sizes, with slopes that nobody has fitted."""
    model, control, x = subject()
    both = [me.estimate_evidence(one, x, me.Exhaustive()) for one in (model, control)]
    scores = [one.scores for one in both]
    for slope in (1.0, -2.5):
        for row in range(len(x)):
            at = np.flatnonzero(scores[0].id == row)
            size, n_tokens = scores[0].size[at], scores[0].n_tokens[at]
            table = replace(
                scores[0].select(at),
                control=scores[1].score[at],
                control_evidence=np.full(len(at), control.score_samples(x)[row]),
            )
            fold = np.zeros(len(at), dtype=np.int64)
            curves = SizeCurves(np.array([-1.0, 2.0]), np.array([[3.0, -1.0]]), np.array([slope]))
            prediction = Prediction(curves, fold, np.full(len(at), 0.7))
            each = prediction.contributions(table, n_tokens / 8, np.full(len(at), 8))
            chance = 1 / n_tokens / np.array([math.comb(n, m) for n, m in zip(n_tokens, size, strict=True)])
            assert 8 * (chance * each).sum() == pytest.approx(both[0].per_observation[row], abs=1e-9)


def slow_slope(table: me.ScoreTable, knots: np.ndarray, strength: float) -> float:
    """The slope by least squares on rows that are centred within observations, beside a smoothed curve."""
    assert table.control is not None
    features, target = [], []
    for row in np.unique(table.id):
        at = table.id == row
        place = logit_rate(table.size[at], table.n_tokens[at])
        columns = [np.interp(place, knots, unit) for unit in np.eye(len(knots))]
        whole = np.column_stack([*columns, table.control[at], table.score[at]])
        whole = (whole - whole.mean(0)) * table.n_tokens[at][0] / table.n_tokens.max()
        features.append(whole[:, :-1])
        target.append(whole[:, -1])
    x, y = np.concatenate(features), np.concatenate(target)
    scale = (x[:, :-1] ** 2).sum() / len(knots)
    penalty = np.sqrt(strength * scale) * np.diff(np.eye(len(knots)), 2, axis=0)
    whole = np.concatenate([x, np.column_stack([penalty, np.zeros(len(penalty))])])
    return float(np.linalg.lstsq(whole, np.concatenate([y, np.zeros(len(penalty))]), rcond=None)[0][-1])


def test_slopes_are_those_of_plain_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    strength = 0.01
    monkeypatch.setattr("maskevidence.control_variates._PENALTIES", np.array([strength]))
    monkeypatch.setattr("maskevidence.control_variates.FEWEST_AT_KNOT", 0.0)
    table = record()
    curves = predict_by_size(table, table.draw % 4, 4).curves
    # The hats of the knots hold a constant, which leaves the rows when they are centred: an equal solution.
    for fold in range(4):
        slow = slow_slope(table.select(table.draw % 4 != fold), curves.knots, strength)
        assert curves.slopes[fold] == pytest.approx(slow, rel=1e-5)


def test_a_slope_has_not_seen_its_replicate() -> None:
    table = record()
    changed = replace(table, score=table.score + 5.0 * (table.draw % 4 == 2) * table.size)
    before, after = (predict_by_size(one, one.draw % 4, 4).curves.slopes for one in (table, changed))
    assert before[2] == pytest.approx(after[2], rel=1e-9)
    assert np.abs(np.delete(before - after, 2)).min() > 1e-3


def test_estimates_are_unbiased_and_their_error_is_smaller() -> None:
    """With the curve alone, and with the tokens, too; the masks are the same."""
    model, _, _ = subject(n_features=8)
    x = np.array(me.models.PPCA(8, 2, seed=1).sample(30, seed=3))
    x[::4, 2] = np.nan
    control = me.models.PPCA(8, 2).fit(x)
    truth = me.estimate_evidence(model, x, me.Exhaustive()).log_evidence
    design, n_runs = me.RandomSize(8), 30
    found = [
        me.estimate_evidence(model, x, design, seed=s, per_token=True, control=control, check=False)
        for s in range(n_runs)
    ]
    for with_tokens in (True, False):
        tables = [one.scores if with_tokens else replace(one.scores, hidden=None) for one in found]
        means = [mean_of_scores(t, design, MaskKey(s)).mean for s, t in enumerate(tables)]
        errors = np.array([mean.mean - truth for mean in means])
        assert abs(errors.mean()) < 3.5 * errors.std(ddof=1) / math.sqrt(n_runs)
        squares = np.square([mean.mask_se or 0.0 for mean in means])
        assert np.mean(errors**2 <= squares * t_half_width(1.0, means[0].mask_df or 1.0, 0.95) ** 2) >= 0.85
        assert squares.mean() == pytest.approx(errors.var(ddof=1), rel=0.7)
        without = [
            mean_of_scores(t.without_control(), design, MaskKey(s)).mean.mask_se or 0.0
            for s, t in enumerate(tables)
        ]
        assert np.mean(np.square(without)) > 1.1 * squares.mean()
    without_it = "without the control, the same mask_se would take "
    assert np.mean([float(one.notes[0].removeprefix(without_it).split()[0]) for one in found]) > 1.1


def test_a_model_that_controls_itself_leaves_only_rounding() -> None:
    _, control, x = subject()
    estimate = me.estimate_evidence(control, x, DESIGN, control=control)
    np.testing.assert_allclose(estimate.per_observation, control.score_samples(x), rtol=1e-6)
    assert estimate.notes[-1].endswith("would take more than 1,000 times as many passes")


@pytest.mark.parametrize("per_token", [False, True])
def test_a_target_takes_fewer_draws(*, per_token: bool) -> None:
    """They end at the error with the surrogate, and are those of a fixed number, to the last bit."""
    model, control, x = subject(40)
    precise, options = me.Precise(target_se=0.03, negligible=0), {"per_token": per_token}
    alone = me.estimate_evidence(model, x, precise, **options)
    found = me.estimate_evidence(model, x, precise, control=control, **options)
    draws = found.design["draws"]
    assert draws < alone.design["draws"]
    assert 0.8 * 0.03 < found.mask_se <= 0.03
    fixed = me.estimate_evidence(model, x, me.RandomSize(draws, draws), control=control, **options)
    np.testing.assert_array_equal(found.scores.control, fixed.scores.control)
    assert (found.log_evidence, found.mask_se) == (fixed.log_evidence, fixed.mask_se)
    assert [note.split()[:4] for note in found.notes] == [
        ["without", "the", "control,", "the"],
        ["the", "draws", "ended", "at"],
    ]
    planned = me.plan(model, x, target_se=0.03, control=control, **options)
    assert 0.5 < int(planned.designs[0].options.split()[1]) / draws < 2


def test_the_curve_goes_without_the_surrogate() -> None:
    model, control, x = subject()
    with_control, without = (me.estimate_evidence(model, x, DESIGN, control=c) for c in (control, None))
    np.testing.assert_array_equal(with_control.curve.score, without.curve.score)
    assert with_control.log_evidence != without.log_evidence


def test_two_models_are_compared_with_the_surrogate_of_both() -> None:
    model, control, x = subject(40)
    other = me.models.PPCA(6, 1, seed=3)
    found = [
        me.compare([me.estimate_evidence(m, x, me.RandomSize(8), control=c) for m in (model, other)])
        for c in (control, None)
    ]
    differences = [one.behind[0].difference for one in found]
    errors = [one.behind[0].mask_se or math.inf for one in found]
    assert errors[0] != errors[1]
    assert errors[0] < 1.2 * errors[1]
    assert abs(differences[0] - differences[1]) < 4 * errors[1]


def test_surrogates_whose_scores_do_not_add_up_are_refused() -> None:
    model, control, x = subject()
    with pytest.raises(InputError, match="control=Halfway has no log evidence in closed form"):
        me.estimate_evidence(model, x, DESIGN, control=model)
    importance = me.models.BernoulliPCA(6, 4)
    with pytest.raises(InputError, match="do not add up to its log evidence exactly"):
        me.estimate_evidence(model, x, DESIGN, control=importance)
    for design, masks in ((me.EverySize(2), "own"), (DESIGN, "shared"), (me.RandomSize(1), "own")):
        with pytest.raises(InputError, match="control belongs to random-size with own masks"):
            me.estimate_evidence(model, x, design, masks=masks, control=control)
    moments = me.GaussianMoments.from_rows(np.nan_to_num(x))
    with pytest.raises(InputError, match="a control scores the rows"):
        me.estimate_evidence(control, moments, DESIGN, masks="shared", control=control)


def test_a_quadrature_at_fixed_nodes_is_a_surrogate_of_binary_rows() -> None:
    truth = me.models.BernoulliPCA(5, 1, seed=1)
    x = truth.sample(30, seed=0)
    control = me.models.BernoulliPCA(5, 1, integration=me.models.Grid(6, 4.0), seed=2)
    enumerated = me.estimate_evidence(control, x, me.Exhaustive(), refine=False)
    tokens = control.tokens(x)
    np.testing.assert_allclose(enumerated.per_observation, control.log_evidence(tokens).detach().numpy())
    exact = me.estimate_evidence(truth, x, me.Exhaustive(), refine=False).log_evidence
    found = me.estimate_evidence(truth, x, me.RandomSize(8), refine=False, control=control)
    assert abs(found.log_evidence - exact) < 4 * (found.mask_se or 0.0)
