"""The observations of an estimate one by one: values, errors, and what is written of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.evidence.result import EvidenceEstimate, joined, observation_tables
from maskevidence.core.evidence.score_means import contributions, curves_of
from maskevidence.core.masks.design import MaskDesign, MaskKey

DESIGNS = [
    me.EverySize(4),
    me.EverySize(1),
    me.RandomSize(16, 8),
    me.RandomSize(2),
    me.Orderings(6),
    me.LeaveOneOut(),
    me.Exhaustive(),
    me.FixedRate(0.4, 5),
]


def plainly(estimate: EvidenceEstimate, design: MaskDesign, number: int) -> tuple[float, float]:
    """An observation's sum of contributions, and its standard error, by loops over strata and replicates."""
    own = estimate.scores.id == number
    rows = estimate.scores.select(own)
    how = design.summation(rows.n_tokens, rows.draw, rows.size)
    added = how.weight * rows.score
    if design.random_sizes and design.n_replicates > 1:
        curves = curves_of(estimate.record, design, MaskKey(estimate.seed))
        added = contributions(estimate.scores, design, curves)[own]
    variance = 0.0
    for stratum in set(how.stratum.tolist()):
        inside = how.stratum == stratum
        totals = [added[inside & (how.replicate == r)].sum() for r in range(design.n_replicates)]
        left = 1.0 if how.unseen is None else float(how.unseen[inside].max())
        if design.deterministic:
            left = 0.0
        if left:
            variance += design.n_replicates * float(np.var(totals, ddof=1)) * left
    return float(added.sum()), math.sqrt(variance)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: f"{design.name}-{design.n_replicates}")
def test_values_and_errors_of_each_observation(design: MaskDesign) -> None:
    model = me.models.PPCA(n_features=7, n_components=2)
    x = np.array(model.sample(7, seed=3))
    x[0, 1:3], x[1, 1:] = np.nan, np.nan
    estimate = me.estimate_evidence(model, x, design, seed=2)
    table = joined(observation_tables(replace(estimate, labels=("α, 1", *"uvwx", "b", ""))))
    assert table["log_evidence"].mean() == pytest.approx(estimate.log_evidence, abs=1e-9)
    assert table["label"] == ("α, 1", *"uvwx", "b", "")
    assert table["n_tokens"].tolist() == [5, 1, 7, 7, 7, 7, 7]
    assert (table["pll"] is not None) == (design.name == "leave-one-out")
    known = design.n_replicates >= design.min_replicates
    for row, number in enumerate(table["id"]):
        if known or design.deterministic:
            value, error = plainly(estimate, design, int(number))
            assert table["log_evidence"][row] == pytest.approx(value, abs=1e-9)
            assert table["mask_se"][row] == pytest.approx(error, abs=1e-12)
    assert table["mask_se"][1] == 0 or not known  # a single token has a single mask
    if not known and not design.deterministic:
        assert np.isnan(table["mask_se"][2:]).all()


def test_the_variance_of_each_observation_is_unbiased(unchecked: None) -> None:
    model = me.models.PPCA(n_features=8, n_components=2)
    tokens = me.Tokens.from_array(model.sample(4, seed=0))
    for design in (me.RandomSize(8, 8), me.EverySize(2)):
        drawn = [
            joined(observation_tables(me.estimate_evidence(model, tokens, design, seed=seed, check=False)))
            for seed in range(80)
        ]
        values = np.array([table["log_evidence"] for table in drawn])
        squares = np.array([table["mask_se"] ** 2 for table in drawn])
        truth = values.var(axis=0, ddof=1)
        error = np.hypot(squares.std(axis=0) / np.sqrt(80), truth * np.sqrt(2.6 / 80))
        assert (abs(squares.mean(axis=0) - truth) < 3.5 * error).all(), design
