"""Small masked autoencoders with random weights, and images, for tests."""

from pathlib import Path
from typing import Any

import numpy as np
import torch


def random_images(n: int = 6, size: int = 8, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Images of random levels, so that all patches differ."""
    shape = (n, size, size, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth_images(n: int, size: int = 8, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Images that differ in brightness and gradient, with little noise, so that visible patches are
    informative.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((size, size)) / size
    level, slope = rng.uniform(60, 140, (n, 1, 1)), rng.uniform(0, 60, (2, n, 1, 1))
    images = level + slope[0] * rows + slope[1] * columns
    noisy = images[..., None] + rng.normal(0, 4, (n, size, size, channels))
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def small_vit_mae(**options: Any) -> Any:
    """A ViT-MAE with random weights large enough that its predictions differ between patches and masks."""
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    settings: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "decoder_hidden_size": 16,
        "decoder_num_hidden_layers": 1,
        "decoder_num_attention_heads": 2,
        "decoder_intermediate_size": 32,
        "image_size": 8,
        "patch_size": 2,
        "num_channels": 1,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ViTMAEForPreTraining(ViTMAEConfig(**(settings | options))).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.3)
    return model


def saved(model: Any, folder: Path) -> Path:
    """Save a model as transformers does, with its preprocessing."""
    from maskevidence.images.adapters import save_vit_mae

    save_vit_mae(folder, model, [0.4], [0.3], None)
    return folder


def write_images(folder: Path, images: np.ndarray) -> Path:
    """Write images as the files 00.png, 01.png, ... of a folder."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(images):
        Image.fromarray(pixels.squeeze()).save(folder / f"{number:02}.png")
    return folder
