"""Options of masked image models."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from maskevidence.command.options import (
    BatchTokens,
    Device,
    ImageFiles,
    Option,
    Revision,
    Sample,
    TestFraction,
)

DensityName = Literal["gaussian", "discretised"]
PatchStatistics = Literal["visible"]


@dataclass(frozen=True)
class ImageOptions(Sample):
    """Options to load a masked image model, read the images to score, and choose the pixel density."""

    kind: ClassVar[str] = "images"
    panel: ClassVar[str] = "Images"

    test_fraction: TestFraction = None
    reading: ImageFiles = field(default_factory=ImageFiles)
    density: Annotated[
        DensityName | None,
        Option("Pixel likelihood. discretised also gives bits per dimension."),
    ] = None
    patch_statistics: Annotated[
        PatchStatistics | None,
        Option("Score pixels of normalised patches by the visible patches' mean and variance."),
    ] = None
    calibration_fraction: Annotated[
        float | None,
        Option("Share (at most 512 images) to fit the pixel variances; by default 0.2 if needed."),
    ] = None
    revision: Revision = None
    device: Device = None
    batch_tokens: BatchTokens = None
