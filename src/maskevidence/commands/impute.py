"""maskevidence impute: the holes of a table filled, with standard deviations or by draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import ImputeOptions
from maskevidence.kinds.result import Result
from maskevidence.show.parts import Page, Table
from maskevidence.show.words import count


@dataclass(frozen=True)
class Filled(Result):
    """A table whose missing values were filled."""

    out: Path  # the file that was written
    result: dict[str, Any]  # which values were filled, and how surely

    def page(self) -> Page:
        """How many values of each column were filled, and how surely."""
        result = self.result
        headings = {"sd": "their sd (root mean square)", "probability": "their probability"}
        headings |= {"sd_of_column": "sd of the column"}
        known = [
            name for name in headings if any(column.get(name) is not None for column in result["columns"])
        ]
        rows = []
        for column in result["columns"]:
            cells = ("" if column.get(name) is None else f"{column[name]:.4g}" for name in known)
            rows.append([column["name"], f"{column['n_filled']:,}", *cells])
        n_filled, n_rows = count(result["n_filled"], "value"), count(result["n_rows"], "row")
        table = Table(["column", "filled", *(headings[name] for name in known)], rows)
        headline = f"{n_filled} filled in {n_rows} by {result['model']}"
        return Page("", headline, parts=[table] if rows else [], notes=result["notes"])

    def to_dict(self) -> Mapping[str, Any]:
        """Which values were filled, and how surely."""
        return self.result

    @property
    def written(self) -> Sequence[str]:
        """The file."""
        return [f"Written: {self.out}"]


def impute(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "The folder of a saved model; or masked-net, gaussian, kernel-gaussian, ppca:8, "
            "factor-analysis:8, bernoulli-pca:2 or vae:20, which is fitted to the table first.",
        ),
    ],
    data: Annotated[
        str, Argument("DATA", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...).")
    ],
    options: ImputeOptions = ImputeOptions(),
) -> Filled:
    """Fill the missing values of a table, and write the table with its columns and rows in order.

    Every missing value gets its mean given the observed values of its row, and a column NAME_sd says how
    sure that is. By masked-net, a missing word or yes/no becomes the most probable one, and a column NAME_p
    has its probability. With --draws, the missing
    values of a row are drawn together from their distribution given the observed ones, several times, for
    multiple imputation. Columns that are not used stay as they are.

    Examples:

        maskevidence impute factor-analysis:3 table.csv --out filled.csv
        maskevidence impute kernel-gaussian table.csv --id-column name --missing "?,-999" --out filled.parquet
        maskevidence impute runs/a/model table.csv --draws 5 --out draws.csv

    Args:
        model: the folder of a saved model, or a word such as "factor-analysis:3" for one that is fitted to
            all rows of the table first.
        data: a file or an address of a table, or the name of a data set.
        options: how it is read, filled and written.

    Raises:
        InputError: a model, a table, or a place that cannot be used.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "t.csv").write_text("name,a,b\\nx,1,2\\ny,2,\\nz,3,6\\nu,0,1\\n")
        >>> options = ImputeOptions(folder / "filled.csv", id_column="name")
        >>> impute("gaussian", str(folder / "t.csv"), options).result["n_filled"]
        1
        >>> options.out.read_text().splitlines()[0]
        'name,a,b,b_sd'
    """
    from maskevidence.kinds.filling import fill_table

    return Filled(options.out, fill_table(model, data, options))
