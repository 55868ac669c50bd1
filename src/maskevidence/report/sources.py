"""The observations of a run, read again from their source and checked against the fingerprints of the run."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from maskevidence.data.images import Images, is_image_source, read_images
from maskevidence.data.table import Table, binarise, held_out_rows
from maskevidence.data.texts import Texts, read_texts
from maskevidence.errors import MaskEvidenceError
from maskevidence.runs import DataSource, Manifest
from maskevidence.tasks.parse import parse_size
from maskevidence.tasks.prepare_rows import read_rows, reading_from

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


def read_back(manifest: Manifest, ids: Int64[np.ndarray, " n"]) -> Contents | Unavailable:
    """Read the observations of a run again.

    The data are read by the name and with the options in the manifest, and are shown only if they have the
    fingerprint of the run.

    Args:
        manifest: what the run scores.
        ids: the observations that the run has scored.

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
        contents = _texts(manifest) if is_text else _rows(manifest, ids)
    except (MaskEvidenceError, OSError) as error:
        return Unavailable(f"The data {data.name!r} cannot be read any more: {' '.join(str(error).split())}.")
    return contents or Unavailable(
        f"{data.name!r} does not hold what was scored (the fingerprints differ): the data have changed "
        "since, or were read differently."
    )


def _limits(data: DataSource) -> Iterator[int | None]:
    """How many rows may have been read: the limit in the options, all, or the number that was scored."""
    limit = data.options.get("limit")
    if isinstance(limit, int):
        yield limit
    yield None
    yield data.n_observations


def _kept(
    manifest: Manifest, ids: Int64[np.ndarray, " n"], n_rows: int
) -> Iterator[Int64[np.ndarray, " kept"]]:
    """Which of `n_rows` rows may have been scored: those of the ids, or what the options say."""
    data = manifest.data
    if len(ids) == data.n_observations and ids.max() < n_rows:
        yield np.sort(ids)
    for limit in _limits(data):
        kept = np.arange(n_rows)[:limit]
        if data.test_fraction is not None:
            kept = held_out_rows(len(kept), data.test_fraction, manifest.seed)[1]
        yield kept


def _texts(manifest: Manifest) -> Contents | Unavailable | None:
    data = manifest.data
    everything = read_texts(data.name, data.columns)
    for limit in _limits(data):
        texts = Texts(data.name, everything.columns, tuple(field[:limit] for field in everything.fields))
        if texts.fingerprint() == data.text_fingerprint:
            break
    else:
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


def _rows(manifest: Manifest, ids: Int64[np.ndarray, " n"]) -> Contents | Unavailable | None:
    data, options = manifest.data, dict[str, Any](manifest.data.options)
    images = None
    if is_image_source(data.name):
        images = read_images(
            data.name,
            column=options.get("column"),
            resize=parse_size(options.get("resize")),
            skip_bad=options.get("skip_bad", False),
        )
    reading = reading_from(options)
    if images is None:
        id_column = options.get("id_column")
        everything = read_rows(data.name, reading, seed=manifest.seed, id_column=id_column)
    elif reading.binarise is None:
        everything = images.table()
    else:
        everything = binarise(images.table(), reading.binarise, manifest.seed)
    for kept in _kept(manifest, ids, len(everything)):
        if images is not None and images.select(kept).fingerprint() == data.fingerprint:
            return _of_images(images.select(kept))
        rows = everything.take(kept)
        if set(data.columns) <= set(rows.columns):
            rows = rows.select(data.columns)
            if rows.fingerprint() == data.fingerprint:
                return _of_table(rows, everything)
    if images is None:
        return None
    # The images that calibrated the variances of the model are not scored; the ids tell which ones are.
    if len(ids) < data.n_observations:
        return Unavailable("The images can be checked, and shown, only once all of them are scored.")
    scored = images.select(np.flatnonzero(np.isin(images.ids, ids)))
    return _of_images(scored) if scored.fingerprint() == data.fingerprint else None


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
