"""Variational autoencoders with any encoder and decoder networks."""

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.model import DENSITY, MASS, Conditionals, as_tokens, to_device_of
from maskevidence.core.support.checks import whole_number
from maskevidence.core.tokens import Tokens
from maskevidence.core.training.fit import fit
from maskevidence.core.training.objectives import Elbo
from maskevidence.tables.base import TableModel
from maskevidence.tables.gaussian.family import divergence_from_prior
from maskevidence.tables.latent.annealing import Annealing, annealed_log_weights
from maskevidence.tables.latent.conditioning import (
    Conditioning,
    ImportanceSampling,
    WeightedDraws,
    blank_filled,
)
from maskevidence.tables.latent.evidence_bound import (
    EvidenceBound,
    effective_sample_size,
    importance_log_weights,
    warn_if_collapsed,
)
from maskevidence.tables.latent.latent_model import LatentModel, StandardRows
from maskevidence.tables.latent.likelihoods import DENSITIES
from maskevidence.tables.latent.networks import (
    SecondOutput,
    check_logits,
    check_pair,
    one_network_alone,
    perceptrons,
    width_of,
)
from maskevidence.tables.noise import GeneratorNoise, Noise, chosen

# Models already warned about conditionals that rest on one draw: one warning per model, not per call.
_WARNED: WeakSet[nn.Module] = WeakSet()
_IN_TRAINING = ImportanceSampling(8, steps=0, prior_draws=1)  # replaces the default in training


class VAE(LatentModel, TableModel):
    """z ~ N(0, I_K), x_j ~ p(x_j | decoder_j(z)) independent given z, with an encoder q(z | x).

    q(z | x) is a Gaussian with the encoder's mean and log scale, or log variance. Conditionals are computed
    by importance sampling given the visible tokens. The draws of a conditional depend on (seed, observation
    id, visible tokens), so that scores do not depend on the batch. In training mode with gradients, the draws
    come from torch's random state instead, as in dropout; `fit` sets that state at every step.

    A saved model with your own networks needs them again, built in the same shapes:
    `me.models.load(folder, encoder=..., decoder=...)`.

    Args:
        encoder: a module from (B, D) to mean and log scale of z: two tensors (B, K), or one (B, 2 K). Hidden
            and absent tokens are blank in its input. By default a perceptron.
        decoder: a module from (B, K) to (B, D): means in standard units, or logits. By default a perceptron.
        likelihood: "gaussian", with one noise variance that is a parameter, or "bernoulli" for 0 and 1.
        scale: the second output of your encoder: "log_scale", log σ, or "log_variance", log σ².
        n_features: D; by default the inputs of the encoder's first linear layer.
        n_components: K, for the default networks.
        hidden: widths of the default networks' hidden layers, from the encoder's input on.
        conditioning: how conditionals are computed; by default `ImportanceSampling()`, and by 8 draws in
            training mode with gradients.
        seed: of the default networks' weights and of the draws.
        dtype: of the default networks. Shift and scale of a Gaussian likelihood are float64 all the same.

    Raises:
        InputError: networks that do not fit each other or the tokens.

    Source:
        Kingma and Welling (2014), Auto-Encoding Variational Bayes; Rezende, Mohamed, Wierstra (2014),
        Stochastic Backpropagation and Approximate Inference in Deep Generative Models.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=6, n_components=2, seed=3).sample(200)
        >>> model = me.models.VAE(n_features=6, n_components=2, hidden=(8,)).fit(x, epochs=20)
        >>> bound = model.annealed_evidence(x[:10])
        >>> bool(bound.mean > model.importance_evidence(x[:10], samples=1).mean)
        True
    """

    conditionals: Conditionals = "approximate"
    learning_rate = 2e-3

    def __init__(
        self,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        likelihood: Literal["gaussian", "bernoulli"] = "gaussian",
        *,
        scale: SecondOutput = "log_scale",
        n_features: int | None = None,
        n_components: int | None = None,
        hidden: Sequence[int] = (200, 200),
        conditioning: Conditioning | dict[str, Any] | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if likelihood not in DENSITIES:
            raise unknown_name("likelihood", likelihood, DENSITIES)
        if scale not in get_args(SecondOutput):
            raise unknown_name("scale", scale, get_args(SecondOutput))
        with_default_networks = encoder is None and decoder is None
        if encoder is None and decoder is None:
            if n_features is None or n_components is None or min(n_features, n_components, *hidden) < 1:
                raise InputError(
                    f"n_features={n_features}, n_components={n_components}, hidden={tuple(hidden)}; give one "
                    "or more of each for the default networks, or an encoder and a decoder"
                )
            encoder, decoder = perceptrons(n_features, n_components, hidden, seed, dtype)
        elif encoder is None or decoder is None:
            raise one_network_alone(encoder or decoder)
        super().__init__(width_of(encoder) if n_features is None else n_features)
        self.hidden = list(hidden) if with_default_networks else None
        like = next((p for p in decoder.parameters() if p.is_floating_point()), torch.zeros((), dtype=dtype))
        self.n_components = check_pair(encoder, decoder, self.n_features, like)
        if n_components is not None and n_components != self.n_components:
            raise InputError(
                f"n_components={n_components}, but the encoder gives {self.n_components} latent dimensions; "
                "make them equal"
            )
        if likelihood == "bernoulli":
            check_logits(decoder)
        self.encoder, self.decoder = encoder, decoder
        self.likelihood, self.scale = likelihood, scale
        self.tokens_given_latent: Any = DENSITIES[likelihood](self.n_features, like.dtype).to(like.device)
        self.base_measure = DENSITY if likelihood == "gaussian" else MASS
        if conditioning is None or isinstance(conditioning, dict):
            conditioning = ImportanceSampling(**(conditioning or {}))
        self.conditioning: Conditioning = conditioning
        self.seed = whole_number("seed", seed)

    def arguments(self) -> dict[str, Any]:
        networks: dict[str, Any] = {"hidden": self.hidden}
        if self.hidden is None:
            networks = {name: type(getattr(self, name)).__name__ for name in ("encoder", "decoder")}
        return {
            **networks,
            "scale": self.scale,
            "likelihood": self.likelihood,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "conditioning": asdict(self.conditioning),  # type: ignore[call-overload]
            "seed": self.seed,
        }

    # Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        log Σ_s w_s p(x_j | z_s), where `conditioning` draws the z_s given the visible tokens.

        Warns:
            CollapsedWeightsWarning: the weights of half of the observations rest on one draw; once per model.
        """
        return self.log_cells(tokens, masked, None)

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"] | None
    ) -> Float[Tensor, "B D"]:
        """The log mass of the cell of width `step` around each masked value, over the step; see `CellMass`.

        Without a step, log p of the value.
        """
        visible = tokens.visible(masked)
        rows = self._rows(tokens, visible, masked | visible)
        if self.training and torch.is_grad_enabled():
            noise = GeneratorNoise(len(rows.values), rows.values)
            rule = _IN_TRAINING if self.conditioning == ImportanceSampling() else self.conditioning
            cells = None if step is None else (tokens.values.double(), step)
            answer, _ = self._predict(rows.values, visible, rule, noise, cells)
            return torch.where(masked, answer, 0.0)
        answers, sizes, exact = [], [], tokens.values.double()
        for values, seen, keyed in rows.batches(self.conditioning.draws, self.seed):
            start, exact = exact[: len(values)], exact[len(values) :]
            cells = None if step is None else (start, step)
            answer, size = self._predict(values, seen, self.conditioning, keyed, cells)
            answers.append(answer)
            sizes.append(size)
        if not answers:
            return torch.zeros_like(rows.values)
        if self not in _WARNED and warn_if_collapsed(
            torch.cat(sizes).detach().cpu().double().numpy(),
            self.conditioning.draws,
            share=0.5,
            so="these conditionals rest on one draw each",
            remedy="give ImportanceSampling more draws",
        ):
            _WARNED.add(self)
        return torch.where(masked, torch.cat(answers), 0.0)

    def _predict(
        self,
        values: Tensor,
        visible: Tensor,
        rule: Conditioning,
        noise: Noise,
        cells: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        """log p(x_j | x_visible) of every token, shape (B, D), and effective sample sizes, shape (B,).

        `cells` are the middles of cells in the data's units and their widths, for the masses of cells.
        """
        decoded, log_likelihood, log_weights = self._posterior_draws(values, visible, rule, noise)
        if cells is not None:
            middle, step = cells
            log_likelihood = self.tokens_given_latent.log_cell(middle[:, None], decoded, step)
        answer = torch.logsumexp(log_weights[:, :, None] + log_likelihood, 1)
        return answer - self.tokens_given_latent.log_unit, effective_sample_size(log_weights.detach())

    def _posterior_draws(
        self, values: Tensor, visible: Tensor, rule: Conditioning, noise: Noise
    ) -> WeightedDraws:
        """Draw z given the visible tokens; the weights sum to 1 over a row's draws."""
        draws = rule.weighted_draws(self, values, visible, noise)
        return draws._replace(log_weights=torch.log_softmax(draws.log_weights, 1))

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        means, variances = [], []
        rows = self._rows(tokens, tokens.maskable, tokens.maskable)
        for values, seen, noise in rows.batches(self.conditioning.draws, self.seed):
            decoded, _, log_weights = self._posterior_draws(values, seen, self.conditioning, noise)
            weights = log_weights.exp()[:, :, None]
            each_mean, each_variance = self.tokens_given_latent.moments(decoded)
            mean = (weights * each_mean).sum(1)
            within = (weights * each_variance).sum(1)
            between = (weights * (each_mean - mean[:, None]).square()).sum(1)
            means.append(mean)
            variances.append(within + between)
        density = self.tokens_given_latent
        return density.in_data_units(torch.cat(means)), torch.cat(variances).double() * density.scale**2

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        density, drawn = self.tokens_given_latent, []
        rows = self._rows(tokens, tokens.maskable, tokens.maskable)
        for values, seen, noise in rows.batches(self.conditioning.draws, seed):
            decoded, _, log_weights = self._posterior_draws(values, seen, self.conditioning, noise)
            chosen_draw = chosen(log_weights.exp(), noise.uniform(1)[:, 0])
            of_one = decoded.gather(1, chosen_draw[:, None, None].expand(-1, 1, decoded.shape[2]))
            drawn.append(density.draw(of_one, noise)[:, 0])
        return density.in_data_units(torch.cat(drawn))

    # Bounds of the evidence

    def elbo(
        self, tokens: Tokens, *, generator: torch.Generator | None = None, samples: int = 1
    ) -> Float[Tensor, " B"]:
        """E_q[log p(x | z)] - KL(q(z | x) ‖ p(z)), a lower bound of the log evidence, nats, shape (B,).

        The expectation is over reparameterised draws, the divergence in closed form. Absent tokens are blank
        in the encoder's input and are not scored.

        Args:
            tokens: B observations without context.
            generator: of the draws.
            samples: number of draws per observation.

        Raises:
            InputError: tokens with context, or values outside the range of the likelihood.

        Source:
            Kingma and Welling (2014), Auto-Encoding Variational Bayes, Eq. 10 and appendix B.
        """
        values, present, _ = self._complete_rows(tokens)
        mean, log_scale = (part[:, 0] for part in self.encode(blank_filled(self, values, present)))
        divergence = divergence_from_prior(mean, log_scale)
        noise = GeneratorNoise(len(mean), mean, generator).normal(samples, self.n_components)
        decoded = self.decode(mean[:, None] + torch.exp(log_scale)[:, None] * noise)
        each = self.log_likelihood(values[:, None], decoded) - self.tokens_given_latent.log_unit
        return torch.where(present[:, None], each, 0.0).sum(2).mean(1) - divergence

    def importance_bound(
        self, tokens: Tokens, *, generator: torch.Generator | None = None, samples: int = 5
    ) -> Float[Tensor, " B"]:
        """log (1/S) Σ_s p(x, z_s) / q(z_s | x), z_s ~ q(z | x): on average below log p(x), above the ELBO.

        Args:
            tokens: B observations without context.
            generator: of the draws.
            samples: S, number of draws per observation.

        Returns:
            Shape (B,), nats.

        Source:
            Burda, Grosse, Salakhutdinov (2016), Importance Weighted Autoencoders, Eq. 8.
        """
        values, present, _ = self._complete_rows(tokens)
        rule = ImportanceSampling(samples, steps=0, prior_draws=0)
        draws = rule.weighted_draws(self, values, present, GeneratorNoise(len(values), values, generator))
        mean = torch.logsumexp(draws.log_weights, 1) - math.log(samples)
        return mean - present.sum(1) * self.tokens_given_latent.log_unit

    def importance_evidence(
        self, x: object, *, samples: int = 1024, seed: int | None = None
    ) -> EvidenceBound:
        """The importance-weighted bound of the log evidence, with its standard errors.

        Args:
            x: `Tokens` without context, or an (N, D) table with NaN where a value is missing.
            samples: number of draws of q(z | x) for each observation.
            seed: of the draws; by default the model's.

        Warns:
            CollapsedWeightsWarning: the weights of many observations rest on one draw.
        """
        if samples < 1:
            raise InputError(f"samples={samples}; give one or more")
        rows = self._complete_rows(to_device_of(self, as_tokens(self, x)))
        log_weights = importance_log_weights(self, rows, samples, self.seed if seed is None else seed)
        return self._bound(f"importance sampling, {samples:,} draws of q(z | x)", log_weights, rows)

    def annealed_evidence(
        self, x: object, *, annealing: Annealing | None = None, seed: int | None = None
    ) -> EvidenceBound:
        """The log evidence by annealed importance sampling in float64, with its standard errors.

        Args:
            x: `Tokens` without context, or an (N, D) table with NaN where a value is missing.
            annealing: chains, temperatures and moves; by default `Annealing()`, which starts from the prior.
            seed: of the draws; by default the model's.

        Warns:
            CollapsedWeightsWarning: the weights of many observations rest on one chain.
        """
        rule = annealing or Annealing()
        exact = copy.deepcopy(self).double().eval().requires_grad_(False)
        rows = exact._complete_rows(to_device_of(self, as_tokens(self, x)))
        log_weights = annealed_log_weights(exact, rows, rule, self.seed if seed is None else seed)
        method = (
            f"annealed importance sampling from the {rule.start}, {rule.chains:,} chains, "
            f"{rule.temperatures:,} temperatures"
        )
        return exact._bound(method, log_weights, rows)

    def _bound(self, method: str, log_weights: Tensor, rows: StandardRows) -> EvidenceBound:
        in_units = log_weights - (rows.visible.sum(1) * self.tokens_given_latent.log_unit)[:, None]
        bound = EvidenceBound.from_log_weights(method, in_units)
        bound.warn_if_collapsed()
        return bound

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """The importance-weighted bound of each row's log p from 1,024 draws, nats, shape (N,)."""
        return self.importance_evidence(x).log_evidence

    # Training and use

    def fit(
        self,
        x: object,
        *,
        epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = learning_rate,
        seed: int = 0,
    ) -> "VAE":
        """Train by the evidence lower bound with Adam, in place; for other objectives use `me.fit`.

        Args:
            x: shape (N, D), NaN where a value is missing; a Gaussian's units are taken from it, too.
            epochs: passes over the rows.
            batch_size: number of rows in one step.
            learning_rate: of Adam.
            seed: of the draws and the order of the rows.

        Raises:
            NumericalError: a loss that is not finite.
        """
        tokens = self.tokens(x)
        self._remember(x, tokens)
        self.set_units(x)
        fit(
            self,
            tokens,
            Elbo(seed=seed),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            evidence_every=0,
        )
        return self

    def set_units(self, x: object) -> None:
        """Set a Gaussian likelihood's shift and scale from rows, in place, before training."""
        if self.likelihood == "gaussian":
            self.tokens_given_latent.set_units(self._table(self._own_columns(x)))

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        like = self._like()
        latent_noise = GeneratorNoise(
            n, like.new_zeros((), device="cpu"), torch.Generator().manual_seed(whole_number("seed", seed))
        )
        z = latent_noise.normal(1, self.n_components).to(like.device)
        generator = torch.Generator(device=like.device).manual_seed(whole_number("seed", seed) + 1)
        drawn = self.draw(self.decode(z), GeneratorNoise(n, like, generator))[:, 0]
        return self.tokens_given_latent.in_data_units(drawn)

    # Rows in standard units

    def _complete_rows(self, tokens: Tokens) -> StandardRows:
        """Rows with all present tokens visible, for the evidence."""
        self._refuse_context(tokens)
        return self._rows(tokens, tokens.maskable, tokens.maskable)

    def strange_cell(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> tuple[int, int, str] | None:
        wrong = read & self.tokens_given_latent.wrong(tokens.values.double())
        if not bool(wrong.any()):
            return None
        row, column = torch.nonzero(wrong)[0].tolist()
        return row, column, self.tokens_given_latent.domain

    def _rows(self, tokens: Tokens, visible: Bool[Tensor, "B D"], known: Bool[Tensor, "B D"]) -> StandardRows:
        """Rows in standard units where `known`, blank elsewhere."""
        self.refuse_strange_cells(tokens, known)
        values = tokens.values.double()
        standard = self.tokens_given_latent.standard(values).to(self._like().dtype)
        standard = torch.where(known, standard, self.blank)
        return StandardRows(standard, visible, tokens.ids)
