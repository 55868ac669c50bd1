"""Train a model of any kind."""

from maskevidence.tasks.declaring import one_of_kind
from maskevidence.tasks.kind_of_model import kind_of_training
from maskevidence.tasks.training_folder import TrainingResult
from maskevidence.tasks.training_options import ImageTraining, TextTraining, TrainingOptions


def train(model: str, data: str, options: TrainingOptions) -> TrainingResult | None:
    """Train a model on data, and save it in a folder.

    Args:
        model: a word such as "ppca:8", "masked-lm" or "vit-mae".
        data: rows, texts or images.
        options: how the model is trained: `RowTraining`, `TextTraining` or `ImageTraining`.

    Returns:
        The result; None in the other processes of a training that `torchrun` started.

    Raises:
        InputError: options that belong to other models, or a model, data or a folder that cannot be used.
        NumericalError: a loss or a parameter that is not finite.
    """
    options = one_of_kind(kind_of_training(model), model, options, TrainingOptions)
    if isinstance(options, TextTraining):
        from maskevidence.tasks.train_masked_lm import train_masked_lm

        return train_masked_lm(data, options)
    if isinstance(options, ImageTraining):
        from maskevidence.tasks.train_vit_mae import train_vit_mae

        return train_vit_mae(data, options)
    from maskevidence.tasks.train_rows import train_rows

    return train_rows(model, data, options)
