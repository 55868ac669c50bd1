"""The surrogate of a score: fitted to the scored rows, or loaded."""

from typing import Any

import torch

from maskevidence.errors import InputError, NumericalError
from maskevidence.score import check_control
from maskevidence.tasks.options import RowDevice
from maskevidence.tasks.parse import parse_model
from maskevidence.tasks.prepare_rows import model_on
from maskevidence.tasks.prepared import Prepared

SURROGATES = ("gaussian", "kernel-gaussian", "ppca", "factor-analysis", "bernoulli-pca")


def check_control_word(word: str) -> None:
    """Raise an InputError for an unknown word, or for a model without a closed form, before any work.

    Example:
        >>> check_control_word("ppca:8")
    """
    build, saved = parse_model(word)
    if build is None:
        check_control(saved, f"--control {word}")
    elif word.partition(":")[0] not in SURROGATES:
        raise InputError(
            f"--control {word} has no log evidence in closed form; give {', '.join(SURROGATES)}, or the "
            "folder of such a model"
        )


def control_for(word: str, prepared: Prepared, device: str | None = None) -> Any:
    """The surrogate that a --control word stands for, in float64.

    A word such as "ppca:8" is fitted to the rows that are scored. They are all rows, over all shards, so that
    every shard has the same surrogate; the estimate is unbiased, since it is over the masks of given rows.

    Args:
        word: as for MODEL, or the folder of a saved model of the same columns.
        prepared: the rows that are scored.
        device: where the surrogate computes, as --device names it.

    Raises:
        InputError: an unknown word, a model without a closed form or of other columns, or one that cannot be
            fitted to these rows.

    Example:
        >>> from maskevidence.tasks.prepare_rows import prepare_rows
        >>> control_for("ppca:3", prepare_rows("gaussian", "digits")).loadings.shape
        torch.Size([61, 3])
    """
    tokens, columns = prepared.tokens, list(prepared.source.columns)
    build, saved = model_on(word, RowDevice(device))
    if build is None:
        saved.check_width(tokens.width)
        if saved.columns not in (None, columns):
            other = sorted({*columns} ^ {*saved.columns}) or ["the same, in another order"]
            raise InputError(
                f"--control {word!r} has other columns than the scored rows ({', '.join(other[:3])}); give a "
                "model of the same columns"
            )
        return saved
    model = build(tokens.width)
    check_control(model, f"--control {word}")
    values = torch.where(tokens.maskable, tokens.values.double(), torch.nan)
    try:
        model.fit(values.cpu().numpy())
    except (InputError, NumericalError) as error:
        rows = f"{len(tokens):,} scored row{'s' * (len(tokens) > 1)}"
        raise InputError(f"--control {word} cannot be fitted to the {rows}: {error}") from error
    model.columns = columns
    return model
