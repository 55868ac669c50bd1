"""Random draws for the rows of a batch, keyed by row or from a torch generator."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt64
from torch import Tensor

from maskevidence.core.support.keyed_random import keyed_bits


class GeneratorNoise:
    """Draws from torch's random state or a generator; for training, where every step has a seed."""

    def __init__(self, n_rows: int, like: Tensor, generator: torch.Generator | None = None) -> None:
        self.n_rows, self.generator = n_rows, generator
        self.dtype, self.device = like.dtype, like.device

    def normal(self, *shape: int) -> Float[Tensor, "B ..."]:
        """Draw from the standard normal distribution."""
        return torch.randn(
            (self.n_rows, *shape), generator=self.generator, dtype=self.dtype, device=self.device
        )

    def uniform(self, *shape: int) -> Float[Tensor, "B ..."]:
        """Draw uniformly from (0, 1]."""
        drawn = torch.rand(
            (self.n_rows, *shape), generator=self.generator, dtype=self.dtype, device=self.device
        )
        return 1 - drawn


class KeyedNoise:
    """Draws that depend on the row's key and the number of earlier draws, and on no other row.

    Example:
        >>> keys, like = np.array([3, 9], dtype=np.uint64), torch.zeros(())
        >>> both, second = KeyedNoise(keys, like).normal(2), KeyedNoise(keys[1:], like).normal(2)
        >>> bool((both[1] == second[0]).all())
        True
    """

    def __init__(self, keys: UInt64[np.ndarray, " B"], like: Tensor) -> None:
        self.keys = keys.astype(np.int64)[:, None]
        self.dtype, self.device = like.dtype, like.device
        self.used = 0

    def normal(self, *shape: int) -> Float[Tensor, "B ..."]:
        """Box-Muller transform: two normal draws from the two halves of 64 random bits."""
        count = math.prod(shape)
        bits = self._bits((count + 1) // 2)
        radius = torch.sqrt(-2 * torch.log(self._fraction(bits >> np.uint64(32))))
        angle = 2 * math.pi * self._fraction(bits & np.uint64(0xFFFFFFFF))
        drawn = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], 1)
        return drawn[:, :count].reshape(-1, *shape)

    def uniform(self, *shape: int) -> Float[Tensor, "B ..."]:
        return self._fraction(self._bits(math.prod(shape)) >> np.uint64(32)).reshape(-1, *shape)

    def _bits(self, count: int) -> UInt64[np.ndarray, "B count"]:
        index = np.arange(self.used, self.used + count)
        self.used += count
        return keyed_bits(self.keys, index)

    def _fraction(self, half: UInt64[np.ndarray, "B count"]) -> Float[Tensor, "B count"]:
        """Map 32 bits to a fraction in (0, 1]."""
        whole = torch.from_numpy(half.astype(np.int64)).to(self.dtype)
        return ((whole + 1) * 2.0**-32).to(self.device)


Noise = GeneratorNoise | KeyedNoise  # each call returns new draws of the given shape for every row


def row_keys(
    seed: int, ids: Int64[np.ndarray, " B"], visible: Bool[np.ndarray, "B D"]
) -> UInt64[np.ndarray, " B"]:
    """Hash each observation's id and visible tokens to a key.

    Example:
        >>> a = row_keys(0, np.array([5, 5]), np.array([[True, False], [False, False]]))
        >>> bool(a[0] == a[1])
        False
    """
    packed = np.packbits(visible, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.atleast_1d(keyed_bits(seed, ids, *padded.view(np.int64).T))


def chosen(weights: Float[Tensor, "*B n"], uniform: Float[Tensor, "*B"]) -> Int64[Tensor, "*B"]:
    """Choose one of n items per row with probabilities proportional to the weights.

    Example:
        >>> chosen(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0.7]))
        tensor([2])
    """
    sums = weights.cumsum(-1)
    return (sums < uniform[..., None] * sums[..., -1:]).sum(-1)
