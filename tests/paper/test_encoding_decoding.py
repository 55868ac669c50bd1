"""The paper's conditionals of a VAE against the chain in closed form."""

import math

import numpy as np
import pytest
import torch

import maskevidence as me
from latent_models import D, linear_vae, loadings, rows_and_masks
from paper.encoding_decoding import EncodingDecoding


def chain_oracle(
    w: torch.Tensor, noise: float, x: torch.Tensor, visible: torch.Tensor, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance of z after `steps` steps of encoding and decoding with the exact encoder."""
    curvature = w.T @ w / noise + torch.eye(w.shape[1], dtype=w.dtype)
    posterior = torch.linalg.inv(curvature)
    encode = posterior @ w.T / noise
    hidden = ~visible
    from_seen = encode[:, visible] @ x[visible]
    mean, covariance = from_seen, posterior
    for _ in range(steps - 1):
        again = encode[:, hidden] @ w[hidden]
        of_noise = noise * encode[:, hidden] @ encode[:, hidden].T
        mean, covariance = from_seen + again @ mean, posterior + again @ covariance @ again.T + of_noise
    return mean, covariance


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_encoding_decoding_is_the_documented_chain(steps: int) -> None:
    """Probabilities averaged over chains are unbiased for those of the chain after `steps` steps."""
    w = loadings()
    vae, ppca = linear_vae(w, conditioning=EncodingDecoding(chains=40, steps=steps))
    row = ppca.sample(1, seed=3)
    visible = torch.tensor([True, False, True, False, False, True])
    n = 2000
    tokens = me.Tokens.from_array(np.repeat(row, n, axis=0))
    with torch.no_grad():
        found = vae.log_conditionals(tokens, ~visible.expand(n, D)).exp()[:, ~visible]
    density = vae.tokens_given_latent
    x = density.standard(torch.from_numpy(row))[0]
    mean, covariance = chain_oracle(w, 0.5, x, visible, steps)
    variance = ((w @ covariance) * w).sum(1) + 0.5
    exact = torch.distributions.Normal(w @ mean, variance.sqrt()).log_prob(x) - torch.log(density.scale)
    z = (found.mean(0) - exact[~visible].exp()) / (found.std(0) / math.sqrt(n))
    assert z.abs().max() < 4


def test_encoding_decoding_comes_closer_with_more_steps() -> None:
    vae, ppca = linear_vae(loadings())
    tokens, masked = rows_and_masks(ppca, n=60)
    errors = []
    for steps in (1, 3, 30):
        vae.conditioning = EncodingDecoding(chains=500, steps=steps)
        with torch.no_grad():
            error = (vae.log_conditionals(tokens, masked) - ppca.log_conditionals(tokens, masked))[masked]
        errors.append(float(error.square().mean().sqrt()))
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]
    assert errors[2] < 0.05


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_training_by_chains_reaches_every_network(likelihood: str) -> None:
    """Every parameter has a finite gradient that is not 0, and a few epochs raise the objective."""
    x = np.random.default_rng(0).integers(2, size=(40, D)).astype(float)
    options = {"n_features": D, "n_components": 2, "hidden": (4,), "dtype": torch.float64}
    vae = me.models.VAE(likelihood=likelihood, conditioning=EncodingDecoding(4, 3), **options).train()
    history = me.fit(vae, x, me.FixedRate(0.33, 1), epochs=10, learning_rate=0.02)
    assert history.objective[-1] > history.objective[0]
    for name, parameter in vae.named_parameters():
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert bool((parameter.grad != 0).any()), name


def test_a_chain_without_steps_is_refused() -> None:
    with pytest.raises(me.InputError, match="chains=1, steps=0"):
        EncodingDecoding(chains=1, steps=0)
