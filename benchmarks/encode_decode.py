"""Bias of a VAE's conditionals for a model with known exact ones, and for a deep VAE.

    python benchmarks/encode_decode.py

A VAE with a linear-Gaussian decoder is PPCA. The first table has the area under its curve of scores, by
recursive encoding-decoding and by importance sampling, minus the area from PPCA's exact conditionals for the
same masks (random sizes, 8 per row), in nats per row ± standard error over rows. One encoder is the posterior
of complete rows; the other one has 0.8 times its means and 1.3 times its scales. The second table compares
the area of a deep VAE (K=8), trained by the ELBO on digits, with its evidence by annealed importance
sampling.
"""

import sys
import time
import warnings
from functools import partial
from pathlib import Path

from _timing import arguments, finish, machine, show, timed

# isort: split
import numpy as np
import torch
from torch import Tensor, nn

import maskevidence as me
from maskevidence.data import digits
from maskevidence.models import VAE, ImportanceSampling

sys.path.append(str(Path(__file__).parents[1]))
from paper.encoding_decoding import EncodingDecoding

D, K, NOISE = 20, 3, 0.5


class Encoder(nn.Module):
    """q(z | x) = N(A x, diag scale²)."""

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.weight, self.log_scale = nn.Parameter(weight), nn.Parameter(torch.log(scale))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean = x @ self.weight.T
        return mean, self.log_scale.expand_as(mean)


def linear_vae(skill: float, wider: float) -> tuple[VAE, me.models.PPCA]:
    """A VAE and the PPCA model it equals; orthogonal loadings make the exact encoder diagonal."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(D, K, generator=generator, dtype=torch.float64)).Q
    w = basis * torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64)
    curvature = (w.square().sum(0) + NOISE) / NOISE
    encoder = Encoder(skill * (w / NOISE / curvature).T.contiguous(), wider / curvature.sqrt())
    decoder = nn.Linear(K, D, bias=False, dtype=torch.float64)
    with torch.no_grad():
        decoder.weight.copy_(w)
    vae = VAE(encoder, decoder, n_features=D)
    vae.tokens_given_latent.set_noise_variance(NOISE)
    return vae, me.models.PPCA.from_parameters(w, NOISE)


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    n_rows, chains = (5, 8) if options.quick else (200, 64)
    steps = (1, 2) if options.quick else (1, 2, 3, 5, 10, 20, 50)
    rules = {f"encoding-decoding, {n} steps": EncodingDecoding(chains, n) for n in steps}
    rules |= {
        f"importance sampling, {draws} draws, {n} steps": ImportanceSampling(draws, n, draws // 8)
        for draws, n in ((64, 0), (64, 2), *(() if options.quick else ((64, 5), (512, 2), (512, 5))))
    }
    numbers: dict[str, dict[str, float]] = {name: {} for name in rules}
    cells: dict[str, list[str]] = {name: [] for name in rules}
    warnings.simplefilter("ignore", me.errors.CollapsedWeightsWarning)
    design = me.RandomSize(8)
    for label, skill, wider in (("exact", 1.0, 1.0), ("poor", 0.8, 1.3)):
        vae, ppca = linear_vae(skill, wider)
        x = ppca.sample(n_rows, seed=1)
        exact = me.estimate_evidence(ppca, x, design).per_observation
        for name, rule in rules.items():
            vae.conditioning = rule
            estimate, seconds = timed(partial(me.estimate_evidence, vae, x, design), time.perf_counter)
            bias = estimate.per_observation - exact
            se = bias.std(ddof=1) / np.sqrt(n_rows)
            cells[name] += [f"{bias.mean():+.3f} ± {se:.3f}", *([f"{seconds:.2f}"] * (label == "exact"))]
            numbers[name] |= {f"{label}, bias": float(bias.mean()), f"{label}, se": float(se)}
    title = f"Area − exact area, nats per row, D={D}, K={K}, {n_rows} rows, {chains} chains; {machine()}"
    show(title, ("conditionals", "exact encoder", "s", "poor encoder"), [(n, *c) for n, c in cells.items()])
    show_trained(numbers, quick=options.quick)
    return finish(numbers, [], options.json)


def show_trained(numbers: dict[str, dict[str, float]], quick: bool) -> None:
    """Compare the area of a trained VAE, for several conditionals, with its annealed evidence."""
    train, test = digits().split(test_fraction=0.2, seed=0)
    x = test.values[: 10 if quick else 40]
    vae = VAE(n_features=64, n_components=8).fit(train.values, epochs=1 if quick else 60)
    annealed = vae.annealed_evidence(x)
    lines = [(annealed.method, f"{annealed.mean:.2f} ± {annealed.draw_se:.2f}", "")]
    numbers["trained VAE"] = {"annealed": annealed.mean}
    rules = (
        *(EncodingDecoding(64, n) for n in (1, 5, 20)),
        ImportanceSampling(64, 0),
        ImportanceSampling(),
        ImportanceSampling(256, 5, 8, 56),
    )
    for rule in rules[::3] if quick else rules:
        vae.conditioning = rule
        score = partial(me.estimate_evidence, vae, x, me.RandomSize(16, 4))
        estimate, seconds = timed(score, time.perf_counter)
        lines.append((str(rule), f"{estimate.log_evidence:.2f} ± {estimate.mask_se:.2f}", f"{seconds:.1f}"))
        numbers["trained VAE"][str(rule)] = estimate.log_evidence
    title = f"Area of a VAE trained by the ELBO, {len(x)} held-out digits, nats per image ± Monte-Carlo error"
    show(title, ("method", "area or evidence", "s"), lines)


if __name__ == "__main__":
    sys.exit(main())
