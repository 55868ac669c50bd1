"""What commands and kinds share: options, dataclasses for Python users, too, and results; without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from maskevidence.command.command_words import Argument, Option
from maskevidence.core.kind import data_words, model_words
from maskevidence.core.show.parts import Page

Model = Annotated[str, Argument("MODEL", model_words)]
Data = Annotated[str, Argument("DATA", data_words)]
Json = Annotated[
    str | None,
    Option("Write the result as JSON; - is standard output.", "FILE", writes="file"),
]
Out = Annotated[Path | None, Option("Write the run into this folder.", "DIR", writes="folder")]
Overwrite = Annotated[bool, Option("Replace another run in --out and the file that --json names.")]
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
    """Number of observations, and the seed of the masks."""

    seed: Seed = 0
    limit: Limit = None


@dataclass(frozen=True)
class ImageFiles:
    """Options for reading images."""

    panel: ClassVar[str] = "Images"

    column: Annotated[str | None, Option("Column of the images, if there are several.", "NAME")] = None
    resize: Annotated[str | None, Option("Resize images to this size, such as 28x28.", "HxW")] = None
    skip_bad: Annotated[bool, Option("Skip images that cannot be read, and list them.")] = False


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
Revision = Annotated[
    str | None,
    Option("Branch, tag or commit of a model on the hub; by default main.", "NAME", panel="Model"),
]


@dataclass(frozen=True)
class RunOptions:
    """Options for computing scores and saving them in a run directory."""

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
            "Score in Ray workers, with --out: ray, ray:8, ray:8,gpus=0.5 or ray:address=HOST:PORT.",
            "ENGINE",
        ),
    ] = None
    threads: Threads = None


@dataclass(frozen=True)
class Training:
    """Options for training a model of any kind."""

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
        Option("Of Adam; by default 0.02 for rows, 0.002 for VAEs, masked-net and masked-lm."),
    ] = None
    batch_size: Annotated[
        int | None,
        Option("In one step; by default 512 rows or 32 texts.", min=1),
    ] = None
    test_fraction: Annotated[
        float | None,
        Option("Share to hold out; by default 0.2, and 0.1 of a text."),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        Option(
            "Epochs (20) or steps (masked-lm: 200) between two checkpoints.",
            min=1,
        ),
    ] = None
    seed: Seed = 0
    limit: Limit = None
    overwrite: Overwrite = False
    device: Device = None


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    page: Page  # printed for people
    content: Mapping[str, Any]  # written as JSON
    lines: Sequence[str] = ()  # printed after the page, such as where files are
    code: int = 0  # exit code
