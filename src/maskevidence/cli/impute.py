"""maskevidence impute: the holes of a table filled, with standard deviations or by draws."""

from collections.abc import Mapping
from typing import Annotated, Any

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import Common, ImputeOptions
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable
from maskevidence.show.words import count


def impute(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "The folder of a saved model; or gaussian, kernel-gaussian, ppca:8, factor-analysis:8, "
            "bernoulli-pca:2 or vae:20, which is fitted to the table first.",
        ),
    ],
    data: Annotated[
        str, Argument("DATA", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...).")
    ],
    options: ImputeOptions,
    common: Common,
) -> None:
    """Fill the missing values of a table, and write the table with its columns and rows in order.

    Every missing value gets its mean given the observed values of its row, and a column NAME_sd says how
    sure that is. With --draws, the missing values of a row are drawn together from their distribution given
    the observed ones, several times, for multiple imputation. Columns that are not used stay as they are.

    Examples:

        maskevidence impute factor-analysis:3 table.csv --out filled.csv

        maskevidence impute kernel-gaussian table.csv --id-column name --missing "?,-999" --out filled.parquet

        maskevidence impute runs/a/model table.csv --draws 5 --out draws.csv
    """
    use_threads(common.threads)
    from maskevidence.tasks.impute import impute as impute_task

    filled = impute_task(model, data, options)
    screen = output.console(common.json)
    if filled.result["columns"]:
        screen.print(_table(filled.result))
    for note in filled.result["notes"]:
        screen.print(f"note: {note}")
    screen.print(f"Written: {filled.out}", soft_wrap=True)
    output.write_json(filled.result, common.json)


def _table(result: Mapping[str, Any]) -> FittingTable:
    """How many values of each column were filled, and how surely."""
    rows = []
    for column in result["columns"]:
        sds = [] if result["draws"] is not None else [f"{column['sd']:.4g}"]
        rows.append([column["name"], f"{column['n_filled']:,}", *sds, f"{column['sd_of_column']:.4g}"])
    headings = [] if result["draws"] is not None else ["their sd (root mean square)"]
    n_filled, n_rows = count(result["n_filled"], "value"), count(result["n_rows"], "row")
    title = f"{n_filled} filled in {n_rows} by {result['model']}"
    return FittingTable(Table(["column", "filled", *headings, "sd of the column"], rows, title))
