"""What `train` is asked for when the model is a transformer: its options, and who carries them out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.masks import MaskDesign, RandomSize
from maskevidence.tasks.parse import parse_design

TRANSFORMERS = ("masked-lm", "vit-mae")
_OWN = {
    "masked-lm": ("text", "block_size", "tokenizer", "vocabulary_size"),
    "vit-mae": ("patch_size", "column", "resize", "skip_bad"),
}
_OF_ROWS = ("epochs", "patience", "binarise", "masks_per_size", "draws", "orders")


@dataclass(frozen=True)
class TransformerOptions:
    """The options of `train` for transformers; None or False where not given.

    Attributes:
        model: "masked-lm" or "vit-mae".
        data: texts or images.
        out: the folder for the model and its checkpoints.
        objective: "random-size", "fixed-rate:0.15" or another mask design.
        config: "small", another named size, or a folder or name of a model to go on from.
        steps: optimiser steps.
        learning_rate: at its peak.
        batch_size: observations in one step, over all processes.
        checkpoint_every: steps between two checkpoints.
        test_fraction: share of the observations held out.
        seed: of initialisation, order and masks.
        limit: the first so many rows.
        overwrite: replace a model in `out`.
        text, block_size, tokenizer, vocabulary_size: of masked-lm.
        patch_size, column, resize, skip_bad: of vit-mae.
    """

    model: str
    data: str
    out: Path
    objective: str
    config: str | None = None
    steps: int | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    checkpoint_every: int | None = None
    test_fraction: float | None = None
    seed: int = 0
    limit: int | None = None
    overwrite: bool = False
    text: str | None = None
    block_size: int | None = None
    tokenizer: str | None = None
    vocabulary_size: int | None = None
    patch_size: int | None = None
    column: str | None = None
    resize: str | None = None
    skip_bad: bool = False

    def refuse_options_of_others(self) -> None:
        """Raise if an option was given that belongs to another transformer.

        Example:
            >>> TransformerOptions("vit-mae", "mnist", Path("x"), "random-size", block_size=64
            ...     ).refuse_options_of_others()
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: --block-size belongs to masked-lm; leave it out for vit-mae
        """
        for model, names in _OWN.items():
            for name in names:
                if model != self.model and getattr(self, name):
                    raise InputError(f"{_flag(name)} belongs to {model}; leave it out for {self.model}")


def objective_of_transformer(model: str, word: str) -> MaskDesign:
    """The design behind --objective; a transformer gets one of its masks for each observation and step.

    Raises:
        InputError: an unknown design, or the likelihood.

    Example:
        >>> objective_of_transformer("masked-lm", "random-size")
        RandomSize(draws=1, replicates=1)
    """
    if word == "likelihood":
        raise InputError(f"the likelihood of {model} has no closed form; give --objective random-size")
    return RandomSize(1, 1) if word == RandomSize.name else parse_design(word)


def refuse_options_of_rows(model: str, given: dict[str, Any]) -> None:
    """Raise if an option of models of rows was given for a transformer."""
    for name in _OF_ROWS:
        if given[name] is not None:
            raise InputError(f"{_flag(name)} belongs to models of rows; leave it out for {model}")
    if given["masks"] != "own":
        raise InputError(f"--masks {given['masks']} belongs to models of rows; {model} has own masks")


def refuse_options_of_transformers(model: str, given: dict[str, Any]) -> None:
    """Raise if an option of transformers was given for a model of rows; images are rows of pixels too."""
    names = ("config", "steps", *_OWN["masked-lm"], "patch_size")
    for name in names:
        if given[name] is not None:
            raise InputError(
                f"{_flag(name)} belongs to {' and '.join(TRANSFORMERS)}; leave it out for {model}"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
