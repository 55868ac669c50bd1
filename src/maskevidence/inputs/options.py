"""The options of commands, as dataclasses that Python users fill, too; needs no torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, get_args

from maskevidence.inputs.command_words import Argument, ModelKind, Option
from maskevidence.support.choices import (
    Convention,
    DensityName,
    DiffusionName,
    DtypeName,
    Long,
    PatchStatistics,
    RecipeName,
    WeightsDtype,
)

Model = Annotated[
    str,
    Argument(
        "MODEL",
        "masked-net, gaussian, kernel-gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20, or a "
        "saved model or transformer: its folder, or OWNER/NAME on the hub; or your own FILE.py:FUNCTION.",
    ),
]
Data = Annotated[
    str,
    Argument(
        "DATA",
        "digits, mnist:test, glue/qnli:validation ..., a .csv, .parquet or .npy table or its address, a .txt "
        "or .jsonl file, a folder of images, or hub:OWNER/NAME[/CONFIG][:SPLIT].",
    ),
]
Json = Annotated[
    str | None,
    Option("Write the result as JSON; - is standard output.", "FILE", writes="file"),
]
Out = Annotated[Path | None, Option("Write the run into this folder.", "DIR", writes="folder")]
Overwrite = Annotated[bool, Option("Replace another run in --out, and the file of --json.")]
OverwriteFiles = Annotated[bool, Option("Replace the files that the command writes.")]
Seed = Annotated[int, Option("Random seed of the masks and the train/test split.", min=0, max=2**63 - 1)]
Threads = Annotated[
    int | None,
    Option("Number of processor threads; by default all.", min=1, max=1024),
]
Limit = Annotated[int | None, Option("Use only the first N rows, texts or images.", "N", min=1)]
Design = Annotated[
    str | None,
    Option(
        "Masks: every-size:4, random-size:8, orderings:8, leave-one-out, exhaustive, fixed-rate:0.15, "
        "rates:0.1-0.9-0.2 or policy:entropy; with ,shared or ,per-token, too (docs/concepts.md).",
        "DESIGN",
    ),
]
TestFraction = Annotated[
    float | None,
    Option("Share to hold out and score; by default 0.2, and all for a saved model."),
]
IdColumn = Annotated[
    str | None,
    Option("Column with names of the observations, which are not data.", "COLUMN"),
]


@dataclass(frozen=True)
class Sample:
    """How many of the observations are used, and the seed of the masks."""

    seed: Seed = 0
    limit: Limit = None


@dataclass(frozen=True)
class ImageFiles:
    """How images are read."""

    panel: ClassVar[str] = "Images"

    column: Annotated[str | None, Option("Column of the images, if there are several.", "NAME")] = None
    resize: Annotated[str | None, Option("Resize images to this size, such as 28x28.", "HxW")] = None
    skip_bad: Annotated[bool, Option("Skip images that cannot be read, and list them.")] = False


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table are used, and how they are read."""

    panel: ClassVar[str] = "Tables"

    id_column: IdColumn = None
    columns: Annotated[
        str | None, Option("Use only these columns of the table, in this order.", "COLUMN[,COLUMN...]")
    ] = None
    drop: Annotated[str | None, Option("Leave these columns of the table out.", "COLUMN[,COLUMN...]")] = None
    one_hot: Annotated[
        str | None,
        Option(
            "Columns of categories, to become columns of 0 and 1.",
            "COLUMN[,COLUMN...]",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option("Character between cells, or tab; by default guessed.", "CHARACTER"),
    ] = None
    missing: Annotated[
        str | None,
        Option(
            "Missing values, such as ?,-999, beside empty cells, NA, NaN and null.",
            "WORD[,WORD...]",
        ),
    ] = None
    categories: Annotated[
        str | None,
        Option(
            "For masked-net: columns that are categories; by default those of words.", "COLUMN[,COLUMN...]"
        ),
    ] = None
    numbers: Annotated[
        str | None,
        Option("For masked-net: columns that are numbers, even with two values only.", "COLUMN[,COLUMN...]"),
    ] = None


@dataclass(frozen=True)
class RowReading(ImageFiles):
    """How rows of numbers are read."""

    panel: ClassVar[str] = "Data"

    table: TableOptions = field(default_factory=TableOptions)
    binarise: Annotated[
        str | None,
        Option(
            "Make values in [0, 1] binary: threshold:0.5, or stochastic (drawn by --seed).",
            "HOW",
        ),
    ] = None


Device = Annotated[
    str | None,
    Option(
        "cpu, cuda, cuda:N, mps or auto; by default cpu for rows, auto for transformers.",
        "DEVICE",
        panel="Options",
    ),
]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens in one call of the model; by default 1024 or more on a CPU, and 16384 elsewhere.",
        min=1,
        panel="Model",
    ),
]
Dtype = Annotated[
    DtypeName | None,
    Option(
        "Precision; by default that of the saved model, float64 of a new one, float32 of a VAE.",
    ),
]


@dataclass(frozen=True)
class RowDevice:
    """Where a model of rows computes, and in which precision."""

    device: Device = None
    dtype: Dtype = None


@dataclass(frozen=True)
class ImputeOptions:
    """How the holes of a table are filled, and where the result is written."""

    out: Annotated[
        Path,
        Option("The filled table: a .csv, .csv.gz, .tsv, .parquet or .feather file.", "FILE", writes="file"),
    ] = Path("filled.csv")
    draws: Annotated[
        int | None,
        Option(
            "Multiple imputation: this many tables, drawn jointly, one below the other.",
            min=1,
            max=10_000,
        ),
    ] = None
    seed: Annotated[int, Option("Random seed of the draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    wrong: Annotated[
        Path | None, Option("Cells that are called wrong there are holes: cells.csv of cells --out.", "FILE")
    ] = None
    overwrite: OverwriteFiles = False
    table: TableOptions = field(default_factory=TableOptions)
    device: RowDevice = field(default_factory=RowDevice)


@dataclass(frozen=True)
class CellOptions:
    """How wrong cells are called, and where they are written."""

    trusted: Annotated[
        str | None, Option("Rows that are known to be right, read as DATA is: they keep the rate.", "DATA")
    ] = None
    rate: Annotated[float, Option("Share of the calls that may be false on average.")] = 0.1
    folds: Annotated[
        int, Option("Parts of the rows, each judged by a fit to the others.", min=2, max=10_000)
    ] = 5
    seed: Annotated[int, Option("Random seed of the folds and draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    out: Annotated[
        Path | None, Option("Write cells.csv, cells.html and cells.json here.", "DIR", writes="folder")
    ] = None
    overwrite: Annotated[bool, Option("Replace other wrong cells in --out, and the file of --json.")] = False
    table: TableOptions = field(default_factory=TableOptions)


Text = Annotated[str | None, Option("Column of the texts; two columns make pairs.", "COLUMN[,COLUMN]")]
BlockSize = Annotated[
    int | None,
    Option("Pack running text into blocks of this many tokens.", min=1),
]
Tokenizer = Annotated[
    str | None, Option("The model's tokenizer, if it is not stored with the model.", "FOLDER|NAME")
]

AllowUnknown = Annotated[bool, Option("Accept more than 20 % unknown tokens.")]


Revision = Annotated[
    str | None,
    Option("Branch, tag or commit of a model on the hub; by default main.", "NAME", panel="Model"),
]


Pattern = Annotated[
    str | None,
    Option(
        "Regular expression of a token, such as '.', to read a plain vocab.txt.",
        "REGEX",
    ),
]


@dataclass(frozen=True)
class CheckpointOptions:
    """How a masked language model and its tokenizer are loaded, and where it computes."""

    panel: ClassVar[str] = "Model"

    revision: Revision = None
    tokenizer: Tokenizer = None
    pattern: Pattern = None
    mask_id: Annotated[
        int | None, Option("Id of the mask token, if neither tokenizer nor model says.", "ID", min=0)
    ] = None
    diffusion: Annotated[
        DiffusionName | None,
        Option("Family of a diffusion model, if its configuration does not say."),
    ] = None
    model_class: Annotated[
        str | None,
        Option("Class of the model in an installed package, for one outside transformers.", "MODULE:CLASS"),
    ] = None
    bf16: Annotated[bool, Option("Compute under bfloat16 autocast.")] = False
    attn_implementation: Annotated[
        str | None, Option("Attention of transformers: eager, sdpa or flash_attention_2.", "NAME")
    ] = None
    trust_remote_code: Annotated[bool, Option("Run code that comes with the model.")] = False
    device: Device = None
    dtype: Annotated[
        WeightsDtype | None,
        Option(
            "Precision of the weights; by default float32, and auto (the checkpoint's) for diffusion.",
        ),
    ] = None
    batch_tokens: BatchTokens = None


@dataclass(frozen=True)
class RowOptions(Sample):
    """How a model of rows is prepared, and the rows that it scores."""

    kind: ClassVar[ModelKind] = "rows"
    panel: ClassVar[str] = "Data"

    test_fraction: TestFraction = None
    reading: RowReading = field(default_factory=RowReading)
    device: RowDevice = field(default_factory=RowDevice)
    cells: Annotated[bool, Option("Score the mass of each cell over its step, as masked-net does.")] = False


@dataclass(frozen=True)
class TextOptions(Sample):
    """How a masked language model is loaded, and how the texts that it scores are read and encoded."""

    kind: ClassVar[ModelKind] = "texts"
    panel: ClassVar[str] = "Texts"

    id_column: IdColumn = None
    text: Text = None
    context_field: Annotated[
        str | None, Option("Column of prompts: always visible, never scored.", "COLUMN")
    ] = None
    pair: Annotated[
        bool, Option("Put the separator of pairs ([SEP]) between prompt and text; by default a blank.")
    ] = False
    block_size: BlockSize = None
    long: Annotated[Long | None, Option("What to do with texts that are too long; by default error.")] = None
    whole_words: Annotated[bool, Option("With leave-one-out: hide whole words.")] = False
    word_l2r: Annotated[bool, Option("With leave-one-out: hide later pieces of the word, too.")] = False
    allow_unknown: AllowUnknown = False
    recipe: Annotated[
        RecipeName | None,
        Option("Texts, tokens and masks as the public evaluation of these diffusion models has them."),
    ] = None
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)

    @property
    def hides_words(self) -> str | None:
        """The flag that hides other pieces of a word, if there is one."""
        return "--whole-words" if self.whole_words else "--word-l2r" if self.word_l2r else None


@dataclass(frozen=True)
class ImageOptions(Sample):
    """How a masked image model is loaded, the images that it scores, and the likelihood of pixels."""

    kind: ClassVar[ModelKind] = "images"
    panel: ClassVar[str] = "Images"

    test_fraction: TestFraction = None
    reading: ImageFiles = field(default_factory=ImageFiles)
    density: Annotated[
        DensityName | None,
        Option("Pixel likelihood. discretised also gives bits per dimension."),
    ] = None
    patch_statistics: Annotated[
        PatchStatistics | None,
        Option("Score pixels of normalised patches by the visible patches' mean and variance."),
    ] = None
    calibration_fraction: Annotated[
        float | None,
        Option("Share (at most 512 images) to fit the pixel variances; by default 0.2 if needed."),
    ] = None
    revision: Revision = None
    device: Device = None
    batch_tokens: BatchTokens = None


@dataclass(frozen=True)
class ScoredRowOptions(RowOptions):
    """The options of rows that are scored."""

    batch_size: Annotated[int, Option("Masks in one call of the model.", min=1, panel="Options")] = 1024


@dataclass(frozen=True)
class ScoredTextOptions(TextOptions):
    """The options of texts that are scored, alone or as pairs."""

    against: Annotated[
        str | None,
        Option("Column of second texts: which text of each pair is more probable.", "COLUMN"),
    ] = None


Preparation = RowOptions | TextOptions | ImageOptions
# The command line declares the last options of a kind; those that `check` has do in Python, too.
Scorable = RowOptions | ScoredRowOptions | TextOptions | ScoredTextOptions | ImageOptions


@dataclass(frozen=True)
class SelectOptions:
    """Among which models is chosen, and how they are compared."""

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
        Option(
            "Masks as for score; by default every-size:2, or none if all have closed forms.",
            "DESIGN",
        ),
    ] = None
    reading: RowReading = field(default_factory=RowReading)


@dataclass(frozen=True)
class RunOptions:
    """How scores are computed, and the run directory that they are saved in."""

    out: Out = None
    overwrite: Overwrite = False
    shard: Annotated[
        str | None, Option("Score the K-th of N parts of the rows (summarize joins them).", "K/N")
    ] = None
    target_se: Annotated[
        str | None,
        Option(
            "Draw random sizes until the mask error is this small: 0.05 nats, 1% of the log evidence, or "
            "0.05,max_passes=100000 with a limit on the masks of all observations.",
            "NATS|SHARE%",
        ),
    ] = None
    engine: Annotated[
        str | None,
        Option(
            "Score in Ray workers: ray, ray:8, ray:8,gpus=0.5 or ray:address=HOST:PORT; needs --out.",
            "ENGINE",
        ),
    ] = None
    threads: Threads = None


@dataclass(frozen=True)
class Training:
    """How a model of any kind is trained."""

    out: Annotated[Path, Option("Write the model into this folder.", "DIR", writes="folder")]
    objective: Annotated[
        str,
        Option(
            "likelihood, elbo, iwae:5, or a design as of score, by default with one mask a step.",
            "DESIGN",
        ),
    ] = "random-size"
    learning_rate: Annotated[
        float | None,
        Option(
            "Of Adam; by default 0.02 for rows, 0.002 for VAEs, masked-net and masked-lm, 0.001 for vit-mae."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Option("In one step; by default 512 rows, 32 texts or 64 images.", min=1),
    ] = None
    test_fraction: Annotated[
        float | None,
        Option("Share to hold out; by default 0.2, and 0.1 of a text."),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        Option(
            "Epochs (20) or steps (masked-lm: 200, vit-mae: 500) between two checkpoints.",
            min=1,
        ),
    ] = None
    seed: Seed = 0
    limit: Limit = None
    overwrite: Overwrite = False
    device: Device = None


@dataclass(frozen=True)
class RowTraining(Training):
    """How a model of rows is trained."""

    panel: ClassVar[str] = "Models of rows"
    kind: ClassVar[ModelKind] = "rows"

    epochs: Annotated[
        int | None, Option("Passes over the rows; by default 500, for masked-net as many as help.")
    ] = None
    patience: Annotated[
        int | None,
        Option(
            "Stop after this many epochs without a better held-out log evidence.",
            min=1,
        ),
    ] = None
    dtype: Dtype = None
    reading: RowReading = field(default_factory=RowReading)


@dataclass(frozen=True)
class TransformerTraining(Training):
    """How a transformer is trained."""

    panel: ClassVar[str] = "Transformers"

    config: Annotated[
        str | None,
        Option(
            "small (the default), base, or a model whose training is continued.",
            "SIZE|FOLDER|NAME",
        ),
    ] = None
    steps: Annotated[
        int | None, Option("Optimiser steps; by default 1000 for masked-lm and 5000 for vit-mae.", min=1)
    ] = None


@dataclass(frozen=True)
class TextTraining(TransformerTraining):
    """How masked-lm is trained, and its texts and tokenizer."""

    panel: ClassVar[str] = "Texts"
    kind: ClassVar[ModelKind] = "texts"

    text: Text = None
    block_size: BlockSize = None
    tokenizer: Tokenizer = None
    pattern: Pattern = None
    allow_unknown: AllowUnknown = False
    vocabulary_size: Annotated[
        int | None,
        Option("Word pieces of a new vocabulary, without --tokenizer.", min=1),
    ] = None


@dataclass(frozen=True)
class ImageTraining(TransformerTraining):
    """How vit-mae is trained, and how its images are read."""

    panel: ClassVar[str] = "Images"
    kind: ClassVar[ModelKind] = "images"

    patch_size: Annotated[
        int | None,
        Option("Side of a patch in pixels; by default a quarter of the image.", min=1),
    ] = None
    reading: ImageFiles = field(default_factory=ImageFiles)


TrainingOptions = RowTraining | TextTraining | ImageTraining


@dataclass(frozen=True)
class VariantOptions:
    """Which mutants are scored, and how."""

    wild_type: Annotated[
        str, Option("The wild type: a FASTA file with one sequence, or its letters.", "FILE|LETTERS")
    ]
    mutant_column: Annotated[str, Option("Column of substitutions, such as A1P:D2N.", "COLUMN")] = "mutant"
    sequence_column: Annotated[
        str,
        Option("Column of whole mutated sequences.", "COLUMN"),
    ] = "mutated_sequence"
    start: Annotated[int, Option("The number of the wild type's first letter.")] = 1
    conventions: Annotated[
        str | None,
        Option(
            f"Among {', '.join(get_args(Convention))}, or all; by default all but pll and whole.",
            "NAME[,NAME...]",
        ),
    ] = None
    measured: Annotated[
        str | None, Option("Column with a measured effect, for rank correlations.", "COLUMN")
    ] = None
    given: Annotated[
        str | None, Option("Columns with scores of other tools, for --measured.", "COLUMN[,COLUMN...]")
    ] = None
    draws: Annotated[
        int, Option("Random masks of whole, and of joint beyond 10 sites.", min=2, max=10_000)
    ] = 32
    seed: Annotated[int, Option("Random seed of these masks and of the bootstrap.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    out: Out = None
    overwrite: Overwrite = False
