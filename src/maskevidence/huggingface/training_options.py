"""Options to train transformers."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from maskevidence.command.options import Option, Training
from maskevidence.texts.text_options import (
    AllowUnknown,
    BlockSize,
    Pattern,
    SkipEmpty,
    Text,
    Tokenizer,
    Upper,
)

MASKED_LM = "masked-lm"  # the word of `maskevidence train`


@dataclass(frozen=True)
class TextTraining(Training):
    """Options to train masked-lm, with its texts and tokenizer."""

    panel: ClassVar[str] = "Texts"
    kind: ClassVar[str] = MASKED_LM

    config: Annotated[
        str | None,
        Option(
            "small (the default), base, or a model whose training is continued.",
            "SIZE|FOLDER|NAME",
            panel="Transformers",
        ),
    ] = None
    steps: Annotated[int | None, Option("Optimiser steps; by default 1000.", min=1, panel="Transformers")] = (
        None
    )
    text: Text = None
    block_size: BlockSize = None
    tokenizer: Tokenizer = None
    pattern: Pattern = None
    allow_unknown: AllowUnknown = False
    skip_empty: SkipEmpty = False
    upper: Upper = False
    vocabulary_size: Annotated[
        int | None,
        Option("Word pieces of a new vocabulary, without --tokenizer.", min=1),
    ] = None
