"""The observations of a run, read again from where its data came from, and held against its fingerprints."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from maskevidence.data.binarise import binarise
from maskevidence.data.images import Images, is_image_source, read_images
from maskevidence.data.tabular import Table, held_out_rows
from maskevidence.data.text import Texts, read_texts
from maskevidence.errors import MaskEvidenceError
from maskevidence.runs import DataSource, Manifest
from maskevidence.tasks.parse import parse_data, parse_size

_PIXEL = re.compile(r"(?:pixel_|r)(\d+)(?:_|c)(\d+)(?:b([012]))?")


@dataclass(frozen=True)
class Text:
    """An observation that is text.

    Attributes:
        text: what was scored; the two texts of a pair on lines of their own.
        prompt: what was visible always, and not scored.
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
        place: shape (D, 2); the row and column of each token's pixel; None where tokens are square patches.
    """

    pixels: UInt8[np.ndarray, "H W C"]
    place: np.ndarray | None = None


Content = Text | Row | Picture
Contents = Callable[[int], Content | None]


@dataclass(frozen=True)
class NotThere:
    """Why the observations cannot be shown, as a sentence."""

    reason: str


def read_back(manifest: Manifest, ids: Int64[np.ndarray, " n"]) -> Contents | NotThere:
    """What an observation's number stands for, or why that cannot be said.

    The data are read by the name in the manifest, with the options in it, and are shown only if
    their fingerprint is that of the run.

    Args:
        manifest: what the run is of.
        ids: the observations in its record.
    """
    data = manifest.data
    name = f"{data.name!r}"
    if data.text_fingerprint is not None and "block_size" in data.options:
        return NotThere("The observations are blocks of running text; which text they hold is not recorded.")
    try:
        found = _texts(manifest) if data.text_fingerprint is not None else _rows(manifest, ids)
    except (MaskEvidenceError, OSError) as error:
        return NotThere(f"The data {name} cannot be read any more: {' '.join(str(error).split())}.")
    if found is None:
        return NotThere(
            f"{name} does not hold what was scored (its fingerprint is another): the data have changed "
            "since, or were read in another way."
        )
    return found


def _limits(data: DataSource) -> Iterator[int | None]:
    """How many rows may have been read: as the options say, or all, or as many as were scored."""
    limit = data.options.get("limit")
    if isinstance(limit, int):
        yield limit
    yield None
    yield data.n_observations


def _texts(manifest: Manifest) -> Contents | NotThere | None:
    data = manifest.data
    everything = read_texts(data.name, data.columns)
    for limit in _limits(data):
        texts = Texts(data.name, everything.columns, tuple(field[:limit] for field in everything.fields))
        if texts.fingerprint() == data.text_fingerprint:
            break
    else:
        return None
    if len(texts) != data.n_observations:
        return NotThere(
            f"The {data.n_observations:,} observations are parts of {len(texts):,} texts; which part is "
            "which is not recorded."
        )
    context = data.options.get("context_field")
    scored = [column for column in texts.columns if column != context] or list(texts.columns)

    def content(number: int) -> Content | None:
        if not 0 <= number < len(texts):
            return None
        prompt = texts[context][number] if context in texts.columns and context not in scored else None
        return Text("\n".join(texts[column][number] for column in scored), prompt)

    return content


def _rows(manifest: Manifest, ids: Int64[np.ndarray, " n"]) -> Contents | NotThere | None:
    data, given = manifest.data, dict[str, Any](manifest.data.options)
    options = {
        "column": given.get("column"),
        "resize": parse_size(given.get("resize")),
        "skip_bad": given.get("skip_bad", False),
    }
    images = read_images(data.name, **options) if is_image_source(data.name) else None
    everything = parse_data(data.name) if images is None else images.table()
    how = given.get("binarise")
    if how is not None:
        everything = binarise(everything, how, manifest.seed)
    for limit in _limits(data):
        kept = np.arange(len(everything))[:limit]
        if data.test_fraction is not None:
            kept = held_out_rows(len(kept), data.test_fraction, manifest.seed)[1]
        if images is not None and images.select(kept).fingerprint() == data.fingerprint:
            return _of_images(images.select(kept))
        rows = replace(everything, values=everything.values[kept], ids=everything.ids[kept])
        if set(data.columns) <= set(rows.columns):
            rows = rows.select(data.columns)
            if rows.fingerprint() == data.fingerprint:
                return _of_table(rows, everything)
    if images is None:
        return None
    # Images that a model's variances were fitted to are not scored; the record knows which are.
    if len(ids) < data.n_observations:
        return NotThere("The images are shown once all of them are scored: only then can they be checked.")
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
        where = np.array([_pixel(column) for column in rows.columns])
        level = np.full(shape, low)
        level[tuple(where.T)] = values
        scaled = np.nan_to_num(255 * (level - low) / (high - low if high > low else 1.0))
        return Picture(scaled.round().astype(np.uint8), where[:, :2])

    return content


def _image_shape(columns: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Height, width and channels of columns that are named as pixels of one image; None for others.

    Example:
        >>> _image_shape(("r0c0", "r0c1", "r1c0", "r1c1")), _image_shape(("age", "r0c0"))
        ((2, 2, 1), None)
    """
    if not all(_PIXEL.fullmatch(column) for column in columns):
        return None
    height, width, channels = (1 + max(place) for place in zip(*map(_pixel, columns), strict=True))
    return (height, width, channels) if height * width * channels == len(columns) else None


def _pixel(column: str) -> tuple[int, int, int]:
    found = _PIXEL.fullmatch(column)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3] or 0)
