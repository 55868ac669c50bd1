"""Objectives of `fit`: minus the score of a mask design, the exact likelihood, or a bound on it."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks, drawn_masks, masks_of_all_rows
from maskevidence.core.masks.orders import Orderings
from maskevidence.core.model import as_tokens, how_to_wrap, moments_of, to_device_of
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.scores.score_masks import score_masks
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.tokens import Tokens


@runtime_checkable
class Objective(Protocol):
    """A loss for `fit` that depends on model, data and step alone."""

    def __call__(self, model: Any, data: object, *, step: int | None = None) -> Float[Tensor, ""]:
        """The loss at a step: minus an estimate of the mean log evidence, nats per observation."""
        ...

    def settings(self) -> dict[str, Any]:
        """The objective's name and parameters, in the form written to files."""
        ...

    def check(self, model: Any) -> None:
        """Raise an InputError if the loss cannot be computed for this model."""
        ...


class MaskedObjective:
    """Minus the weighted sum of scores of a mask design, averaged over observations, nats.

        loss = -(1/B) Σ_i Σ_k weight_ik · S_ik,    S_ik = (1/M) Σ_{j masked} log p(x_ij | x_i,visible)

    If the design covers all sizes, Σ weight · S is unbiased for log p(x) (Eq. 2) at any parameters. The
    gradient of the loss is then an unbiased estimate of the gradient of -log p(x), per observation. Every
    step draws its own masks, a function of (seed, step, observation id, draw).

    Args:
        design: how masks are drawn: `EverySize`, `RandomSize`, `Orderings` or `Exhaustive` for the evidence;
            `LeaveOneOut` (pseudolikelihood), `FixedRate` and `Rates` for composite likelihoods.
        seed: seed of the masks.
        masks: "own" for each observation, or "shared" by all.

    Attributes:
        step: the step of the next call that gives none; each such call increases it by 1.

    Raises:
        InputError: something other than a mask design, or a seed that is not a whole number.

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), On Masked Pre-training and the Marginal Likelihood, Prop. 1
        and the supplement on random mask sizes.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=4, n_components=1)
        >>> tokens = me.Tokens.from_array(model.sample(20))
        >>> loss = me.MaskedObjective(me.Exhaustive())(model, tokens)
        >>> bool(torch.isclose(loss, -model.log_evidence(tokens).mean()))
        True
    """

    def __init__(self, design: MaskDesign, *, seed: int = 0, masks: Masks = "own") -> None:
        if not isinstance(design, MaskDesign):
            raise InputError(f"{design!r} is not a mask design; give one such as RandomSize(1, 1)")
        self.design = design.in_training()
        self.key = MaskKey(seed, masks)
        self.step = 0

    def __call__(self, model: Any, data: object, *, step: int | None = None) -> Float[Tensor, ""]:
        """Compute the loss: minus the weighted sum of scores, averaged over observations, nats.

        Args:
            model: any `MaskedModel`; if it has `score_orderings`, whole orders are scored at once.
            data: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table with NaN for missing
                values; or `GaussianMoments` for a model that scores them, with masks shared by all rows.
            step: the step whose masks are drawn; by default the next step.

        Raises:
            InputError: data or a model that does not go with the design.
            NumericalError: a log-probability that is not finite.
        """
        if step is None:
            step, self.step = self.step, self.step + 1
        self.check(model)
        key = self.step_key(step)
        if isinstance(data, GaussianMoments):
            return self._of_moments(model, data, key)
        tokens = to_device_of(model, as_tokens(model, data))
        if len(tokens) == 0 or bool((tokens.n_tokens == 0).any()):
            raise InputError("an observation has no token to hide; leave such observations out")
        if isinstance(self.design, Orderings) and hasattr(model, "score_orderings"):
            return self._of_orderings(model, tokens, key, self.design)
        if key.masks == "shared" and bool(tokens.maskable.all()) and not hasattr(model, "batches"):
            return self._of_complete_rows(model, tokens, key)
        return self._of_tokens(model, tokens, key)

    def step_key(self, step: int) -> MaskKey:
        """The key of a step's masks, with a seed made from the objective's seed and the step.

        Example:
            >>> import maskevidence as me
            >>> objective = MaskedObjective(me.EverySize(1), seed=3)
            >>> objective.step_key(0) == objective.step_key(0), objective.step_key(0) == objective.step_key(1)
            (True, False)
        """
        return MaskKey(int(keyed_bits(self.key.seed, step)), self.key.masks)

    def settings(self) -> dict[str, Any]:
        """The design's settings, the seed, and whether masks are shared."""
        return {
            "objective": "masked",
            **self.design.settings(),
            "seed": self.key.seed,
            "masks": self.key.masks,
        }

    def check(self, model: Any) -> None:
        """Raise an InputError if the model has no `log_conditionals`."""
        if not callable(getattr(model, "log_conditionals", None)):
            raise InputError(
                f"a masked objective needs a model with log_conditionals(tokens, masked), which "
                f"{type(model).__name__} lacks; wrap it: {how_to_wrap(model)}"
            )

    def _of_tokens(self, model: Any, tokens: Tokens, key: MaskKey) -> Float[Tensor, ""]:
        device = tokens.values.device
        masks = drawn_masks(self.design, key, tokens.ids.cpu().numpy(), tokens.maskable.cpu().numpy())
        row = torch.from_numpy(masks.row).long().to(device)
        masked, weight = (torch.from_numpy(values).to(device) for values in (masks.masked(), masks.weight))
        parts: Any = [np.arange(len(masks))]
        if hasattr(model, "batches"):
            present = (tokens.maskable | tokens.context).sum(1).cpu().numpy()
            parts = model.batches(present[masks.row])
        total = torch.zeros((), dtype=weight.dtype, device=device)
        for part in parts:
            pairs = torch.from_numpy(np.asarray(part)).to(device)
            score = score_masks(model, tokens[row[pairs]], masked[pairs])
            total = total + (weight[pairs] * score).sum()
        return -total / len(tokens)

    def _of_complete_rows(self, model: Any, tokens: Tokens, key: MaskKey) -> Float[Tensor, ""]:
        """Score each shared mask on all rows at once."""
        masked, weight = shared_masks(self.design, key, tokens.width)
        total = torch.zeros((), dtype=weight.dtype, device=tokens.values.device)
        for mask, share in zip(masked.to(tokens.values.device), weight.tolist(), strict=True):
            total = total + share * score_masks(model, tokens, mask.expand(len(tokens), -1)).mean()
        return -total

    def _of_orderings(self, model: Any, tokens: Tokens, key: MaskKey, design: Orderings) -> Float[Tensor, ""]:
        """Score all sizes of an order at once; the scores add up to the chain rule along the order."""
        device = tokens.values.device
        ids, maskable = tokens.ids.cpu().numpy(), tokens.maskable.cpu().numpy()
        order, row = (grid.ravel() for grid in np.indices((design.orders, len(ids))))
        ranks = design.ranks(key, ids[row], order, maskable[row])
        batch = tokens[torch.from_numpy(row).to(device)]
        return -model.score_orderings(batch, torch.from_numpy(ranks).to(device)).sum() / len(row)

    def _of_moments(self, model: Any, moments: GaussianMoments, key: MaskKey) -> Float[Tensor, ""]:
        if not hasattr(model, "score_moments"):
            raise InputError(f"{type(model).__name__} cannot score moments; give the rows themselves")
        if key.masks != "shared":
            raise InputError(
                "moments have no single rows, so all rows share their masks; give masks='shared', or "
                "the rows themselves"
            )
        moments = to_device_of(model, moments_of(model, moments))
        masked, weight = shared_masks(self.design, key, len(moments.mean))
        device = moments.mean.device
        return -(weight.to(device) * model.score_moments(moments, masked.to(device))).sum()


class Likelihood:
    """Minus the exact log evidence, averaged over observations, which masked training estimates.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=4, n_components=1)
        >>> Likelihood()(model, model.sample(20)).ndim
        0
    """

    def __call__(self, model: Any, data: object, *, step: int | None = None) -> Float[Tensor, ""]:
        """Compute the loss, nats per observation, for data as in `MaskedObjective`; `step` is ignored."""
        self.check(model)
        if isinstance(data, GaussianMoments):
            raise InputError("the likelihood needs rows, but moments were given; give the rows themselves")
        tokens = to_device_of(model, as_tokens(model, data))
        return -model.log_evidence(tokens).mean()

    def settings(self) -> dict[str, Any]:
        """The objective's name."""
        return {"objective": "likelihood"}

    def check(self, model: Any) -> None:
        """Raise an InputError if the model has no `log_evidence`."""
        if not hasattr(model, "log_evidence"):
            raise InputError(
                f"the likelihood of {type(model).__name__} has no closed form (no log_evidence method); "
                "train it by a mask design, such as random-size"
            )


class Elbo:
    """Minus the evidence lower bound, averaged over observations, for variational inference.

        loss = -(1/B) Σ_i ELBO(x_i),    ELBO(x) = E_q[log p(x, z) - log q(z | x)] <= log p(x)

    Every step has its own draws, a function of (seed, step).

    Args:
        samples: draws of the latent variable per observation and step.
        weighted: use the importance-weighted bound of the draws, log (1/S) Σ_s p(x, z_s)/q(z_s | x), instead
            of their mean; for models with an `importance_bound`.
        seed: seed of the draws.

    Attributes:
        step: the step of the next call that gives none; each such call increases it by 1.

    Raises:
        InputError: a number of draws below 1, or a seed that is not a whole number.

    Source:
        Kingma and Welling (2014), Auto-Encoding Variational Bayes; Burda, Grosse, Salakhutdinov (2016),
        Importance Weighted Autoencoders.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.BernoulliPCA(n_features=6, n_components=1, encoder=True)
        >>> x = me.models.BernoulliPCA(n_features=6, n_components=1, seed=3).sample(100)
        >>> history = me.fit(model, x, me.Elbo(), epochs=30)
        >>> bool(history.objective[-1] < history.log_evidence[-1])
        True
    """

    def __init__(self, samples: int = 1, *, weighted: bool = False, seed: int = 0) -> None:
        self.samples = whole_number("samples", samples, 1)
        self.weighted = weighted
        self.seed = whole_number("seed", seed)
        self.step = 0

    def __call__(self, model: Any, data: object, *, step: int | None = None) -> Float[Tensor, ""]:
        """Compute the loss, nats per observation, for data as in `MaskedObjective`."""
        if step is None:
            step, self.step = self.step, self.step + 1
        self.check(model)
        if isinstance(data, GaussianMoments):
            raise InputError("the ELBO needs rows, but moments were given; give the rows themselves")
        tokens = to_device_of(model, as_tokens(model, data))
        generator = torch.Generator(device=tokens.values.device)
        generator.manual_seed(int(keyed_bits(self.seed, step)) >> 1)
        bound = model.importance_bound if self.weighted else model.elbo
        return -bound(tokens, generator=generator, samples=self.samples).mean()

    def settings(self) -> dict[str, Any]:
        """The objective's name, number of draws and seed."""
        name = "importance-weighted" if self.weighted else "elbo"
        return {"objective": name, "samples": self.samples, "seed": self.seed}

    def check(self, model: Any) -> None:
        """Raise an InputError if the model lacks `elbo`, or `importance_bound` for the weighted bound."""
        if not hasattr(model, "elbo"):
            advice = f"wrap it: {how_to_wrap(model)}"
            if callable(getattr(model, "log_conditionals", None)):
                advice = "train it by a mask design, such as random-size"
            raise InputError(
                f"the ELBO needs a model with an encoder, elbo(tokens, generator=..., samples=...), which "
                f"{type(model).__name__} lacks; {advice}"
            )
        if self.weighted and not callable(getattr(model, "importance_bound", None)):
            raise InputError(
                f"{type(model).__name__} has no importance_bound(tokens, generator=..., samples=...); "
                "train it by the ELBO itself"
            )


def shared_masks(design: MaskDesign, key: MaskKey, n_tokens: int) -> tuple[Tensor, Tensor]:
    """Draw the masks that complete observations share, (P, D), with their weights, (P,), in float64.

    Example:
        >>> import maskevidence as me
        >>> masked, weight = shared_masks(me.EverySize(2).in_training(), MaskKey(0, "shared"), n_tokens=3)
        >>> masked.sum(1).tolist(), weight.tolist()
        ([1, 2, 3, 1, 2, 3], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    masks = masks_of_all_rows(design, key, whole_number("n_tokens", n_tokens, 1), None)
    return torch.from_numpy(masks.masked()), torch.from_numpy(masks.weight)
