"""maskevidence train: train a model by masked prediction, by its exact likelihood, or by a bound on it."""

from typing import Annotated

from maskevidence.command.command_words import Argument, check_row_words
from maskevidence.command.options import ImageTraining, TextTraining, TrainingOptions
from maskevidence.command.result import Result


def train(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "masked-net, gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20 or bernoulli-vae:20; "
            "masked-lm or vit-mae for transformers.",
        ),
    ],
    data: Annotated[str, Argument("DATA", "Rows, texts or images, as `score` takes them.")],
    options: TrainingOptions,
) -> Result | None:
    """Train MODEL on DATA by masked prediction, and write it into a folder that `score` reads.

    Columns are centred and scaled for training, and the model is saved in the units of the data; models of
    0 and 1 take the values as they are. The same command resumes an interrupted training from its
    checkpoint.

    Examples:

        maskevidence train ppca:8 digits --out runs/masked
        maskevidence train ppca:8 digits --objective likelihood --out runs/exact
        maskevidence score runs/masked digits --test-fraction 0.2
        maskevidence train masked-lm python-topics --out runs/bert
        maskevidence train vit-mae mnist:train --out runs/vit-mae
    """
    if isinstance(options, TextTraining):
        from maskevidence.texts.train_masked_lm import train_texts

        return train_texts(data, options)
    if isinstance(options, ImageTraining):
        from maskevidence.images.train_vit_mae import train_images

        return train_images(data, options)
    check_row_words(model, data)
    from maskevidence.tables.train_rows import train_rows

    return train_rows(model, data, options)
