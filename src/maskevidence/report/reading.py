"""Runs as the report needs them: finished ones as they are, others as far as they came."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maskevidence.errors import InputError
from maskevidence.evidence import EvidenceEstimate, summarize_scores
from maskevidence.runs import Manifest, Run, RunDirectory, distinct, list_parts, read_part, read_run
from maskevidence.runs.blocks import missing, shard_blocks
from maskevidence.runs.parts import joined
from maskevidence.score import growing_option
from maskevidence.score_table import ScoreTable


@dataclass(frozen=True)
class ReportedRun:
    """One run, with what there is of it.

    Attributes:
        name: unique among the runs of a report.
        manifest: what the run is of.
        estimate: of all its observations; where the run is not finished, of those with all their masks; None
            where there are none yet.
        n_blocks: into how many blocks of rows it is cut.
        n_done: how many of these have all their masks.
        folder: where it is; None for one in memory.
    """

    name: str
    manifest: Manifest
    estimate: EvidenceEstimate | None
    n_blocks: int = 1
    n_done: int = 1
    folder: Path | None = None

    @property
    def finished(self) -> bool:
        """Whether every block has all its masks."""
        return self.n_done == self.n_blocks

    @property
    def run(self) -> Run:
        """The run as other commands have it; there must be an estimate."""
        assert self.estimate is not None
        return Run(self.manifest, self.estimate, ())


def read_runs(folders: Sequence[str | Path]) -> list[ReportedRun]:
    """The runs in these folders, named by the ends of their paths.

    Raises:
        InputError: a folder without a run, or with a record that is damaged.
    """
    paths = [Path(folder) for folder in folders]
    return [_read(name, path) for name, path in zip(_short_names(paths), paths, strict=True)]


def _short_names(paths: Sequence[Path]) -> list[str]:
    """As many of the last parts of each path as tell all of them apart.

    Example:
        >>> _short_names([Path("runs/a/x"), Path("runs/b/x")])
        ['a/x', 'b/x']
    """
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return distinct(names)


def _read(name: str, path: Path) -> ReportedRun:
    directory = RunDirectory(path)
    manifest = directory.manifest()
    if manifest is None:
        raise InputError(f"there is no run in {str(path)!r}; give a folder that --out wrote")
    n_repeats = growing_option(manifest.mask_design())[1]
    blocks = shard_blocks(manifest.data.n_observations, manifest.rows_per_block, manifest.shard)
    parts = list_parts(directory.scores)
    left = {piece.first_block for piece in missing([part.piece for part in parts], blocks, n_repeats)}
    if not left:
        return ReportedRun(name, manifest, read_run(path).estimate, len(blocks), len(blocks), path)
    estimate = _estimate_of_done(manifest, [read_part(part) for part in parts])
    return ReportedRun(name, manifest, estimate, len(blocks), len(blocks) - len(left), path)


def _estimate_of_done(manifest: Manifest, read: Sequence[tuple[ScoreTable, int]]) -> EvidenceEstimate | None:
    """The estimate of the observations that have all their masks; None where there are none."""
    if not read:
        return None
    table, design = joined([part for part, _ in read]).sorted(), manifest.mask_design()
    _, first, observation, counts = np.unique(
        table.id, return_index=True, return_inverse=True, return_counts=True
    )
    done = (counts == design.n_draws(table.n_tokens[first]))[observation]
    if not done.any():
        return None
    whole = ScoreTable(
        table.id[done],
        table.draw[done],
        table.size[done],
        table.n_tokens[done],
        table.score[done],
        None if table.n_bytes is None else table.n_bytes[done],
    )
    n_calls = sum(calls for _, calls in read)
    return summarize_scores(whole, design, manifest.key, manifest.conditionals, n_calls)
