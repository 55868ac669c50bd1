"""Run directories: what was run, and what came out."""

from maskevidence.files import write_atomic
from maskevidence.runs.directory import CURVE, CURVE_PICTURE, ESTIMATE, MODEL, RunDirectory
from maskevidence.runs.manifest import DataSource, Manifest

__all__ = [
    "CURVE",
    "CURVE_PICTURE",
    "ESTIMATE",
    "MODEL",
    "DataSource",
    "Manifest",
    "RunDirectory",
    "write_atomic",
]
