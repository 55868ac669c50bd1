"""A small version of the comparison of masking rates, and its errors."""

import dataclasses

import numpy as np
import pytest

import maskevidence as me
from paper import masking_rates
from paper.masking_rates import DESIGNS, RANDOM, USUAL, difference
from paper.masking_rates import masking_rates as make


def estimates(shift: float, seed_effects: list[float]) -> list[me.EvidenceEstimate]:
    model = me.models.PPCA(4, 1)
    base = me.estimate_evidence(model, model.sample(20, seed=1), me.RandomSize(8))
    return [
        dataclasses.replace(
            base,
            log_evidence=base.log_evidence + shift + effect,
            per_observation=base.per_observation + shift + effect,
        )
        for effect in seed_effects
    ]


def test_what_seeds_have_in_common_cancels_in_a_difference() -> None:
    effects = [5.0, -3.0, 1.0]
    gain = difference(
        estimates(0.5, [e + d for e, d in zip(effects, (0.1, -0.1, 0.0), strict=True)]),
        estimates(0.0, effects),
    )
    assert gain.mean == pytest.approx(0.5)
    assert gain.seed_se == pytest.approx(0.1 / np.sqrt(3))
    t = 4.302652729911275  # the 97.5 % quantile for two degrees of freedom
    assert gain.low == pytest.approx(0.5 - t * 0.1 / np.sqrt(3))
    assert gain.high == pytest.approx(0.5 + t * 0.1 / np.sqrt(3))
    assert gain.data_se == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("shift", "verdict"), [(2.0, True), (-2.0, False), (0.01, None)])
def test_the_question_is_answered_with_its_error(shift: float, verdict: bool | None) -> None:
    ours, usual = estimates(shift, [0.1, -0.1, 0.05]), estimates(0.0, [0.0, 0.0, 0.0])
    differences = {RANDOM: difference(ours, usual)}
    summary = {name: masking_rates._summary(e) for name, e in ((USUAL, usual), (RANDOM, ours))}
    claim = masking_rates._claims(differences, summary, {"unigram": -1e9, "steps": 700})[0]
    assert claim.holds is verdict
    assert ("cannot be told apart" in claim.measured) is (verdict is None)
    short = masking_rates._claims(differences, summary, {"unigram": -1e9, "steps": 80})[0]
    assert short.verdict == "too short to tell"  # a few steps, after which nothing is told apart but by noise


@pytest.mark.slow
def test_all_ways_to_train_are_scored_on_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    designs = {name: DESIGNS[name] for name in (USUAL, RANDOM)}
    monkeypatch.setattr(masking_rates, "DESIGNS", designs)
    figure = make((1, 2), steps=2, limit=3)
    areas = figure.numbers["log_evidence"]
    assert set(areas) == set(designs)
    assert len({value for values in areas.values() for value in values}) == 4
    (table,) = figure.tables
    assert [row[0] for row in table.rows] == list(designs)
    trained_at = [row["trained_at"] for row in figure.rows]
    assert trained_at.count(USUAL) == trained_at.count(RANDOM)
    gap = np.array(areas[RANDOM]) - np.array(areas[USUAL])
    assert figure.numbers["minus_15_percent"][RANDOM]["mean"] == pytest.approx(gap.mean())
    assert figure.draw is not None
    assert len(figure.draw().axes) == 2
