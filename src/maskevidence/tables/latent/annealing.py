"""Annealed importance sampling of a latent-variable model's evidence, with Hamiltonian moves."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.support.progress import Advance, progress
from maskevidence.tables.gaussian.family import LOG_2PI
from maskevidence.tables.latent.conditioning import blank_filled
from maskevidence.tables.latent.latent_model import LatentModel, StandardRows
from maskevidence.tables.noise import Noise

_PILOT_CHAINS = 4
_PILOT_SEED = 2**32  # added to the seed for the pilot run
_ACCEPTED = 0.7  # target acceptance rate of the step sizes
_GAIN = 0.2
_FIRST_STEP = 0.3
_STEEPNESS = 4.0


@dataclass(frozen=True)
class Annealing:
    """Settings of annealed importance sampling from a start density to the posterior.

    The chains follow the densities ∝ start(z)^(1-β) (p(x | z) p(z))^β, β from 0 to 1, with one Hamiltonian
    move at each. The mean of their weights is unbiased for p(x), so that its log is a stochastic lower bound.
    A pilot run with its own draws finds a step size for each observation and β, which is then held fixed.

    Args:
        chains: number of independent chains for each observation.
        temperatures: number of values of β after 0.
        leapfrog: number of gradient steps in a move.
        start: "prior", which uses nothing of the encoder, or "encoder", q(z | x).

    Raises:
        InputError: a number below 1, or an unknown start.

    Source:
        Neal (2001), Annealed Importance Sampling; Wu et al. (2017), On the Quantitative Analysis of
        Decoder-Based Generative Models.
    """

    chains: int = 16
    temperatures: int = 200
    leapfrog: int = 5
    start: Literal["prior", "encoder"] = "prior"

    def __post_init__(self) -> None:
        if min(self.chains, self.temperatures, self.leapfrog) < 1:
            raise InputError(
                f"chains={self.chains}, temperatures={self.temperatures}, leapfrog={self.leapfrog}; give one "
                "or more of each"
            )
        if self.start not in ("prior", "encoder"):
            raise InputError(f"start={self.start!r}; give 'prior' or 'encoder'")

    def betas(self) -> list[float]:
        """0 = β_0 < ... < β_T = 1, denser at both ends.

        Example:
            >>> Annealing(temperatures=2).betas()
            [0.0, 0.5, 1.0]
        """
        ends = [
            math.tanh(_STEEPNESS / 2 * (2 * t / self.temperatures - 1)) for t in range(self.temperatures + 1)
        ]
        return [(end - ends[0]) / (ends[-1] - ends[0]) for end in ends]


class _Point(NamedTuple):
    """The chains' positions, with log p(x | z) and its gradient."""

    z: Tensor
    log_likelihood: Tensor
    gradient: Tensor


class _Path:
    """The annealed densities from start to posterior for a batch of rows."""

    def __init__(
        self,
        model: LatentModel,
        x: Float[Tensor, "B D"],
        present: Bool[Tensor, "B D"],
        start: Literal["prior", "encoder"],
    ) -> None:
        self.model, self.x, self.present = model, x, present
        if start == "encoder":
            with torch.no_grad():
                mean, log_scale = model.encode(blank_filled(model, x, present))
            self.mean, self.scale = mean, torch.exp(log_scale)
        else:
            self.mean = x.new_zeros(len(x), 1, model.n_components)
            self.scale = torch.ones_like(self.mean)

    def point(self, z: Tensor) -> _Point:
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            each = self.model.log_likelihood(self.x[:, None], self.model.decode(z))
            value = torch.where(self.present[:, None], each, 0.0).sum(2)
            (gradient,) = torch.autograd.grad(value.sum(), z)
        return _Point(z.detach(), value.detach(), gradient)

    def log_start(self, z: Tensor) -> Tensor:
        white = (z - self.mean) / self.scale
        return -0.5 * (white.square() + LOG_2PI).sum(2) - torch.log(self.scale).sum(2)

    def log_ratio(self, at: _Point) -> Tensor:
        """log p(x, z) - log start(z)."""
        log_prior = -0.5 * (at.z.square() + LOG_2PI).sum(2)
        return at.log_likelihood + log_prior - self.log_start(at.z)

    def log_density(self, at: _Point, beta: float) -> Tensor:
        return self.log_start(at.z) + beta * self.log_ratio(at)

    def slope(self, at: _Point, beta: float) -> Tensor:
        from_start = (self.mean - at.z) / self.scale.square()
        return (1 - beta) * from_start + beta * (at.gradient - at.z)

    def move(
        self, at: _Point, beta: float, log_step: Tensor, leapfrog: int, noise: Noise
    ) -> tuple[_Point, Tensor]:
        """One Hamiltonian move that leaves the density at β invariant; returns the new point and
        P(accept).
        """
        step = torch.exp(log_step)[:, None, None] * self.scale  # in units of the start's scale
        momentum = noise.normal(*at.z.shape[1:])
        before = self.log_density(at, beta) - 0.5 * momentum.square().sum(2)
        momentum = momentum + 0.5 * step * self.slope(at, beta)
        new = at
        for i in range(leapfrog):
            new = self.point(new.z + step * momentum)
            momentum = momentum + (0.5 if i + 1 == leapfrog else 1.0) * step * self.slope(new, beta)
        after = self.log_density(new, beta) - 0.5 * momentum.square().sum(2)
        probability = torch.nan_to_num(torch.exp((after - before).clamp(max=0)), nan=0.0)
        accepted = noise.uniform(at.z.shape[1]) <= probability
        wide = accepted[:, :, None]
        kept = _Point(
            torch.where(wide, new.z, at.z),
            torch.where(accepted, new.log_likelihood, at.log_likelihood),
            torch.where(wide, new.gradient, at.gradient),
        )
        return kept, probability

    def start(self, n_chains: int, noise: Noise) -> _Point:
        """Draw points from the start density."""
        return self.point(self.mean + self.scale * noise.normal(n_chains, self.model.n_components))


def annealed_log_weights(
    model: LatentModel, rows: StandardRows, rule: Annealing, seed: int
) -> Float[Tensor, "N chains"]:
    """Log weights whose exponentials have mean p(x_visible)."""
    pieces = list(rows.batches(rule.chains, seed))
    pilots = rows.batches(rule.chains, seed + _PILOT_SEED)
    parts = []
    with progress("annealed importance sampling", 2 * len(pieces) * (rule.temperatures - 1)) as advance:
        for (values, visible, noise), (_, _, pilot) in zip(pieces, pilots, strict=True):
            path = _Path(model, values, visible, rule.start)
            log_steps = _log_step_sizes(path, rule, pilot, advance)
            parts.append(_log_weights(path, rule, log_steps, noise, advance))
    return torch.cat(parts)


def _log_step_sizes(path: _Path, rule: Annealing, noise: Noise, advance: Advance) -> list[Tensor]:
    """Find the log step size of each row and inner temperature by a pilot run."""
    log_step = torch.full((len(path.x),), math.log(_FIRST_STEP), dtype=path.x.dtype, device=path.x.device)
    log_steps: list[Tensor] = []
    at = path.start(_PILOT_CHAINS, noise)
    for beta in rule.betas()[1:-1]:
        log_steps.append(log_step)
        at, probability = path.move(at, beta, log_step, rule.leapfrog, noise)
        log_step = log_step + _GAIN * (probability.mean(1) - _ACCEPTED)
        advance(1)
    return log_steps


def _log_weights(
    path: _Path, rule: Annealing, log_steps: list[Tensor], noise: Noise, advance: Advance
) -> Float[Tensor, "B chains"]:
    betas = rule.betas()
    at = path.start(rule.chains, noise)
    log_weights = (betas[1] - betas[0]) * path.log_ratio(at)
    for t in range(1, len(betas) - 1):
        at, _ = path.move(at, betas[t], log_steps[t - 1], rule.leapfrog, noise)
        log_weights = log_weights + (betas[t + 1] - betas[t]) * path.log_ratio(at)
        advance(1)
    return log_weights
