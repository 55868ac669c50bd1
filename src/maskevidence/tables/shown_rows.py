"""Read a run's rows again for a report; columns named as pixels make an image."""

import numpy as np
from jaxtyping import Integer

from maskevidence.command.pages.reported_runs import Content, Contents, ImageContent, RowContent
from maskevidence.core.table import PIXEL, Table, are_pixels
from maskevidence.runs import Manifest
from maskevidence.tables.rows import reopen_rows


def read_rows_again(manifest: Manifest, ids: Integer[np.ndarray, " n"]) -> Contents | None:
    """Read the rows of a run again; None if they have changed."""
    rows, everything = reopen_rows(manifest.data, manifest.seed, ids)
    return _of_table(rows, everything) if rows.fingerprint() == manifest.data.fingerprint else None


def _of_table(rows: Table, everything: Table) -> Contents:
    place = {int(number): row for row, number in enumerate(rows.ids)}
    shape = _image_shape(everything.columns)
    low, high = np.nanmin(everything.values), np.nanmax(everything.values)

    def content(number: int) -> Content | None:
        if number not in place:
            return None
        values = rows.values[place[number]]
        if shape is None:
            return RowContent(rows.columns, values, rows.levels)
        pixels = np.array([_pixel(column) for column in rows.columns])
        level = np.full(shape, low)
        level[tuple(pixels.T)] = values
        scaled = np.nan_to_num(255 * (level - low) / (high - low if high > low else 1.0))
        return ImageContent(scaled.round().astype(np.uint8), pixels[:, :2], RowContent(rows.columns, values))

    return content


def _image_shape(columns: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Height, width and channels if the columns are named as an image's pixels, else None.

    Example:
        >>> _image_shape(("r0c0", "r0c1", "r1c0", "r1c1")), _image_shape(("age", "r0c0"))
        ((2, 2, 1), None)
    """
    if not are_pixels(columns):
        return None
    height, width, channels = (1 + max(place) for place in zip(*map(_pixel, columns), strict=True))
    return (height, width, channels) if height * width * channels == len(columns) else None


def _pixel(column: str) -> tuple[int, int, int]:
    match = PIXEL.fullmatch(column)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3] or 0)
