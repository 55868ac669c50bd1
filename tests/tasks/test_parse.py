"""The words of the command line."""

import re
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.design_words import parse_design
from maskevidence.tasks.options import RowReading
from maskevidence.tasks.parse import parse_model, parse_size
from maskevidence.tasks.prepare_rows import read_rows


@pytest.mark.parametrize(
    ("word", "options", "design"),
    [
        ("every-size", {}, me.EverySize()),
        ("every-size", {"masks_per_size": 7}, me.EverySize(7)),
        ("random-size", {"draws": 12, "replicates": 6}, me.RandomSize(12, 6)),
        ("orderings", {"orders": 3}, me.Orderings(3)),
        ("leave-one-out", {}, me.LeaveOneOut()),
        ("exhaustive", {}, me.Exhaustive()),
        ("fixed-rate:0.15", {}, me.FixedRate(0.15)),
        ("fixed-rate:1", {"masks_per_size": 2}, me.FixedRate(1.0, 2)),
        ("rates:0.1-0.3-0.1", {}, me.Rates((0.1, 0.2, 0.3))),
        ("rates:0.5-0.5-0.1", {}, me.Rates((0.5,))),
    ],
)
def test_designs(word: str, options: dict[str, int], design: me.MaskDesign) -> None:
    assert parse_design(word, **options) == design


def test_rates_of_the_paper() -> None:
    design = parse_design("rates:0.01-0.99-0.01")
    assert design.rates == tuple(round(k / 100, 12) for k in range(1, 100))


@pytest.mark.parametrize(
    ("word", "options", "message"),
    [
        ("every-sise", {}, "unknown design 'every-sise'; did you mean 'every-size'"),
        ("nonsense", {}, "unknown design 'nonsense'. Known: every-size"),
        ("", {}, "unknown design ''"),
        ("fixed-rate", {}, "lacks its rate; write fixed-rate:0.15"),
        ("fixed-rate:", {}, "lacks its rate"),
        ("fixed-rate:a", {}, "lacks its rate"),
        ("fixed-rate:0", {}, "mask rate 0; give a share of the tokens in (0, 1]"),
        ("fixed-rate:1.01", {}, "mask rate 1.01; give a share"),
        ("fixed-rate:nan", {}, "mask rate nan; give a share"),
        ("fixed-rate:-0.1", {}, "lacks its rate"),
        ("rates:0.1-0.9", {}, "lacks its rates"),
        ("rates:0.9-0.1-0.1", {}, "has no rates"),
        ("rates:0.1-0.9-0", {}, "has no rates"),
        ("rates:0-0.9-0.1", {}, "mask rate 0; give a share"),
        ("rates:0.1-1.5-0.1", {}, "mask rate 1.1; give a share"),
        ("rates:0.1-0.9-nan", {}, "has no rates"),
        ("rates:0.1-inf-0.1", {}, "has no rates"),
        ("rates:0.1-0.9-1e-300", {}, "lacks its rates"),
        ("every-size:3", {}, "every-size takes nothing after a colon"),
        ("every-size", {"draws": 8}, "--draws does not belong to every-size, which has --masks-per-size"),
        ("leave-one-out", {"orders": 8}, "--orders does not belong to leave-one-out, which has no option"),
        (
            "random-size",
            {"draws": 6, "replicates": 4},
            "draws=6 is not a multiple of replicates=4; give draws=8",
        ),
        ("every-size", {"masks_per_size": 0}, "masks_per_size=0; give a whole number of 1 or more"),
    ],
)
def test_bad_designs(word: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(me.InputError, match=re.escape(message)):
        parse_design(word, **options)


def test_models(tmp_path: Path) -> None:
    assert parse_model("gaussian")[0](4).n_features == 4
    assert parse_model("ppca:3")[0](5).loadings.shape == (5, 3)
    assert parse_model("factor-analysis:2")[0](5).loadings.shape == (5, 2)
    model = me.models.PPCA(4, 2)
    model.save(tmp_path / "m")
    build, loaded = parse_model(str(tmp_path / "m"))
    assert build is None
    assert loaded.n_features == 4


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pcca:8", "unknown model 'pcca:8'; did you mean 'ppca:K'"),
        ("gausian", "unknown model 'gausian'; did you mean 'gaussian'"),
        ("zzz", "unknown model 'zzz'. Known: gaussian"),
        ("ppca", "model 'ppca' lacks its number of components; write ppca:8"),
        ("ppca:", "lacks its number of components"),
        ("ppca:0", "lacks its number of components"),
        ("ppca:-1", "lacks its number of components"),
        ("ppca:2.5", "lacks its number of components"),
        ("ppca:²", "lacks its number of components"),
        ("./nothing", "there is no folder './nothing'"),
    ],
)
def test_bad_models(word: str, message: str) -> None:
    with pytest.raises(me.InputError, match=re.escape(message)):
        parse_model(word)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(me.InputError, match=r"holds no saved model: config\.json is missing"):
        parse_model(str(tmp_path))


def test_data(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    assert len(read_rows(str(tmp_path / "x.npy"))) == 3
    assert len(read_rows(str(tmp_path / "x.npy"), limit=2)) == 2
    assert len(read_rows("digits", limit=10)) == 10


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("digit", "unknown data 'digit'; did you mean 'digits'"),
        ("zzz", "unknown data 'zzz'. Known: digits"),
        ("nothing.csv", "there is no file 'nothing.csv'"),
        ("no/thing.csv", "there is no file 'no/thing.csv'"),
    ],
)
def test_bad_data(word: str, message: str) -> None:
    with pytest.raises(me.InputError, match=re.escape(message)):
        read_rows(word)


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(me.InputError, match="has no image"):
        read_rows(str(tmp_path))


def test_images_are_rows_of_pixels(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(2):
        Image.fromarray(np.full((2, 3), 51 * number, dtype=np.uint8)).save(tmp_path / f"{number}.png")
    table = read_rows(str(tmp_path))
    assert np.array_equal(table.values, [[0.0] * 6, [0.2] * 6])
    assert len(read_rows(str(tmp_path), limit=1)) == 1
    assert len(read_rows(str(tmp_path), RowReading(resize="4x4")).columns) == 16


def test_options_of_images_belong_to_images() -> None:
    with pytest.raises(me.InputError, match="--resize belongs to images; leave it out for 'digits'"):
        read_rows("digits", RowReading(resize="4x4"))


@pytest.mark.parametrize("word", ["", "x", "28x", "0x4", "1x2x3", "-3"])
def test_sizes_that_are_none(word: str) -> None:
    with pytest.raises(me.InputError, match="is not an image size; write 28x28"):
        parse_size(word)
