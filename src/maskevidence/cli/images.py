"""What `score` does with images for a masked image model: its options, the calibration, the patches."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.cli.rows import RowOptions
from maskevidence.data.images import Images, read_images
from maskevidence.data.tabular import held_out_rows
from maskevidence.errors import InputError
from maskevidence.models.image.pixel_density import PixelDensity
from maskevidence.models.image.summary import DENSITY, N_PIXELS
from maskevidence.models.saving import fingerprint, same_fingerprint
from maskevidence.runs import RunDirectory
from maskevidence.support.choices import Density, PatchStatistics
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.tasks.image_rows import ImageRows
from maskevidence.tasks.parse import parse_size
from maskevidence.tasks.prepare_rows import Prepared

CALIBRATION_FRACTION = 0.2
MOST_CALIBRATION_IMAGES = 512
_CALIBRATION = 0x696D6167


@dataclass(frozen=True)
class ImageOptions:
    """The options of `score` that belong to masked image models; None where not given.

    Attributes:
        density: "gaussian" or "discretised".
        patch_statistics: "visible", for a model of normalised patches.
        calibration_fraction: share of the images that variances are fitted to, and that are not scored.
        device: where the model runs.
        batch_tokens: patches in one call.
    """

    density: Density | None = None
    patch_statistics: PatchStatistics | None = None
    calibration_fraction: float | None = None
    device: str | None = None
    batch_tokens: int | None = None

    def refuse(self, model: str) -> None:
        """Raise if an option was given that belongs to masked image models, for another model.

        Example:
            >>> ImageOptions(density="gaussian").refuse("ppca:8")
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: --density belongs to masked image models; 'ppca:8' is none
        """
        for name in ("density", "patch_statistics", "calibration_fraction"):
            if getattr(self, name) is not None:
                flag = "--" + name.replace("_", "-")
                raise InputError(f"{flag} belongs to masked image models; {model!r} is none")

    def prepare(
        self, model: str, data: str, rows: RowOptions, limit: int | None, seed: int, out: Path | None
    ) -> Prepared:
        """Load the model, read the images, and fit the variances to some of them where the model has none.

        Args:
            model: its word.
            data: the word of the images.
            rows: options of the images.
            limit: the first so many images only.
            seed: of the choice of images for the calibration, and of its masks.
            out: a run directory, whose variances are taken where it holds this run already.

        Raises:
            InputError: options that do not go together, or whatever is wrong with model or images.
        """
        rows.refuse("images", ("binarise",))

        from maskevidence.models.image.masked_image import MaskedImage

        loaded = MaskedImage.from_pretrained(model, device=self.device, batch_tokens=self.batch_tokens)
        images = read_images(
            data, column=rows.column, limit=limit, resize=parse_size(rows.resize), skip_bad=rows.skip_bad
        )
        notes = [*loaded.notes, *images.notes]
        if rows.test_fraction is not None:
            _, images = images.split(rows.test_fraction, seed)
            notes.append(f"scored on the {len(images):,} images held out")
        loaded.tokens(images.pixels[:1])  # says at once what does not fit
        if self._asks_for_calibration(loaded):
            images, note = self._calibrate(loaded, images, seed, out)
            notes.append(note)
        else:
            assert loaded.density is not None
            notes.append(
                f"pixel variances as they are stored with the model ({loaded.density.name}, "
                f"{loaded.density.n_images or 'unknown'} images)"
            )
        notes += _what_is_scored(loaded)
        patches = loaded.tokens(images.pixels, images.ids)
        assert loaded.density is not None
        details = {DENSITY: loaded.density.to_dict(), N_PIXELS: loaded.n_pixels}
        return Prepared(loaded, ImageRows(images, patches), tuple(notes), rows.test_fraction, details=details)

    def _asks_for_calibration(self, model: Any) -> bool:
        known = model.density
        if known is None or self.calibration_fraction is not None:
            return True
        other_density = self.density is not None and self.density != known.name
        return other_density or (
            self.patch_statistics is not None and self.patch_statistics != known.patch_statistics
        )

    def _calibrate(self, model: Any, images: Images, seed: int, out: Path | None) -> tuple[Images, str]:
        """Give the model a density fitted to some of the images; the others, and one sentence about it."""
        fraction = CALIBRATION_FRACTION if self.calibration_fraction is None else self.calibration_fraction
        if not 0 < fraction < 1 or len(images) < 2:
            raise InputError(
                f"--calibration-fraction {fraction:g} of {len(images):,} images leaves none to fit variances "
                "to or none to score; give a share in (0, 1) and more images"
            )
        n = min(max(1, math.ceil(fraction * len(images))), MOST_CALIBRATION_IMAGES, len(images) - 1)
        _, chosen = held_out_rows(len(images), n / len(images), int(keyed_bits(seed, _CALIBRATION)))
        others = np.setdiff1d(np.arange(len(images)), chosen)
        of_calibration = images.select(chosen)
        name: Density = self.density or "gaussian"
        scored = images.select(others)
        known = _density_of_run(out, fingerprint(model), scored)
        wanted = (name, self.patch_statistics, seed, len(chosen))
        if known is not None and wanted == (
            known.name,
            known.patch_statistics,
            known.seed,
            known.n_images,
        ):
            model.density = known
        else:
            tokens = model.tokens(of_calibration.pixels, of_calibration.ids)
            model.calibrate(tokens, name, patch_statistics=self.patch_statistics, seed=seed)
        note = (
            f"pixel variances fitted to {len(chosen):,} of the images, scored on the {len(others):,} others"
        )
        return scored, note


def _density_of_run(out: Path | None, model: str | None, scored: Images) -> PixelDensity | None:
    """The density that a run directory holds for this model and these images.

    A resumed run has to have the very numbers of the first part, and need not wait for them.
    """
    manifest = None if out is None else RunDirectory(out).manifest()
    if manifest is None or DENSITY not in manifest.details:
        return None
    same = same_fingerprint(manifest.model_fingerprint, model)
    if not same or manifest.data.fingerprint != scored.fingerprint():
        return None
    return PixelDensity.from_dict(dict(manifest.details[DENSITY]))


def _what_is_scored(model: Any) -> list[str]:
    """Sentences on the target, which is not always the pixels."""
    if model.conditionals == "transformed":
        return [
            "the model predicts normalised patches (norm_pix_loss), and these are scored: bringing them back "
            "to pixels takes mean and variance of the hidden patch itself; --patch-statistics visible takes "
            "those of the visible ones"
        ]
    units = {
        "gaussian": "log-densities are per level (0..255) of each pixel",
        "discretised": "log-probabilities of the levels 0..255",
    }
    notes = [units[model.density.name]]
    if model.norm_pix_loss:
        notes.append("predictions brought back to pixels by mean and variance of the visible patches")
    return notes
