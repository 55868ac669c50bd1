"""Images of one size, as grey or colour levels 0..255."""

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from maskevidence.data.image_files import BadImage, Content, Encoded, find_images
from maskevidence.data.table import Table, held_out_rows
from maskevidence.errors import InputError, import_extra
from maskevidence.support.progress import progress


@dataclass(frozen=True)
class Images:
    """Images of one size.

    Attributes:
        name: where they come from, as the user named it.
        pixels: shape (N, H, W, C), levels 0..255; C is 1 (grey) or 3 (red, green, blue).
        ids: shape (N,); each image's position in the source.
        notes: what was done to the images, one sentence each.
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
        """A hash of sizes, pixels and positions: equal images have equal fingerprints."""
        digest = hashlib.sha256(str(self.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.ids).tobytes())
        digest.update(np.ascontiguousarray(self.pixels).tobytes())
        return digest.hexdigest()

    def select(self, rows: Int64[np.ndarray, " n"] | slice) -> "Images":
        """The images at these positions."""
        labels = None if self.labels is None else tuple(np.array(self.labels, dtype=object)[rows])
        return replace(self, pixels=self.pixels[rows], ids=self.ids[rows], labels=labels)

    def head(self, limit: int) -> "Images":
        """The first `limit` images."""
        if limit < 1:
            raise InputError(f"limit={limit}; give a whole number of 1 or more")
        return self.select(slice(limit))

    def split(self, test_fraction: float, seed: int) -> tuple["Images", "Images"]:
        """Split off a held-out part, chosen at random; both parts keep their order.

        Raises:
            InputError: a fraction outside (0, 1), or one that leaves a part empty.
        """
        train, test = held_out_rows(len(self), test_fraction, seed)
        return self.select(train), self.select(test)

    def table(self) -> Table:
        """The pixels as columns in [0, 1], a row per image, in the order row, column, channel.

        A column is named r3c17 for row 3 and column 17 of a grey image, r3c17b2 for the blue of a colour one.
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
    """Read images, all of one size, as grey or colour levels 0..255.

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
    if limit is not None and limit < 1:
        raise InputError(f"limit={limit}; give a whole number of 1 or more")
    if resize is not None and min(resize) < 1:
        raise InputError(f"resize={resize}; give a height and a width of 1 or more")
    encoded = find_images(source, column, limit)
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
        some = ", ".join(bad[:5]) + (", ..." if len(bad) > 5 else "")
        notes.append(f"skipped {len(bad):,} image(s) that cannot be read: {some}")
    if n_resized:
        notes.append(f"resized {n_resized:,} image(s) to {_by(read[0])} pixels")
    channels = max(pixels.shape[2] for pixels in read)
    n_grey = sum(pixels.shape[2] == 1 for pixels in read)
    if channels == 3 and n_grey:
        notes.append(f"{n_grey:,} grey image(s) among colour ones were read as colour")
    pixels = np.stack([np.broadcast_to(one, (*one.shape[:2], channels)) for one in read])
    files = [encoded[number] for number in ids]
    named = all(isinstance(file, Path) and file.name == Path(name).name for name, file in files)
    labels = tuple(name for name, _ in files) if named else None
    return Images(source, pixels, np.array(ids), tuple(notes), labels)


def _decode_all(
    source: str, encoded: Encoded, resize: tuple[int, int] | None, skip_bad: bool
) -> tuple[dict[int, UInt8[np.ndarray, "H W C"]], list[str], int]:
    """The images by position, names of those that cannot be read, and the number of resized ones."""
    decoded: dict[int, UInt8[np.ndarray, "H W C"]] = {}
    bad: list[str] = []
    n_resized = 0
    first = None
    with progress("reading images", len(encoded)) as advance:
        for position, (name, content) in enumerate(encoded):
            advance(1)
            try:
                pixels = _decode(content)
            except BadImage as error:
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


def _decode(content: Content) -> UInt8[np.ndarray, "H W C"]:
    """An image file's levels: one channel for modes without colour, otherwise three."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(content, BadImage):
        raise content
    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content) as opened:
            opened.load()
            image = ImageOps.exif_transpose(opened)
    except UnidentifiedImageError as error:
        raise BadImage("is not an image in a format that Pillow knows") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadImage(f"cannot be read ({' '.join(str(error).split())})") from error
    if image.mode.startswith(("I", "F")):
        raise BadImage(f"has more than 8 bits per channel (mode {image.mode})")
    if image.has_transparency_data:
        image = image.convert("RGBA" if image.mode in ("P", "PA", "RGB", "RGBA", "RGBa") else "LA")
        if np.asarray(image.getchannel("A")).min() < 255:
            raise BadImage("has transparent pixels, which have no level")
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
