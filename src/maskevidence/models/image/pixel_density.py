"""The density of a hidden pixel around its prediction: a Gaussian with a variance per mask size.

A masked autoencoder predicts hidden pixels and says nothing about how sure it is; its squared error is no
log-probability. With x the level of a pixel (0..255), m its prediction and v_M a variance for M hidden
patches,

    gaussian      log p(x) = -½ (log 2πv_M + (x - m)² / v_M), a density per level
    discretised   P(x) = Φ((x + ½ - m) / √v_M) - Φ((x - ½ - m) / √v_M), where 0 and 255 take all that lies
                  beyond them, so that P sums to 1 over the 256 levels

and the pixels of a patch are taken as independent given the visible patches.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.errors import InputError, NumericalError
from maskevidence.support.choices import Density, PatchStatistics

DENSITIES: tuple[Density, ...] = ("gaussian", "discretised")
LEVELS = 256
# The likeliest variance of the discretised density is searched on so many pixels of each size: its
# standard error is then 0.6 % of it.
_SEARCHED_PIXELS = 2**16
_SEARCH_STEPS = 40
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class PixelDensity:
    """A density with its variances, fitted by maximum likelihood to held-out images.

    Between two fitted sizes log v is interpolated linearly in the size; beyond them the nearest is taken.

    Attributes:
        name: "gaussian" or "discretised".
        sizes: ascending; the numbers of hidden patches that a variance was fitted for.
        variances: one for each size; in levels², or in the units of a normalised patch.
        n_patches: D, how many patches an image has.
        n_images: how many images they were fitted to.
        seed: of the masks they were fitted with.
        patch_statistics: "visible" for a model of normalised patches whose predictions are brought back to
            pixels with mean and variance of the visible patches; None otherwise.
        patch_mean: with "visible": the mean of a patch where none is visible, in the model's pixel units.
        patch_variance: with "visible": its variance there.

    Raises:
        InputError: an unknown name, or sizes and variances that do not fit each other.

    Example:
        >>> density = PixelDensity("gaussian", sizes=(1, 3), variances=(1.0, 4.0), n_patches=4)
        >>> density.variance(torch.tensor([1, 2, 3, 4])).tolist()
        [1.0, 2.0, 4.0, 4.0]
    """

    name: Density
    sizes: tuple[int, ...]
    variances: tuple[float, ...]
    n_patches: int
    n_images: int | None = None
    seed: int | None = None
    patch_statistics: PatchStatistics | None = None
    patch_mean: float | None = None
    patch_variance: float | None = None

    def __post_init__(self) -> None:
        if self.name not in DENSITIES:
            raise InputError(f"density {self.name!r}; give {' or '.join(DENSITIES)}")
        ascending = list(self.sizes) == sorted(set(self.sizes)) and len(self.sizes) > 0
        if not ascending or len(self.sizes) != len(self.variances):
            raise InputError(f"sizes {self.sizes} with {len(self.variances)} variances; give ascending pairs")
        if not 1 <= self.sizes[0] <= self.sizes[-1] <= self.n_patches:
            raise InputError(f"sizes {self.sizes} of {self.n_patches} patches; give sizes in 1..D")
        if not all(0 < v < math.inf for v in self.variances):
            raise InputError(f"variances {self.variances}; give numbers above 0")

    def variance(self, n_hidden: Int64[Tensor, " B"]) -> Float[Tensor, " B"]:
        """v_M for each number of hidden patches, shape (B,), float64."""
        return torch.from_numpy(self.variances_at(n_hidden.cpu().numpy())).to(n_hidden.device)

    def variances_at(self, sizes: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """The same for numpy."""
        return np.exp(np.interp(sizes, self.sizes, np.log(self.variances)))

    def log_prob(
        self,
        values: Shaped[Tensor, "n K"],
        means: Float[Tensor, "n K"],
        variance: Float[Tensor, " n"],
    ) -> Float[Tensor, " n"]:
        """log p of whole patches, the sum over their pixels, nats, shape (n,), float64.

        Args:
            values: shape (n, K); the patches.
            means: shape (n, K); what is predicted for them.
            variance: shape (n,); v of each patch.
        """
        of_pixels = gaussian_log_prob if self.name == "gaussian" else discretised_log_prob
        return of_pixels(values, means, variance[:, None]).sum(1)

    def to_dict(self) -> dict[str, Any]:
        """What is written to files."""
        return asdict(self) | {"sizes": list(self.sizes), "variances": list(self.variances)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "PixelDensity":
        """The density that `to_dict` described.

        Raises:
            InputError: something else.

        Example:
            >>> density = PixelDensity("discretised", (1,), (9.0,), n_patches=4)
            >>> PixelDensity.from_dict(density.to_dict()) == density
            True
        """
        try:
            lists = {name: tuple(content[name]) for name in ("sizes", "variances")}
            return cls(**(content | lists))
        except (KeyError, TypeError) as error:
            raise InputError(f"this is no pixel density ({error}); calibrate the model again") from error


def gaussian_log_prob(
    values: Shaped[Tensor, "*pixels"],
    means: Float[Tensor, "*pixels"],
    variance: Float[Tensor, "..."],
) -> Float[Tensor, "*pixels"]:
    """log N(x; m, v), elementwise, nats, float64.

    Example:
        >>> round(gaussian_log_prob(torch.tensor([3.0]), torch.tensor([3.0]), torch.tensor(1.0)).item(), 4)
        -0.9189
    """
    deviation = values.double() - means.double()
    variance = variance.double()
    return -0.5 * (math.log(2 * math.pi) + torch.log(variance) + deviation.square() / variance)


def discretised_log_prob(
    values: Shaped[Tensor, "*pixels"],
    means: Float[Tensor, "*pixels"],
    variance: Float[Tensor, "..."],
) -> Float[Tensor, "*pixels"]:
    """log P of the levels 0..255 of a Gaussian rounded to them, elementwise, nats, float64.

    log(Φ(b) - Φ(a)) with a < b is computed in the tail where both are small, mirrored where a > 0, as
    log Φ(b) + log(1 - exp(log Φ(a) - log Φ(b))), so that far levels keep their digits.

    Example:
        >>> levels = torch.arange(256)
        >>> log_p = discretised_log_prob(levels, torch.full((256,), 9.4), torch.tensor(400.0))
        >>> round(log_p.exp().sum().item(), 9)
        1.0
    """
    x, means = values.double(), means.double()
    scale = variance.double().sqrt()
    low, high = (x - 0.5 - means) / scale, (x + 0.5 - means) / scale
    low = torch.where(x <= 0, -torch.inf, low)
    high = torch.where(x >= LEVELS - 1, torch.inf, high)
    mirrored = low > 0
    a, b = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    log_a, log_b = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    return log_b + torch.log1p(-torch.exp(log_a - log_b))


class VarianceFit:
    """The variance under which predicted pixels are likeliest, from one batch of them after the other.

    For the Gaussian it is the mean squared error. For the discretised density there is no closed form: a
    golden-section search over log v ends within 10⁻⁶ of it, on about 65,536 randomly chosen pixels where
    there are more.

    Args:
        name: of the density.
        n_pixels: how many will come, over all batches.
        seed: of the choice of pixels.

    Example:
        >>> fit = VarianceFit("gaussian", n_pixels=2)
        >>> fit.add(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        >>> fit.variance()
        5.0
    """

    def __init__(self, name: Density, n_pixels: int, seed: int = 0) -> None:
        self._name = name
        self._share = min(1.0, _SEARCHED_PIXELS / max(1, n_pixels))
        self._generator = torch.Generator().manual_seed(seed)
        self._squares, self._count = 0.0, 0
        self._kept: list[tuple[Tensor, Tensor]] = []

    def add(self, values: Shaped[Tensor, "*pixels"], means: Float[Tensor, "*pixels"]) -> None:
        """Pixels and their predictions."""
        x, m = values.detach().double().flatten().cpu(), means.detach().double().flatten().cpu()
        self._squares += float((x - m).square().sum())
        self._count += len(x)
        if self._name == "discretised":
            if self._share < 1:
                chosen = torch.rand(len(x), generator=self._generator) < self._share
                x, m = x[chosen], m[chosen]
            self._kept.append((x, m))

    def variance(self) -> float:
        """The likeliest variance.

        Raises:
            NumericalError: pixels that are predicted without error, whose likeliest variance is 0, or
                predictions that are no numbers.
        """
        error = self._squares / max(1, self._count)
        if not 0 < error < math.inf:
            raise NumericalError(
                f"the mean squared error of the predictions is {error}, so that no variance is the "
                "likeliest; calibrate on other images, or another model"
            )
        if self._name == "gaussian":
            return error
        x, m = (torch.cat(parts) for parts in zip(*self._kept, strict=True))

        def loss(log_variance: float) -> float:
            return -float(discretised_log_prob(x, m, torch.tensor(math.exp(log_variance))).mean())

        return math.exp(_golden_section(loss, math.log(error) - 6.0, math.log(error) + 6.0))


def _golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum between two places has it."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_SEARCH_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2


def spread_sizes(n_patches: int, at_most: int = 32) -> tuple[int, ...]:
    """1..D, or so many sizes between them, the first and the last among them.

    Example:
        >>> spread_sizes(4), spread_sizes(196, at_most=4)
        ((1, 2, 3, 4), (1, 66, 131, 196))
    """
    if n_patches <= at_most:
        return tuple(range(1, n_patches + 1))
    step = (n_patches - 1) / (at_most - 1)
    return tuple(int(1 + i * step + 0.5) for i in range(at_most))
