"""The image files behind a DATA word: from folders, Parquet files, known data sets and the hub."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskevidence.data.sources import (
    HubSet,
    choose_split,
    divide,
    find_source,
    reading_parquet,
    splits,
)
from maskevidence.errors import InputError, import_extra, unknown_name

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
IMAGE_SETS = {
    "mnist": HubSet("mnist", "ylecun/mnist"),
    "fashion-mnist": HubSet("fashion_mnist", "zalando-datasets/fashion_mnist"),
    "cifar100": HubSet("cifar100", "uoft-cs/cifar100"),
    "tiny-imagenet": HubSet("tiny_imagenet", "zh-plus/tiny-imagenet"),
}
_SPLITS = ("train", "training", "test", "valid", "validation", "val", "dev")
_PREFERRED = ("image", "img")


class BadImage(Exception):
    """Says why an image cannot be used, as the end of a sentence about it."""


# Names and contents of image files; a path, of a file, is read when the image is decoded.
Content = bytes | Path | BadImage
Encoded = list[tuple[str, Content]]


def is_image_source(source: str) -> bool:
    """Whether a DATA word means images: a data set's name, a folder, "hub:", or a Parquet file with images.

    Example:
        >>> is_image_source("mnist:test"), is_image_source("digits")
        (True, False)
    """
    path, (base, _) = Path(source), divide(source)
    if path.is_file():
        return path.suffix.lower() == ".parquet" and _holds_images(path)
    return source.startswith("hub:") or base in IMAGE_SETS or path.is_dir() or Path(base).is_dir()


def find_images(source: str, column: str | None, limit: int | None) -> Encoded:
    """Names and contents of the image files behind a source, in its order; see `read_images`."""
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
) -> Encoded:
    tables = splits(folder, (".parquet",))
    if tables:
        return _from_parquet(source, choose_split(source, tables, split), column, limit)
    parts = {part.name: part for part in sorted(folder.iterdir()) if part.is_dir() and part.name in _SPLITS}
    if parts or split is not None:
        folder = choose_split(source, parts or {"all": folder}, split)
    named = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    files = [file for file in named if not file.is_dir()]
    if not files:
        raise InputError(
            f"the folder {str(folder)!r} has no image ({', '.join(IMAGE_SUFFIXES)}) and no .parquet"
        )
    return [(str(file.relative_to(folder)), _regular(file)) for file in files[:limit]]


def _from_parquet(source: str, files: Sequence[Path], column: str | None, limit: int | None) -> Encoded:
    from pyarrow import parquet

    encoded: Encoded = []
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


def _from_dataset(source: str, dataset: Any, column: str | None, limit: int | None) -> Encoded:
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


def _entry(row: int, cell: Any, caches: Sequence[str | Path] = ()) -> tuple[str, Content]:
    """One cell of an image column: bytes, or a dictionary of bytes and path as the hub stores it.

    A path is read inside of the hub's caches only: a table must not choose among the files of this machine.
    """
    content: Content
    if isinstance(cell, dict) and not cell.get("bytes") and cell.get("path"):
        path = Path(cell["path"]).resolve()
        cached = any(path.is_relative_to(Path(cache).resolve()) for cache in caches)
        content = (
            _regular(path) if cached else BadImage(f"is a path ({cell['path']!r}), not an image's bytes")
        )
    else:
        content = (cell.get("bytes") if isinstance(cell, dict) else cell) or b""
    return f"in row {row} (from 0)", content


def _regular(file: Path) -> Path | BadImage:
    """A path if a file is there: reading a pipe or a device would wait for ever."""
    if file.is_file():
        return file
    if file.is_symlink() and not file.exists():
        return BadImage(f"is a link to {os.readlink(file)!r}, which is not there")
    return BadImage("is not there" if not file.exists() else "is a pipe or a device, not a file")


def _holds_images(file: Path) -> bool:
    """Whether a Parquet file can be read and has a column that can hold images."""
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
    """The column named, or the preferred or only one of those that hold images."""
    if column is not None:
        if column not in names:
            raise InputError(f"{source!r} has no column {column!r}; it has {', '.join(names)}")
        if column not in images:
            known = ", ".join(images) or "none"
            raise InputError(f"column {column!r} of {source!r} holds no images; those that do: {known}")
        return column
    preferred = [name for name in _PREFERRED if name in images] or images
    if not images:
        raise InputError(f"{source!r} has no column with images; it has {', '.join(names)}")
    if len(preferred) > 1 and preferred == images:
        raise InputError(f"{source!r} has images in {', '.join(images)}; choose with --column NAME")
    return preferred[0]
