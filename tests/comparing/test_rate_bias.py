"""The bias of one mask rate, against enumeration and the closed form for independent features."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from builders import BuildModel
from maskevidence.comparing.rate_bias import block_identity
from maskevidence.tokens import Tokens

D = 5


def exact_bias(model: oracles.GaussianModel, tokens: Tokens, size: int) -> float:
    """The mean over rows of D·S(x; M) - log p(x), from block matrices and all masks of the size."""
    total = 0.0
    evidence = oracles.gaussian_log_evidence(
        *oracles.parameters_of(model), tokens.values.numpy(), tokens.maskable.numpy(), tokens.context.numpy()
    )
    for chosen in itertools.combinations(range(D), size):
        masked = torch.zeros(len(tokens), D, dtype=torch.bool)
        masked[:, list(chosen)] = True
        total += oracles.scores(model, tokens, masked).mean() / math.comb(D, size)
    return D * total - float(evidence.mean())


@pytest.mark.parametrize("masks", ["own", "shared"])
def test_the_bias_is_that_of_all_masks(masks: str, build: BuildModel) -> None:
    model = build(D)
    tokens = Tokens.from_array(np.random.default_rng(2).normal(size=(40, D)) * 1.3)
    found = me.bias(model, (0.2, 0.6, 1.0), tokens, masks_per_row=300, masks=masks, seed=5)
    for entry, size in zip(found, (1, 3, 5), strict=True):
        expected = exact_bias(model, tokens, size)
        assert entry.size == size
        assert abs(entry.bias - expected) <= 4 * entry.mask_se + 1e-9
    assert found[-1].mask_se == pytest.approx(0, abs=1e-9)
    assert abs(found[0].bias) > 5 * found[0].mask_se


def test_the_interval_holds_the_truth_as_often_as_it_says(build_ppca: BuildModel) -> None:
    """80 seeds: the z-score of the bias has mean 0 and standard deviation 1 (within 4 standard errors)."""
    model = build_ppca(D)
    tokens = Tokens.from_array(np.random.default_rng(2).normal(size=(30, D)))
    expected = exact_bias(model, tokens, 2)
    found = [me.bias(model, 0.4, tokens, masks_per_row=4, seed=s, block_rows=1)[0] for s in range(80)]
    z = np.array([(b.bias - expected) / b.mask_se for b in found])
    assert abs(z.mean()) < 4 / math.sqrt(len(z))
    assert abs(z.std() - 1) < 4 / math.sqrt(2 * len(z)) + 0.05  # 30 rows of 4 masks: tails a little heavy


def test_a_variance_of_one_mask_is_that_of_many_single_masks(build_ppca: BuildModel) -> None:
    model = build_ppca(D)
    tokens = Tokens.from_array(np.random.default_rng(2).normal(size=(1, D)) * 2)
    entry = me.bias(model, 0.4, tokens, masks_per_row=4000)[0]
    scores = []
    for chosen in itertools.combinations(range(D), 2):
        masked = torch.zeros(1, D, dtype=torch.bool)
        masked[0, list(chosen)] = True
        scores.append(D * oracles.scores(model, tokens, masked)[0])
    assert entry.mask_variance == pytest.approx(np.var(scores), rel=0.1)
    assert entry.rmse == pytest.approx(math.hypot(entry.bias, math.sqrt(entry.mask_variance)))
    assert entry.variance_seconds == pytest.approx(entry.mask_variance * entry.seconds_per_mask)


def test_independent_features_have_no_bias() -> None:
    model = me.models.Gaussian(torch.zeros(D), torch.eye(D))
    for entry in me.bias(model, (0.2, 0.4, 0.8), n_rows=50, masks_per_row=200):
        assert abs(entry.bias) <= 4 * entry.mask_se


def test_the_joint_block_has_minus_the_evidence_of_the_visible_tokens(
    build: BuildModel, mixed_tokens: Callable[..., Tokens]
) -> None:
    model, tokens = build(8), mixed_tokens()
    for rate in (0.1, 0.5, 1.0):
        block, visible = block_identity(model, tokens, rate, seed=3)
        np.testing.assert_allclose(block, -visible, atol=1e-9)
    assert (visible == 0).all()  # with all tokens masked nothing is visible but the context
    entry = me.bias(model, 0.3, tokens)[0]
    assert entry.identity_error < 1e-9
    assert entry.block_bias == pytest.approx(-entry.visible_evidence)


def test_what_has_no_known_bias_is_one_clear_line() -> None:
    class Learned(torch.nn.Module):
        conditionals = "learned"

    model = me.models.PPCA(D, 2)
    for call, message in (
        (lambda: me.bias(Learned(), 0.2), "exact conditionals"),
        (lambda: me.bias(model, 0.0), "mask rate 0"),
        (lambda: me.bias(model, 1.5), "mask rate 1.5"),
        (lambda: me.bias(model, 0.2, masks_per_row=0), "masks_per_row=0"),
        (lambda: me.bias(model, 0.2, np.ones((3, 9))), "9 columns"),
    ):
        with pytest.raises(me.InputError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_error_of_the_observations_leaves_out_that_of_their_masks() -> None:
    """data_se² = s²/n - mask_se² of the differences D·S(x; M) - log p(x), each with masks of its own."""
    model = me.models.PPCA(n_features=8, n_components=2, seed=1)
    x = model.sample(40, seed=2)
    (one,) = me.bias(model, 0.25, x, masks_per_row=4, seed=5)
    estimate = me.estimate_evidence(model, x, me.FixedRate(0.25, 4), seed=5)
    difference = estimate.per_observation - model.score_samples(x)
    assert one.mask_se == pytest.approx(estimate.mask_se)
    assert one.data_se == pytest.approx(np.sqrt(difference.var(ddof=1) / 40 - estimate.mask_se**2))
    assert one.data_se < 0.98 * difference.std(ddof=1) / np.sqrt(40)  # the masks' share is there to be seen
