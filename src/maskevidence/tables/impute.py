"""maskevidence impute: fill the holes of a table, with standard deviations or by draws."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.options import Argument, Result
from maskevidence.tables.kind import rows
from maskevidence.tables.table_options import ImputeOptions

if TYPE_CHECKING:
    from maskevidence.core.show.parts import Page


def impute_command(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "auto: the table decides; or mixture-transition, kernel-gaussian, masked-net, gaussian, ppca:8, "
            "factor-analysis:8, bernoulli-pca:2 or vae:20, fitted to the table first; or a saved model's "
            "folder.",
        ),
    ],
    data: Annotated[
        str, Argument("DATA", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...).")
    ],
    options: ImputeOptions = ImputeOptions(),
) -> Result:
    """Fill the missing values of a table, and write the table with its columns and rows in order.

    Every missing value is replaced by its mean given the observed values of its row, and a column NAME_sd
    gives its standard deviation. With a model of words, a missing word or yes/no becomes the most probable
    one, and a column NAME_p has its probability. With --draws, the missing values of a row are drawn jointly
    given the observed ones, several times, for multiple imputation. Unused columns stay as they are.

    Examples:

        maskevidence impute auto table.csv --out filled.csv
        maskevidence impute kernel-gaussian table.csv --id-column name --missing "?,-999" --out filled.parquet
        maskevidence impute runs/a/model table.csv --draws 5 --out draws.csv
    """
    rows.check_words(None, data)
    from maskevidence.tables.filling import fill_table

    result = fill_table(model, data, options)
    return Result(_page(result), result, [f"Written: {options.out}"])


def _page(result: Mapping[str, Any]) -> "Page":
    """A page with the number of filled values per column and their uncertainty."""
    from maskevidence.core.show.parts import Page, Table
    from maskevidence.core.show.words import count, figures

    headings = {"sd": "their sd (root mean square)", "probability": "their probability"}
    headings |= {"sd_of_column": "sd of the column"}
    known = [name for name in headings if any(column.get(name) is not None for column in result["columns"])]
    rows = []
    for column in result["columns"]:
        cells = ("" if column.get(name) is None else figures(column[name], padded=True) for name in known)
        rows.append([column["name"], f"{column['n_filled']:,}", *cells])
    n_filled, n_rows = count(result["n_filled"], "value"), count(result["n_rows"], "row")
    table = Table(["column", "filled", *(headings[name] for name in known)], rows)
    headline = f"{n_filled} filled in {n_rows} by {result['model']}"
    return Page("", headline, parts=[table] if rows else [], notes=result["notes"])
