"""Train a model of any kind."""

from maskevidence import kinds
from maskevidence.kinds.declaring import one_of_kind
from maskevidence.kinds.training_folder import TrainingResult
from maskevidence.kinds.training_options import ImageTraining, TextTraining, TrainingOptions
from maskevidence.kinds.words import kind_of_training


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
        return kinds.texts_training.train(data, options)
    if isinstance(options, ImageTraining):
        return kinds.images_training.train(data, options)
    return kinds.rows_training.train(model, data, options)
