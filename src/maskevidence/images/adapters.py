"""Networks behind a masked image model: a Hugging Face ViT-MAE, or a function of images and masks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maskevidence.core.errors import InputError, NumericalError, import_extra
from maskevidence.core.model import Conditionals
from maskevidence.core.pretrained import config_settings, load_network, loading
from maskevidence.core.support.devices import alone_with
from maskevidence.core.support.files import read_json, replacing_files, write_json
from maskevidence.core.support.progress import quiet
from maskevidence.images.patches import check_patch_size
from maskevidence.images.pixel_density import PixelDensity

DENSITY_FILE = "pixel_density.json"
PREPROCESSING_FILE = "preprocessor_config.json"
A_VIT_MAE = "give a ViT-MAE (ViTMAEForPreTraining), such as facebook/vit-mae-base"


def load_vit_mae(name: str, revision: str | None = None) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Load a ViT-MAE with its decoder and float32 weights; see `MaskedImage.from_pretrained`.

    Returns:
        The `ViTMAEForPreTraining`, the other arguments of `MaskedImage` for it (pixel_mean, pixel_std and
        density), and notes on what was assumed, one sentence each.
    """
    transformers = import_extra("transformers", "hf", "a masked image model")
    with loading(name, revision) as options:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        if config.model_type != "vit_mae":
            raise InputError(
                f"{name!r} is a {config.model_type} model, which has no decoder that predicts patches; "
                f"{A_VIT_MAE}"
            )
        kind = transformers.ViTMAEForPreTraining
        network, unread = load_network(kind, name, "decoder", config=config, **options)
        mean, std, notes = _preprocessing(transformers, name, options)
    density = _read_density(Path(name) / DENSITY_FILE) if Path(name).is_dir() else None
    return network, {"pixel_mean": mean, "pixel_std": std, "density": density}, (*unread, *notes)


def save_vit_mae(
    folder: str | Path,
    network: Any,
    pixel_mean: list[float],
    pixel_std: list[float],
    density: PixelDensity | None,
) -> None:
    """Save a ViT-MAE, its preprocessing and its density, if any, for `load_vit_mae`."""
    path = Path(folder)
    size = network.config.image_size
    preprocessing = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": size, "width": size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": pixel_mean,
        "image_std": pixel_std,
    }
    with quiet(), replacing_files(path) as new:
        network.save_pretrained(new)
    write_json(path / PREPROCESSING_FILE, preprocessing)
    if density is not None:
        write_json(path / DENSITY_FILE, density.to_dict())


def _preprocessing(
    transformers: Any, name: str, options: dict[str, Any]
) -> tuple[list[float], list[float], tuple[str, ...]]:
    """Mean and standard deviation in (level / 255 - mean) / std, and notes on assumptions."""
    file = transformers.utils.cached_file(
        name,
        PREPROCESSING_FILE,
        revision=options["revision"],
        local_files_only=options["local_files_only"],
        _raise_exceptions_for_missing_entries=False,
    )
    if file is None:
        note = f"there is no {PREPROCESSING_FILE}; pixels are taken as (level / 255 - 0.5) / 0.5"
        return [0.5], [0.5], (note,)
    content = read_json(file)
    mean, std = [0.0], [1.0]
    if content.get("do_normalize", True):
        mean, std = content.get("image_mean", [0.5]), content.get("image_std", [0.5])
    factor = content.get("rescale_factor", 1 / 255) if content.get("do_rescale", True) else 1.0
    scale = 255 * factor  # level · factor = (level / 255) · scale
    return [m / scale for m in _listed(mean)], [s / scale for s in _listed(std)], ()


def _listed(numbers: Any) -> list[float]:
    return [float(n) for n in (numbers if isinstance(numbers, list | tuple) else [numbers])]


def _read_density(file: Path) -> PixelDensity | None:
    if not file.exists():
        return None
    return PixelDensity.from_dict(read_json(file, "calibrate the model again"))


class ViTMAENetwork(nn.Module):
    """A `ViTMAEForPreTraining` as a function of images and hidden patches."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"]
    ) -> Float[Tensor, "b D K"]:
        """Predictions for all patches, shape (b, D, K); only those at hidden patches are meaningful."""
        return self.ask(self.model, pixels, hidden).logits

    @staticmethod
    def ask(
        model: Any, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"], through: Any = None
    ) -> Any:
        """Call the model with given hidden patches; return its whole output, with its own loss.

        ViT-MAE hides the fraction `mask_ratio` of the patches, those with the largest noise, and keeps the
        others in the order of their noise.
        """
        d, n_hidden = hidden.shape[1], int(hidden[0].sum())
        noise = hidden * d + torch.arange(d, device=hidden.device)
        with alone_with(model), _mask_ratio(model.config, 1 - (d - n_hidden + 0.5) / d):
            output = (model if through is None else through)(
                pixel_values=pixels, noise=noise.to(pixels.dtype)
            )
        if not torch.equal(output.mask.bool(), hidden):
            raise NumericalError(
                f"the model hid {int(output.mask.sum())} patches that differ from the {int(hidden.sum())} "
                "requested ones; this version of transformers handles masks differently"
            )
        return output


@contextmanager
def _mask_ratio(config: Any, ratio: float) -> Iterator[None]:
    """Set the fraction of hidden patches for one call."""
    before = config.mask_ratio
    config.mask_ratio = ratio
    try:
        yield
    finally:
        config.mask_ratio = before


@dataclass(frozen=True)
class PatchNetwork:
    """A network that predicts hidden patches, and the size of its images."""

    # a function or `torch.nn.Module` from images (b, C, H, W) and hidden patches (b, D), equally many in each
    # row, to predictions (b, D, P·P·C)
    predict: Callable[[Tensor, Tensor], Tensor]
    image_size: int  # H and W, in pixels
    patch_size: int  # P, in pixels
    channels: int  # C
    norm_pix_loss: bool = False  # whether it predicts normalised patches
    conditionals: Conditionals = "learned"  # kind of the predictions; see `MaskedModel`
    transformer: Any = None  # the transformers model behind it; None for a function

    def __post_init__(self) -> None:
        check_patch_size(self.image_size, self.image_size, self.patch_size)

    def settings(self) -> dict[str, Any]:
        """The settings, besides the weights, that determine the predictions, as JSON values."""
        shape = {"image_size": self.image_size, "patch_size": self.patch_size, "channels": self.channels}
        if self.transformer is None:
            return shape
        # ViT-MAE's own mask ratio is never used: each call sets it
        return shape | config_settings(self.transformer, ignored=("mask_ratio",))


def vit_mae_adapter(model: Any) -> PatchNetwork:
    """Wrap a `ViTMAEForPreTraining` as a `PatchNetwork`."""
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) != "vit_mae" or not hasattr(model, "decoder"):
        raise InputError(f"{type(model).__name__} has no decoder that predicts patches; {A_VIT_MAE}")
    return PatchNetwork(
        ViTMAENetwork(model),
        image_size=_one_side(config.image_size, "image"),
        patch_size=_one_side(config.patch_size, "patch"),
        channels=config.num_channels,
        norm_pix_loss=bool(config.norm_pix_loss),
        transformer=model,
    )


def _one_side(size: Any, what: str) -> int:
    sides = {int(side) for side in (size if isinstance(size, list | tuple) else [size])}
    if len(sides) != 1:
        raise InputError(f"the model has a {what} size of {size}; only square ones can be used")
    return sides.pop()
