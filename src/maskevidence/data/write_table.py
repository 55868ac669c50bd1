"""Tables written by pyarrow, in the form that the ending of the file names."""

from pathlib import Path
from typing import Any

from maskevidence.data.table_files import COMPRESSIONS, kind_of_file
from maskevidence.errors import InputError
from maskevidence.support.files import write_atomic

ENDINGS = (".csv", ".tsv", ".parquet", ".feather")


def check_ending(path: Path) -> None:
    """Refuse a file whose ending names no form of a table.

    Example:
        >>> check_ending(Path("filled.xlsx"))
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: 'filled.xlsx' has to end in .csv, .tsv, .parquet, .feather; give such
        a name
    """
    if kind_of_file(path.name) not in ENDINGS:
        raise InputError(f"{str(path)!r} has to end in {', '.join(ENDINGS)}; give such a name")


def is_text(path: Path) -> bool:
    """Whether the ending of a file names a form whose cells are text.

    Example:
        >>> is_text(Path("a.csv.gz")), is_text(Path("a.parquet"))
        (True, False)
    """
    return kind_of_file(path.name) in (".csv", ".tsv")


def quoted(cell: str, delimiter: str = "") -> str:
    """A cell of text as it stands in a .csv file, in quotes where it needs them.

    Example:
        >>> quoted("red"), quoted(" red"), quoted("red, or so", ",")
        ('red', '" red"', '"red, or so"')
    """
    if cell.strip() == cell and not set(cell) & {'"', "\r", "\n", delimiter}:
        return cell
    return '"' + cell.replace('"', '""') + '"'


def write_table(table: Any, path: Path, delimiter: str = ",", *, verbatim: bool = False) -> None:
    """Write a table atomically.

    Args:
        table: a `pyarrow.Table`.
        path: the file; its ending names the form. A .csv or .tsv file is compressed if .gz, .bz2 or .zst
            follows.
        delimiter: between the cells of a .csv file.
        verbatim: whether the cells and names are text as it is to stand in a .csv or .tsv file.

    Raises:
        InputError: the file cannot be written, or not in this form.
    """
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    kind, sink = kind_of_file(path.name), pa.BufferOutputStream()
    try:
        if kind == ".parquet":
            parquet.write_table(table, sink)
        elif kind == ".feather":
            feather.write_feather(table, sink)
        else:
            compression = COMPRESSIONS.get(path.suffix.lower())
            stream = sink if compression is None else pa.CompressedOutputStream(sink, compression)
            delimiter = "\t" if kind == ".tsv" else delimiter
            with stream:
                if verbatim:
                    stream.write(_joined(table, delimiter).encode())
                else:
                    csv.write_csv(_plain(table), stream, csv.WriteOptions(delimiter=delimiter))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{str(path)!r} cannot hold this table: {reason}; write a .parquet file") from error
    write_atomic(path, sink.getvalue().to_pybytes())


def _joined(table: Any, delimiter: str) -> str:
    """Lines of cells that are written already; cells from a file with another delimiter may need quotes."""
    rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return "".join(
        delimiter.join(
            quoted(cell, delimiter) if delimiter in cell and not cell.startswith('"') else cell
            for cell in row
        )
        + "\n"
        for row in rows
    )


def _plain(table: Any) -> Any:
    """The table without dictionaries, which CSV does not have."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, column)
    return table
