"""Masked image models: ViT-MAE of Hugging Face, or any network that predicts hidden patches."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped, UInt8
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.masks import EverySize, MaskKey
from maskevidence.model import Conditionals
from maskevidence.models.image.patches import check_images, patchify, unpatchify
from maskevidence.models.image.pixel_density import (
    DENSITIES,
    PixelDensity,
    VarianceFit,
    spread_sizes,
)
from maskevidence.models.image.vit_mae import ViTMAENetwork
from maskevidence.support.choices import Density, PatchStatistics
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens

Network = Callable[[Tensor, Tensor], Tensor]
_BATCH_TOKENS = {"cpu": 2048}
_BATCH_TOKENS_ELSEWHERE = 2**15
_BATCH_BYTES = 2**27  # of the pixels that are sorted by mask size together
_PATCH_EPSILON = 1e-6  # ViT-MAE's own, under the root of a patch's variance
_CALIBRATION = 0x76617269  # keeps the masks of the calibration apart from those of the scores


class _Call(NamedTuple):
    """One call of the network, for images that have as many hidden patches each.

    Attributes:
        rows: (b,), positions of the images in the batch.
        scored: (b, D), the hidden patches that are asked for.
        hidden: (b, D), all that the network does not see.
        levels: (b, D, K), the patches.
        outputs: (b, D, K), what the network says, in its own units.
    """

    rows: Int64[Tensor, " b"]
    scored: Bool[Tensor, "b D"]
    hidden: Bool[Tensor, "b D"]
    levels: Shaped[Tensor, "b D K"]
    outputs: Float[Tensor, "b D K"]


class MaskedImage(nn.Module):
    """The conditionals of a masked autoencoder of images: a density around the prediction of a hidden patch.

    Tokens are patches, each a vector of its pixels' levels. Build it by `from_pretrained` or `from_callable`;
    the constructor takes transformers' `ViTMAEForPreTraining` in memory. The network predicts and knows no
    density; `calibrate` fits one (`PixelDensity`), after which it can be scored.

    The encoder sees visible patches only, at every mask size: images of one call have as many hidden patches,
    and each its own. Patches that are neither maskable nor context are hidden too, and not scored.

    A network trained with `norm_pix_loss` predicts patches normalised by their own mean and variance. These
    belong to what is hidden, so that bringing the prediction back to pixels by them would look at the answer:
    the normalised patch itself is scored instead, of kind `pseudo`, or with `patch_statistics="visible"` the
    pixels, brought back by mean and variance of the visible patches.

    Args:
        model: a `ViTMAEForPreTraining`.
        pixel_mean: of its preprocessing, one number for each channel: it reads (level / 255 - mean) / std.
        pixel_std: likewise.
        density: where the variances are known already.
        batch_tokens: how many patches, hidden ones and the class token included, go into one call; by default
            2,048 on a CPU and 32,768 elsewhere.

    Attributes:
        image_size: H and W, in pixels.
        patch_size: P, in pixels.
        channels: C, 1 for grey and 3 for colour.
        n_patches: D.
        norm_pix_loss: whether the network predicts normalised patches.
        conditionals: "learned", or "transformed" where normalised patches are scored: no area of theirs is an
            evidence of pixels.
        notes: what a user should know about it, one sentence each.

    Raises:
        InputError: a model, preprocessing or density that does not fit.

    Source:
        He, Chen, Xie, Li, Dollár, Girshick (2022), Masked Autoencoders Are Scalable Vision Learners.
    """

    network: Any

    def __init__(
        self,
        model: Any,
        *,
        pixel_mean: Sequence[float] = (0.5,),
        pixel_std: Sequence[float] = (0.5,),
        density: PixelDensity | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        from maskevidence.models.image.loading import check_vit_mae

        check_vit_mae(model)
        config = model.config
        self._prepare(
            ViTMAENetwork(model),
            image_size=_one_side(config.image_size, "image"),
            patch_size=_one_side(config.patch_size, "patch"),
            channels=config.num_channels,
            pixel_mean=pixel_mean,
            pixel_std=pixel_std,
            norm_pix_loss=bool(config.norm_pix_loss),
            conditionals="learned",
            density=density,
            batch_tokens=batch_tokens,
        )

    def _prepare(
        self,
        network: Any,
        *,
        image_size: int,
        patch_size: int,
        channels: int,
        pixel_mean: Sequence[float],
        pixel_std: Sequence[float],
        norm_pix_loss: bool,
        conditionals: Conditionals,
        density: PixelDensity | None,
        batch_tokens: int | None,
    ) -> None:
        super().__init__()
        self.network = network
        self.image_size, self.patch_size, self.channels = image_size, patch_size, channels
        if patch_size < 1 or image_size % patch_size:
            raise InputError(f"patches of {patch_size} pixels do not fill images of {image_size}")
        self.n_patches = (image_size // patch_size) ** 2
        self.norm_pix_loss = norm_pix_loss
        self.notes: tuple[str, ...] = ()
        self.pixel_mean: Tensor  # buffers, since they change the numbers: a hash of the weights holds them
        self.pixel_std: Tensor
        self.register_buffer("pixel_mean", _per_channel(pixel_mean, channels, "mean"))
        self.register_buffer("pixel_std", _per_channel(pixel_std, channels, "standard deviation"))
        if bool((self.pixel_std <= 0).any()):
            raise InputError(f"standard deviations {list(pixel_std)}; give numbers above 0")
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"batch_tokens={batch_tokens}; give a whole number of 1 or more")
        self.batch_tokens = batch_tokens
        self._of_pixels = conditionals
        self.density = density

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> "MaskedImage":
        """Load a ViT-MAE from a folder or from the Hugging Face hub, with its density where it has one.

        Args:
            name_or_path: a folder that `save` or `save_pretrained` wrote, or OWNER/NAME on the hub.
            device: by default "cuda" or "mps" where there is one, else "cpu".
            batch_tokens: how many patches go into one call.
            revision: branch, tag or commit on the hub.

        Raises:
            InputError: no model there, one without a decoder of patches, weights that lack a part, no network
                and no cache, an unknown device.
            MissingExtraError: transformers is not installed.

        Example:
            >>> MaskedImage.from_pretrained("no/such/folder")
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: there is no folder 'no/such/folder'; give a folder that \
save_pretrained wrote, or OWNER/NAME on the hub
        """
        from maskevidence.models.image.loading import load_vit_mae
        from maskevidence.models.pretrained import choose_device

        chosen = choose_device(device)
        found = load_vit_mae(str(name_or_path), revision=revision)
        made = cls(
            found.network,
            pixel_mean=found.pixel_mean,
            pixel_std=found.pixel_std,
            density=found.density,
            batch_tokens=batch_tokens,
        )
        made.notes = found.notes
        return made.to(chosen).eval()

    @classmethod
    def from_callable(
        cls,
        fn: Network,
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
        """Any network that predicts hidden patches, for models outside transformers.

        Args:
            fn: maps images (b, C, H, W), as (level / 255 - pixel_mean) / pixel_std, and hidden patches
                (b, D), as many in each row, to predictions (b, D, P·P·C) in the same units, in the order of
                `patchify`. It must not look at hidden patches. Where it is a `torch.nn.Module` it becomes a
                part of this one.
            image_size: H and W, in pixels.
            patch_size: P.
            channels: C.
            pixel_mean: by default images come as levels.
            pixel_std: likewise.
            density: where the variances are known already.
            conditionals: "exact" where they are the conditionals of one joint density.
            batch_tokens: how many patches go into one call.

        Example:
            >>> import maskevidence as me
            >>> from maskevidence.models.image.pixel_density import PixelDensity
            >>> grey = MaskedImage.from_callable(
            ...     lambda images, hidden: torch.full((len(images), 4, 4), 127.0),
            ...     image_size=4, patch_size=2, channels=1,
            ...     density=PixelDensity("gaussian", (1,), (900.0,), n_patches=4))
            >>> tokens = grey.tokens(np.full((1, 4, 4, 1), 127, dtype=np.uint8))
            >>> round(me.estimate_evidence(grey, tokens, me.Exhaustive()).log_evidence, 2)
            -69.12
        """
        made = cls.__new__(cls)
        made._prepare(
            fn,
            image_size=image_size,
            patch_size=patch_size,
            channels=channels,
            pixel_mean=pixel_mean,
            pixel_std=pixel_std,
            norm_pix_loss=False,
            conditionals=conditionals,
            density=density,
            batch_tokens=batch_tokens,
        )
        return made

    @property
    def density(self) -> PixelDensity | None:
        """Of a hidden pixel around its prediction; None before it is calibrated."""
        return self._density

    @density.setter
    def density(self, density: PixelDensity | None) -> None:
        self._density = self._checked(density)
        of_pixels = not self.norm_pix_loss or (density is not None and density.patch_statistics is not None)
        self.conditionals: Conditionals = self._of_pixels if of_pixels else "transformed"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.pixel_mean.device

    @property
    def n_pixels(self) -> int:
        """How many numbers an image has: H·W·C, the dimensions of bits per dimension."""
        return self.image_size**2 * self.channels

    def tokens(
        self, pixels: UInt8[np.ndarray, "N H W C"], ids: Int64[np.ndarray, " N"] | None = None
    ) -> Tokens:
        """Images as tokens: patches of levels 0..255, shape (N, D, P·P·C), all maskable.

        Args:
            pixels: the images; grey ones have one channel.
            ids: whole numbers that masks are keyed by; by default 0, 1, ...

        Raises:
            InputError: images of another size or number of channels than the model reads.
        """
        check_images(pixels, self.image_size, self.channels)
        values = patchify(torch.from_numpy(np.ascontiguousarray(pixels)), self.patch_size)
        maskable = torch.ones(values.shape[:2], dtype=torch.bool)
        numbers = torch.arange(len(values)) if ids is None else torch.from_numpy(np.asarray(ids))
        return Tokens(values, maskable, torch.zeros_like(maskable), numbers)

    def pixel_values(self, patches: Shaped[Tensor, "b D K"]) -> Float[Tensor, "b C H W"]:
        """Patches of levels as the network reads images: preprocessed, channels first."""
        pixels = self._in_model_units(patches.to(self.device))
        images = unpatchify(pixels, self.image_size, self.image_size, self.channels)
        return images.permute(0, 3, 1, 2)

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """So many pairs at a time that each mask size comes often, within 128 MiB of pixels.

        `log_conditionals` sorts them by size and calls the network with images of one size.

        Args:
            n_present: shape (n_pairs,); of no consequence, since all images have as many patches.

        Yields:
            The positions (0..n_pairs-1) of the pairs of each part.
        """
        per_part = max(1, min(_BATCH_BYTES // self.n_pixels, 64 * self.n_patches))
        for start in range(0, len(n_present), per_part):
            yield np.arange(start, min(start + per_part, len(n_present)))

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) of patches in nats, shape (B, D), float64; 0 where not masked.

        Differentiable. A density per level (0..255), a probability with the discretised density, or a density
        of the normalised patch where that is scored.
        """
        density = self.density
        if density is None:
            raise InputError(
                "the model has no variances, and squared errors are no log-probabilities; calibrate it on "
                "held-out images: model.calibrate(tokens)"
            )

        def log_prob(call: _Call) -> Float[Tensor, " n"]:
            values, means = self._targets(call, density.patch_statistics, density)
            row = torch.nonzero(call.scored)[:, 0]
            return density.log_prob(values, means, density.variance(call.hidden.sum(1))[row])

        return self._of_hidden(tokens, masked, log_prob)

    def reconstruction_losses(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The mean squared error of each hidden patch, as ViT-MAE is trained by, shape (B, D); 0 elsewhere.

        The units are the network's own: squared preprocessed pixels, or squared standard deviations of the
        patch with `norm_pix_loss`. Its mean over hidden patches is the loss of `ViTMAEForPreTraining`.
        """

        def loss(call: _Call) -> Float[Tensor, " n"]:
            pixels = self._in_model_units(call.levels[call.scored])
            targets = _normalised(pixels) if self.norm_pix_loss else pixels
            return (call.outputs[call.scored] - targets).double().square().mean(1)

        return self._of_hidden(tokens, masked, loss)

    def reconstruct(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D K"]:
        """The patches with hidden ones replaced by their predictions, in levels (not rounded or clipped).

        Raises:
            InputError: a network of normalised patches that is not calibrated with statistics of visible
                patches, and so says nothing about pixels.
        """
        if self.conditionals == "transformed":
            raise InputError(
                "the network predicts normalised patches, which are no pixels; calibrate it with "
                "patch_statistics='visible' (--patch-statistics visible)"
            )
        of = None if self.density is None else self.density.patch_statistics
        made = tokens.values.to(self.pixel_mean.dtype).clone()
        for call in self._calls(tokens, masked):
            _, means = self._targets(call, of, self.density)
            row, column = torch.nonzero(call.scored, as_tuple=True)
            rows = call.rows.to(row.device)[row]
            made[rows.to(made.device), column.to(made.device)] = means.to(made)
        return made

    def calibrate(
        self,
        tokens: Tokens,
        density: Density = "gaussian",
        *,
        patch_statistics: PatchStatistics | None = None,
        sizes: Sequence[int] | None = None,
        seed: int = 0,
    ) -> PixelDensity:
        """Fit a variance for each mask size by maximum likelihood, with a random mask per image and size.

        Args:
            tokens: images that the model was neither trained nor will be scored on.
            density: "gaussian" or "discretised".
            patch_statistics: "visible" to score the pixels of a network of normalised patches.
            sizes: numbers of hidden patches; by default 1..D, or 32 of them, ends included.
            seed: of the masks, which are others than those of scores with the same seed.

        Returns:
            The density, which the model has from now on.

        Raises:
            InputError: options that do not fit the network.
            NumericalError: predictions without any error, or that are no numbers.
        """
        if density not in DENSITIES:
            raise InputError(f"density {density!r}; give {' or '.join(DENSITIES)}")
        self._check_target(density, patch_statistics)
        if not len(tokens):
            raise InputError("there are no images to calibrate on; give one or more")
        chosen = spread_sizes(self.n_patches) if sizes is None else tuple(sorted(set(sizes)))
        mean, variance = self._patch_statistics(tokens) if patch_statistics else (None, None)
        fitted = PixelDensity(
            density,
            chosen,
            (1.0,) * len(chosen),
            self.n_patches,
            n_images=len(tokens),
            seed=seed,
            patch_statistics=patch_statistics,
            patch_mean=mean,
            patch_variance=variance,
        )
        found = []
        with torch.no_grad(), progress("calibrating", len(chosen) * len(tokens)) as advance:
            for size in chosen:
                fit = VarianceFit(density, len(tokens) * size * self.n_pixels // self.n_patches, seed)
                for call in self._calls(
                    tokens, random_masks(tokens, size, int(keyed_bits(seed, _CALIBRATION)))
                ):
                    fit.add(*self._targets(call, patch_statistics, fitted))
                    advance(len(call.rows))
                found.append(fit.variance())
        self.density = PixelDensity.from_dict(fitted.to_dict() | {"variances": found})
        return self.density

    def save(self, folder: str | Path) -> None:
        """Write a ViT-MAE as transformers saves it, with preprocessing and density, for `from_pretrained`."""
        from maskevidence.models.image.loading import save_vit_mae

        if not isinstance(self.network, ViTMAENetwork):
            raise InputError(
                "only a ViT-MAE can be saved; save the function's own weights, and build it again"
            )
        save_vit_mae(
            folder, self.network.model, self.pixel_mean.tolist(), self.pixel_std.tolist(), self.density
        )

    def _calls(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Iterator[_Call]:
        """The network's answers, in calls of images with as many hidden patches; none for empty masks."""
        wanted = (self.n_patches, self.n_pixels // self.n_patches)
        if tuple(tokens.values.shape[1:]) != wanted:
            raise InputError(
                f"the tokens have shape {tuple(tokens.values.shape)}; give patches of shape (B, {wanted[0]}, "
                f"{wanted[1]}), as model.tokens(images) makes them"
            )
        hidden = ~tokens.visible(masked)
        n_hidden = hidden.sum(1)
        order = torch.argsort(n_hidden, stable=True)
        order = order[masked[order].any(1)]
        _, counts = torch.unique_consecutive(n_hidden[order], return_counts=True)
        budget = self.batch_tokens or _BATCH_TOKENS.get(self.device.type, _BATCH_TOKENS_ELSEWHERE)
        at_once = max(1, budget // (self.n_patches + 1))
        for of_one_size in torch.split(order, counts.tolist()):
            for rows in torch.split(of_one_size, at_once):
                levels, unseen = tokens.values[rows].to(self.device), hidden[rows].to(self.device)
                outputs = self.network(self.pixel_values(levels), unseen)
                yield _Call(rows, masked[rows].to(self.device), unseen, levels, outputs)

    def _of_hidden(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], of_call: Callable[[_Call], Float[Tensor, " n"]]
    ) -> Float[Tensor, "B D"]:
        """A number for each hidden patch, put in its place, shape (B, D); 0 elsewhere."""
        found, row, column = [], [], []
        for call in self._calls(tokens, masked):
            found.append(of_call(call))
            at, to = torch.nonzero(call.scored, as_tuple=True)
            row.append(call.rows.to(self.device)[at])
            column.append(to)
        empty = torch.zeros(masked.shape, dtype=torch.float64, device=self.device)
        if not found:
            return empty.to(masked.device)
        return empty.index_put((torch.cat(row), torch.cat(column)), torch.cat(found)).to(masked.device)

    def _targets(
        self, call: _Call, patch_statistics: PatchStatistics | None, density: PixelDensity | None
    ) -> tuple[Shaped[Tensor, "n K"], Float[Tensor, "n K"]]:
        """The hidden patches that are asked for and their predictions, in the units of the density."""
        levels, outputs = call.levels[call.scored], call.outputs[call.scored]
        if self.norm_pix_loss:
            if patch_statistics is None:
                return _normalised(self._in_model_units(levels)), outputs
            assert density is not None
            mean, variance = self._visible_statistics(call, density)
            row = torch.nonzero(call.scored)[:, 0]
            outputs = outputs * (variance[row, None] + _PATCH_EPSILON).sqrt() + mean[row, None]
        return levels, self._in_levels(outputs)

    def _visible_statistics(
        self, call: _Call, density: PixelDensity
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Mean and variance of a patch, averaged over the visible ones, in the network's pixel units.

        Where no patch is visible they are those of the images of the calibration.
        """
        visible = ~call.hidden
        count = visible.sum(1)
        patches = self._in_model_units(call.levels)
        found = []
        for each, otherwise in (
            (patches.mean(2), density.patch_mean),
            (patches.var(2), density.patch_variance),
        ):
            total = torch.where(visible, each, 0.0).sum(1)
            found.append(torch.where(count > 0, total / count.clamp(min=1), float(otherwise or 0.0)))
        return found[0], found[1]

    def _patch_statistics(self, tokens: Tokens) -> tuple[float, float]:
        """Mean and variance of a patch, averaged over all patches of these images."""
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

    def _checked(self, density: PixelDensity | None) -> PixelDensity | None:
        if density is not None:
            if density.n_patches != self.n_patches:
                raise InputError(
                    f"the density is of images with {density.n_patches} patches, the model reads "
                    f"{self.n_patches}; calibrate it again"
                )
            self._check_target(density.name, density.patch_statistics)
        return density

    def _check_target(self, density: Density, patch_statistics: PatchStatistics | None) -> None:
        if patch_statistics not in (None, "visible"):
            raise InputError(f"patch_statistics={patch_statistics!r}; give 'visible' or None")
        if patch_statistics is not None and not self.norm_pix_loss:
            raise InputError(
                "the network predicts pixels as they are (no norm_pix_loss); leave patch_statistics "
                "(--patch-statistics) out"
            )
        if self.norm_pix_loss and patch_statistics is None and density == "discretised":
            raise InputError(
                "the network predicts normalised patches, which have no levels; give "
                "patch_statistics='visible' (--patch-statistics visible), or the gaussian density"
            )


def random_masks(tokens: Tokens, size: int, seed: int) -> Bool[Tensor, "B D"]:
    """A random mask of one size for each observation, keyed by seed and id as those of `EverySize`.

    Example:
        >>> tokens = Tokens.from_array(np.ones((3, 5)))
        >>> random_masks(tokens, 2, seed=0).sum(1).tolist()
        [2, 2, 2]
    """
    ids, maskable = tokens.ids.cpu().numpy(), tokens.maskable.cpu().numpy()
    sizes = np.minimum(size, maskable.sum(1))
    masked = EverySize(1).masked(MaskKey(seed), ids, np.zeros_like(ids), sizes, maskable)
    return torch.from_numpy(masked).to(tokens.maskable.device)


def _normalised(patches: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
    """Each patch with mean 0 and variance 1, the target of `norm_pix_loss`."""
    variance, mean = torch.var_mean(patches, dim=1, keepdim=True)
    return (patches - mean) / (variance + _PATCH_EPSILON).sqrt()


def _per_channel(numbers: Sequence[float], channels: int, what: str) -> Float[Tensor, " C"]:
    if len(numbers) not in (1, channels):
        raise InputError(f"{len(numbers)} numbers for the {what} of {channels} channels; give one for each")
    return torch.tensor(list(numbers) * (channels // len(numbers)), dtype=torch.get_default_dtype())


def _one_side(size: Any, what: str) -> int:
    sides = {int(side) for side in (size if isinstance(size, list | tuple) else [size])}
    if len(sides) != 1:
        raise InputError(f"the model has a {what} size of {size}; only square ones can be used")
    return sides.pop()
