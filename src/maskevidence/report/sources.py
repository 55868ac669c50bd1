"""The observations of a run, read again from their source and checked against the fingerprints of the run."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, UInt8

from maskevidence import kinds
from maskevidence.data.images import Images
from maskevidence.data.table import Table
from maskevidence.errors import MaskEvidenceError
from maskevidence.models.image.summary import DENSITY
from maskevidence.runs import DataSource, Manifest

_PIXEL = re.compile(r"(?:pixel_|r)(\d+)(?:_|c)(\d+)(?:b([012]))?")


@dataclass(frozen=True)
class Text:
    """An observation that is text.

    Attributes:
        text: the scored text; the two texts of a pair are on separate lines.
        prompt: text that was always visible and is not scored.
    """

    text: str
    prompt: str | None = None


@dataclass(frozen=True)
class Row:
    """An observation that is a row of numbers.

    Attributes:
        columns: D names.
        values: shape (D,); NaN where missing.
    """

    columns: tuple[str, ...]
    values: Float64[np.ndarray, " D"]


@dataclass(frozen=True)
class Picture:
    """An observation that is an image.

    Attributes:
        pixels: shape (H, W, C), levels 0..255; C is 1 or 3.
        place: row and column of the pixel of each token, shape (D, 2); None if tokens are square patches.
        row: the columns of a table behind the pixels; None for an image file.
    """

    pixels: UInt8[np.ndarray, "H W C"]
    place: np.ndarray | None = None
    row: Row | None = None


Content = Text | Row | Picture
Contents = Callable[[int], Content | None]


@dataclass(frozen=True)
class Unavailable:
    """Why the observations cannot be shown, as a sentence."""

    reason: str


def read_back(manifest: Manifest) -> Contents | Unavailable:
    """Read the observations of a run again.

    The data are read by the name and with the options in the manifest, and are shown only if they have the
    fingerprint of the run.

    Args:
        manifest: what the run scores.

    Returns:
        A function that gives the content of an observation by its id, or why the content cannot be shown.
    """
    data = manifest.data
    is_text = data.text_fingerprint is not None
    if is_text and "block_size" in data.options:
        return Unavailable(
            "The observations are blocks of running text; the run does not record which text they hold."
        )
    try:
        if is_text:
            contents = _texts(data)
        else:
            contents = _images(manifest) if DENSITY in manifest.details else _rows(manifest)
    except (MaskEvidenceError, OSError) as error:
        return Unavailable(f"The data {data.name!r} cannot be read any more: {' '.join(str(error).split())}.")
    return contents or Unavailable(
        f"{data.name!r} does not hold what was scored (the fingerprints differ): the data have changed "
        "since, or were read differently."
    )


def _texts(data: DataSource) -> Contents | Unavailable | None:
    """The texts of a run; None if they have changed."""
    texts = kinds.texts.reopen(data)
    if texts.fingerprint() != data.text_fingerprint:
        return None
    if len(texts) != data.n_observations:
        return Unavailable(
            f"The {data.n_observations:,} observations are parts of {len(texts):,} texts; the run does not "
            "record which."
        )
    context = data.options.get("context_field")
    scored = [column for column in texts.columns if column != context] or list(texts.columns)

    def content(number: int) -> Content | None:
        if not 0 <= number < len(texts):
            return None
        prompt = texts[context][number] if context in texts.columns and context not in scored else None
        return Text("\n".join(texts[column][number] for column in scored), prompt)

    return content


def _images(manifest: Manifest) -> Contents | None:
    """The images of a run; None if they have changed."""
    images = kinds.images.reopen(manifest.data, manifest.seed)
    return _of_images(images) if images.fingerprint() == manifest.data.fingerprint else None


def _rows(manifest: Manifest) -> Contents | None:
    """The rows of a run; None if they have changed."""
    rows, everything = kinds.rows.reopen(manifest.data, manifest.seed)
    return _of_table(rows, everything) if rows.fingerprint() == manifest.data.fingerprint else None


def _of_images(images: Images) -> Contents:
    place = {int(number): row for row, number in enumerate(images.ids)}
    return lambda number: Picture(images.pixels[place[number]]) if number in place else None


def _of_table(rows: Table, everything: Table) -> Contents:
    place = {int(number): row for row, number in enumerate(rows.ids)}
    shape = _image_shape(everything.columns)
    low, high = np.nanmin(everything.values), np.nanmax(everything.values)

    def content(number: int) -> Content | None:
        if number not in place:
            return None
        values = rows.values[place[number]]
        if shape is None:
            return Row(rows.columns, values)
        pixels = np.array([_pixel(column) for column in rows.columns])
        level = np.full(shape, low)
        level[tuple(pixels.T)] = values
        scaled = np.nan_to_num(255 * (level - low) / (high - low if high > low else 1.0))
        return Picture(scaled.round().astype(np.uint8), pixels[:, :2], Row(rows.columns, values))

    return content


def _image_shape(columns: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Height, width and channels of an image, if the columns are named as its pixels.

    Example:
        >>> _image_shape(("r0c0", "r0c1", "r1c0", "r1c1")), _image_shape(("age", "r0c0"))
        ((2, 2, 1), None)
    """
    if not are_pixels(columns):
        return None
    height, width, channels = (1 + max(place) for place in zip(*map(_pixel, columns), strict=True))
    return (height, width, channels) if height * width * channels == len(columns) else None


def are_pixels(columns: Sequence[str]) -> bool:
    """Whether the names of columns are those of pixels.

    Example:
        >>> are_pixels(["r0c0", "r1c2"]), are_pixels(["age"]), are_pixels([])
        (True, False, False)
    """
    return bool(columns) and all(_PIXEL.fullmatch(column) for column in columns)


def _pixel(column: str) -> tuple[int, int, int]:
    match = _PIXEL.fullmatch(column)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3] or 0)
