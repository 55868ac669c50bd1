"""The density of a hidden pixel around its prediction: a Gaussian with a variance per mask size.

A masked autoencoder predicts hidden pixels but does not say how certain it is; its squared error is not a
log-probability. With x the level of a pixel (0..255), m its prediction and v_M a variance for M hidden
patches,

    gaussian      log p(x) = -½ (log 2πv_M + (x - m)² / v_M), a density per level
    discretised   P(x) = Φ((x + ½ - m) / √v_M) - Φ((x - ½ - m) / √v_M), where 0 and 255 take all that lies
                  beyond them, so that P sums to 1 over the 256 levels

and the pixels of a patch are taken as independent given the visible patches.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.model import MASS
from maskevidence.images.image_options import DensityName, PatchStatistics

DENSITIES: tuple[DensityName, ...] = ("gaussian", "discretised")
LEVELS = 256
PER_LEVEL = "density per level (0..255) of each pixel"
NORMALISED = "density of normalised patches"


@dataclass(frozen=True)
class PixelDensity:
    """A pixel density with variances fitted by maximum likelihood to held-out images.

    Between two fitted sizes, log v is interpolated linearly in the size; outside, the nearest size is used.

    Example:
        >>> density = PixelDensity("gaussian", sizes=(1, 3), variances=(1.0, 4.0), n_patches=4)
        >>> density.variance(torch.tensor([1, 2, 3, 4])).tolist()
        [1.0, 2.0, 4.0, 4.0]
    """

    name: DensityName  # "gaussian" or "discretised"
    sizes: tuple[int, ...]  # numbers of hidden patches with a fitted variance, ascending
    variances: tuple[float, ...]  # one for each size, in levels², or in the units of a normalised patch
    n_patches: int  # D, the number of patches of an image
    n_images: int | None = None  # number of images in the fit
    seed: int | None = None  # seed of the masks in the fit
    # "visible" if predictions of normalised patches are converted to pixels with the mean and variance of the
    # visible patches; None otherwise
    patch_statistics: PatchStatistics | None = None
    # with "visible": a patch's mean when no patch is visible, in the model's pixel units
    patch_mean: float | None = None
    patch_variance: float | None = None  # with "visible": a patch's variance in that case

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
        """v_M for an array of numbers of hidden patches, float64."""
        return np.exp(np.interp(sizes, self.sizes, np.log(self.variances)))

    def log_prob(
        self,
        values: Shaped[Tensor, "n K"],
        means: Float[Tensor, "n K"],
        variance: Float[Tensor, " n"],
    ) -> Float[Tensor, " n"]:
        """log p of whole patches, summed over their pixels, nats, shape (n,), float64."""
        of_pixels = gaussian_log_prob if self.name == "gaussian" else discretised_log_prob
        return of_pixels(values, means, variance[:, None]).sum(1)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self) | {"sizes": list(self.sizes), "variances": list(self.variances)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "PixelDensity":
        """Build the density from the result of `to_dict`.

        Example:
            >>> density = PixelDensity("discretised", (1,), (9.0,), n_patches=4)
            >>> PixelDensity.from_dict(density.to_dict()) == density
            True
        """
        try:
            lists = {name: tuple(content[name]) for name in ("sizes", "variances")}
            return cls(**(content | lists))
        except (KeyError, TypeError) as error:
            raise InputError(f"this is not a pixel density ({error}); calibrate the model again") from error


def check_target(density: DensityName, patch_statistics: PatchStatistics | None, *, normalised: bool) -> None:
    """Check that a network, of `normalised` patches or not, can have this density."""
    if patch_statistics not in (None, "visible"):
        raise InputError(f"patch_statistics={patch_statistics!r}; give 'visible' or None")
    if patch_statistics is not None and not normalised:
        raise InputError(
            "the network predicts pixels as they are (no norm_pix_loss); leave patch_statistics "
            "(--patch-statistics) out"
        )
    if normalised and patch_statistics is None and density == "discretised":
        raise InputError(
            "the network predicts normalised patches, which have no levels; give "
            "patch_statistics='visible' (--patch-statistics visible), or the gaussian density"
        )


def pixel_base_measure(density: str, *, of_pixels: bool) -> str:
    """The base measure of scores with this density; see `MaskedModel`.

    Example:
        >>> pixel_base_measure("gaussian", of_pixels=True)
        'density per level (0..255) of each pixel'
    """
    if not of_pixels:
        return NORMALISED
    return PER_LEVEL if density == "gaussian" else MASS


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
    """log P(level) of a Gaussian rounded to the levels 0..255, elementwise, nats, float64.

    log(Φ(b) - Φ(a)), a < b, is computed in the tail where both are small (mirrored if a > 0), as log Φ(b) +
    log(1 - exp(log Φ(a) - log Φ(b))), so that levels far from the mean keep their digits.

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


_EPSILON = 1e-6  # ViT-MAE's constant under the root of a patch's variance


def normalised(patches: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
    """Scale each patch to mean 0 and variance 1.

    Example:
        >>> normalised(torch.tensor([[1.0, 3.0]]))
        tensor([[-0.7071,  0.7071]])
    """
    variance, mean = torch.var_mean(patches, dim=1, keepdim=True)
    return (patches - mean) / (variance + _EPSILON).sqrt()


def brought_back(
    outputs: Float[Tensor, "n K"], mean: Float[Tensor, " n"], variance: Float[Tensor, " n"]
) -> Float[Tensor, "n K"]:
    """Scale normalised patches to a given mean and variance, the inverse of `normalised`."""
    return outputs * (variance[:, None] + _EPSILON).sqrt() + mean[:, None]


def visible_statistics(
    patches: Float[Tensor, "b D K"], hidden: Bool[Tensor, "b D"], density: PixelDensity
) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
    """A patch's mean and variance, averaged over each image's visible patches.

    Without visible patches, the density's values from the calibration images are used.
    """
    visible = ~hidden
    count = visible.sum(1)
    averages = []
    for each, otherwise in (
        (patches.mean(2), density.patch_mean),
        (patches.var(2), density.patch_variance),
    ):
        total = torch.where(visible, each, 0.0).sum(1)
        averages.append(torch.where(count > 0, total / count.clamp(min=1), float(otherwise or 0.0)))
    return averages[0], averages[1]
