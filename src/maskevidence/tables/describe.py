"""Describe a table before it is read."""

from typing import Any

from maskevidence.tables.reading.description import TableDescription
from maskevidence.tables.table_files import described_file, raw_of, said


def describe(table: object, **options: Any) -> TableDescription:
    """Describe a table before it is read: what each column holds, and what a person may decide otherwise.

    For every column: how many of its cells are numbers, in which writing, limits such as <0.5, dates, words,
    codes for missing values, and which cells do not fit, with their lines. Nothing is refused.

    Args:
        table: the path of a file or an address, as `read_table` takes them; or a data frame, or a `Table`.
        options: those of `read_table`, for files and data frames.

    Returns:
        The columns and the findings, the worst first.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "flats.csv"
        >>> rows = "".join(f"{40 + k},5 m²;{k % 4}\\n" for k in range(30))
        >>> _ = path.write_text("area;rooms\\n" + rows + "5o,5;2\\n")
        >>> found = describe(path)
        >>> found["area"].kind, found["area"].writing, str(found["area"].odd[0])
        ('number', 'decimal comma, unit m²', "line 32: '5o,5'")
        >>> found.findings[0].sentence()[:73]
        "column 'area': 1 cell is not a number: kept as it is, hidden from the mod"
    """
    choices = said(**options | {"words": True})
    return described_file(raw_of(table, choices), choices)
