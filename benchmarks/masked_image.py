"""Speed of scoring with masked autoencoders of images, against calling the model once per image and rate.

Both sides score the same random images at the rates of Figure 6 (5 % to 95 %), with the same masks and the
same Gaussian density, and must agree on every score. The package batches images that have the same mask size;
the loop sets the share of hidden patches and passes one image at a time to transformers' ViT-MAE. Takes about
three minutes on two cores.
"""

from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio, times_faster

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.tokens import Tokens
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.pixel_density import PixelDensity, gaussian_log_prob
from paper.vit_mae import random_vit_mae

RATES = tuple(round(0.05 * k, 2) for k in range(1, 20))
BATCH = 64
# name -> width, layers, heads, image size, patch size, channels, images, images of the loop, rounds, target
SHAPES: dict[str, tuple[int, int, int, int, int, int, int, int, int, float | None]] = {
    "2 layers of 64, 28×28×1, 16 patches": (64, 2, 4, 28, 7, 1, 512, 32, 5, 5.0),
    "2 layers of 64, 32×32×3, 64 patches": (64, 2, 4, 32, 4, 3, 128, 16, 3, None),
    "4 layers of 256, 32×32×3, 64 patches": (256, 4, 4, 32, 4, 3, 64, 16, 3, None),
    "ViT-MAE-base, 224×224×3, 196 patches": (0, 0, 0, 224, 16, 3, 2, 2, 3, None),
}
QUICK = {"2 layers of 64, 28×28×1, 16 patches": (64, 2, 4, 28, 7, 1, 4, 2, 5, None)}


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    rows, numbers, targets = [], {}, []
    for name, shape in (QUICK if options.quick else SHAPES).items():
        result = measure(*shape[:9])
        numbers[name] = result
        rows.append(
            (
                name,
                f"{result['ours']:,.1f}",
                f"{result['loop']:,.1f}",
                f"{result['times']:.2f} ({result['spread']})",
                f"{result['largest_difference']:.1e}",
            )
        )
        if shape[9] is not None:
            targets.append(Target(f"times the loop, {name}", result["times"], low=shape[9]))
        targets.append(
            Target(f"largest relative difference of a score, {name}", result["largest_difference"], high=1e-5)
        )
    columns = (
        "model and images",
        "images/s, ours",
        "images/s, loop",
        "times faster (range)",
        "largest difference",
    )
    show(f"{len(RATES)} rates for each image, {BATCH} images in a call, float32; {machine()}", columns, rows)
    return finish({"speed": numbers}, targets, options.json)


def vit_mae(width: int, layers: int, heads: int, image_size: int, patch_size: int, channels: int) -> Any:
    """A ViT-MAE with random weights: a small one, or with the shape of ViT-MAE-base if `width` is 0."""
    from transformers import ViTMAEConfig

    small = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * width,
    }
    shape = small | {f"decoder_{name}": value for name, value in small.items()} if width else {}
    config = ViTMAEConfig(image_size=image_size, patch_size=patch_size, num_channels=channels, **shape)
    return random_vit_mae(config).eval()


def measure(
    width: int,
    layers: int,
    heads: int,
    image_size: int,
    patch_size: int,
    channels: int,
    n_images: int,
    n_of_loop: int,
    rounds: int,
) -> dict[str, Any]:
    """Measure the images per second of both sides; the loop gets fewer images, which all cost the same."""
    network = vit_mae(width, layers, heads, image_size, patch_size, channels)
    n_patches = (image_size // patch_size) ** 2
    density = PixelDensity("gaussian", (1, n_patches), (2000.0, 4000.0), n_patches)
    model = MaskedImage(network, density=density, batch_tokens=BATCH * (n_patches + 1)).eval()
    shape = (n_images, image_size, image_size, channels)
    tokens = model.tokens(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    design = me.Rates(RATES)

    def ours() -> np.ndarray:
        return me.estimate_evidence(model, tokens, design).scores.score

    def loop() -> np.ndarray:
        return one_at_a_time(model, network, tokens[slice(n_of_loop)], design)

    first = n_of_loop * len(RATES)
    difference = np.abs(ours()[:first] / loop() - 1).max()
    timings = interleaved({"ours": ours, "loop": loop}, rounds)
    share = n_images / n_of_loop
    return {
        "ours": n_images / timings["ours"].median,
        "loop": n_of_loop / timings["loop"].median,
        "times": times_faster(timings, "loop", "ours") * share,
        "spread": " to ".join(
            f"{float(x) * share:.3g}" for x in spread_of_ratio(timings, "loop", "ours").split(" to ")
        ),
        "largest_difference": float(difference),
    }


def one_at_a_time(model: MaskedImage, network: Any, tokens: Tokens, design: me.Rates) -> np.ndarray:
    """The straightforward loop: call transformers' model for each image and rate, with masks by `noise`."""
    key, d, scores = MaskKey(0), tokens.width, []
    ids = tokens.ids.numpy()
    assert model.density is not None
    with torch.no_grad():
        for row in range(len(tokens)):
            patches = tokens.values[row : row + 1]
            pixels = model.pixel_values(patches)
            for index in range(len(RATES)):
                one = np.array([index])
                draw, size = design.plan(key, ids[row : row + 1], np.array([d]), one)
                masked = design.masked(key, ids[row : row + 1], draw, size, np.ones((1, d), dtype=np.bool_))
                hidden = torch.from_numpy(masked)
                network.config.mask_ratio = 1 - (d - int(size[0]) + 0.5) / d
                logits = network(pixel_values=pixels, noise=hidden.float()).logits
                means = (logits * 0.5 + 0.5) * 255
                variance = model.density.variance(torch.from_numpy(size))
                log_p = gaussian_log_prob(patches[hidden], means[hidden], variance).sum(1)
                scores.append(float(log_p.mean()))
    return np.array(scores)


if __name__ == "__main__":
    raise SystemExit(main())
