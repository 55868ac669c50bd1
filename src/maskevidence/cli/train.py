"""maskevidence train: a model trained by masked prediction, by its exact likelihood, or by a bound on it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maskevidence.cli import options, output
from maskevidence.cli.train_rows import RowTraining, train_rows
from maskevidence.cli.transformer import (
    TRANSFORMERS,
    TransformerOptions,
    refuse_options_of_rows,
    refuse_options_of_transformers,
)
from maskevidence.masks import Masks
from maskevidence.tasks.options import RowReading

_ROWS, _TRANSFORMERS = "Models of rows", "Transformers"


def train(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20 or bernoulli-vae:20; "
            "masked-lm or vit-mae for transformers.",
        ),
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Rows, texts or images, as `score` takes them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Leave the model in this folder.")],
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            help="likelihood, elbo, iwae:5, or a mask design: random-size, every-size, orderings, "
            "leave-one-out, fixed-rate:0.15, ...",
        ),
    ] = "random-size",
    masks_per_size: Annotated[
        int | None,
        typer.Option(
            "--masks-per-size", rich_help_panel=_ROWS, help="For every-size, fixed-rate, rates; by default 1."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", rich_help_panel=_ROWS, help="Masks per observation and step, for random-size; 1."
        ),
    ] = None,
    orders: Annotated[
        int | None, typer.Option("--orders", rich_help_panel=_ROWS, help="For orderings; by default 1.")
    ] = None,
    masks: Annotated[
        Masks,
        typer.Option("--masks", rich_help_panel=_ROWS, help="own: for each observation; shared: by all."),
    ] = "own",
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", rich_help_panel=_ROWS, help="Passes over the rows; by default 500."),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience",
            min=1,
            rich_help_panel=_ROWS,
            help="Stop when the evidence of held-out rows was not higher for so many epochs, and keep the "
            "best.",
        ),
    ] = None,
    binarise: options.Binarise = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="SIZE|FOLDER|NAME",
            rich_help_panel=_TRANSFORMERS,
            help="small (the default), base for masked-lm, or a model to go on from.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, rich_help_panel=_TRANSFORMERS, help="Optimiser steps; 1,000 for texts."
        ),
    ] = None,
    text: options.Text = None,
    block_size: options.BlockSize = None,
    tokenizer: options.Tokenizer = None,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(
            "--vocabulary-size",
            min=1,
            rich_help_panel=_TRANSFORMERS,
            help="Word pieces of a vocabulary that is made from the text, for masked-lm without --tokenizer.",
        ),
    ] = None,
    patch_size: Annotated[
        int | None,
        typer.Option(
            "--patch-size",
            min=1,
            rich_help_panel=_TRANSFORMERS,
            help="Pixels of a patch's side, for vit-mae.",
        ),
    ] = None,
    column: options.Column = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate", help="Of Adam; for rows in standard units, by default 0.02 (VAEs: 0.002)."
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", min=1, help="Observations in one step; 512 for rows, 32 for texts."),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option("--test-fraction", help="Share held out, 0.2, and 0.1 of a text; 0 trains on all."),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            "--checkpoint-every", min=1, help="Epochs (steps) between two checkpoints; 20 for rows."
        ),
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    json: options.Json = None,
) -> None:
    """Train MODEL on DATA by masked prediction, and leave it in a folder that `score` reads.

    Columns are centred and scaled for training, and the model is saved in the data's own units; a model of
    0 and 1 takes them as they are. A training that was interrupted goes on from its checkpoint when the same
    command is given again.

    Examples:

        maskevidence train ppca:8 digits --out runs/masked

        maskevidence train ppca:8 digits --objective likelihood --out runs/exact

        maskevidence score runs/masked digits --test-fraction 0.2

        maskevidence train masked-lm python-topics --out runs/bert

        maskevidence train vit-mae mnist:train --out runs/vit-mae
    """
    given = dict(locals())
    options.use_threads(threads)
    screen = output.console(json)
    if model in TRANSFORMERS:
        refuse_options_of_rows(model, given)
        names = TransformerOptions.__dataclass_fields__
        asked = TransformerOptions(**{name: given[name] for name in names})
        asked.refuse_options_of_others()
        result = _train_transformer(asked, screen)
    else:
        refuse_options_of_transformers(model, given)
        chosen = RowTraining.__dataclass_fields__.keys() - {"rows"}
        rows = RowReading(column, resize, skip_bad, binarise)
        settings = {name: given[name] for name in chosen if given[name] is not None}
        result = train_rows(RowTraining(**settings, rows=rows), screen)
    output.write_json(result, json)


def _train_transformer(asked: TransformerOptions, screen: Any) -> dict[str, Any]:
    if asked.model == "masked-lm":
        from maskevidence.cli.train_masked_lm import train_masked_lm

        return train_masked_lm(asked, screen)
    from maskevidence.cli.train_vit_mae import train_vit_mae

    return train_vit_mae(asked, screen)
