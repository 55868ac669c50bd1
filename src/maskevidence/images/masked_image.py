"""Masked image models: Hugging Face's ViT-MAE, or any network that predicts hidden patches."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped, UInt8
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import Conditionals
from maskevidence.core.model_page import model_page
from maskevidence.core.show.parts import Page
from maskevidence.core.show.shown import HasPage
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.devices import choose_device
from maskevidence.core.tokens import Tokens
from maskevidence.images.adapters import (
    PatchNetwork,
    load_vit_mae,
    save_vit_mae,
    vit_mae_adapter,
)
from maskevidence.images.calibration import fit_variances, spread_sizes
from maskevidence.images.image_options import DensityName, PatchStatistics
from maskevidence.images.patches import (
    PatchCall,
    calls_by_size,
    check_images,
    patchify,
    put_in_place,
    unpatchify,
)
from maskevidence.images.pixel_density import (
    DENSITIES,
    PixelDensity,
    brought_back,
    check_target,
    normalised,
    pixel_base_measure,
    visible_statistics,
)

_BATCH_TOKENS = {"cpu": 2048}
_BATCH_TOKENS_ELSEWHERE = 2**15
_BATCH_BYTES = 2**27  # of pixels sorted by mask size together


class MaskedImage(HasPage, nn.Module):
    """A masked autoencoder of images as a density of hidden patches given the visible ones.

    Tokens are patches, each a vector of its pixels' levels. Create a model with `from_pretrained` or
    `from_callable`; the constructor takes transformers' `ViTMAEForPreTraining` in memory. The network
    predicts pixels but knows no density: `calibrate` fits one (`PixelDensity`), after which the model can be
    scored.

    The encoder sees only visible patches: the images of one call have equally many hidden patches, each image
    with its own mask. Patches that are neither maskable nor context are hidden, too, but not scored.

    A network trained with `norm_pix_loss` predicts patches normalised by their own mean and variance. These
    depend on the hidden pixels, so converting the prediction to pixels with them would leak the answer.
    Instead, the normalised patch itself is scored, with kind `pseudo`; or, with `patch_statistics="visible"`,
    the pixels, converted with the mean and variance of the visible patches.

    Args:
        model: a `ViTMAEForPreTraining`, or a `PatchNetwork`.
        pixel_mean: mean of the preprocessing, one number or one for each channel: the network reads
            (level / 255 - mean) / std.
        pixel_std: standard deviation of the preprocessing, likewise.
        density: the density of the pixels, if it is known already.
        batch_tokens: patches in one call, hidden ones and the class token included; by default 2,048 on a CPU
            and 32,768 elsewhere.

    Attributes:
        image_size: H and W, in pixels.
        patch_size: P, in pixels.
        channels: C, 1 for grey and 3 for colour images.
        n_patches: D.
        norm_pix_loss: whether the network predicts normalised patches.
        conditionals: "learned", or "transformed" if normalised patches are scored: their area is not an
            evidence of pixels.
        base_measure: of the density, None before calibration; see `MaskedModel`.
        notes: what a user should know about the model, one sentence each.

    Raises:
        InputError: a model, preprocessing or density that does not fit.

    Source:
        He, Chen, Xie, Li, Dollár, Girshick (2022), Masked Autoencoders Are Scalable Vision Learners.
    """

    network: Any
    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        model: Any,
        *,
        pixel_mean: Sequence[float] = (0.5,),
        pixel_std: Sequence[float] = (0.5,),
        density: PixelDensity | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__()
        if batch_tokens is not None:
            batch_tokens = whole_number("batch_tokens", batch_tokens, 1)
        if any(not std > 0 for std in pixel_std):
            raise InputError(f"standard deviations {list(pixel_std)}; give numbers above 0")
        self._adapter = model if isinstance(model, PatchNetwork) else vit_mae_adapter(model)
        self.network = self._adapter.predict
        self.image_size = self._adapter.image_size
        self.patch_size = self._adapter.patch_size
        self.channels = self._adapter.channels
        self.n_patches = (self.image_size // self.patch_size) ** 2
        self.norm_pix_loss = self._adapter.norm_pix_loss
        self.notes: tuple[str, ...] = ()
        # buffers, because they affect the numbers and fingerprints include buffers
        self.register_buffer("pixel_mean", _per_channel(pixel_mean, self.channels, "mean"))
        self.register_buffer("pixel_std", _per_channel(pixel_std, self.channels, "standard deviation"))
        self.batch_tokens = batch_tokens
        self.density = density

    def page(self) -> Page:
        """A page that describes the model."""
        sizes = {"image_size": self.image_size, "patch_size": self.patch_size}
        return model_page(self, {"network": type(self.network).__name__, **sizes})

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> "MaskedImage":
        """Load a ViT-MAE, with its density if it has one, from a folder or the Hugging Face hub.

        Args:
            name_or_path: a folder that `save` or `save_pretrained` wrote, or OWNER/NAME on the hub.
            device: by default "cuda" or "mps" if available, otherwise "cpu".
            batch_tokens: patches in one call.
            revision: branch, tag or commit on the hub.

        Raises:
            InputError: no such model, one without a decoder of patches, incomplete weights, no network and no
                cached copy, or an unknown device.
            MissingExtraError: transformers is not installed.

        Example:
            >>> MaskedImage.from_pretrained("no/such/folder")
            Traceback (most recent call last):
            ...
            maskevidence.core.errors.InputError: there is no folder 'no/such/folder'; give a folder that \
save_pretrained wrote, or OWNER/NAME on the hub
        """
        device = choose_device(device)
        network, options, notes = load_vit_mae(str(name_or_path), revision)
        model = cls(network, **options, batch_tokens=batch_tokens)
        model.notes = notes
        return model.to(device).eval()

    @classmethod
    def from_callable(
        cls,
        fn: Callable[[Tensor, Tensor], Tensor],
        *,
        image_size: int,
        patch_size: int,
        channels: int,
        pixel_mean: Sequence[float] = (0.0,),
        pixel_std: Sequence[float] = (1 / 255,),
        density: PixelDensity | None = None,
        conditionals: Conditionals = "learned",
        batch_tokens: int | None = None,
    ) -> "MaskedImage":
        """Wrap any network that predicts hidden patches, for models outside transformers.

        Args:
            fn: maps images (b, C, H, W), as (level / 255 - pixel_mean) / pixel_std, and hidden patches
                (b, D), the same number in each row, to predictions (b, D, P·P·C) in the same units, in the
                order of `patchify`. It must not look at hidden patches. A `torch.nn.Module` becomes a part of
                this one.
            image_size: H and W, in pixels.
            patch_size: P.
            channels: C.
            pixel_mean: mean of the preprocessing; by default images come as levels.
            pixel_std: standard deviation of the preprocessing, likewise.
            density: the density of the pixels, if it is known already.
            conditionals: "exact" if the predictions and the density are conditionals of one joint density.
            batch_tokens: patches in one call.

        Example:
            >>> import maskevidence as me
            >>> from maskevidence.images.pixel_density import PixelDensity
            >>> grey = MaskedImage.from_callable(
            ...     lambda images, hidden: torch.full((len(images), 4, 4), 127.0),
            ...     image_size=4, patch_size=2, channels=1,
            ...     density=PixelDensity("gaussian", (1,), (900.0,), n_patches=4))
            >>> tokens = grey.tokens(np.full((1, 4, 4, 1), 127, dtype=np.uint8))
            >>> round(me.estimate_evidence(grey, tokens, me.Exhaustive()).log_evidence, 2)
            -69.12
        """
        return cls(
            PatchNetwork(fn, image_size, patch_size, channels, conditionals=conditionals),
            pixel_mean=pixel_mean,
            pixel_std=pixel_std,
            density=density,
            batch_tokens=batch_tokens,
        )

    @property
    def density(self) -> PixelDensity | None:
        """The density of a hidden pixel around its prediction; None before calibration."""
        return self._density

    @density.setter
    def density(self, density: PixelDensity | None) -> None:
        if density is not None:
            if density.n_patches != self.n_patches:
                raise InputError(
                    f"the density is for images with {density.n_patches} patches, the model reads "
                    f"{self.n_patches}; calibrate it again"
                )
            check_target(density.name, density.patch_statistics, normalised=self.norm_pix_loss)
        self._density = density
        of_pixels = not self.norm_pix_loss or (density is not None and density.patch_statistics is not None)
        self.conditionals: Conditionals = self._adapter.conditionals if of_pixels else "transformed"
        self.base_measure = None if density is None else pixel_base_measure(density.name, of_pixels=of_pixels)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.pixel_mean.device

    @property
    def n_pixels(self) -> int:
        """Numbers per image, H·W·C; the dimensions of bits per dimension."""
        return self.image_size**2 * self.channels

    def tokens(
        self, pixels: UInt8[np.ndarray, "N H W C"], ids: Int64[np.ndarray, " N"] | None = None
    ) -> Tokens:
        """Images as tokens: patches of levels 0..255, shape (N, D, P·P·C), all maskable.

        Args:
            pixels: the images; grey ones have one channel.
            ids: whole numbers that masks are keyed by; by default 0, 1, ...

        Raises:
            InputError: images with another size or number of channels than the model reads.
        """
        check_images(pixels, self.image_size, self.channels)
        values = patchify(torch.from_numpy(np.ascontiguousarray(pixels)), self.patch_size)
        maskable = torch.ones(values.shape[:2], dtype=torch.bool)
        numbers = torch.arange(len(values)) if ids is None else torch.from_numpy(np.asarray(ids))
        return Tokens(values, maskable, torch.zeros_like(maskable), numbers)

    def pixel_values(self, patches: Shaped[Tensor, "b D K"]) -> Float[Tensor, "b C H W"]:
        """Turn patches of levels into the network's input images: preprocessed, channels first."""
        pixels = self._in_model_units(patches.to(self.device))
        images = unpatchify(pixels, self.image_size, self.image_size, self.channels)
        return images.permute(0, 3, 1, 2)

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Split pairs of image and mask into parts of at most 128 MiB, large enough to repeat each mask size.

        `log_conditionals` sorts a part's pairs by mask size; each call of the network has pairs of one size.

        Args:
            n_present: shape (n_pairs,); not used, since all images have the same number of patches.

        Yields:
            The positions (0..n_pairs-1) of the pairs of each part.
        """
        per_part = max(1, min(_BATCH_BYTES // self.n_pixels, 64 * self.n_patches))
        for start in range(0, len(n_present), per_part):
            yield np.arange(start, min(start + per_part, len(n_present)))

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) of patches, nats, shape (B, D), float64; 0 where not masked.

        Differentiable. It is a density per level (0..255), a probability for the discretised density, or a
        density of the normalised patch if that is scored.
        """
        density = self.density
        if density is None:
            raise InputError(
                "the model has no variances, and squared errors are not log-probabilities; calibrate it on "
                "held-out images: model.calibrate(tokens)"
            )

        def log_prob(call: PatchCall) -> Float[Tensor, " n"]:
            values, means = self._targets(call, density.patch_statistics, density)
            row = torch.nonzero(call.scored)[:, 0]
            return density.log_prob(values, means, density.variance(call.hidden.sum(1))[row])

        return put_in_place(self._calls(tokens, masked), log_prob, like=masked)

    def reconstruction_losses(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The mean squared error of each hidden patch, ViT-MAE's training loss, shape (B, D); 0 elsewhere.

        The units are the network's own: squared preprocessed pixels, or squared standard deviations of the
        patch with `norm_pix_loss`. The mean over hidden patches is the loss of `ViTMAEForPreTraining`.
        """

        def loss(call: PatchCall) -> Float[Tensor, " n"]:
            pixels = self._in_model_units(call.levels[call.scored])
            targets = normalised(pixels) if self.norm_pix_loss else pixels
            return (call.outputs[call.scored] - targets).double().square().mean(1)

        return put_in_place(self._calls(tokens, masked), loss, like=masked)

    def reconstruct(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D K"]:
        """Replace hidden patches by their predictions, in levels (not rounded or clipped).

        Raises:
            InputError: a network of normalised patches that is not calibrated with statistics of visible
                patches, and so says nothing about pixels.
        """
        if self.conditionals == "transformed":
            raise InputError(
                "the network predicts normalised patches, which are not pixels; calibrate it with "
                "patch_statistics='visible' (--patch-statistics visible)"
            )
        patch_statistics = None if self.density is None else self.density.patch_statistics
        result = tokens.values.to(self.pixel_mean.dtype).clone()
        for call in self._calls(tokens, masked):
            _, means = self._targets(call, patch_statistics, self.density)
            row, column = torch.nonzero(call.scored, as_tuple=True)
            rows = call.rows.to(row.device)[row]
            result[rows.to(result.device), column.to(result.device)] = means.to(result)
        return result

    def calibrate(
        self,
        tokens: Tokens,
        density: DensityName = "gaussian",
        *,
        patch_statistics: PatchStatistics | None = None,
        sizes: Sequence[int] | None = None,
        seed: int = 0,
    ) -> PixelDensity:
        """Fit a variance for each mask size by maximum likelihood, with a random mask per image and size.

        Args:
            tokens: images that the model was not trained on and that will not be scored.
            density: "gaussian" or "discretised".
            patch_statistics: "visible" to score the pixels of a network of normalised patches.
            sizes: numbers of hidden patches; by default 1..D, or 32 of them, ends included.
            seed: seed of the masks, which differ from those of scores with the same seed.

        Returns:
            The density, which is also the model's from now on.

        Raises:
            InputError: options that do not fit the network.
            NumericalError: predictions without any error, or that are not numbers.
        """
        if density not in DENSITIES:
            raise InputError(f"density {density!r}; give {' or '.join(DENSITIES)}")
        check_target(density, patch_statistics, normalised=self.norm_pix_loss)
        if not len(tokens):
            raise InputError("there are no images to calibrate on; give one or more")
        fitted_sizes = spread_sizes(self.n_patches) if sizes is None else tuple(sorted(set(sizes)))
        mean, variance = self._mean_of_patches(tokens) if patch_statistics else (None, None)
        start = PixelDensity(
            density,
            fitted_sizes,
            (1.0,) * len(fitted_sizes),
            self.n_patches,
            n_images=len(tokens),
            seed=seed,
            patch_statistics=patch_statistics,
            patch_mean=mean,
            patch_variance=variance,
        )

        def predicted(
            masked: Bool[Tensor, "N D"], density: PixelDensity
        ) -> Iterator[tuple[Shaped[Tensor, "n K"], Float[Tensor, "n K"]]]:
            for call in self._calls(tokens, masked):
                yield self._targets(call, density.patch_statistics, density)

        self.density = fit_variances(predicted, tokens, start)
        return self.density

    def save(self, folder: str | Path) -> None:
        """Save a ViT-MAE as transformers does, with preprocessing and density, for `from_pretrained`."""
        network = self._adapter.transformer
        if network is None:
            raise InputError(
                "only a ViT-MAE can be saved; save the function's own weights, and build it again"
            )
        save_vit_mae(folder, network, self.pixel_mean.tolist(), self.pixel_std.tolist(), self.density)

    def fingerprint_settings(self) -> dict[str, Any]:
        """The settings, besides weights, buffers and density, that determine the numbers, as JSON values."""
        return self._adapter.settings()

    def _calls(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Iterator[PatchCall]:
        """The network's predictions, in calls of images with equally many hidden patches."""
        shape = (self.n_patches, self.n_pixels // self.n_patches)
        if tuple(tokens.values.shape[1:]) != shape:
            raise InputError(
                f"the tokens have shape {tuple(tokens.values.shape)}; give patches of shape (B, {shape[0]}, "
                f"{shape[1]}), as model.tokens(images) makes them"
            )
        budget = self.batch_tokens or _BATCH_TOKENS.get(self.device.type, _BATCH_TOKENS_ELSEWHERE)
        images_at_once = max(1, budget // (self.n_patches + 1))
        return calls_by_size(self._predictions, tokens, masked, images_at_once, self.device)

    def _predictions(
        self, levels: Shaped[Tensor, "b D K"], hidden: Bool[Tensor, "b D"]
    ) -> Float[Tensor, "b D K"]:
        return self.network(self.pixel_values(levels), hidden)

    def _targets(
        self, call: PatchCall, patch_statistics: PatchStatistics | None, density: PixelDensity | None
    ) -> tuple[Shaped[Tensor, "n K"], Float[Tensor, "n K"]]:
        """The scored patches and their predictions, in the density's units."""
        levels, outputs = call.levels[call.scored], call.outputs[call.scored]
        if self.norm_pix_loss:
            if patch_statistics is None:
                return normalised(self._in_model_units(levels)), outputs
            assert density is not None
            statistics = visible_statistics(self._in_model_units(call.levels), call.hidden, density)
            row = torch.nonzero(call.scored)[:, 0]
            outputs = brought_back(outputs, *(each[row] for each in statistics))
        return levels, self._in_levels(outputs)

    def _mean_of_patches(self, tokens: Tokens) -> tuple[float, float]:
        """A patch's mean and variance, averaged over all patches of these images, in the network's units."""
        means, variances = [], []
        for rows in torch.split(tokens.values, 256):
            patches = self._in_model_units(rows.to(self.device))
            means.append(patches.mean(2).flatten())
            variances.append(patches.var(2).flatten())
        return float(torch.cat(means).mean()), float(torch.cat(variances).mean())

    def _in_model_units(self, levels: Shaped[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        """(level / 255 - mean) / std; the channel of a patch's entry is its position modulo C."""
        mean, std = self._of_patch(self.pixel_mean), self._of_patch(self.pixel_std)
        return (levels.to(mean.dtype) / 255 - mean) / std

    def _in_levels(self, outputs: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
        return (outputs * self._of_patch(self.pixel_std) + self._of_patch(self.pixel_mean)) * 255

    def _of_patch(self, per_channel: Float[Tensor, " C"]) -> Float[Tensor, " K"]:
        return per_channel.repeat(self.patch_size**2)


def _per_channel(numbers: Sequence[float], channels: int, what: str) -> Float[Tensor, " C"]:
    if len(numbers) not in (1, channels):
        raise InputError(f"{len(numbers)} numbers for the {what} of {channels} channels; give one for each")
    return torch.tensor(list(numbers) * (channels // len(numbers)), dtype=torch.get_default_dtype())
