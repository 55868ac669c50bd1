"""A model and the observations that a command names, whatever their kind."""

from pathlib import Path

from maskevidence.masks.design import MaskDesign
from maskevidence.tasks.declaring import Kind
from maskevidence.tasks.options import ImagePreparation, Preparation
from maskevidence.tasks.prepared import Prepared


def prepare(
    kind: Kind, model: str, data: str, design: MaskDesign, how: Preparation, out: Path | None = None
) -> Prepared:
    """Fit or load a model, and read the observations to score it on.

    Args:
        kind: the kind of the model, as `kind_of_model` tells it.
        model: the MODEL word.
        data: the DATA word.
        design: how masks will be drawn.
        how: which rows are used, and how they are read.
        out: a run directory that may hold this run already; used for images.

    Raises:
        InputError: a model or data that cannot be used.
    """
    if kind == "images":
        from maskevidence.tasks.prepare_images import prepare_images

        of_images = ImagePreparation(how.sample, how.rows, how.images, how.device)
        return prepare_images(model, data, of_images, out=out)
    if kind == "texts":
        from maskevidence.tasks.prepare_texts import prepare_texts

        return prepare_texts(model, data, design, how.texts, how.device, how.sample)
    from maskevidence.tasks.prepare_rows import prepare_rows

    return prepare_rows(model, data, how.sample, how.rows, how.device)
