"""Load masked image models, fit pixel variances, and read a run's images again."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.command.options import ImageFiles, parse_size
from maskevidence.core.errors import InputError
from maskevidence.core.model import fingerprint
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.table import held_out_rows
from maskevidence.images.image_files import Images, read_images
from maskevidence.images.image_options import ImageOptions
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.pixel_density import PixelDensity
from maskevidence.images.reconstruction import DENSITY, N_PIXELS
from maskevidence.runs import DataSource, RunDirectory
from maskevidence.runs.prepared import Prepared

CALIBRATION_FRACTION = 0.2  # share of the images to fit variances to; the others are scored
MAX_CALIBRATION_IMAGES = 512
_CALIBRATION = 0x696D6167
_FITTED = "calibration_fingerprint"  # in a run's details, of the images that variances were fitted to


def prepare_images(
    model: str,
    data: str,
    options: ImageOptions = ImageOptions(),
    *,
    out: Path | None = None,
) -> Prepared:
    """Load a masked image model, read the images, and fit pixel variances if the model has none.

    Args:
        model: its folder, or OWNER/NAME on the hub.
        data: the images, as `read_images` takes them.
        options: which images are used and how they are read, the likelihood of pixels, and the device.
            The seed also chooses the images that variances are fitted to, and their masks.
        out: a run directory, whose variances are taken if it holds this run.

    Raises:
        InputError: options that exclude each other, or a model or images that cannot be used.
    """
    loaded = MaskedImage.from_pretrained(
        model, revision=options.revision, device=options.device, batch_tokens=options.batch_tokens
    )
    images = read_images_of(data, options.reading, limit=options.limit)
    notes = [*loaded.notes, *images.notes]
    if options.test_fraction is not None:
        _, images = images.split(options.test_fraction, options.seed)
        notes.append(f"scored on the {len(images):,} images held out")
    loaded.tokens(images.pixels[:1])  # refuses unsuitable images before the calibration
    fitted: dict[str, Any] = {}
    if _asks_for_calibration(loaded, options):
        images, calibration = _calibrate(loaded, images, options, out)
        fitted = {_FITTED: calibration.fingerprint()}
        fits = f"pixel variances fitted to {len(calibration):,} of the images"
        notes.append(f"{fits}, scored on the {len(images):,} others")
    else:
        assert loaded.density is not None
        notes.append(
            f"pixel variances as they are stored with the model ({loaded.density.name}, "
            f"{loaded.density.n_images or 'unknown'} images)"
        )
    assert loaded.density is not None
    notes += _what_is_scored(loaded, loaded.density)
    patches = loaded.tokens(images.pixels, images.ids)
    source = DataSource(
        name=data,
        fingerprint=images.fingerprint(),
        n_observations=len(images),
        columns=[f"patches of {patches.values.shape[2]} numbers"],
        test_fraction=options.test_fraction,
        notes=notes,
        kind="images",
        noun="image",
    )
    details = {DENSITY: loaded.density.to_dict(), N_PIXELS: loaded.n_pixels, **fitted}
    ready = Prepared(
        loaded, patches, source, details=details, revision=options.revision, labels=images.labels
    )
    return ready.read_with(data, {"limit": options.limit, **vars(options.reading)})


def read_images_of(data: str, reading: ImageFiles = ImageFiles(), *, limit: int | None = None) -> Images:
    """Read images."""
    size = parse_size(reading.resize)
    return read_images(data, column=reading.column, limit=limit, resize=size, skip_bad=reading.skip_bad)


def reopen_images(source: DataSource, seed: int) -> Images:
    """Read a run's images again, with the name and options in run.json.

    Args:
        seed: of the run, which also chose the images that variances were fitted to.
    """
    options = dict[str, Any](source.options)
    limit = options.pop("limit", None)
    images = read_images_of(source.name, ImageFiles(**options), limit=limit)
    if source.test_fraction is not None:
        _, images = images.split(source.test_fraction, seed)
    n_fitted = len(images) - source.n_observations
    return _parts(images, n_fitted, seed)[0] if n_fitted > 0 else images


def _asks_for_calibration(model: MaskedImage, options: ImageOptions) -> bool:
    stored = model.density
    if stored is None or options.calibration_fraction is not None:
        return True
    other_density = options.density not in (None, stored.name)
    return other_density or options.patch_statistics not in (None, stored.patch_statistics)


def _calibrate(
    model: MaskedImage, images: Images, options: ImageOptions, out: Path | None
) -> tuple[Images, Images]:
    """Fit a density to some of the images and set it as the model's; return the other images and these."""
    seed = options.seed
    fraction = CALIBRATION_FRACTION if options.calibration_fraction is None else options.calibration_fraction
    if not 0 < fraction < 1 or len(images) < 2:
        raise InputError(
            f"--calibration-fraction {fraction:g} of {len(images):,} images leaves none to fit variances "
            "to or none to score; give a share in (0, 1) and more images"
        )
    n = min(max(1, math.ceil(fraction * len(images))), MAX_CALIBRATION_IMAGES, len(images) - 1)
    others, calibration = _parts(images, n, seed)
    wanted = (options.density or "gaussian", options.patch_statistics, seed, n)
    stored = _density_of_run(out, fingerprint(model), others, calibration)
    if stored is not None and wanted == (
        stored.name,
        stored.patch_statistics,
        stored.seed,
        stored.n_images,
    ):
        model.density = stored
    else:
        tokens = model.tokens(calibration.pixels, calibration.ids)
        model.calibrate(tokens, wanted[0], patch_statistics=options.patch_statistics, seed=seed)
    return others, calibration


def _parts(images: Images, n: int, seed: int) -> tuple[Images, Images]:
    """Split the images into those to score and `n` to fit variances to."""
    _, fitted = held_out_rows(len(images), n / len(images), int(keyed_bits(seed, _CALIBRATION)))
    return images.select(np.setdiff1d(np.arange(len(images)), fitted)), images.select(fitted)


def _density_of_run(
    out: Path | None, model: str | None, scored: Images, calibration: Images
) -> PixelDensity | None:
    """The density stored in a run directory for this model and these images, or None.

    A resumed run needs the same variances as its first part, and need not compute them again.
    """
    manifest = None if out is None else RunDirectory(out).manifest()
    if manifest is None or DENSITY not in manifest.details:
        return None
    if manifest.model_fingerprint != model or manifest.data.fingerprint != scored.fingerprint():
        return None
    if manifest.details.get(_FITTED) != calibration.fingerprint():
        return None
    return PixelDensity.from_dict(dict(manifest.details[DENSITY]))


def _what_is_scored(model: MaskedImage, density: PixelDensity) -> list[str]:
    """Notes on what is scored: normalised patches, or pixels and their units."""
    if model.conditionals == "transformed":
        return [
            "the model predicts normalised patches (norm_pix_loss), and these are scored: turning them back "
            "into pixels needs the mean and variance of the hidden patch itself; --patch-statistics visible "
            "uses those of the visible patches"
        ]
    units = {
        "gaussian": "log-densities are per level (0..255) of each pixel",
        "discretised": "log-probabilities of the levels 0..255",
    }
    notes = [units[density.name]]
    if model.norm_pix_loss:
        notes.append("predictions turned back into pixels by the mean and variance of the visible patches")
    return notes
