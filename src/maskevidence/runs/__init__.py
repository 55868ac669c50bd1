"""Run directories: what decides the numbers of a run, its scores, and its estimate."""

from maskevidence.runs.blocks import rows_per_block
from maskevidence.runs.directory import RunDirectory
from maskevidence.runs.manifest import DataSource, Manifest
from maskevidence.runs.pairing import compare_runs
from maskevidence.runs.score_into import Recording, record_run
from maskevidence.runs.summary import Run, read_run, write_run, write_summary

__all__ = [
    "DataSource",
    "Manifest",
    "Recording",
    "Run",
    "RunDirectory",
    "compare_runs",
    "read_run",
    "record_run",
    "rows_per_block",
    "write_run",
    "write_summary",
]
