"""Variational autoencoders: any decoder of a Gaussian latent space, with an encoder."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.errors import InputError, unknown_name
from maskevidence.model import Conditionals
from maskevidence.models.base import TableModel
from maskevidence.models.vae.annealing import Annealing, annealed_log_weights
from maskevidence.models.vae.encoding_decoding import EncodingDecoding, blank_filled, encode_decode
from maskevidence.models.vae.evidence_bound import EvidenceBound, warn_if_collapsed
from maskevidence.models.vae.importance_sampling import (
    ImportanceSampling,
    effective_sample_size,
    weighted_draws,
)
from maskevidence.models.vae.likelihoods import DENSITIES
from maskevidence.models.vae.networks import check_pair, encoded, perceptrons, width_of
from maskevidence.models.vae.noise import GeneratorNoise, KeyedNoise, Noise, row_keys
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens
from maskevidence.training.fit import fit
from maskevidence.training.objectives import Elbo

Conditioning = ImportanceSampling | EncodingDecoding
_ELEMENTS = 2**22  # most elements of an array over some rows, their draws and all tokens
_AT_ONCE = 64  # draws in one call of the networks


class VAE(TableModel):
    """z ~ N(0, I_K), x_j ~ p(x_j | decoder_j(z)) independent given z, with an encoder q(z | x).

    q(z | x) is a Gaussian with the encoder's mean and log scale. Conditionals are by importance sampling
    given the visible tokens, or by recursive encoding and decoding; both are normalised over x_j. The draws
    of a conditional are functions of (seed, observation id, visible tokens), so that scores do not depend on
    the batch; in training mode and with gradients they come from torch's random state instead, as those of
    dropout do, which `fit` sets at every step.

    Args:
        encoder: a module from (B, D) to mean and log scale of z: two tensors (B, K), or one (B, 2 K). Hidden
            and absent tokens are blank in its input. By default a perceptron.
        decoder: a module from (B, K) to (B, D): means in standard units, or logits. By default a perceptron.
        likelihood: "gaussian", with one noise variance that is a parameter, or "bernoulli" for 0 and 1.
        n_features: D; by default that of the encoder's first linear layer.
        n_components: K, for the default networks.
        hidden: layers of the default networks, from the encoder's input on.
        conditioning: how conditionals are computed; by default `ImportanceSampling()`.
        training_conditioning: likewise in training mode and with gradients; by default what is given as
            `conditioning`, or 8 draws where nothing is.
        seed: of the default networks' weights and of the draws.
        dtype: of the default networks.

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
        n_features: int | None = None,
        n_components: int | None = None,
        hidden: Sequence[int] = (200, 200),
        conditioning: Conditioning | dict[str, Any] | None = None,
        training_conditioning: Conditioning | dict[str, Any] | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if likelihood not in DENSITIES:
            raise unknown_name("likelihood", likelihood, DENSITIES)
        default = encoder is None and decoder is None
        if encoder is None and decoder is None:
            if n_features is None or n_components is None or min(n_features, n_components, *hidden) < 1:
                raise InputError(
                    f"n_features={n_features}, n_components={n_components}, hidden={tuple(hidden)}; give one "
                    "or more of each for the default networks, or an encoder and a decoder"
                )
            encoder, decoder = perceptrons(n_features, n_components, hidden, seed, dtype)
        elif encoder is None or decoder is None:
            raise InputError("one network alone was given; give an encoder and a decoder, or neither")
        super().__init__(width_of(encoder) if n_features is None else n_features)
        self.hidden = list(hidden) if default else None
        like = next((p for p in decoder.parameters() if p.is_floating_point()), torch.zeros((), dtype=dtype))
        self.n_components = check_pair(encoder, decoder, self.n_features, like)
        if n_components is not None and n_components != self.n_components:
            raise InputError(
                f"n_components={n_components}, but the encoder gives {self.n_components} latent dimensions; "
                "make them equal"
            )
        self.encoder, self.decoder = encoder, decoder
        self.likelihood = likelihood
        density = DENSITIES[likelihood]
        self.tokens_given_latent: Any = density(self.n_features, like.dtype).to(like.device)
        self.conditioning: Conditioning = _rule(conditioning) or ImportanceSampling()
        self.training_conditioning: Conditioning = (
            _rule(training_conditioning)
            or _rule(conditioning)
            or ImportanceSampling(8, steps=0, prior_draws=1)
        )
        self.seed = seed
        self._said_collapsed = False

    # What the estimators ask for, in standard units

    @property
    def blank(self) -> float:
        """What stands for a token that is not seen."""
        return float(self.tokens_given_latent.blank)

    def encode(
        self, x: Float[Tensor, "*rows D"]
    ) -> tuple[Float[Tensor, "*rows K"], Float[Tensor, "*rows K"]]:
        """Mean and log scale of q(z | x), of rows in standard units."""
        mean, log_scale = encoded(self.encoder, x.reshape(-1, self.n_features))
        return mean.reshape(*x.shape[:-1], -1), log_scale.reshape(*x.shape[:-1], -1)

    def decode(self, z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows D"]:
        """The decoder's answer: means in standard units, or logits."""
        answer: Tensor = self.decoder(z.reshape(-1, self.n_components))
        return answer.reshape(*z.shape[:-1], self.n_features)

    def log_likelihood(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p(x_j | z), nats, in standard units."""
        return self.tokens_given_latent.log_density(x, decoded)

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """x ~ p(x | z), in standard units."""
        return self.tokens_given_latent.draw(decoded, noise)

    # Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        By the draws of z that `conditioning` makes from the visible tokens: log Σ_s w_s p(x_j | z_s).
        """
        visible = tokens.visible(masked)
        values = self._standard(tokens, masked | visible)
        if self.training and torch.is_grad_enabled():
            own = GeneratorNoise(len(values), values)
            answer, _ = self._predict(values, visible, self.training_conditioning, own)
            return torch.where(masked, answer, 0.0)
        answers, sizes = [], []
        for rows, noise in self._keyed(tokens, visible, self._draws()):
            answer, size = self._predict(values[rows], visible[rows], self.conditioning, noise)
            answers.append(answer)
            sizes.append(size)
        if not answers:
            return torch.zeros_like(values)
        if not self._said_collapsed:  # once for a model: a run has thousands of calls
            self._said_collapsed = warn_if_collapsed(
                torch.cat(sizes).detach().cpu().double().numpy(),
                self._draws(),
                share=0.5,
                so="these conditionals rest on one draw each",
                remedy="give ImportanceSampling more draws, or look at EncodingDecoding",
            )
        return torch.where(masked, torch.cat(answers), 0.0)

    def _predict(
        self, values: Tensor, visible: Tensor, rule: Conditioning, noise: Noise
    ) -> tuple[Tensor, Tensor]:
        """log p(x_j | x_visible) of every token, shape (B, D), and the effective sample sizes, shape (B,)."""
        each, log_share = self._shares(values, visible, rule, noise)[1:]
        answer = torch.logsumexp(log_share[:, :, None] + each, 1) - self.tokens_given_latent.log_unit
        return answer, effective_sample_size(log_share.detach())

    def _shares(
        self, values: Tensor, visible: Tensor, rule: Conditioning, noise: Noise
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decoded draws of z, log p(x_j | z) at each, (B, S, D), and the log of their shares, (B, S)."""
        if isinstance(rule, ImportanceSampling):
            decoded, each, log_weights = weighted_draws(self, values, visible, rule, noise)
            return decoded, each, torch.log_softmax(log_weights, 1)
        decoded = self.decode(encode_decode(self, values, visible, rule, noise))
        shares = decoded.new_full(decoded.shape[:2], -math.log(rule.chains))
        return decoded, self.log_likelihood(values[:, None], decoded), shares

    def _draws(self) -> int:
        rule = self.conditioning
        return rule.draws if isinstance(rule, ImportanceSampling) else rule.chains

    # Bounds of the evidence

    def elbo(
        self, tokens: Tokens, *, generator: torch.Generator | None = None, samples: int = 1
    ) -> Float[Tensor, " B"]:
        """E_q[log p(x | z)] - KL(q(z | x) ‖ p(z)), a lower bound of the log evidence, nats, shape (B,).

        The expectation by reparameterised draws, the divergence in closed form; absent tokens are blank in
        the encoder's input and are not scored.

        Args:
            tokens: without context.
            generator: of the draws.
            samples: draws per observation.

        Raises:
            InputError: tokens with context, or values that the likelihood does not know.

        Source:
            Kingma and Welling (2014), Auto-Encoding Variational Bayes, Eq. 10 and appendix B.
        """
        values, present = self._present(tokens)
        mean, log_scale = (part[:, 0] for part in self.encode(blank_filled(self, values, present)))
        divergence = 0.5 * (mean.square() + torch.exp(2 * log_scale) - 1).sum(1) - log_scale.sum(1)
        noise = GeneratorNoise(len(mean), mean, generator).normal(samples, self.n_components)
        decoded = self.decode(mean[:, None] + torch.exp(log_scale)[:, None] * noise)
        each = self.log_likelihood(values[:, None], decoded) - self.tokens_given_latent.log_unit
        return torch.where(present[:, None], each, 0.0).sum(2).mean(1) - divergence

    def importance_bound(
        self, tokens: Tokens, *, generator: torch.Generator | None = None, samples: int = 5
    ) -> Float[Tensor, " B"]:
        """log (1/S) Σ_s p(x, z_s) / q(z_s | x), z_s ~ q(z | x): on average below log p(x), above the ELBO.

        Args:
            tokens: without context.
            generator: of the draws.
            samples: S, draws per observation.

        Returns:
            Shape (B,), nats.

        Source:
            Burda, Grosse, Salakhutdinov (2016), Importance Weighted Autoencoders, Eq. 8.
        """
        values, present = self._present(tokens)
        rule = ImportanceSampling(samples, steps=0, prior_draws=0)
        drawn = weighted_draws(self, values, present, rule, GeneratorNoise(len(values), values, generator))
        mean = torch.logsumexp(drawn.log_weights, 1) - math.log(samples)
        return mean - present.sum(1) * self.tokens_given_latent.log_unit

    def importance_evidence(
        self, x: object, *, samples: int = 1024, seed: int | None = None
    ) -> EvidenceBound:
        """The log evidence by the importance-weighted bound, with its standard errors.

        Args:
            x: `Tokens` without context, or an (N, D) table with NaN where a value is missing.
            samples: draws of q(z | x) for each observation.
            seed: of the draws; by default the model's.

        Warns:
            CollapsedWeightsWarning: the weights of many observations rest on one draw.
        """
        if samples < 1:
            raise InputError(f"samples={samples}; give one or more")
        tokens = x if isinstance(x, Tokens) else self.tokens(x)
        values, present = self._present(tokens)
        parts = []
        with torch.no_grad(), progress("importance sampling", len(values)) as advance:
            for rows, noise in self._keyed(tokens, present, _AT_ONCE, seed):
                weights = []
                for first in range(0, samples, _AT_ONCE):
                    rule = ImportanceSampling(min(_AT_ONCE, samples - first), steps=0, prior_draws=0)
                    weights.append(weighted_draws(self, values[rows], present[rows], rule, noise).log_weights)
                parts.append(torch.cat(weights, 1))
                advance(len(parts[-1]))
        return self._bound(f"importance sampling, {samples:,} draws of q(z | x)", torch.cat(parts), present)

    def annealed_evidence(
        self, x: object, *, annealing: Annealing | None = None, seed: int | None = None
    ) -> EvidenceBound:
        """The log evidence by annealed importance sampling, with its standard errors; in float64.

        Args:
            x: `Tokens` without context, or an (N, D) table with NaN where a value is missing.
            annealing: chains, temperatures and moves; by default `Annealing()`, which starts from the prior.
            seed: of the draws; by default the model's.

        Warns:
            CollapsedWeightsWarning: the weights of many observations rest on one chain.
        """
        rule = annealing or Annealing()
        tokens = x if isinstance(x, Tokens) else self.tokens(x)
        exact = copy.deepcopy(self).double().eval().requires_grad_(False)
        values, present = exact._present(tokens)
        parts = []
        pieces = list(exact._keyed(tokens, present, rule.chains, seed))
        pilots = exact._keyed(tokens, present, rule.chains, (self.seed if seed is None else seed) + 2**32)
        total = 2 * len(pieces) * (rule.temperatures - 1)
        with progress("annealed importance sampling", total) as advance:
            for (rows, noise), (_, pilot) in zip(pieces, pilots, strict=True):
                piece = values[rows], present[rows]
                parts.append(annealed_log_weights(exact, *piece, rule, pilot, noise, advance))
        method = (
            f"annealed importance sampling from the {rule.start}, {rule.chains:,} chains, "
            f"{rule.temperatures:,} temperatures"
        )
        return exact._bound(method, torch.cat(parts), present)

    def _bound(self, method: str, log_weights: Tensor, present: Tensor) -> EvidenceBound:
        in_units = log_weights - (present.sum(1) * self.tokens_given_latent.log_unit)[:, None]
        bound = EvidenceBound.from_log_weights(method, in_units)
        bound.warn_if_collapsed()
        return bound

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """The importance-weighted bound of log p of each row with 1,024 draws, nats. Shape (N,)."""
        return self.importance_evidence(x).log_evidence

    # Training and use

    def fit(
        self,
        x: object,
        *,
        epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 2e-3,
        seed: int = 0,
    ) -> "VAE":
        """Train by the evidence lower bound with Adam, in place; for other objectives there is `me.fit`.

        Args:
            x: shape (N, D), NaN where missing; also the source of a Gaussian's units.
            epochs: passes over the rows.
            batch_size: rows in one step.
            learning_rate: of Adam.
            seed: of the draws and the order of the rows.

        Raises:
            NumericalError: a loss that is not finite.
        """
        tokens = self.tokens(x)
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
        """Centre and scale by these rows before training, where the likelihood is Gaussian; in place."""
        if self.likelihood == "gaussian":
            tokens = Tokens.from_array(x)
            self.check_width(tokens.width)
            table = np.where(tokens.maskable.numpy(), tokens.values.numpy(), np.nan)
            if np.isnan(table).all(axis=0).any():
                column = int(np.argmax(np.isnan(table).all(axis=0)))
                raise InputError(f"column {column} is observed nowhere; leave it out")
            self.tokens_given_latent.set_units(table)

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        present = tokens.maskable
        values = self._standard(tokens, present)
        means, variances = [], []
        for rows, noise in self._keyed(tokens, present, self._draws()):
            decoded, _, log_share = self._shares(values[rows], present[rows], self.conditioning, noise)
            share = log_share.exp()[:, :, None]
            each_mean, each_variance = self.tokens_given_latent.moments(decoded)
            mean = (share * each_mean).sum(1)
            within, between = (
                (share * each_variance).sum(1),
                (share * (each_mean - mean[:, None]).square()).sum(1),
            )
            means.append(mean)
            variances.append(within + between)
        return torch.cat(means), torch.cat(variances)

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        generator = torch.Generator().manual_seed(seed)
        like = self._like()
        noise = GeneratorNoise(n, torch.zeros((), dtype=like.dtype), generator)
        z = noise.normal(1, self.n_components).to(like.device)
        drawn = self.draw(self.decode(z), GeneratorNoise(n, like, _on(like.device, seed + 1)))[:, 0]
        if self.likelihood == "gaussian":
            drawn = self.tokens_given_latent.shift + self.tokens_given_latent.scale * drawn
        return drawn

    def save(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder.

        `me.models.load(folder)` reads a model with the default networks. One with your own networks needs
        them again, built in the same shapes: `me.models.load(folder, encoder=..., decoder=...)`.
        """
        super().save(folder)

    def arguments(self) -> dict[str, Any]:
        networks: dict[str, Any] = {"hidden": self.hidden}
        if self.hidden is None:
            networks = {name: type(getattr(self, name)).__name__ for name in ("encoder", "decoder")}
        return {
            **networks,
            "likelihood": self.likelihood,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "conditioning": asdict(self.conditioning),
            "training_conditioning": asdict(self.training_conditioning),
            "seed": self.seed,
        }

    def _keyed(
        self, tokens: Tokens, visible: Tensor, draws: int, seed: int | None = None
    ) -> Iterator[tuple[slice, KeyedNoise]]:
        """Some rows at a time, with draws that are functions of (seed, observation id, visible tokens)."""
        keys = row_keys(self.seed if seed is None else seed, tokens.ids.cpu().numpy(), visible.cpu().numpy())
        size = max(1, _ELEMENTS // (draws * max(64, self.n_features)))
        for first in range(0, len(keys), size):
            rows = slice(first, first + size)
            yield rows, KeyedNoise(keys[rows], self._like())

    def _present(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Bool[Tensor, "B D"]]:
        if bool(tokens.context.any()):
            raise InputError(
                "a bound of the evidence of some tokens given context is not known; give tokens without "
                "context"
            )
        return self._standard(tokens, tokens.maskable), tokens.maskable

    def _standard(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The values in standard units where they are read, blank elsewhere.

        Raises:
            InputError: a wrong width, or a value outside the likelihood's range.
        """
        self.check_width(tokens.width)
        values = tokens.values.to(self._like().dtype)
        wrong = read & self.tokens_given_latent.wrong(values)
        if bool(wrong.any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            value = values[row, column].item()
            needed = (
                "a Bernoulli likelihood takes 0 and 1"
                if self.likelihood == "bernoulli"
                else "a Gaussian likelihood takes finite numbers"
            )
            advice = (
                "binarise (--binarise threshold or stochastic), or use likelihood='gaussian'"
                if self.likelihood == "bernoulli"
                else "mend it, or make it NaN where it is missing"
            )
            raise InputError(
                f"{needed}, observation {int(tokens.ids[row])} has {value:g} in column {column}; {advice}"
            )
        return torch.where(read, self.tokens_given_latent.standard(values), self.blank)


def _on(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def _rule(given: Conditioning | dict[str, Any] | None) -> Conditioning | None:
    """How conditionals are computed, from its fields where a saved model's config.json holds them."""
    if not isinstance(given, dict):
        return given
    return EncodingDecoding(**given) if "chains" in given else ImportanceSampling(**given)
