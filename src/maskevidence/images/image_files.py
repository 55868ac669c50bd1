"""Read images of one size as grey or colour levels 0..255, from folders, Parquet files and the hub."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from maskevidence.core.errors import InputError, import_extra, unknown_name
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import some_of, whole_number
from maskevidence.core.support.progress import progress
from maskevidence.core.support.provenance import digest
from maskevidence.core.support.sources import (
    HubSet,
    choose_split,
    divide,
    find_source,
    reading_parquet,
    splits,
)
from maskevidence.core.table import Table, held_out_rows

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
IMAGE_SETS = {
    "mnist": HubSet("mnist", "ylecun/mnist"),
    "fashion-mnist": HubSet("fashion_mnist", "zalando-datasets/fashion_mnist"),
    "cifar100": HubSet("cifar100", "uoft-cs/cifar100"),
    "tiny-imagenet": HubSet("tiny_imagenet", "zh-plus/tiny-imagenet"),
}
_SPLITS = ("train", "training", "test", "valid", "validation", "val", "dev")
_PREFERRED = ("image", "img")


class _BadImage(Exception):
    """An image that cannot be used; its message completes a sentence about the image."""


# Names and contents of image files; a path is read when the image is decoded.
_Content = bytes | Path | _BadImage
_Encoded = list[tuple[str, _Content]]


@dataclass(frozen=True)
class Images:
    """A set of images of one size.

    Attributes:
        name: where they come from, as the user named it.
        pixels: shape (N, H, W, C), levels 0..255; C is 1 (grey) or 3 (red, green, blue).
        ids: shape (N,); each image's position in the source.
        notes: changes of the images, one sentence each.
        labels: the path of each image in its folder; None for images of a table.

    Example:
        >>> images = Images("two", np.zeros((2, 28, 28, 1), dtype=np.uint8), np.arange(2))
        >>> len(images), images.table().columns[:2]
        (2, ('r0c0', 'r0c1'))
    """

    name: str
    pixels: UInt8[np.ndarray, "N H W C"]
    ids: Int64[np.ndarray, " N"]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.pixels)

    def fingerprint(self) -> str:
        """Hash sizes, pixels and positions; equal images have equal fingerprints."""
        return digest(str(self.pixels.shape), self.ids, self.pixels)

    def select(self, rows: Int64[np.ndarray, " n"] | slice) -> "Images":
        """Select images by position."""
        labels = None if self.labels is None else tuple(np.array(self.labels, dtype=object)[rows])
        return replace(self, pixels=self.pixels[rows], ids=self.ids[rows], labels=labels)

    def head(self, limit: int) -> "Images":
        """The first `limit` images."""
        return self.select(slice(whole_number("limit", limit, 1)))

    def split(self, test_fraction: float, seed: int) -> tuple["Images", "Images"]:
        """Split off a random held-out part; both parts keep their order.

        Raises:
            InputError: a fraction outside (0, 1), or one that leaves a part empty.
        """
        train, test = held_out_rows(len(self), test_fraction, seed)
        return self.select(train), self.select(test)

    def table(self) -> Table:
        """The pixels as a table with values in [0, 1], one row per image, columns ordered by row, column,
        channel.

        A column is named r3c17 for row 3 and column 17 of a grey image, r3c17b2 for the blue channel of a
        colour image.
        """
        n, height, width, channels = self.pixels.shape
        ends = [""] if channels == 1 else [f"b{channel}" for channel in range(channels)]
        columns = tuple(f"r{r}c{c}{end}" for r in range(height) for c in range(width) for end in ends)
        return Table(
            self.name, self.pixels.reshape(n, -1) / 255.0, columns, self.ids, self.notes, self.labels
        )


def read_images(
    source: str,
    *,
    column: str | None = None,
    limit: int | None = None,
    resize: tuple[int, int] | None = None,
    skip_bad: bool = False,
) -> Images:
    """Read images of one size as grey or colour levels 0..255.

    Args:
        source: a folder of images, with subfolders for classes and, above these, for splits; a Parquet file
            or a folder of them named by split; "mnist", "fashion-mnist", "cifar100" or "tiny-imagenet" (from
            MASKEVIDENCE_DATA if it holds them, otherwise from the hub); or "hub:OWNER/NAME[/CONFIG]". A split
            follows after a colon; it is required if there is more than one.
        column: the column with the images; by default "image", "img", or the only one with images.
        limit: read only the first `limit` rows.
        resize: (height, width) of the result; by default all images must have the same size.
        skip_bad: skip images that cannot be read, and list them in the notes.

    Returns:
        Grey images if every one is grey, otherwise colour images (a note counts the grey ones).

    Raises:
        InputError: a source that is missing, empty or damaged, an image that cannot be read (names it),
            different sizes (names both), transparency, or more than 8 bits per channel.
        MissingExtraError: Pillow, or `datasets` for the hub, is not installed.
    """
    import_extra("PIL.Image", "hf", "reading images")
    limit = None if limit is None else whole_number("limit", limit, 1)
    if resize is not None and min(resize) < 1:
        raise InputError(f"resize={resize}; give a height and a width of 1 or more")
    encoded = _find_images(source, column, limit)
    if not encoded:
        raise InputError(f"{source!r} has no image; give one or more")
    decoded, bad, n_resized = _decode_all(source, encoded, resize, skip_bad)
    ids, read = list(decoded), list(decoded.values())
    if not read:
        raise InputError(
            f"none of the {len(encoded):,} images of {source!r} can be read; the first is {bad[0]}"
        )
    notes = []
    if bad:
        notes.append(f"skipped {count(len(bad), 'image')} that cannot be read: {some_of(bad, 5)}")
    if n_resized:
        notes.append(f"resized {count(n_resized, 'image')} to {_by(read[0])} pixels")
    channels = max(pixels.shape[2] for pixels in read)
    n_grey = sum(pixels.shape[2] == 1 for pixels in read)
    if channels == 3 and n_grey:
        notes.append(f"read {count(n_grey, 'grey image')} among colour ones as colour")
    pixels = np.stack([np.broadcast_to(image, (*image.shape[:2], channels)) for image in read])
    files = [encoded[number] for number in ids]
    named = all(isinstance(file, Path) and file.name == Path(name).name for name, file in files)
    labels = tuple(name for name, _ in files) if named else None
    return Images(source, pixels, np.array(ids), tuple(notes), labels)


def _decode_all(
    source: str, encoded: _Encoded, resize: tuple[int, int] | None, skip_bad: bool
) -> tuple[dict[int, UInt8[np.ndarray, "H W C"]], list[str], int]:
    """Decode all images: levels by position, names of unreadable images, and the number of resized ones."""
    decoded: dict[int, UInt8[np.ndarray, "H W C"]] = {}
    bad: list[str] = []
    n_resized = 0
    first = None
    with progress("reading images", len(encoded)) as advance:
        for position, (name, content) in enumerate(encoded):
            advance(1)
            try:
                pixels = _decode(content)
            except _BadImage as error:
                if not skip_bad:
                    raise InputError(
                        f"image {name} of {source!r} {error}; repair it, or skip such images with --skip-bad"
                    ) from error
                bad.append(name)
                continue
            if resize is not None and pixels.shape[:2] != resize:
                pixels, n_resized = _resized(pixels, resize), n_resized + 1
            first = pixels if first is None else first
            if pixels.shape[:2] != first.shape[:2]:
                raise InputError(
                    f"image {name} of {source!r} has {_by(pixels)} pixels, the first one {_by(first)}; "
                    f"make them equal, or bring them to one size with --resize {_by(first)}"
                )
            decoded[position] = pixels
    return decoded, bad, n_resized


def _decode(content: _Content) -> UInt8[np.ndarray, "H W C"]:
    """Decode an image file into levels: one channel for modes without colour, otherwise three."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(content, _BadImage):
        raise content
    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content) as opened:
            opened.load()
            image = ImageOps.exif_transpose(opened)
    except UnidentifiedImageError as error:
        raise _BadImage("is not an image in a format that Pillow knows") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _BadImage(f"cannot be read ({' '.join(str(error).split())})") from error
    if image.mode.startswith(("I", "F")):
        raise _BadImage(f"has more than 8 bits per channel (mode {image.mode})")
    if image.has_transparency_data:
        image = image.convert("RGBA" if image.mode in ("P", "PA", "RGB", "RGBA", "RGBa") else "LA")
        if np.asarray(image.getchannel("A")).min() < 255:
            raise _BadImage("has transparent pixels, which have no level")
    grey = image.mode in ("1", "L", "LA", "La")
    levels = np.asarray(image.convert("L" if grey else "RGB"))
    return levels.reshape(*levels.shape[:2], -1)


def _resized(pixels: UInt8[np.ndarray, "H W C"], size: tuple[int, int]) -> UInt8[np.ndarray, "h w C"]:
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    levels = np.asarray(image.resize((size[1], size[0]), Image.Resampling.BICUBIC))
    return levels.reshape(*size, -1)


def _by(pixels: UInt8[np.ndarray, "H W C"]) -> str:
    return f"{pixels.shape[0]}x{pixels.shape[1]}"


def is_image_source(source: str) -> bool:
    """Whether DATA means images: a data set's name, a folder, "hub:...", or a Parquet file with images.

    Example:
        >>> is_image_source("mnist:test"), is_image_source("digits")
        (True, False)
    """
    path, (base, _) = Path(source), divide(source)
    if path.is_file():
        return path.suffix.lower() == ".parquet" and _holds_images(path)
    return source.startswith("hub:") or base in IMAGE_SETS or path.is_dir() or Path(base).is_dir()


def _find_images(source: str, column: str | None, limit: int | None) -> _Encoded:
    """Find the image files of a source, by name and content, in order; see `read_images`."""
    located = find_source(source, IMAGE_SETS, (".parquet",))
    if located is None:
        if Path(source).suffix or source.startswith((".", "/", "~")):
            raise InputError(f"there is no file or folder {source!r}; check the path")
        words = [*IMAGE_SETS, "hub:OWNER/NAME[/CONFIG][:SPLIT]", "a folder"]
        raise unknown_name("image data", source, words)
    if not isinstance(located, tuple):
        return _from_dataset(source, located, column, limit)
    path, split = located
    if path.is_dir():
        return _from_folder(source, path, split, column, limit)
    if path.suffix.lower() != ".parquet":
        raise InputError(
            f"{source!r} is one file; give the folder with the images, or a Parquet file of them"
        )
    return _from_parquet(source, [path], column, limit)


def _from_folder(
    source: str, folder: Path, split: str | None, column: str | None, limit: int | None
) -> _Encoded:
    tables = splits(folder, (".parquet",))
    if tables:
        return _from_parquet(source, choose_split(source, tables, split), column, limit)
    parts = {part.name: part for part in sorted(folder.iterdir()) if part.is_dir() and part.name in _SPLITS}
    if parts or split is not None:
        folder = choose_split(source, parts or {"all": folder}, split)
    named = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    files = [file for file in named if not file.is_dir()]
    if files and column is not None:
        raise InputError(
            f"{source!r} is a folder of image files, which has no column {column!r}; leave it out"
        )
    if not files:
        raise InputError(
            f"the folder {str(folder)!r} has no image ({', '.join(IMAGE_SUFFIXES)}) and no .parquet"
        )
    return [(str(file.relative_to(folder)), _regular(file)) for file in files[:limit]]


def _from_parquet(source: str, files: Sequence[Path], column: str | None, limit: int | None) -> _Encoded:
    from pyarrow import parquet

    encoded: _Encoded = []
    for file in files:
        with reading_parquet(file):
            schema = parquet.read_schema(file)
            chosen = _choose_column(source, column, list(schema.names), _image_columns(schema))
            rows = parquet.read_table(file, columns=[chosen]).column(0)
        start = len(encoded)
        rows = rows.slice(0, None if limit is None else limit - start)
        encoded += [_entry(start + row, cell) for row, cell in enumerate(rows.to_pylist())]
        if limit is not None and len(encoded) >= limit:
            break
    return encoded


def _from_dataset(source: str, dataset: Any, column: str | None, limit: int | None) -> _Encoded:
    datasets = import_extra("datasets", "hf", "a data set of the hub")
    images = [name for name, feature in dataset.features.items() if isinstance(feature, datasets.Image)]
    chosen = _choose_column(source, column, list(dataset.column_names), images)
    if chosen not in images:
        raise InputError(
            f"column {chosen!r} of {source!r} holds no images; it has {', '.join(images) or 'none'}"
        )
    undecoded = dataset.cast_column(chosen, datasets.Image(decode=False))
    rows = range(len(undecoded) if limit is None else min(limit, len(undecoded)))
    hub = import_extra("huggingface_hub", "hf", "a data set of the hub")
    caches = (datasets.config.HF_DATASETS_CACHE, hub.constants.HF_HUB_CACHE)
    return [_entry(row, undecoded[row][chosen], caches) for row in rows]


def _entry(row: int, cell: Any, caches: Sequence[str | Path] = ()) -> tuple[str, _Content]:
    """Read a cell of an image column: bytes, or the hub's dictionary of bytes and path.

    Only paths within the hub's caches are read: a table must not choose among the files of this machine.
    """
    content: _Content
    if isinstance(cell, dict) and not cell.get("bytes") and cell.get("path"):
        path = Path(cell["path"]).resolve()
        cached = any(path.is_relative_to(Path(cache).resolve()) for cache in caches)
        content = (
            _regular(path) if cached else _BadImage(f"is a path ({cell['path']!r}), not an image's bytes")
        )
    else:
        content = (cell.get("bytes") if isinstance(cell, dict) else cell) or b""
    return f"in row {row} (from 0)", content


def _regular(file: Path) -> Path | _BadImage:
    """Return the path if it is a regular file: reading a pipe or a device would block forever."""
    if file.is_file():
        return file
    if file.is_symlink() and not file.exists():
        return _BadImage(f"is a link to {os.readlink(file)!r}, which is not there")
    return _BadImage("is not there" if not file.exists() else "is a pipe or a device, not a file")


def _holds_images(file: Path) -> bool:
    """Whether a Parquet file is readable and has a column that can hold images."""
    from pyarrow import parquet

    try:
        with reading_parquet(file):
            return bool(_image_columns(parquet.read_schema(file)))
    except InputError:
        return False


def _image_columns(schema: Any) -> list[str]:
    """Columns of a Parquet schema that can hold images: bytes, or a structure with a field of bytes."""
    from pyarrow import types

    return [
        field.name
        for field in schema
        if types.is_binary(field.type)
        or types.is_large_binary(field.type)
        or (types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0)
    ]


def _choose_column(source: str, column: str | None, names: list[str], images: list[str]) -> str:
    """The named column, else the preferred or only column that holds images."""
    if column is not None:
        if column not in names:
            raise InputError(f"{source!r} has no column {column!r}; it has {', '.join(names)}")
        if column not in images:
            those = ", ".join(images) or "none"
            raise InputError(f"column {column!r} of {source!r} holds no images; those that do: {those}")
        return column
    preferred = [name for name in _PREFERRED if name in images] or images
    if not images:
        raise InputError(f"{source!r} has no column with images; it has {', '.join(names)}")
    if len(preferred) > 1 and preferred == images:
        raise InputError(f"{source!r} has images in {', '.join(images)}; choose with --column NAME")
    return preferred[0]
