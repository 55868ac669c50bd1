"""The options of training, as dataclasses that Python users can fill, too."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from maskevidence.kinds.declaring import Kind, Option
from maskevidence.kinds.options import (
    AllowUnknown,
    BlockSize,
    Device,
    Dtype,
    ImageFiles,
    Limit,
    Overwrite,
    Pattern,
    RowReading,
    Seed,
    Text,
    Threads,
    Tokenizer,
)


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
    threads: Threads = None
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
