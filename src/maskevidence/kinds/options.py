"""The options of commands, as dataclasses that Python users fill, too; needs no torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, get_args

from maskevidence.kinds.declaring import Kind, Option
from maskevidence.support.choices import (
    Convention,
    Density,
    DiffusionName,
    DtypeName,
    Long,
    PatchStatistics,
    WeightsDtype,
)

Json = Annotated[
    str | None,
    Option(
        "Write the result as JSON; - writes it to standard output.",
        "FILE",
        panel="Every command",
        writes="file",
    ),
]
Out = Annotated[Path | None, Option("Write the run into this folder.", "DIR", writes="folder")]
Overwrite = Annotated[bool, Option("Replace another run in --out.")]
Seed = Annotated[int, Option("Random seed for the masks and the train/test split.", min=0, max=2**63 - 1)]
Threads = Annotated[
    int | None,
    Option("Number of processor threads; by default all.", min=1, max=1024, panel="Every command"),
]
Limit = Annotated[int | None, Option("Use only the first N rows, texts or images.", "N", min=1)]
Design = Annotated[
    str | None,
    Option(
        "How masks are drawn: every-size:4, random-size:8, orderings:8, leave-one-out, exhaustive, "
        "fixed-rate:0.15, rates:0.1-0.9-0.2 or policy:entropy, with further options after commas, such as "
        "policy:entropy,blocks=4. With ,shared all observations have the same masks; with ,per-token the "
        "score of each hidden token is recorded. By default every-size, and random-size for transformers.",
        "DESIGN",
    ),
]
TestFraction = Annotated[
    float | None,
    Option(
        "Share of the observations to hold out and score. By default 0.2 for a model that is fitted first; a "
        "saved model scores all of them."
    ),
]
IdColumn = Annotated[
    str | None,
    Option(
        "Column with the names of the observations, which are not data, and which observations.csv repeats; "
        "FASTA files have names.",
        "COLUMN",
    ),
]


@dataclass(frozen=True)
class Sample:
    """How many of the observations are used, and the seed of the masks."""

    panel: ClassVar[str] = "Data"

    seed: Seed = 0
    limit: Limit = None


@dataclass(frozen=True)
class RowSample(Sample):
    """Which rows are used."""

    test_fraction: TestFraction = None
    id_column: IdColumn = None


@dataclass(frozen=True)
class ImageSample(Sample):
    """Which images are used."""

    test_fraction: TestFraction = None


@dataclass(frozen=True)
class TextSample(Sample):
    """Which texts are used."""

    id_column: IdColumn = None


@dataclass(frozen=True)
class ImageFiles:
    """How images are read."""

    panel: ClassVar[str] = "Images"

    column: Annotated[
        str | None, Option("Column that holds the images, if there are several columns.", "NAME")
    ] = None
    resize: Annotated[str | None, Option("Resize images to this size, such as 28x28.", "HxW")] = None
    skip_bad: Annotated[bool, Option("Skip images that cannot be read, and list them.")] = False


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table are used, and how they are read."""

    panel: ClassVar[str] = "Tables"

    columns: Annotated[
        str | None, Option("Use only these columns of the table, in this order.", "COLUMN[,COLUMN...]")
    ] = None
    drop: Annotated[str | None, Option("Leave these columns of the table out.", "COLUMN[,COLUMN...]")] = None
    one_hot: Annotated[
        str | None,
        Option(
            "Columns of categories; each becomes one column of 0 and 1 for every category but the first.",
            "COLUMN[,COLUMN...]",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option("Character between the cells of a CSV table, or tab; by default guessed.", "CHARACTER"),
    ] = None
    missing: Annotated[
        str | None,
        Option(
            "Words and numbers that stand for missing values, such as ?,-999; empty cells, NA, NaN and null "
            "always do.",
            "WORD[,WORD...]",
        ),
    ] = None


@dataclass(frozen=True)
class RowReading(ImageFiles):
    """How rows of numbers are read."""

    panel: ClassVar[str] = "Data"

    table: TableOptions = field(default_factory=TableOptions)
    binarise: Annotated[
        str | None,
        Option(
            "Make values in [0, 1] binary: threshold:0.5 (1 above it) or stochastic (1 with the value as its "
            "probability, drawn by --seed).",
            "HOW",
        ),
    ] = None


@dataclass(frozen=True)
class PixelOptions:
    """What the score of a masked image model depends on."""

    panel: ClassVar[str] = "Pixels"

    density: Annotated[
        Density | None, Option("Pixel likelihood. discretised also gives bits per dimension.")
    ] = None
    patch_statistics: Annotated[
        PatchStatistics | None,
        Option(
            "For a model of normalised patches: score the pixels, with the mean and variance of the visible "
            "patches."
        ),
    ] = None
    calibration_fraction: Annotated[
        float | None,
        Option(
            "Share of the images, at most 512 of them, used to fit the pixel variances and not scored; by "
            "default 0.2 unless the model has variances."
        ),
    ] = None


Device = Annotated[
    str | None,
    Option(
        "Where the model computes: cpu, cuda, cuda:N, mps, or auto for the fastest; by default cpu for "
        "models of rows, and auto for transformers.",
        "DEVICE",
    ),
]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens in one call of the model; by default 1024 on a CPU (without --out, a trial on the first "
        "texts may choose more) and 16384 elsewhere.",
        min=1,
    ),
]
Dtype = Annotated[
    DtypeName | None,
    Option(
        "Precision of the model; by default that of the saved model, float32 for a new VAE and float64 for "
        "the others.",
    ),
]


@dataclass(frozen=True)
class RowDevice:
    """Where a model of rows computes, and in which precision."""

    panel: ClassVar[str] = "Model"

    device: Device = None
    dtype: Dtype = None


@dataclass(frozen=True)
class ImageDevice:
    """Where a masked image model computes, and in calls of which size."""

    panel: ClassVar[str] = "Model"

    device: Device = None
    batch_tokens: BatchTokens = None


@dataclass(frozen=True)
class TextDevice:
    """Where a masked language model computes, in which precision, and in calls of which size."""

    panel: ClassVar[str] = "Model"

    device: Device = None
    dtype: Annotated[
        WeightsDtype | None,
        Option(
            "Precision of the weights, or auto for that of the checkpoint; by default float32, and auto for "
            "diffusion models.",
        ),
    ] = None
    batch_tokens: BatchTokens = None


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
            "Write this many filled tables, one below the other, whose missing values are drawn jointly "
            "given the observed ones (multiple imputation); by default one, with standard deviations.",
            min=1,
            max=10_000,
        ),
    ] = None
    seed: Annotated[int, Option("Random seed of the draws.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    id_column: IdColumn = None
    overwrite: Annotated[bool, Option("Replace the file in --out.")] = False
    table: TableOptions = field(default_factory=TableOptions)
    device: RowDevice = field(default_factory=RowDevice)


Text = Annotated[str | None, Option("Column of the texts; two columns make pairs.", "COLUMN[,COLUMN]")]
BlockSize = Annotated[
    int | None,
    Option("Pack running text into blocks of this many tokens, special tokens included.", min=1),
]
Tokenizer = Annotated[
    str | None, Option("The model's tokenizer, if it is not stored with the model.", "FOLDER|NAME")
]

AllowUnknown = Annotated[
    bool, Option("Accept texts although more than 20 % of their tokens are unknown to the tokenizer.")
]


Pattern = Annotated[
    str | None,
    Option(
        "Regular expression of a token, such as '.' for single letters: reads a vocab.txt that no tokenizer "
        "of transformers reads. By default the vocab.txt in the model's folder; --tokenizer names another.",
        "REGEX",
    ),
]


@dataclass(frozen=True)
class CheckpointOptions:
    """How a masked language model and its tokenizer are loaded."""

    panel: ClassVar[str] = "Model"

    tokenizer: Tokenizer = None
    pattern: Pattern = None
    mask_token: Annotated[
        str | None,
        Option("Word that stands for a hidden token, if the tokenizer does not say.", "WORD"),
    ] = None
    mask_id: Annotated[
        int | None, Option("Id of the mask token, if neither tokenizer nor model says.", "ID", min=0)
    ] = None
    diffusion: Annotated[
        DiffusionName | None,
        Option("Family of a diffusion language model that its configuration does not tell."),
    ] = None
    model_class: Annotated[
        str | None,
        Option(
            "Class of the model, if it is not an AutoModelForMaskedLM: a name in transformers, or "
            "MODULE:CLASS of a package that is installed.",
            "NAME|MODULE:CLASS",
        ),
    ] = None
    state_prefix: Annotated[
        str | None,
        Option(
            "What the names of the weights begin with in the file, such as 'model.', which is taken off. The "
            "file is a .safetensors, .bin, .pt or .ckpt in the model's folder; pickled code is never run.",
            "PREFIX",
        ),
    ] = None
    bf16: Annotated[bool, Option("Compute under bfloat16 autocast.")] = False
    trust_remote_code: Annotated[bool, Option("Run code that comes with the model.")] = False


@dataclass(frozen=True)
class TextReading:
    """How texts are read and encoded."""

    panel: ClassVar[str] = "Texts"

    text: Text = None
    context_field: Annotated[
        str | None, Option("Column of prompts before the texts: always visible, never scored.", "COLUMN")
    ] = None
    block_size: BlockSize = None
    long: Annotated[
        Long | None, Option("What to do with a text that is too long for the model; by default error.")
    ] = None
    whole_words: Annotated[bool, Option("With leave-one-out: hide all tokens of a word together.")] = False
    allow_unknown: AllowUnknown = False


@dataclass(frozen=True)
class RowOptions:
    """How a model of rows is prepared, and the rows that it scores."""

    kind: ClassVar[Kind] = "rows"

    sample: RowSample = field(default_factory=RowSample)
    reading: RowReading = field(default_factory=RowReading)
    device: RowDevice = field(default_factory=RowDevice)


@dataclass(frozen=True)
class TextOptions:
    """How a masked language model is loaded, and the texts that it scores."""

    kind: ClassVar[Kind] = "texts"

    sample: TextSample = field(default_factory=TextSample)
    reading: TextReading = field(default_factory=TextReading)
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)
    device: TextDevice = field(default_factory=TextDevice)


@dataclass(frozen=True)
class ImageOptions:
    """How a masked image model is loaded, and the images that it scores."""

    kind: ClassVar[Kind] = "images"

    sample: ImageSample = field(default_factory=ImageSample)
    reading: ImageFiles = field(default_factory=ImageFiles)
    pixels: PixelOptions = field(default_factory=PixelOptions)
    device: ImageDevice = field(default_factory=ImageDevice)


Preparation = RowOptions | TextOptions | ImageOptions


@dataclass(frozen=True)
class SelectOptions:
    """Among which models is chosen, and how they are compared."""

    components: Annotated[
        str, Option("Numbers of components: 1-20, 2-56-6 (first, last, step) or 1,2,4,8.", "NUMBERS")
    ] = "1-20"
    folds: Annotated[int, Option("Parts of the rows, each of which is held out once.", min=2, max=10_000)] = 5
    seed: Seed = 0
    limit: Limit = None
    id_column: IdColumn = None
    out: Out = None
    overwrite: Annotated[bool, Option("Replace another selection in --out.")] = False
    design: Annotated[
        str | None,
        Option(
            "How masks are drawn, as for score: every-size:4,shared, for example. By default every-size:2, "
            "and no masks where all models have a closed form.",
            "DESIGN",
        ),
    ] = None
    reading: RowReading = field(default_factory=RowReading)


TargetSe = Annotated[
    str | None,
    Option(
        "Draw random sizes until the mask error is this small: 0.05 nats, or 1% of the log evidence.",
        "NATS|SHARE%",
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """How scores are computed, and the run directory that they are saved in."""

    panel: ClassVar[str] = "Saving"

    batch_size: Annotated[int, Option("Masks in one call of the model.", min=1)] = 1024
    out: Out = None
    overwrite: Overwrite = False
    shard: Annotated[str | None, Option("Score the K-th of N parts of the rows; see summarize.", "K/N")] = (
        None
    )
    target_se: TargetSe = None
    max_passes: Annotated[
        int | None, Option("The most masks that --target-se may take, over all observations.", "N", min=1)
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
            "likelihood, elbo, iwae:5, or a mask design as in score --design: random-size:4, every-size, "
            "orderings, leave-one-out, fixed-rate:0.15,shared ...; by default with one mask or order a step.",
            "DESIGN",
        ),
    ] = "random-size"
    learning_rate: Annotated[
        float | None,
        Option(
            "Learning rate of Adam; by default 0.02 for rows in standard units (VAEs: 0.002), 0.002 for "
            "masked-lm and 0.001 for vit-mae."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Option("Observations in one step; by default 512 rows, 32 texts or 64 images.", min=1),
    ] = None
    test_fraction: Annotated[
        float | None,
        Option("Share of the data to hold out; by default 0.2, and 0.1 of a text. 0 trains on all data."),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        Option(
            "Epochs or steps between two checkpoints; by default 20 epochs for rows, 200 steps for masked-lm "
            "and 500 steps for vit-mae.",
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
    kind: ClassVar[Kind] = "rows"

    id_column: Annotated[
        str | None, Option("Column with the names of the rows, which are not data.", "COLUMN")
    ] = None
    epochs: Annotated[int, Option("Number of passes over the rows.")] = 500
    patience: Annotated[
        int | None,
        Option(
            "Stop after this many epochs without a better log evidence of the held-out rows, and keep the "
            "best model.",
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
    kind: ClassVar[Kind] = "texts"

    text: Text = None
    block_size: BlockSize = None
    tokenizer: Tokenizer = None
    pattern: Pattern = None
    allow_unknown: AllowUnknown = False
    vocabulary_size: Annotated[
        int | None,
        Option("Number of word pieces of a new vocabulary, made from the text without --tokenizer.", min=1),
    ] = None


@dataclass(frozen=True)
class ImageTraining(TransformerTraining):
    """How vit-mae is trained, and how its images are read."""

    panel: ClassVar[str] = "Images"
    kind: ClassVar[Kind] = "images"

    patch_size: Annotated[
        int | None,
        Option("Side of a patch of vit-mae in pixels; by default a quarter of the image.", min=1),
    ] = None
    reading: ImageFiles = field(default_factory=ImageFiles)


TrainingOptions = RowTraining | TextTraining | ImageTraining


@dataclass(frozen=True)
class VariantOptions:
    """Which mutants are scored, and how."""

    wild_type: Annotated[
        str, Option("The wild type: a FASTA file with one sequence, or its letters.", "FILE|LETTERS")
    ]
    mutant_column: Annotated[str, Option("Column of substitutions, such as A1P or A1P:D2N.", "COLUMN")] = (
        "mutant"
    )
    sequence_column: Annotated[
        str,
        Option("Column of whole mutated sequences, used without mutants, and checked beside them.", "COLUMN"),
    ] = "mutated_sequence"
    start: Annotated[int, Option("The number of the wild type's first letter.")] = 1
    conventions: Annotated[
        str | None,
        Option(
            f"Names among {', '.join(get_args(Convention))}, or all; by default all but pll and whole, "
            "which take many passes.",
            "NAMES",
        ),
    ] = None
    measured: Annotated[
        str | None, Option("Column with a measured effect: gives rank correlations.", "COLUMN")
    ] = None
    given: Annotated[
        str | None, Option("Columns with scores of other tools, to be compared with --measured.", "COLUMNS")
    ] = None
    draws: Annotated[
        int, Option("Random masks of whole, and of joint beyond 10 sites.", min=2, max=10_000)
    ] = 32
    seed: Annotated[int, Option("Random seed of these masks and of the bootstrap.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    plan: Annotated[bool, Option("Only say how many passes of the model it would take.")] = False
    out: Out = None
    overwrite: Overwrite = False
