"""A model and the observations that a command names, whatever their kind."""

from pathlib import Path

from maskevidence import inputs
from maskevidence.command.options import ImageOptions, Preparation, TextOptions
from maskevidence.core.masks.design import MaskDesign
from maskevidence.runs.prepared import Prepared


def prepare(
    model: str, data: str, design: MaskDesign, options: Preparation, out: Path | None = None
) -> Prepared:
    """Fit or load a model, and read the observations to score it on.

    Args:
        model: the MODEL word.
        data: the DATA word.
        design: how masks will be drawn.
        options: of the kind of the model: which observations are used, and how they are read.
        out: a run directory that may hold this run already; used for images.

    Raises:
        InputError: a model or data that cannot be used.
    """
    if isinstance(options, ImageOptions):
        return inputs.images.prepare(model, data, options, out=out)
    if isinstance(options, TextOptions):
        return inputs.texts.prepare(model, data, design, options)
    return inputs.rows.prepare(model, data, options)
