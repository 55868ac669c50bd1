"""ViT-MAE models, loaded and saved together with their preprocessing and density."""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from maskevidence.errors import InputError, import_extra
from maskevidence.models.image.pixel_density import PixelDensity
from maskevidence.models.pretrained import (
    LOADING_ERRORS,
    check_is_folder_or_name,
    reachable_options,
    why_not_loaded,
)
from maskevidence.support.files import read_json, write_json, writing
from maskevidence.support.progress import quiet

DENSITY_FILE = "pixel_density.json"
PREPROCESSING_FILE = "preprocessor_config.json"
_A_VIT_MAE = "give a ViT-MAE (ViTMAEForPreTraining), such as facebook/vit-mae-base"


class LoadedViTMAE(NamedTuple):
    """What a folder or the hub holds.

    Attributes:
        network: a `ViTMAEForPreTraining`.
        pixel_mean: of the preprocessing, one number for each channel.
        pixel_std: likewise.
        density: where the folder has one.
        notes: what was assumed, one sentence each.
    """

    network: Any
    pixel_mean: list[float]
    pixel_std: list[float]
    density: PixelDensity | None
    notes: tuple[str, ...]


def load_vit_mae(name: str, *, revision: str | None = None) -> LoadedViTMAE:
    """A ViT-MAE with its decoder from a folder or the hub, weights in float32.

    Raises:
        InputError: for whatever is missing or does not fit.
    """
    transformers = import_extra("transformers", "hf", "a masked image model")
    is_folder = check_is_folder_or_name(name)
    options = reachable_options(is_folder, revision)
    with quiet():
        try:
            config = transformers.AutoConfig.from_pretrained(name, **options)
            if config.model_type != "vit_mae":
                raise InputError(
                    f"{name!r} is a {config.model_type} model, which has no decoder that predicts patches; "
                    f"{_A_VIT_MAE}"
                )
            network, report = transformers.ViTMAEForPreTraining.from_pretrained(
                name, config=config, dtype=torch.float32, output_loading_info=True, **options
            )
            preprocessing = _preprocessing(transformers, name, options)
        except LOADING_ERRORS as error:
            raise why_not_loaded(error, name, is_folder, options["local_files_only"]) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise InputError(
            f"the weights of {name!r} lack {len(missing)} of those of a ViT-MAE, such as {missing[0]}; "
            "give a model that was saved with its decoder"
        )
    mean, std, notes = preprocessing
    density = _read_density(Path(name) / DENSITY_FILE) if is_folder else None
    return LoadedViTMAE(network, mean, std, density, notes)


def save_vit_mae(
    folder: str | Path,
    network: Any,
    pixel_mean: list[float],
    pixel_std: list[float],
    density: PixelDensity | None,
) -> None:
    """Write what `load_vit_mae` reads, in the files of transformers, and the density where there is one.

    Raises:
        InputError: the folder cannot be written.
    """
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
    with writing(path), quiet():
        network.save_pretrained(path)
    write_json(path / PREPROCESSING_FILE, preprocessing)
    if density is not None:
        write_json(path / DENSITY_FILE, density.to_dict())


def check_vit_mae(model: Any) -> None:
    """Raise an InputError unless a model in memory predicts patches as ViT-MAE does."""
    if getattr(getattr(model, "config", None), "model_type", None) != "vit_mae" or not hasattr(
        model, "decoder"
    ):
        raise InputError(f"{type(model).__name__} has no decoder that predicts patches; {_A_VIT_MAE}")


def _preprocessing(
    transformers: Any, name: str, options: dict[str, Any]
) -> tuple[list[float], list[float], tuple[str, ...]]:
    """Mean and standard deviation of (level / 255 - mean) / std, and what was assumed."""
    file = transformers.utils.cached_file(
        name, PREPROCESSING_FILE, _raise_exceptions_for_missing_entries=False, **options
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
