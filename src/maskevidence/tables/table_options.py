"""Options of models of rows and of commands on tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from maskevidence.command.options import (
    Device,
    IdColumn,
    ImageFiles,
    Limit,
    Option,
    Out,
    OverwriteFiles,
    Sample,
    Seed,
    TestFraction,
    Training,
)

_NAMES = "COLUMN[,COLUMN...]"
DtypeName = Literal["float32", "float64"]


@dataclass(frozen=True)
class TableOptions:
    """Options to select the columns of a table and read them."""

    panel: ClassVar[str] = "Tables"

    id_column: IdColumn = None
    columns: Annotated[
        str | None, Option("Use only these columns, in this order; or those of a table.json of look.", _NAMES)
    ] = None
    drop: Annotated[str | None, Option("Leave these columns of the table out.", _NAMES)] = None
    one_hot: Annotated[str | None, Option("Columns of categories, to become columns of 0 and 1.", _NAMES)] = (
        None
    )
    delimiter: Annotated[
        str | None, Option("Character between cells, or tab; by default guessed.", "CHARACTER")
    ] = None
    missing: Annotated[
        str | None,
        Option("Missing values, such as ?,-999, beside empty cells, NA, NaN and null.", "WORD[,WORD...]"),
    ] = None
    categories: Annotated[
        str | None,
        Option("For models of words: columns that are categories; by default those of words.", _NAMES),
    ] = None
    numbers: Annotated[
        str | None,
        Option("Columns that are numbers, even with two values only, or many other cells.", _NAMES),
    ] = None
    decimal: Annotated[
        Literal[".", ","] | None, Option("Decimal sign of numbers; by default each column says it.")
    ] = None
    thousands: Annotated[
        str | None, Option("Mark between thousands, such as ' or a blank; by default found.", "CHARACTER")
    ] = None
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        Option("Order of dates that do not say it, such as 1/2/2024."),
    ] = None
    day_0: Annotated[
        str | None,
        Option(
            "Day 0 of columns of dates, in place of their first; saved models know theirs.",
            "COLUMN=DATE[,...]",
        ),
    ] = None
    fold_words: Annotated[bool, Option("Take words that differ by case, blanks or composition for one.")] = (
        False
    )
    header: Annotated[int | None, Option("Line with the names of the columns; by default found.", min=1)] = (
        None
    )
    comment: Annotated[
        str | None, Option("Leave out lines that begin with this, such as '#'.", "CHARACTERS")
    ] = None
    skip_rows: Annotated[str | None, Option("Leave out these lines of the file.", "LINE[,LINE-LINE...]")] = (
        None
    )
    encoding: Annotated[
        str | None, Option("Encoding of a text; by default UTF-8, UTF-16 or Windows-1252.", "NAME")
    ] = None


@dataclass(frozen=True)
class RowReading(ImageFiles):
    """Options to read rows of numbers."""

    panel: ClassVar[str] = "Data"

    table: TableOptions = field(default_factory=TableOptions)
    binarise: Annotated[
        str | None,
        Option("Make values in [0, 1] binary: threshold:0.5, or stochastic (drawn by --seed).", "HOW"),
    ] = None


Dtype = Annotated[
    DtypeName | None,
    Option("Precision; by default that of the saved model, float64 of a new one, float32 of a VAE."),
]


@dataclass(frozen=True)
class RowDevice:
    """Device and dtype of a model of rows."""

    device: Device = None
    dtype: Dtype = None


@dataclass(frozen=True)
class ImputeOptions:
    """Options of `impute`."""

    out: Annotated[
        Path,
        Option(
            "The filled table: a .csv, .csv.gz, .tsv, .parquet or .feather file; of an .xlsx, an .xlsx.",
            "FILE",
            writes="file",
        ),
    ] = Path("filled.csv")
    draws: Annotated[
        int | None,
        Option(
            "Multiple imputation: draw this many tables jointly, written one after the other.",
            min=1,
            max=10_000,
        ),
    ] = None
    seed: Annotated[int, Option("Random seed of the draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    wrong: Annotated[
        Path | None,
        Option("A cells.csv of cells --out: the cells it calls wrong are filled as missing.", "FILE"),
    ] = None
    mend: Annotated[
        Literal["model", "suggested"],
        Option("Replace wrong cells by what the model fills, or wrong words as cells.csv suggests."),
    ] = "model"
    fill_odd: Annotated[
        bool, Option("Fill cells that are not numbers among numbers, too; by default they stay.")
    ] = False
    overwrite: OverwriteFiles = False
    table: TableOptions = field(default_factory=TableOptions)
    device: RowDevice = field(default_factory=RowDevice)


@dataclass(frozen=True)
class FoldOptions:
    """Options of a command that judges rows by fits to the others."""

    folds: Annotated[
        int, Option("Parts of the rows, each judged by a fit to the others.", min=2, max=10_000)
    ] = 5
    seed: Annotated[int, Option("Random seed of the folds, fits and draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    table: TableOptions = field(default_factory=TableOptions)


@dataclass(frozen=True)
class CellOptions(FoldOptions):
    """Options of `cells`."""

    trusted: Annotated[
        str | None, Option("Rows known to be right, read like DATA; they keep the rate.", "DATA")
    ] = None
    rate: Annotated[float, Option("Average share of false calls to allow.")] = 0.1
    out: Annotated[
        Path | None, Option("Write cells.csv, cells.html and cells.json here.", "DIR", writes="folder")
    ] = None
    overwrite: Annotated[bool, Option("Replace other wrong cells in --out, and the file of --json.")] = False


@dataclass(frozen=True)
class LookOptions:
    """Options of `look`."""

    out: Annotated[
        Path | None,
        Option(
            "Write the page and the files here; by default FILE-look, without its ending.",
            "DIR",
            writes="folder",
        ),
    ] = None
    minutes: Annotated[float, Option("About how long to work; with less time, fewer fits.")] = 2.0
    model: Annotated[
        str, Option("A MODEL word such as kernel-gaussian; auto takes the best for the table.", "MODEL")
    ] = "auto"
    seed: Annotated[int, Option("Random seed of the folds and draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    overwrite: Annotated[bool, Option("Replace another look in --out, and the file of --json.")] = False
    table: TableOptions = field(default_factory=TableOptions)


@dataclass(frozen=True)
class RowOptions(Sample):
    """Options to prepare a model of rows and the rows to score."""

    kind: ClassVar[str] = "rows"
    panel: ClassVar[str] = "Data"

    test_fraction: TestFraction = None
    reading: RowReading = field(default_factory=RowReading)
    device: RowDevice = field(default_factory=RowDevice)
    cells: Annotated[bool, Option("Score the mass of each cell over its step, as masked-net does.")] = False


@dataclass(frozen=True)
class ScoredRowOptions(RowOptions):
    """`RowOptions`, plus the batch size of `score`."""

    batch_size: Annotated[int, Option("Masks in one call of the model.", min=1, panel="Options")] = 1024


@dataclass(frozen=True)
class SelectOptions:
    """Options of `select`."""

    components: Annotated[
        str,
        Option("Numbers of components: 1-20, 2-56-6 (first, last, step) or 1,2,4,8.", "NUMBERS[,NUMBERS...]"),
    ] = "1-20"
    folds: Annotated[
        int | None,
        Option(
            "Parts of the rows, each of which is held out once; by default 5, or 20 below 200 rows.",
            min=2,
            max=10_000,
        ),
    ] = None
    seed: Seed = 0
    limit: Limit = None
    out: Out = None
    overwrite: Annotated[bool, Option("Replace another selection in --out, and the file of --json.")] = False
    design: Annotated[
        str | None,
        Option("Masks as for score; by default every-size:2, or none if all have closed forms.", "DESIGN"),
    ] = None
    reading: RowReading = field(default_factory=RowReading)


@dataclass(frozen=True)
class RowTraining(Training):
    """Options to train a model of rows."""

    panel: ClassVar[str] = "Models of rows"
    kind: ClassVar[str] = "rows"

    epochs: Annotated[
        int | None, Option("Passes over the rows; by default 500, for masked-net as many as help.")
    ] = None
    patience: Annotated[
        int | None, Option("Stop after this many epochs without a better held-out log evidence.", min=1)
    ] = None
    dtype: Dtype = None
    reading: RowReading = field(default_factory=RowReading)
