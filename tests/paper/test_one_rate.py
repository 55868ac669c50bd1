"""The bias of one mask rate against enumeration, and the identity of the joint block."""

import itertools
import math

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from builders import BuildModel
from paper.one_rate import bias_of_rate, block_and_visible

D = 5


def exact_bias(model: oracles.GaussianModel, tokens: me.Tokens, size: int) -> float:
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


def test_the_bias_is_that_of_all_masks(build: BuildModel) -> None:
    model = build(D)
    tokens = me.Tokens.from_array(np.random.default_rng(2).normal(size=(40, D)) * 1.3)
    for rate, size in ((0.2, 1), (0.6, 3)):
        found = bias_of_rate(model, rate, tokens, 300, seed=5)
        assert abs(found.bias - exact_bias(model, tokens, size)) <= 4 * found.mask_se
        assert found.identity_error < 1e-9
        assert found.block_bias == pytest.approx(-found.visible_evidence)


def test_the_joint_block_has_minus_the_evidence_of_the_visible_tokens(build: BuildModel) -> None:
    model = build(D)
    tokens = me.Tokens.from_array(np.random.default_rng(2).normal(size=(1, D)))
    hidden = torch.tensor([True, False, True, True, False])
    with torch.no_grad():
        _, visible = block_and_visible(model, tokens, hidden)
    mean, covariance = oracles.parameters_of(model)
    of_visible = torch.distributions.MultivariateNormal(
        torch.as_tensor(mean)[~hidden], torch.as_tensor(covariance)[~hidden][:, ~hidden]
    )
    assert visible == pytest.approx(float(of_visible.log_prob(tokens.values[0, ~hidden])))


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_sum_over_orders_is_that_over_sets_of_the_other_size(n: int) -> None:
    """Eq. 4 by enumeration, with numbers that no density binds: sets of D-t, times (t-1)!(D-t)!."""
    rng = np.random.default_rng(n)
    sets = [frozenset(r) for size in range(n) for r in itertools.combinations(range(n), size)]
    log_p = {(j, r): rng.normal() for r in sets for j in range(n)}
    for t in range(1, n + 1):
        orders = itertools.permutations(range(n))
        left = sum(log_p[order[t - 1], frozenset(order[t:])] for order in orders)
        right = sum(log_p[j, r] for r in sets if len(r) == n - t for j in range(n) if j not in r)
        assert left == pytest.approx(math.factorial(t - 1) * math.factorial(n - t) * right)
