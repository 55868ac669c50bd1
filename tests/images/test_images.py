"""Images from folders, Parquet files and known data sets."""

import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from maskevidence.core.errors import InputError
from maskevidence.images import image_files
from maskevidence.images.image_files import is_image_source, read_images

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (5, 4, 6), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (3, 4, 6, 3), dtype=np.uint8)


def png(levels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "png")
    return file.getvalue()


def save(folder: Path, images: np.ndarray, start: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, levels in enumerate(images, start=start):
        (folder / f"{number}.png").write_bytes(png(levels))


def save_parquet(path: Path, contents: list[bytes], name: str = "image") -> None:
    cells = [{"bytes": content, "path": None} for content in contents]
    parquet.write_table(pa.table({name: cells, "label": list(range(len(cells)))}), path)


def test_a_folder_of_grey_images(tmp_path: Path) -> None:
    save(tmp_path, GREY)
    images = read_images(str(tmp_path))
    assert np.array_equal(images.pixels[..., 0], GREY)
    assert images.ids.tolist() == [0, 1, 2, 3, 4]
    table = images.table()
    assert np.array_equal(table.values * 255, GREY.reshape(5, 24))
    assert table.columns[:7] == ("r0c0", "r0c1", "r0c2", "r0c3", "r0c4", "r0c5", "r1c0")


def test_a_folder_of_image_files_has_no_column(tmp_path: Path) -> None:
    save(tmp_path, GREY)
    with pytest.raises(InputError, match="has no column 'image'; leave it out"):
        read_images(str(tmp_path), column="image")


def test_colour_stays_colour_in_order(tmp_path: Path) -> None:
    save(tmp_path, COLOUR)
    images = read_images(str(tmp_path))
    assert np.array_equal(images.pixels, COLOUR)
    assert np.array_equal(images.table().values[1] * 255, COLOUR[1].ravel())
    assert images.table().columns[:4] == ("r0c0b0", "r0c0b1", "r0c0b2", "r0c1b0")


def test_grey_among_colour_is_read_as_colour_with_a_note(tmp_path: Path) -> None:
    save(tmp_path, COLOUR)
    save(tmp_path, GREY[:1], start=7)
    images = read_images(str(tmp_path))
    assert images.pixels.shape == (4, 4, 6, 3)
    assert np.array_equal(images.pixels[3], np.repeat(GREY[0][..., None], 3, axis=2))
    assert images.notes == ("read 1 grey image among colour ones as colour",)


def test_splits_and_classes_of_a_folder(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cats", GREY[:2])
    save(tmp_path / "train" / "dogs", GREY[2:3])
    save(tmp_path / "test" / "cats", GREY[3:])
    assert np.array_equal(read_images(f"{tmp_path}:train").pixels[..., 0], GREY[:3])
    assert len(read_images(f"{tmp_path}:test")) == 2
    with pytest.raises(InputError, match=r"has the splits test, train; choose one, as in .*:test"):
        read_images(str(tmp_path))
    with pytest.raises(InputError, match="has no split 'valid'; it has test, train"):
        read_images(f"{tmp_path}:valid")


def test_parquet_files_in_several_parts_and_a_limit(tmp_path: Path) -> None:
    save_parquet(tmp_path / "train-00000-of-00002.parquet", [png(one) for one in GREY[:2]])
    save_parquet(tmp_path / "train-00001-of-00002.parquet", [png(one) for one in GREY[2:]])
    images = read_images(str(tmp_path))
    assert np.array_equal(images.pixels[..., 0], GREY)
    assert np.array_equal(read_images(str(tmp_path), limit=3).pixels, images.pixels[:3])
    assert len(read_images(str(tmp_path / "train-00000-of-00002.parquet"))) == 2
    assert is_image_source(str(tmp_path / "train-00000-of-00002.parquet"))


def test_a_column_of_bytes_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": [png(GREY[0])], "b": [png(GREY[1])], "n": [1]}), file)
    assert np.array_equal(read_images(str(file), column="b").pixels[0, ..., 0], GREY[1])
    for column, message in (
        (None, "has images in a, b; choose with --column NAME"),
        ("n", r"column 'n' of .* holds no images; those that do: a, b"),
        ("c", "has no column 'c'; it has a, b, n"),
    ):
        with pytest.raises(InputError, match=message):
            read_images(str(file), column=column)


def test_sizes_must_agree_unless_images_are_resized(tmp_path: Path) -> None:
    save(tmp_path, GREY[:2])
    save(tmp_path, RANDOM.integers(0, 256, (1, 8, 8), dtype=np.uint8), start=5)
    message = r"image 5.png of .* has 8x8 pixels, the first one 4x6; .* --resize 4x6"
    with pytest.raises(InputError, match=message):
        read_images(str(tmp_path))
    images = read_images(str(tmp_path), resize=(4, 6))
    assert images.pixels.shape == (3, 4, 6, 1)
    assert np.array_equal(images.pixels[:2, ..., 0], GREY[:2])
    assert images.notes == ("resized 1 image to 4x6 pixels",)


def test_corrupt_images_are_named_and_skipped_only_on_request(tmp_path: Path) -> None:
    save(tmp_path, GREY[:3])
    (tmp_path / "1.png").write_bytes(png(GREY[1])[:60])
    (tmp_path / "2a.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"image 1.png of .* cannot be read .*--skip-bad"):
        read_images(str(tmp_path))
    images = read_images(str(tmp_path), skip_bad=True)
    assert images.ids.tolist() == [0, 2]
    assert images.notes == ("skipped 2 images that cannot be read: 1.png, 2a.png",)
    for name in ("0.png", "2.png"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"none of the 2 images of .* can be read"):
        read_images(str(tmp_path), skip_bad=True)


def test_links_to_nowhere_and_pipes_are_named_like_images_that_cannot_be_read(tmp_path: Path) -> None:
    """They were left out without a word: all of a folder of git-annex whose files were not fetched."""
    save(tmp_path, GREY[:3])
    (tmp_path / "0a.png").symlink_to("../.git/annex/a.png")
    (tmp_path / "0b.png").symlink_to("0b.png")
    (tmp_path / "0c.png").symlink_to("1.png")
    (tmp_path / "album.png").mkdir()
    os.mkfifo(tmp_path / "album.png" / "pipe.png")
    with pytest.raises(InputError, match=r"image 0a.png of .* is a link to '../.git/annex/a.png', which is"):
        read_images(str(tmp_path))
    images = read_images(str(tmp_path), skip_bad=True)
    assert np.array_equal(images.pixels[..., 0], GREY[[0, 1, 1, 2]])
    assert images.notes == ("skipped 3 images that cannot be read: 0a.png, 0b.png, album.png/pipe.png",)
    for name in ("0a.png", "0b.png"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"image album.png/pipe.png of .* is a pipe or a device, not a file"):
        read_images(str(tmp_path))


def test_paths_in_a_table_are_not_read(tmp_path: Path) -> None:
    save(tmp_path, GREY[:1])
    os.mkfifo(tmp_path / "pipe.png")
    file = tmp_path / "x.parquet"
    for path in ("0.png", "pipe.png", "nowhere.png"):
        paths = [{"bytes": png(GREY[1]), "path": "1.png"}, {"bytes": None, "path": str(tmp_path / path)}]
        parquet.write_table(pa.table({"image": paths}), file)
        with pytest.raises(
            InputError, match=r"row 1 \(from 0\) of .* is a path \('.*'\), not an image's bytes"
        ):
            read_images(str(file))
        assert len(read_images(str(file), skip_bad=True)) == 1
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match=r"'.*x\.parquet' is not a file; give a Parquet file"):
        read_images(str(tmp_path))


def test_paths_of_a_data_set_of_the_hub_are_read_in_its_cache_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    save(tmp_path / "cache", GREY[:2])
    save(tmp_path / "home", GREY[2:3])

    def dataset(*files: str) -> object:
        features = datasets.Features({"image": datasets.Image()})
        return datasets.Dataset.from_dict({"image": [str(tmp_path / file) for file in files]}, features)

    monkeypatch.setattr(image_files, "find_source", lambda *_: dataset("cache/0.png", "cache/1.png"))
    assert np.array_equal(read_images("hub:a/b").pixels[..., 0], GREY[:2])
    monkeypatch.setattr(image_files, "find_source", lambda *_: dataset("cache/0.png", "cache/../home/0.png"))
    with pytest.raises(InputError, match=r"row 1 \(from 0\) of 'hub:a/b' is a path"):
        read_images("hub:a/b")


def test_opaque_and_palette_images_keep_their_colours(tmp_path: Path) -> None:
    picture = Image.fromarray(COLOUR[0])
    picture.convert("RGBA").save(tmp_path / "a.png")
    picture.quantize(256).save(tmp_path / "b.png")
    images = read_images(str(tmp_path))
    assert np.array_equal(images.pixels[0], COLOUR[0])
    assert np.abs(images.pixels[1].astype(int) - COLOUR[0]).max() <= 8


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("./nothing", "there is no file or folder './nothing'"),
        (__file__, "is one file; give the folder with the images"),
        ("empty", r"has no image \(.png, .*\) and no .parquet"),
        ("I;16", "more than 8 bits per channel"),
        ("F", "more than 8 bits"),
        ("RGBA", "transparent pixels"),
        ("numbers.parquet", "has no column with images; it has a"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for mode in ("I;16", "F", "RGBA"):
        Path(mode).mkdir()
        Image.new(mode, (3, 3)).save(Path(mode, "x.tif"))
    parquet.write_table(pa.table({"a": [1.0]}), "numbers.parquet")
    assert not is_image_source("numbers.parquet")
    with pytest.raises(InputError, match=message):
        read_images(source)


def test_parts_and_fingerprints(tmp_path: Path) -> None:
    save(tmp_path, GREY)
    images = read_images(str(tmp_path))
    train, test = images.split(0.4, seed=1)
    assert sorted([*train.ids.tolist(), *test.ids.tolist()]) == [0, 1, 2, 3, 4]
    rows = images.table().split(0.4, seed=1)[1]
    assert np.array_equal(rows.ids, test.ids)
    assert len({images.fingerprint(), train.fingerprint(), images.head(2).fingerprint()}) == 3
    assert images.fingerprint() == read_images(str(tmp_path)).fingerprint()


@pytest.mark.data
@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ("mnist:test", (50, 28, 28, 1)),
        ("fashion-mnist", (50, 28, 28, 1)),
        ("cifar100:test", (50, 32, 32, 3)),
        ("tiny-imagenet", (50, 64, 64, 3)),
    ],
)
def test_the_real_sets(source: str, shape: tuple[int, ...]) -> None:
    images = read_images(source, limit=50)
    assert images.pixels.shape == shape
    assert images.pixels.min() < 10
    assert images.pixels.max() > 240
