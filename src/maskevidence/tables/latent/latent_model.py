"""A latent-variable model, and rows in its standard units."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.tables.latent.networks import SecondOutput, encoded
from maskevidence.tables.noise import KeyedNoise, Noise, row_keys

_MAX_ELEMENTS = 2**22  # of an array of a batch's rows, draws and tokens


class LatentModel(nn.Module):
    """z ~ N(0, I_K), x ~ p(x | z) with independent tokens, and an encoder q(z | x) = N(mean, scale²).

    All rows are in standard units.
    """

    encoder: nn.Module
    decoder: nn.Module
    scale: SecondOutput
    tokens_given_latent: Any
    n_features: int
    n_components: int

    @property
    def blank(self) -> float:
        """The value in place of a token that is not visible."""
        return float(self.tokens_given_latent.blank)

    def encode(
        self, x: Float[Tensor, "*rows D"]
    ) -> tuple[Float[Tensor, "*rows K"], Float[Tensor, "*rows K"]]:
        """Mean and log standard deviation of q(z | x)."""
        mean, log_scale = encoded(self.encoder, x.reshape(-1, self.n_features), self.scale)
        return mean.reshape(*x.shape[:-1], -1), log_scale.reshape(*x.shape[:-1], -1)

    def decode(self, z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows D"]:
        """The decoder's output: means in standard units, or logits."""
        answer: Tensor = self.decoder(z.reshape(-1, self.n_components))
        return answer.reshape(*z.shape[:-1], self.n_features)

    def log_likelihood(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p(x_j | z), nats."""
        return self.tokens_given_latent.log_density(x, decoded)

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """Draw x ~ p(x | z)."""
        return self.tokens_given_latent.draw(decoded, noise)


class StandardRows(NamedTuple):
    """Rows in the model's standard units."""

    values: Float[Tensor, "N D"]  # `blank` where a token is neither visible nor predicted
    visible: Bool[Tensor, "N D"]  # tokens to condition on, or to take the evidence of
    ids: Int64[Tensor, " N"]  # observation ids, which seed the draws

    def batches(self, n_draws: int, seed: int) -> Iterator[tuple[Tensor, Tensor, KeyedNoise]]:
        """Split the rows into batches: values, visible tokens and noise.

        The draws of a row depend on (seed, observation id, visible tokens), not on the batch.
        """
        keys = row_keys(seed, self.ids.cpu().numpy(), self.visible.cpu().numpy())
        size = max(1, _MAX_ELEMENTS // (n_draws * max(64, self.values.shape[1])))
        for first in range(0, len(keys), size):
            rows = slice(first, first + size)
            yield self.values[rows], self.visible[rows], KeyedNoise(keys[rows], self.values)
