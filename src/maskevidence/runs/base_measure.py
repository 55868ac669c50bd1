"""The base measure of a run, which runs of older versions do not name."""

from maskevidence.model import DENSITY, MASS
from maskevidence.models.image.pixel_density import pixel_base_measure
from maskevidence.models.image.summary import DENSITY as PIXEL_DENSITY
from maskevidence.models.text.whole_words import HIDDEN_TOGETHER, WHOLE_WORDS
from maskevidence.runs.manifest import Manifest

_OF_FITTED_MODELS = {
    "gaussian": DENSITY,
    "ppca": DENSITY,
    "factor-analysis": DENSITY,
    "vae": DENSITY,
    "bernoulli-pca": MASS,
    "bernoulli-vae": MASS,
}


def base_measure_of_run(manifest: Manifest) -> str | None:
    """What the log-probabilities of a run are relative to; None if run.json does not tell.

    In runs of older versions it follows from the density of pixels, from the data being text, and from the
    word of a model that was fitted for the run.
    """
    if manifest.base_measure is not None:
        return manifest.base_measure
    density = manifest.details.get(PIXEL_DENSITY)
    if isinstance(density, dict) and "name" in density:
        of_pixels = manifest.conditionals != "transformed"
        return pixel_base_measure(str(density["name"]), of_pixels=of_pixels)
    if manifest.data.text_fingerprint is not None:
        return WHOLE_WORDS if HIDDEN_TOGETHER in manifest.data.notes else MASS
    fitted = manifest.model_fingerprint is None
    return _OF_FITTED_MODELS.get(manifest.model.partition(":")[0]) if fitted else None
