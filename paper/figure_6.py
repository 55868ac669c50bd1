"""Figure 6: the curves of masked autoencoders of images with random and with trained weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

import maskevidence as me
from maskevidence.integrations.huggingface import Recipe, new_vit_mae, random_vit_mae, train_vit_mae
from paper.figures import SEEDS, Claim, PaperFigure, current_device, points, put
from paper.panels import BLUE, ORANGE, legend_below, new_figure

RATES = tuple(round(0.05 * k, 2) for k in range(1, 20))
Floats = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class ImageSet:
    """A data set of the figure, and how a small model is trained on it.

    Attributes:
        title: the title of its panel.
        train: the DATA word of the images to train on.
        test: the DATA word of the images to score; None to hold out a tenth of `train`.
        patch_size: the side of a patch, in pixels.
        steps: the number of training steps.
        limit: the number of images to train on; None for all.
    """

    title: str
    train: str
    test: str | None
    patch_size: int
    steps: int
    limit: int | None = None


SETS = (
    ImageSet("MNIST", "mnist:train", "mnist:test", 7, 3000),
    ImageSet("CIFAR-100", "cifar100:test", None, 4, 1000),
    ImageSet("Tiny-ImageNet", "tiny-imagenet:valid", None, 8, 1000),
)
FULL_STEPS = {each.title: each.steps for each in SETS}
QUICK = {
    "sets": tuple(replace(of, steps=n, limit=5000) for of, n in zip(SETS, (800, 250, 250), strict=True)),
    "test_images": 150,
    "masks_per_size": 2,
}
TRAINING: dict[str, Any] = {"batch_size": 64, "learning_rate": 1e-3, "warmup": 100, "weight_decay": 0.05}
SMALL = "small"
PRETRAINED = "facebook/vit-mae-base"
# The data sets for a pre-trained model, which has not seen these images.
PRETRAINED_SETS = ("fashion-mnist:test", "cifar100:test", "tiny-imagenet:valid")
PRETRAINED_IMAGES = 8


@dataclass(frozen=True)
class ModelCurve:
    """One curve of a panel.

    Attributes:
        estimate: the estimate, whose curve has n rates.
        per_pixel: the score in nats per pixel and channel, shape (n,).
        loss: the masked reconstruction loss in levels², shape (n,).
    """

    estimate: me.EvidenceEstimate
    per_pixel: Floats
    loss: Floats


@dataclass(frozen=True)
class Panel:
    """A data set with the curves of a model with random weights and of a trained model."""

    title: str
    n_pixels: int
    n_patches: int
    random: ModelCurve
    trained: ModelCurve


def figure_6(
    seeds: Sequence[int] = SEEDS[:1],
    *,
    model: str | None = None,
    sets: Sequence[ImageSet] = SETS,
    test_images: int = 300,
    masks_per_size: int = 4,
) -> PaperFigure:
    """Scores of ViT-MAEs at 5 % to 95 % of the patches hidden, with random and with trained weights.

    Each model has its own Gaussian density with a variance for every mask size, fitted to images that are not
    scored.

    Args:
        seeds: the first one is the seed of weights, masks and held-out images.
        model: a trained ViT-MAE, a folder or OWNER/NAME on the hub; images are resized for it. "small" trains
            a small one by random mask sizes on each data set. The default is facebook/vit-mae-base if the hub
            answers, and "small" otherwise.
        sets: the data sets that small models are trained on.
        test_images: the number of images to score; a pre-trained model scores at most 8.
        masks_per_size: the number of masks of each image at each rate.
    """
    design, seed = me.Rates(RATES, masks_per_size), seeds[0]
    trained = None if model == SMALL else _trained(model)
    if trained is None:
        panels = [_small(each, seed, design, test_images) for each in sets]
    else:
        n_images = min(test_images, PRETRAINED_IMAGES)
        panels = [_pretrained(trained, word, seed, design, n_images) for word in PRETRAINED_SETS]
    rows = [row for panel in panels for row in _rows(panel)]
    short = trained is None and any(each.steps < FULL_STEPS.get(each.title, 3000) for each in sets)
    claims = [claim for panel in panels for claim in _claims(panel, short=short)]
    numbers = {
        panel.title: {
            "n_patches": panel.n_patches,
            "n_pixels": panel.n_pixels,
            "area_random": panel.random.estimate.log_evidence,
            "area_trained": panel.trained.estimate.log_evidence,
            "data_se_trained": panel.trained.estimate.data_se,
        }
        for panel in panels
    }
    which = "trained here" if trained is None else model or PRETRAINED
    title = f"Figure 6: masked autoencoders of images, random weights against {which}"
    return PaperFigure("figure_6", title, claims, rows, numbers, partial(_draw, panels))


def _small(data: ImageSet, seed: int, design: me.Rates, test_images: int) -> Panel:
    """A small ViT-MAE before and after training on a data set."""
    images = me.data.read_images(data.train, limit=data.limit)
    if data.test is None:
        images, test = images.split(0.1, seed)
    else:
        test = me.data.read_images(data.test, limit=test_images)
    train, calibration = images.split(min(0.1, 300 / len(images)), seed)
    some = train.pixels[:2000] / 255
    model = new_vit_mae(
        image_size=train.pixels.shape[1],
        patch_size=data.patch_size,
        channels=train.pixels.shape[3],
        pixel_mean=some.mean((0, 1, 2)).tolist(),
        pixel_std=[float(some.std())],
        seed=seed,
    )
    model, test = put(model), test.head(test_images)
    at_random = _curve(model, calibration, test, design, seed)
    recipe = Recipe(steps=data.steps, seed=seed, **TRAINING)
    train_vit_mae(model, model.tokens(train.pixels, train.ids), recipe=recipe, device=current_device())
    trained = _curve(model, calibration, test, design, seed)
    return Panel(data.title, model.n_pixels, model.n_patches, at_random, trained)


def _trained(model: str | None) -> me.models.MaskedImage | None:
    """The given model; by default facebook/vit-mae-base, or None where it cannot be had."""
    try:
        return me.models.MaskedImage.from_pretrained(model or PRETRAINED, device=current_device())
    except me.InputError:
        if model is not None:
            raise
        return None


def _pretrained(
    trained: me.models.MaskedImage, word: str, seed: int, design: me.Rates, n_images: int
) -> Panel:
    """A trained ViT-MAE, and a model of the same shape with random weights."""
    assert trained.network is not None
    config = trained.network.model.config
    untrained = me.models.MaskedImage(
        random_vit_mae(config, seed),
        pixel_mean=trained.pixel_mean.tolist(),
        pixel_std=trained.pixel_std.tolist(),
    ).eval()
    side = trained.image_size
    images = in_channels(me.data.read_images(word, limit=2 * n_images, resize=(side, side)), trained.channels)
    if len(images) < 2:
        raise me.InputError(f"{word!r} has {len(images)} image(s); give two or more")
    test, calibration = images.split(0.5, seed)
    curves = [
        _curve(model, calibration, test, design, seed) for model in (untrained.to(trained.device), trained)
    ]
    return Panel(word, trained.n_pixels, trained.n_patches, *curves)


def in_channels(images: me.data.Images, channels: int) -> me.data.Images:
    """Repeat the channel of grey images for a model of coloured images; leave coloured images alone.

    Example:
        >>> grey = me.data.Images("one", np.ones((1, 2, 2, 1), dtype=np.uint8), np.arange(1))
        >>> in_channels(grey, 3).pixels.shape
        (1, 2, 2, 3)
    """
    if images.pixels.shape[3] != 1 or channels == 1:
        return images
    return me.data.Images(images.name, images.pixels.repeat(channels, axis=3), images.ids, images.notes)


def _curve(
    model: me.models.MaskedImage,
    calibration: me.data.Images,
    test: me.data.Images,
    design: me.Rates,
    seed: int,
) -> ModelCurve:
    """Fit the variances to the calibration images, and score the test images."""
    sizes = sorted({max(1, int(rate * model.n_patches + 1e-9)) for rate in design.rates})
    density = model.calibrate(
        model.tokens(calibration.pixels, calibration.ids),
        patch_statistics="visible" if model.norm_pix_loss else None,
        sizes=sizes,
        seed=seed,
    )
    estimate = me.estimate_evidence(model, model.tokens(test.pixels, test.ids), design, seed=seed)
    variance = density.variances_at(estimate.curve.size.astype(np.int64))
    per_pixel = estimate.curve.score / (model.n_pixels / model.n_patches)
    # S(x; M) = -K/2 (log 2πv_M + loss_M/v_M) for a patch of K pixels
    return ModelCurve(estimate, per_pixel, variance * (-2 * per_pixel - np.log(2 * np.pi * variance)))


def _rows(panel: Panel) -> list[dict[str, Any]]:
    """The rows of the CSV file."""
    in_patch, rows = panel.n_pixels / panel.n_patches, []
    for weights, of in (("random", panel.random), ("trained", panel.trained)):
        curve = points(of.estimate.curve, "size", "rate", "mask_se", "data_se")
        for point, score, loss in zip(curve, of.per_pixel.tolist(), of.loss.tolist(), strict=True):
            row = {
                "data": panel.title,
                "weights": weights,
                "size": point["size"],
                "rate": point["rate"],
                "score_per_pixel": score,
                "mask_se": point["mask_se"] / in_patch,
                "data_se": point["data_se"] / in_patch,
                "reconstruction_loss": loss,
            }
            rows.append(row)
    return rows


def _claims(panel: Panel, *, short: bool) -> list[Claim]:
    """The claims; what does not hold after a short training may hold after the full one."""
    random, trained = panel.random, panel.trained
    n = len(trained.per_pixel)
    low, high = slice(0, n // 3), slice(n - n // 3, n)
    fall, drift = (float(of.per_pixel[low].mean() - of.per_pixel[high].mean()) for of in (trained, random))
    drop = z_of_difference(trained.estimate, low, high)
    correlation = rank_correlation(trained.per_pixel)
    above = float((trained.per_pixel > random.per_pixel).mean())
    flat, falls = abs(drift) < fall / 5, bool(drop > 3 and correlation <= -0.8)
    return [
        Claim(
            f"{panel.title}: random weights give a flat curve (a fifth of the trained one's fall at most)",
            f"from the lowest to the highest third of the rates it falls by {drift:.4f} nats per pixel, the "
            f"trained one by {fall:.4f}",
            flat,
            too_short=short and not flat,
        ),
        Claim(
            f"{panel.title}: the trained curve falls (lowest over highest third of the rates at 3 se, rank "
            "correlation −0.8 or less)",
            f"by {fall:.4f} nats per pixel ({drop:.1f} se); rank correlation with the rate {correlation:.2f}",
            falls,
            too_short=short and not falls,
        ),
        Claim(
            f"{panel.title}: the trained curve lies above the random one at every rate",
            f"above at {above:.0%} of the rates; areas {trained.estimate.log_evidence:,.0f} and "
            f"{random.estimate.log_evidence:,.0f} nats per image",
            above == 1.0,
            too_short=short and above < 1.0,
        ),
    ]


def rank_correlation(curve: Floats) -> float:
    """Spearman's correlation of a curve with its position, which is -1 for a curve that falls throughout.

    Example:
        >>> rank_correlation(np.array([3.0, 2.0, 1.0]))
        -1.0
    """
    ranks = np.argsort(np.argsort(curve))
    return round(float(np.corrcoef(ranks, np.arange(len(curve)))[0, 1]), 12)


def z_of_difference(estimate: me.EvidenceEstimate, a: slice, b: slice) -> float:
    """The mean score of one part of a curve minus that of another, in standard errors, paired by image.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=1)
        >>> estimate = me.estimate_evidence(model, model.sample(50), me.Rates((0.2, 0.9), 2))
        >>> first, last = slice(0, 1), slice(1, 2)
        >>> z_of_difference(estimate, first, last) == -z_of_difference(estimate, last, first)
        True
    """
    scores, means = estimate.scores, []
    for part in (a, b):
        of_sizes = []
        for size in estimate.curve.size[part]:
            rows = scores.size == size
            _, image, count = np.unique(scores.id[rows], return_inverse=True, return_counts=True)
            of_sizes.append(np.bincount(image, weights=scores.score[rows]) / count)
        means.append(np.mean(of_sizes, axis=0))
    difference = means[0] - means[1]
    return float(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference))))


def _draw(panels: Sequence[Panel]) -> Any:
    figure, axes = new_figure(len(panels), 10.5, 6.0, n_rows=2)
    for panel, above, below in zip(panels, axes, axes[len(panels) :], strict=False):
        in_patch = panel.n_pixels / panel.n_patches
        for name, of, colour in (("random", panel.random, ORANGE), ("trained", panel.trained, BLUE)):
            curve, score = of.estimate.curve, of.per_pixel
            rate, half = 100 * curve.rate, 1.96 * np.hypot(curve.mask_se, curve.data_se) / in_patch
            style = {"color": colour, "marker": "o", "markersize": 2.5, "linewidth": 1.3}
            above.fill_between(rate, score - half, score + half, color=colour, alpha=0.3, linewidth=0)
            above.plot(rate, score, label=f"{name} weights", **style)
            below.plot(rate, of.loss, **style)
        above.set_title(f"{panel.title}, {panel.n_patches} patches", fontsize=9)
        below.set_xlabel("mask rate (% of patches hidden)")
        below.set_ylim(bottom=0)
    axes[0].set_ylabel("score S(x; M) by pixel\n(nats per pixel and channel)")
    axes[len(panels)].set_ylabel("masked reconstruction loss\n(squared error, levels²)")
    legend_below(figure, axes[0], ncols=2, fontsize=8)
    note = "Bands: 95 %, sampling of the images and drawing of the masks together."
    figure.suptitle(note, fontsize=8, x=0.01, ha="left")
    return figure
