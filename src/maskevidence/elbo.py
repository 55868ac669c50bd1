"""The evidence lower bound as a loss, for models with an encoder."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.generator import keyed_bits
from maskevidence.model import HasElbo
from maskevidence.moments import GaussianMoments
from maskevidence.tokens import Tokens


class Elbo:
    """Minus the evidence lower bound, mean over the observations: variational inference with `fit`.

        loss = -(1/B) Σ_i ELBO(x_i),    ELBO(x) = E_q[log p(x, z) - log q(z | x)] <= log p(x)

    Every step has draws of its own, a function of (seed, step).

    Args:
        samples: draws of the latent variable per observation and step.
        weighted: the importance-weighted bound of the draws, log (1/S) Σ_s p(x, z_s)/q(z_s | x), in place of
            their mean; for models that have it.
        seed: of the draws.

    Attributes:
        step: the step of the next call that names none; it counts up by one with each such call.

    Raises:
        InputError: a number of draws below 1, or a seed that is none.

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
        if not isinstance(samples, int) or samples < 1:
            raise InputError(f"samples={samples!r}; give a whole number of 1 or more")
        if not isinstance(seed, int):
            raise InputError(f"seed={seed!r}; give a whole number")
        self.samples = samples
        self.weighted = weighted
        self.seed = seed
        self.step = 0

    def __call__(self, model: Any, data: object, *, step: int | None = None) -> Float[Tensor, ""]:
        """The loss in nats per observation.

        Args:
            model: one with `elbo`.
            data: `Tokens`, or an (N, D) table with NaN where a value is missing.
            step: which draws; by default those of the next step.
        """
        if step is None:
            step, self.step = self.step, self.step + 1
        self.check(model)
        if isinstance(data, GaussianMoments):
            raise InputError("the ELBO needs the rows themselves, given their moments")
        tokens = data if isinstance(data, Tokens) else Tokens.from_array(data)
        generator = torch.Generator(device=tokens.values.device)
        generator.manual_seed(int(keyed_bits(self.seed, step)) >> 1)
        bound = model.importance_bound if self.weighted else model.elbo
        return -bound(tokens, generator=generator, samples=self.samples).mean()

    def settings(self) -> dict[str, Any]:
        """The objective's name, the number of draws and the seed."""
        name = "importance-weighted" if self.weighted else "elbo"
        return {"objective": name, "samples": self.samples, "seed": self.seed}

    def check(self, model: Any) -> None:
        """Raise an InputError where the model has no `elbo`, or no `importance_bound` where that is asked."""
        if not isinstance(model, HasElbo):
            raise InputError(
                f"the ELBO needs a model with an encoder, elbo(tokens, generator=..., samples=...); "
                f"{type(model).__name__} has none: train it by a mask design, such as random-size"
            )
        if self.weighted and not callable(getattr(model, "importance_bound", None)):
            raise InputError(
                f"{type(model).__name__} has no importance_bound(tokens, generator=..., samples=...); "
                "train it by the ELBO itself"
            )
