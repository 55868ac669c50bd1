"""ViT-MAE models, loaded and saved together with their preprocessing and density."""

from pathlib import Path
from typing import Any

from maskevidence.errors import InputError, import_extra
from maskevidence.models.image.pixel_density import PixelDensity
from maskevidence.models.pretrained import load_network, loading
from maskevidence.support.files import read_json, replacing_files, write_json
from maskevidence.support.progress import quiet

DENSITY_FILE = "pixel_density.json"
PREPROCESSING_FILE = "preprocessor_config.json"
A_VIT_MAE = "give a ViT-MAE (ViTMAEForPreTraining), such as facebook/vit-mae-base"


def load_vit_mae(name: str, revision: str | None = None) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Load a ViT-MAE with its decoder, weights in float32; see `MaskedImage.from_pretrained`.

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
    """Write what `load_vit_mae` reads: the files of transformers, and the density if there is one.

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
    with quiet(), replacing_files(path) as new:
        network.save_pretrained(new)
    write_json(path / PREPROCESSING_FILE, preprocessing)
    if density is not None:
        write_json(path / DENSITY_FILE, density.to_dict())


def _preprocessing(
    transformers: Any, name: str, options: dict[str, Any]
) -> tuple[list[float], list[float], tuple[str, ...]]:
    """Mean and standard deviation of (level / 255 - mean) / std, and notes on what was assumed."""
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
