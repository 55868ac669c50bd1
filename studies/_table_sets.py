"""The 12 real tables of the study, each with a class of every row, and their splits."""

import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float64, Int64
from sklearn import datasets

from maskevidence.images.image_files import read_images
from maskevidence.tables.table_files import read_table
from maskevidence.core.errors import InputError

FRACTIONS = (1.0, 0.6, 0.35, 0.2, 0.12)  # of the training rows that a model is fitted to
HELD_OUT, TEST = 0.2, 0.2
FEWEST_VALUES = 5  # of a column in the smallest part, that differ from its most common value
MOST_IMAGES = 2000
Values = Float64[np.ndarray, "N D"]
Labels = Int64[np.ndarray, " N"]


class Labelled(NamedTuple):
    """Rows, NaN where a value is missing, and their classes."""

    values: Values
    labels: Labels


def data_folder() -> Path:
    """The folder that MASKEVIDENCE_DATA names."""
    if "MASKEVIDENCE_DATA" not in os.environ:
        raise InputError("MASKEVIDENCE_DATA is not set; set it to the folder of the data sets")
    return Path(os.environ["MASKEVIDENCE_DATA"])


def _file(name: str, label: str, drop: tuple[str, ...], classes: Callable[[Values], Any]) -> Labelled:
    """A CSV file; its identifier and what follows from the label are dropped."""
    letters = [label] if name == "ionosphere" else []
    table = read_table(data_folder() / "tabular" / f"{name}.csv", drop=drop, one_hot=letters)
    place = next(i for i, column in enumerate(table.columns) if column.split("=")[0] == label)
    known = ~np.isnan(table.values[:, place])
    labels = np.asarray(classes(table.values[known, place])).astype(np.int64)
    return Labelled(np.delete(table.values[known], place, axis=1), labels)


def _bundled(load: Callable[[], Any]) -> Labelled:
    """A table that comes with scikit-learn; a number to predict becomes: above its median."""
    bunch = load()
    target = np.asarray(bunch.target)
    many = len(np.unique(target)) > 20
    labels = target > np.median(target) if many else target
    return Labelled(np.asarray(bunch.data, dtype=np.float64), labels.astype(np.int64))


def _images(source: str) -> Labelled:
    """Grey images as 7×7 means of 4×4 pixels."""
    pixels = read_images(source, limit=MOST_IMAGES).pixels[..., 0] / 255.0
    values = pixels.reshape(len(pixels), 7, 4, 7, 4).mean((2, 4)).reshape(len(pixels), -1)
    folder = data_folder() / source.split(":")[0].replace("-", "_")
    labels = pq.read_table(folder / "train-00000-of-00001.parquet", columns=["label"])["label"]
    return Labelled(values, labels.to_numpy()[: len(values)].astype(np.int64))


def _mutants() -> Labelled:
    """What six protein models say of the mutants of an enzyme, and whether they work better than most."""
    table = read_table(data_folder() / "proteins" / "blat_ecolx_ranganathan2015.csv", id_column="mutant")
    measured = table.values[:, 0]
    return Labelled(table.values[:, 1:], (measured > np.median(measured)).astype(np.int64))


SETS: dict[str, Callable[[], Labelled]] = {
    "horse-colic": partial(_file, "horse-colic", "c22", ("c2", "c24", "c25", "c26"), lambda y: y == 1),
    "breast-cancer-wisconsin": partial(_file, "breast-cancer-wisconsin", "c10", ("c0",), lambda y: y == 4),
    "winequality-red": partial(_file, "winequality-red", "c11", (), lambda y: y >= 6),
    "ionosphere": partial(_file, "ionosphere", "c34", (), lambda y: y == 1),
    "iris": partial(_bundled, datasets.load_iris),
    "wine": partial(_bundled, datasets.load_wine),
    "breast-cancer": partial(_bundled, datasets.load_breast_cancer),
    "diabetes": partial(_bundled, datasets.load_diabetes),
    "digits": partial(_bundled, datasets.load_digits),
    "mnist-7x7": partial(_images, "mnist:train"),
    "fashion-mnist-7x7": partial(_images, "fashion-mnist:train"),
    "mutants": _mutants,
}


class Split(NamedTuple):
    """A table in three parts, in standard units of the training rows.

    Attributes:
        train: shape (n_train, D), in random order: a fraction of the rows is the first ones.
        held_out: shape (n_held_out, D); for criteria.
        test: shape (n_test, D); for what they predict.
        train_labels: shape (n_train,).
        test_labels: shape (n_test,).
        holes: shape (n_test, D); the test rows with 20 % of their values hidden.
    """

    train: Values
    held_out: Values
    test: Values
    train_labels: Labels
    test_labels: Labels
    holes: Values


@lru_cache(maxsize=4)
def split(data_set: str, seed: int) -> Split:
    """A table, split at random; columns that hardly vary in the smallest fraction are left out."""
    values, labels = SETS[data_set]()
    rng = np.random.default_rng([seed, 26])
    order = rng.permutation(len(values))
    n_test, n_held_out = round(TEST * len(values)), round(HELD_OUT * len(values))
    test, held_out, train = np.split(order, [n_test, n_test + n_held_out])
    smallest = values[train[: n_rows(len(train), min(FRACTIONS))]]
    values = values[:, [_varies(column) for column in smallest.T]]
    rows = values[train]
    values = (values - np.nanmean(rows, 0)) / np.nanstd(rows, 0)
    hidden = rng.random(values[test].shape) < 0.2
    holes = np.where(hidden, np.nan, values[test])
    return Split(values[train], values[held_out], values[test], labels[train], labels[test], holes)


def n_rows(n_train: int, fraction: float) -> int:
    """The number of rows of a fraction.

    Example:
        >>> n_rows(90, 0.12)
        11
    """
    return round(fraction * n_train)


def _varies(column: Float64[np.ndarray, " n"]) -> bool:
    known = column[~np.isnan(column)]
    _, counts = np.unique(known, return_counts=True)
    return len(known) - counts.max(initial=0) >= FEWEST_VALUES
