"""The rate at which D·S(x; M) crosses the area, and the number that one rate alone would give."""

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.evidence.result import page_of_numbers

MASK, N_WORDS = 8, 8


def known(slope: float) -> me.models.MaskedLM:
    """A model whose log p falls by `slope` nats from no hidden token to all hidden ones."""

    def logits(ids: torch.Tensor) -> torch.Tensor:
        log_p = -0.5 - slope * (ids == MASK).float().mean(1)
        others = torch.log1p(-log_p.exp()) - np.log(N_WORDS - 1)
        answer = others[:, None, None].repeat(1, ids.shape[1], N_WORDS)
        answer[:, :, 3] = log_p[:, None]
        return answer

    return me.models.MaskedLM.from_callable(logits, mask_token_id=MASK)


def rows(n: int, lengths: int) -> me.Tokens:
    every = torch.ones(n, lengths, dtype=torch.bool)
    return me.Tokens(torch.full((n, lengths), 3), every, ~every, torch.arange(n))


@pytest.mark.parametrize("design", [me.EverySize(2), me.RandomSize(64, 8)])
def test_the_crossing_and_the_number_of_one_rate(design: me.MaskDesign) -> None:
    estimate = me.estimate_evidence(known(2.0), rows(6, 20), design)
    assert estimate.kind == "lower_bound"
    result = estimate.to_dict()
    # S(M) = -.5 - 2 M/20, whose mean over M = 1..20 is that at M = 10.5
    assert result["one_rate"]["crossing"] == pytest.approx(10.5 / 20, abs=1e-3)
    assert result["one_rate"]["instead"] == pytest.approx(20 * (-0.5 - 2 * 0.15), rel=1e-4)
    words = dict(page_of_numbers(result, "text").parts[0].rows)["one rate"]
    assert words.startswith("its score times all tokens is above the area up to 5")
    assert words.endswith(" nats per text")
    assert "; 15 % alone would have said −1" in words


def test_the_number_of_one_rate_has_its_error() -> None:
    """Few masks of noisy scores may put it above 0, which no log-probability is."""
    rate, zero, none = np.array([0.1, 0.2, 0.9]), np.zeros(3), np.full(3, np.nan)
    score, mask_se = np.array([0.02, 0.04, -3]), np.array([0.1, 0.3, 0.1])
    curve = me.Curve(None, none, rate, score, mask_se, zero, zero, np.ones(3, dtype=np.int64))
    estimate = me.estimate_evidence(known(2.0), rows(6, 20), me.RandomSize(8, 8))
    estimate.__dict__["curve"] = curve
    one = estimate.to_dict()["one_rate"]
    assert one["instead"] == pytest.approx(20 * 0.03)
    assert one["mask_se"] == pytest.approx(20 * 0.2)
    words = dict(page_of_numbers(estimate.to_dict(), "text").parts[0].rows)["one rate"]
    assert words.endswith("15 % alone would have said 0.60 ± 4.00 nats per text")


def test_what_has_no_crossing_says_nothing() -> None:
    assert "one_rate" not in me.estimate_evidence(known(0.0), rows(6, 20), me.EverySize(2)).to_dict()
    x = me.models.PPCA(6, 2, seed=0).sample(5)
    assert "one_rate" not in me.estimate_evidence(me.models.PPCA(6, 2, seed=0), x, me.EverySize(2)).to_dict()
    short = me.estimate_evidence(known(2.0), rows(6, 4), me.EverySize(2)).to_dict()["one_rate"]
    assert list(short) == ["crossing"]  # 15 % of four tokens are none


def test_noise_moves_the_crossing_little() -> None:
    rng, rate, zero = np.random.default_rng(0), np.arange(1, 101) / 100, np.zeros(100)
    found = []
    for _ in range(200):
        score = -rate + 0.1 * rng.normal(size=100)
        curve = me.Curve(100, 100 * rate, rate, score, zero, zero, zero, np.full(100, 8))
        found.append(curve.crossing(float(score.mean())))
    assert None not in found
    assert abs(np.mean(found) - 0.505) < 0.01
    assert np.std(found) < 0.05


def test_a_flat_curve_has_no_crossing() -> None:
    """Noise alone divides it somewhere, in less than one of ten curves by three standard errors."""
    rng, rate, zero, found = np.random.default_rng(1), np.arange(1, 21) / 20, np.zeros(20), []
    for _ in range(200):
        score = 0.1 * rng.normal(size=20)
        curve = me.Curve(20, 20 * rate, rate, score, np.full(20, 0.1), zero, zero, np.full(20, 8))
        found.append(curve.crossing(float(score.mean())))
    assert found.count(None) > 180
