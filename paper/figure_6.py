"""Figure 6: the curves of masked autoencoders of images with random and with trained weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

import maskevidence as me
from maskevidence.huggingface import Recipe
from paper.figures import SEEDS, Claim, PaperFigure, current_device, points, pretrained, put, standard_error
from paper.panels import BLUE, ORANGE, legend_below, new_figure
from paper.vit_mae import new_vit_mae, random_vit_mae, train_vit_mae

RATES = tuple(round(0.05 * k, 2) for k in range(1, 20))
Floats = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class ImageSet:
    """A data set of the figure, and how a small model is trained on it.

    `train` and `test` are DATA words; without `test`, a tenth of `train` is held out. `limit` is the number
    of images to train on, None for all, and `patch_size` the side of a patch in pixels.
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
PRETRAINED_SETS = ("fashion-mnist:test", "cifar100:test", "tiny-imagenet:valid")  # which it has not seen
PRETRAINED_IMAGES = 8


@dataclass(frozen=True)
class ModelCurve:
    """An estimate, its score by rate in nats per pixel and channel, and the masked loss in levels²."""

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

    def numbers(self) -> dict[str, float | None]:
        """The sizes and the areas for `--json`."""
        random, trained = self.random.estimate, self.trained.estimate
        areas = {"area_random": random.log_evidence, "area_trained": trained.log_evidence}
        sizes = {"n_patches": self.n_patches, "n_pixels": self.n_pixels}
        return sizes | areas | {"data_se_trained": trained.data_se}


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
        model: a trained ViT-MAE, a folder or OWNER/NAME on the hub; "small" trains a small one by random
            mask sizes on each data set. By default facebook/vit-mae-base, or "small" without the hub.
        sets: the data sets that small models are trained on.
        test_images: the number of images to score; a pre-trained model scores at most 8.
        masks_per_size: the number of masks of each image at each rate.
    """
    design, seed = me.Rates(RATES, masks_per_size), seeds[0]
    load = me.models.MaskedImage.from_pretrained
    trained = None if model == SMALL else pretrained(load, model, PRETRAINED)
    if trained is None:
        panels = [_small(each, seed, design, test_images) for each in sets]
    else:
        n_images = min(test_images, PRETRAINED_IMAGES)
        panels = [_pretrained(trained, word, seed, design, n_images) for word in PRETRAINED_SETS]
    rows = [row for panel in panels for row in _rows(panel)]
    short = trained is None and any(each.steps < FULL_STEPS.get(each.title, 3000) for each in sets)
    claims = [claim for panel in panels for claim in _claims(panel, short=short)]
    numbers = {panel.title: panel.numbers() for panel in panels}
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
    shape = {"image_size": train.pixels.shape[1], "patch_size": data.patch_size, "channels": some.shape[3]}
    levels = {"pixel_mean": some.mean((0, 1, 2)).tolist(), "pixel_std": [float(some.std())]}
    model, test = put(new_vit_mae(**shape, **levels, seed=seed)), test.head(test_images)
    at_random = _curve(model, calibration, test, design, seed)
    recipe = Recipe(steps=data.steps, seed=seed, **TRAINING)
    train_vit_mae(model, model.tokens(train.pixels, train.ids), recipe=recipe, device=current_device())
    trained = _curve(model, calibration, test, design, seed)
    return Panel(data.title, model.n_pixels, model.n_patches, at_random, trained)


def _pretrained(
    trained: me.models.MaskedImage, word: str, seed: int, design: me.Rates, n_images: int
) -> Panel:
    """A trained ViT-MAE, and a model of the same shape with random weights."""
    assert trained.network is not None
    config = trained.network.model.config
    mean, std = trained.pixel_mean.tolist(), trained.pixel_std.tolist()
    untrained = me.models.MaskedImage(random_vit_mae(config, seed), pixel_mean=mean, pixel_std=std).eval()
    side = trained.image_size
    images = in_channels(me.data.read_images(word, limit=2 * n_images, resize=(side, side)), trained.channels)
    if len(images) < 2:
        raise me.InputError(f"{word!r} has {len(images)} image(s); give two or more")
    test, calibration = images.split(0.5, seed)
    models = (untrained.to(trained.device), trained)
    curves = [_curve(model, calibration, test, design, seed) for model in models]
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
    model: me.models.MaskedImage, fitted: me.data.Images, test: me.data.Images, design: me.Rates, seed: int
) -> ModelCurve:
    """Fit the variances to some images, and score the test images."""
    settings: dict[str, Any] = {"patch_statistics": "visible" if model.norm_pix_loss else None, "seed": seed}
    sizes = sorted({max(1, int(rate * model.n_patches + 1e-9)) for rate in design.rates})
    density = model.calibrate(model.tokens(fitted.pixels, fitted.ids), sizes=sizes, **settings)
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
            row = {"data": panel.title, "weights": weights, "size": point["size"], "rate": point["rate"]}
            row |= {"score_per_pixel": score, "mask_se": point["mask_se"] / in_patch}
            rows.append(row | {"data_se": point["data_se"] / in_patch, "reconstruction_loss": loss})
    return rows


def _claims(panel: Panel, *, short: bool) -> list[Claim]:
    """The claims; what does not hold after a short training may hold after the full one."""
    random, trained = panel.random, panel.trained
    n = len(trained.per_pixel)
    low, high = slice(0, n // 3), slice(n - n // 3, n)
    fall, drift = (float(of.per_pixel[low].mean() - of.per_pixel[high].mean()) for of in (trained, random))
    drop = z_of_difference(trained.estimate, low, high)
    correlation = round(float(spearmanr(np.arange(n), trained.per_pixel).statistic), 12)
    above = float((trained.per_pixel > random.per_pixel).mean())
    areas = " and ".join(f"{of.estimate.log_evidence:,.0f}" for of in (trained, random))
    thirds = f"falls by {drift:.4f} nats per pixel, the trained one by {fall:.4f}"
    bounds = "lowest over highest third of the rates at 3 se, rank correlation −0.8 or less"
    falls = f"by {fall:.4f} nats per pixel ({drop:.1f} se); rank correlation with the rate {correlation:.2f}"
    flat, every = abs(drift) < fall / 5, f"above at {above:.0%} of the rates; areas {areas} nats per image"
    claims = [
        Claim("random weights give a flat curve (a fifth of the trained one's fall at most)").by(
            f"from the lowest to the highest third of the rates it {thirds}", flat
        ),
        Claim(f"the trained curve falls ({bounds})", falls, drop > 3 and correlation <= -0.8),
        Claim("the trained curve lies above the random one at every rate", every, above == 1.0),
    ]
    name = panel.title
    return [Claim(f"{name}: {c.claim}", c.measured, c.holds, short and not c.holds) for c in claims]


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
    return float(difference.mean() / standard_error(difference))


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
