"""Tables of numbers: from files, and the digits that scikit-learn bundles."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from maskevidence.data.table import Table
from maskevidence.data.table_columns import Selection, to_table
from maskevidence.data.table_files import read_raw
from maskevidence.errors import import_extra


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    one_hot: Sequence[str] = (),
    delimiter: str | None = None,
    missing: str | float | Sequence[str | float] = (),
) -> Table:
    """Read a table of numbers; an empty CSV cell, NA, NaN or null is a missing value.

    Args:
        path: a .csv, .tsv, .parquet or .feather file, or a .npy file with a two-dimensional array; or an
            address such as "s3://bucket/table.parquet", which fsspec reads. CSV files may be compressed
            (.csv.gz). Their first line names the columns, unless it holds numbers only: then it is data, and
            a note says so.
        columns: the columns to use, in this order; by default all.
        drop: columns to leave out.
        id_column: the column that names the rows: it gives the `labels`, and is not data.
        one_hot: columns of categories, each of which becomes a column of 0 and 1 for every category but the
            first.
        delimiter: the character that separates the cells of a CSV file; by default a comma, or a semicolon,
            tab or bar if that cuts the first lines evenly.
        missing: words and numbers that stand for missing values, too, such as ["?", -999].

    Raises:
        InputError: a file that is missing, empty, damaged or of another kind; text or an infinite value in a
            column (the message names all such columns); a row or column without any value.
        MissingExtraError: the package that reads an address is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = path.write_text("name;a;b\\nx;1;2\\ny;3;?\\n")
        >>> table = read_table(path, id_column="name", missing=["?"])
        >>> table.values.tolist(), table.columns, table.labels
        ([[1.0, 2.0], [3.0, nan]], ('a', 'b'), ('x', 'y'))
    """
    raw = read_raw(path, delimiter)
    words = tuple(map(str, [missing] if isinstance(missing, str | int | float) else missing))
    return to_table(raw, Selection(columns, drop, id_column, one_hot, words))


def digits() -> Table:
    """The 1,797 handwritten digits that scikit-learn bundles: 8×8 pixels of 0..16, as 64 columns.

    Example:
        >>> digits().values.shape
        (1797, 64)
    """
    datasets = import_extra("sklearn.datasets", "sklearn", "the digits data set")
    bunch = datasets.load_digits()
    values = np.asarray(bunch.data, dtype=np.float64)
    return Table("digits", values, tuple(bunch.feature_names), np.arange(len(values)))
