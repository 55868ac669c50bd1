"""maskevidence train: train a model by masked prediction, by its exact likelihood, or by a bound on it."""

from typing import Annotated, Any

from maskevidence.command.options import Argument, OptionsOf, Result
from maskevidence.core.kind import kind_named


def train(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "masked-net, gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20 or bernoulli-vae:20; "
            "masked-lm for a transformer.",
        ),
    ],
    data: Annotated[str, Argument("DATA", "Rows or texts, as `score` takes them.")],
    options: Annotated[Any, OptionsOf("train")],
) -> Result | None:  # None in processes other than the first of a distributed training
    """Train MODEL on DATA by masked prediction, and write it into a folder that `score` reads.

    Columns are centred and scaled for training, and the model is saved in the units of the data; models of
    0 and 1 take the values as they are. The same command resumes an interrupted training from its
    checkpoint.

    Examples:

        maskevidence train ppca:8 digits --out runs/masked
        maskevidence train ppca:8 digits --objective likelihood --out runs/exact
        maskevidence score runs/masked digits --test-fraction 0.2
        maskevidence train masked-lm python-topics --out runs/bert
    """
    return kind_named(options.kind).train(model, data, options)
