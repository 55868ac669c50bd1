"""Annealed importance sampling against the closed form, and its moves and settings."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import maskevidence as me
from latent_models import D, K, linear_vae, loadings, rows_and_masks
from maskevidence.models import VAE, Annealing
from maskevidence.tables.latent.annealing import _Path, _Point
from maskevidence.tables.noise import GeneratorNoise


@pytest.mark.parametrize("start", ["prior", "encoder"])
def test_the_bound_is_the_closed_form_within_its_standard_errors(start: str) -> None:
    vae, ppca = linear_vae(loadings(), skill=0.8, wider=1.3)
    tokens, _ = rows_and_masks(ppca, n=100)
    bound = vae.annealed_evidence(tokens, annealing=Annealing(16, 40, 4, start))
    exact = ppca.log_evidence(tokens).detach().numpy()
    assert abs(bound.mean - exact.mean()) < 3 * bound.draw_se
    z = (bound.log_evidence - exact) / bound.standard_error
    assert 0.75 < z.std() < 1.3


@pytest.mark.parametrize("start", ["prior", "encoder"])
def test_the_weights_are_unbiased_even_with_few_temperatures(start: str) -> None:
    """E[w / p(x)] = 1 for any number of temperatures and any step size."""
    vae, ppca = linear_vae(loadings(), noise=2.0, skill=0.5, wider=1.5)
    tokens = me.Tokens.from_array(ppca.sample(400, seed=2))
    bound = vae.annealed_evidence(tokens, annealing=Annealing(16, 3, 2, start))
    ratio = np.exp(bound.log_evidence - ppca.log_evidence(tokens).detach().numpy())
    z = (ratio.mean() - 1) / (ratio.std(ddof=1) / math.sqrt(len(ratio)))
    assert abs(z) < 3.5
    assert ratio.std() > 0.05  # noise far above rounding


def test_the_importance_weighted_bound_with_a_bad_encoder_is_lower() -> None:
    vae, ppca = linear_vae(loadings(), skill=0.3, wider=0.7)
    tokens, _ = rows_and_masks(ppca, n=60)
    annealed = vae.annealed_evidence(tokens, annealing=Annealing(16, 60, 4))
    with pytest.warns(me.errors.CollapsedWeightsWarning):
        weighted = vae.importance_evidence(tokens, samples=16)
    assert weighted.mean < annealed.mean - 3 * annealed.draw_se
    assert abs(annealed.mean - ppca.log_evidence(tokens).mean().item()) < 3 * annealed.draw_se


def test_a_move_leaves_its_density_invariant() -> None:
    """Draws of the exact density between prior and posterior remain draws of it."""
    vae, ppca = linear_vae(loadings())
    n, beta = 40_000, 0.3
    x = vae.tokens_given_latent.standard(torch.from_numpy(ppca.sample(1, seed=1)))
    path = _Path(vae, x, torch.ones(1, D, dtype=torch.bool), "prior")
    w, noise = loadings(), 0.5
    covariance = torch.linalg.inv(torch.eye(K, dtype=torch.float64) + beta * w.T @ w / noise)
    mean = beta * covariance @ w.T @ x[0] / noise
    generator = torch.Generator().manual_seed(0)
    source = GeneratorNoise(1, x, generator)
    at = path.point(mean + source.normal(n, K) @ torch.linalg.cholesky(covariance).T)
    shares = []
    for _ in range(5):
        at, probability = path.move(at, beta, torch.tensor([math.log(0.45)]).double(), 3, source)
        shares.append(float(probability.mean()))
    assert 0.5 < np.mean(shares) < 0.98  # without rejections the test would not cover the acceptance rule
    z = at.z[0]
    error = (z.mean(0) - mean) / (covariance.diagonal().sqrt() / math.sqrt(n))
    assert error.abs().max() < 4
    assert (torch.cov(z.T) - covariance).abs().max() < 5 * covariance.max() * math.sqrt(2 / n)


def test_a_point_holds_the_gradient_of_the_likelihood() -> None:
    vae = VAE(n_features=D, n_components=K, hidden=(4,), dtype=torch.float64)
    x = torch.randn(3, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    path = _Path(vae, x, torch.ones(3, D, dtype=torch.bool), "encoder")
    z = torch.randn(3, 2, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    at = path.point(z)
    for beta in (0.0, 0.4, 1.0):
        slope = path.slope(at, beta)
        for k in range(K):
            step = torch.zeros(K, dtype=torch.float64)
            step[k] = 1e-5
            above, below = (path.log_density(path.point(z + sign * step), beta) for sign in (1, -1))
            torch.testing.assert_close((above - below) / 2e-5, slope[:, :, k], rtol=1e-5, atol=1e-7)
    assert isinstance(at, _Point)


def test_the_bound_depends_on_the_seed_and_the_observation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    vae = VAE(n_features=D, n_components=K, hidden=(4,))  # in float32, which annealing leaves
    x = np.random.default_rng(0).normal(size=(7, D))
    tokens = me.Tokens.from_array(x, ids=np.arange(7) + 5)
    rule = Annealing(4, 10, 2)
    bound = vae.annealed_evidence(tokens, annealing=rule)
    alone = vae.annealed_evidence(tokens[4:5], annealing=rule)
    assert alone.log_evidence[0] == pytest.approx(bound.log_evidence[4], rel=1e-9)
    monkeypatch.setattr("maskevidence.tables.latent.latent_model._MAX_ELEMENTS", 2 * 4 * 64)
    again = vae.annealed_evidence(tokens, annealing=rule)
    np.testing.assert_allclose(again.log_evidence, bound.log_evidence, rtol=1e-9)
    assert vae.annealed_evidence(tokens, annealing=rule, seed=1).mean != bound.mean
    assert all(p.grad is None and p.requires_grad and p.dtype == torch.float32 for p in vae.parameters())


def test_temperatures_rise_from_0_to_1() -> None:
    for count in (1, 2, 7, 100):
        betas = Annealing(temperatures=count).betas()
        assert len(betas) == count + 1
        assert betas[0] == 0
        assert betas[-1] == pytest.approx(1, abs=1e-15)
        assert all(a < b for a, b in pairwise(betas))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chains": 0}, "chains=0"),
        ({"temperatures": 0}, "temperatures=0"),
        ({"start": "posterior"}, "did you mean 'prior'"),
    ],
)
def test_bad_settings_get_one_line(unchecked: None, settings: dict[str, object], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        Annealing(**settings)
