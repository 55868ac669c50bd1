"""Run directories: what was run, its record, and what came out."""

from maskevidence.runs.blocks import parse_shard, rows_per_block
from maskevidence.runs.directory import CURVE, CURVE_PICTURE, ESTIMATE, MODEL, RunDirectory
from maskevidence.runs.engine import Engine, local_engine
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import DataSource, Manifest
from maskevidence.runs.pairing import compare_runs, distinct
from maskevidence.runs.parts import list_parts, read_part
from maskevidence.runs.score_into import SAVE_EVERY, Recording, record_run, write_scores
from maskevidence.runs.summary import Run, read_run
from maskevidence.runs.summary_files import write_run, write_summary
from maskevidence.support.files import write_atomic

__all__ = [
    "CURVE",
    "CURVE_PICTURE",
    "ESTIMATE",
    "MODEL",
    "SAVE_EVERY",
    "DataSource",
    "Engine",
    "Manifest",
    "Recording",
    "Run",
    "RunDirectory",
    "compare_runs",
    "distinct",
    "list_parts",
    "local_engine",
    "locked",
    "parse_shard",
    "read_part",
    "read_run",
    "record_run",
    "rows_per_block",
    "write_atomic",
    "write_run",
    "write_scores",
    "write_summary",
]
