"""The runs of a report: finished ones as a whole, unfinished ones as far as they are scored."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.evidence.result import EvidenceEstimate, summarize_scores
from maskevidence.masks.drawing import n_masks
from maskevidence.report.sources import Contents, Unavailable, read_back
from maskevidence.runs import Manifest, Run, RunDirectory, read_run
from maskevidence.runs.directory import read_closed_form, read_labels
from maskevidence.runs.pairing import distinct
from maskevidence.runs.parts import read_part
from maskevidence.runs.summary import beside_masks
from maskevidence.scores.record import ScoreTable
from maskevidence.show.words import OF_A_DENSITY

_SAME = OF_A_DENSITY | {"approximate"}


@dataclass(frozen=True)
class ReportedRun:
    """One run, as far as it is scored.

    Attributes:
        name: unique among the runs of a report.
        manifest: what decides the numbers of the run.
        estimate: over all observations of a finished run, or over those of an unfinished run that have all
            their masks; None if there are none.
        n_blocks: number of blocks of rows of the run.
        n_done: number of blocks that have all their masks.
        folder: the run directory.
    """

    name: str
    manifest: Manifest
    estimate: EvidenceEstimate | None
    n_blocks: int
    n_done: int
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether every block has all its masks."""
        return self.n_done == self.n_blocks

    @property
    def closed_form(self) -> float | None:
        """The mean log evidence of the observations in closed form; None where it is not known."""
        assert self.estimate is not None
        if self.estimate.closed_form is not None:
            return float(self.estimate.closed_form.mean())
        return self.manifest.closed_form if self.finished else None

    @property
    def is_exact(self) -> bool:
        """Whether the closed form of each observation is known, and is what the masks estimate."""
        return (
            self.estimate is not None
            and self.estimate.closed_form is not None
            and self.estimate.kind in _SAME
        )

    @property
    def values(self) -> Float64[np.ndarray, " n_observations"]:
        """The number of each observation, nats: in closed form if that is known, otherwise by its masks."""
        assert self.estimate is not None
        exact = self.estimate.closed_form if self.is_exact else None
        return self.estimate.per_observation if exact is None else exact

    @cached_property
    def contents(self) -> Contents | Unavailable:
        """What the observations are, read again from their source."""
        assert self.estimate is not None
        return read_back(self.manifest)

    @property
    def run(self) -> Run:
        """The run in the form that other commands use; it must have an estimate."""
        assert self.estimate is not None
        return Run(self.manifest, self.estimate, ())


def read_runs(folders: Sequence[str | Path]) -> list[ReportedRun]:
    """Read the runs in these folders, and name each by the end of its path.

    Raises:
        InputError: a folder holds no run, or a damaged or changed one.
    """
    paths = [Path(folder) for folder in folders]
    return [_read(name, path) for name, path in zip(_short_names(paths), paths, strict=True)]


def _short_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as are needed to tell the paths apart.

    Example:
        >>> _short_names([Path("runs/a/x"), Path("runs/b/x")])
        ['a/x', 'b/x']
    """
    parts = [Path(os.path.realpath(path)).parts for path in paths]  # loops of links, too
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return distinct(names)


def _read(name: str, path: Path) -> ReportedRun:
    directory = RunDirectory(path)
    manifest = directory.existing_manifest()
    n_blocks = len(manifest.blocks())
    parts = directory.parts(manifest)
    unfinished = {piece.first_block for piece in manifest.missing(part.piece for part in parts)}
    if not unfinished:
        return ReportedRun(name, manifest, read_run(path).estimate, n_blocks, n_blocks, path)
    estimate = _estimate_of_done(manifest, [read_part(part) for part in parts])
    if estimate is not None:
        beside = read_labels(path, manifest), read_closed_form(path, manifest)
        estimate = beside_masks(estimate, *beside)
    return ReportedRun(name, manifest, estimate, n_blocks, n_blocks - len(unfinished), path)


def _estimate_of_done(manifest: Manifest, parts: Sequence[tuple[ScoreTable, int]]) -> EvidenceEstimate | None:
    """The estimate over the observations that have all their masks; None if there are none."""
    if not parts:
        return None
    table, design = ScoreTable.join([table for table, _ in parts]).sorted(), manifest.mask_design()
    _, first, observation, counts = np.unique(
        table.id, return_index=True, return_inverse=True, return_counts=True
    )
    done = (counts == n_masks(design, table.n_tokens[first]))[observation]
    if not done.any():
        return None
    n_calls = sum(calls for _, calls in parts)
    return summarize_scores(
        table.select(done), design, manifest.key, manifest.conditionals, n_calls, manifest.base_measure
    )
