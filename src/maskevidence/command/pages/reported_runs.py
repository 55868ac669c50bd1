"""Read the runs of a report and, from their sources, the observations."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Integer, UInt8

from maskevidence.core.errors import MaskEvidenceError
from maskevidence.core.evidence.result import EvidenceEstimate, HowScored, summarize_scores
from maskevidence.core.kind import Kind, kind_named
from maskevidence.core.masks.design import n_masks
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.show.words import OF_A_DENSITY
from maskevidence.core.table import cell_value
from maskevidence.runs import Manifest, Run, RunDirectory, read_run
from maskevidence.runs.blocks import read_part
from maskevidence.runs.comparing import distinct
from maskevidence.runs.directory import read_closed_form, read_labels
from maskevidence.runs.manifest import common_noun
from maskevidence.runs.saved import IN_PYTHON
from maskevidence.runs.summary import beside_masks


@dataclass(frozen=True)
class TextContent:
    """A text observation."""

    text: str  # the scored text; a pair of texts is on separate lines
    prompt: str | None = None  # visible text that is not scored


@dataclass(frozen=True)
class RowContent:
    """A row of a table."""

    columns: tuple[str, ...]  # D column names
    values: Float64[np.ndarray, " D"]  # values, NaN if missing
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)  # words of the columns of words

    def cell(self, column: int) -> float | str:
        """Return a cell as a number or word."""
        return cell_value(self.values[column], self.levels.get(self.columns[column]))


@dataclass(frozen=True)
class ImageContent:
    """An image."""

    pixels: UInt8[np.ndarray, "H W C"]  # levels 0..255; C is 1 or 3
    # row and column of each token's pixel, shape (D, 2); None if tokens are square patches
    place: np.ndarray | None = None
    row: RowContent | None = None  # table columns of the pixels; None for an image file


Content = TextContent | RowContent | ImageContent
Contents = Callable[[int], Content | None]  # maps an id to the content of the observation
Reason = str  # why contents cannot be shown, one sentence


def read_back(manifest: Manifest, ids: Integer[np.ndarray, " n"]) -> Contents | Reason:
    """Read the observations of a run again from the source.

    The data are read by the name and with the options in the manifest, and are shown only if they have the
    fingerprint of the run.

    Returns:
        A function that gives the content of an observation by its id, or why the content cannot be shown.
    """
    data = manifest.data
    if data.name == IN_PYTHON:
        return "The run was saved in Python without its data: me.save_run(..., data=table)."
    if data.kind is None:
        return "The run is of an earlier version, which did not record how its data are read; score it again."
    try:
        contents = kind_named(data.kind).read_again(manifest, ids)
    except (MaskEvidenceError, OSError) as error:
        return f"The data {data.name!r} cannot be read any more: {' '.join(str(error).split())}."
    return contents or (
        f"{data.name!r} does not hold what was scored (the fingerprints differ): the data have changed "
        "since, or were read differently."
    )


_SAME = OF_A_DENSITY | {"approximate"}


@dataclass(frozen=True)
class ReportedRun:
    """A finished or unfinished run in a report."""

    name: str  # unique among the runs of the report
    manifest: Manifest  # the content of run.json
    # over all observations, or over the observations of an unfinished run that have all their masks;
    # None if there are none
    estimate: EvidenceEstimate | None
    n_blocks: int  # number of blocks of rows
    n_done: int  # number of blocks that have all their masks
    folder: Path  # run directory

    @property
    def kind(self) -> Kind:
        """The kind of the observations; a bare `Kind` if Python saved the run without data."""
        return Kind() if self.manifest.data.kind is None else kind_named(self.manifest.data.kind)

    @property
    def finished(self) -> bool:
        """Whether every block has all its masks."""
        return self.n_done == self.n_blocks

    @property
    def is_exact(self) -> bool:
        """Whether each observation's closed form is known and is the quantity that the masks estimate."""
        return (
            self.estimate is not None
            and self.estimate.closed_form is not None
            and self.estimate.kind in _SAME
        )

    @property
    def values(self) -> Float64[np.ndarray, " n_observations"]:
        """Log evidence of each observation, nats: the closed form if known, else the masks' estimate."""
        assert self.estimate is not None
        exact = self.estimate.closed_form if self.is_exact else None
        return self.estimate.per_observation if exact is None else exact

    @property
    def n_tokens(self) -> Integer[np.ndarray, " n_observations"]:
        """Number of tokens of each observation."""
        assert self.estimate is not None
        return self.estimate.record.n_tokens

    @cached_property
    def contents(self) -> Contents | Reason:
        """The contents of the observations, read again from their source."""
        assert self.estimate is not None
        return read_back(self.manifest, self.estimate.ids)

    @property
    def run(self) -> Run:
        """The run in the form that other commands use; needs an estimate."""
        assert self.estimate is not None
        return Run(self.manifest, self.estimate, ())

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The content of estimate.json, with the closed form of the observations that are done."""
        assert self.estimate is not None
        numbers, exact = self.run.result(), self.estimate.closed_form
        return (
            numbers if self.finished else numbers | {"closed_form": None if exact is None else exact.mean()}
        )


def read_runs(folders: Sequence[str | Path]) -> list[ReportedRun]:
    """Read runs, and name each by the end of its path.

    Raises:
        InputError: a folder holds no run, or a damaged or changed one.
    """
    paths = [Path(folder) for folder in folders]
    return [_read(name, path) for name, path in zip(_short_names(paths), paths, strict=True)]


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Shorten each path to the fewest last parts that distinguish it from the others.

    Example:
        >>> _short_names([Path("runs/a/x"), Path("runs/b/x")])
        ['a/x', 'b/x']
    """
    parts = [Path(os.path.realpath(path)).parts for path in paths]  # also resolves loops of links
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
    """Estimate from the observations that have all their masks; None without such observations."""
    if not parts:
        return None
    table, design = ScoreTable.join([table for table, _ in parts]).sorted(), manifest.mask_design()
    _, first, observation, counts = np.unique(
        table.id, return_index=True, return_inverse=True, return_counts=True
    )
    # A policy may take fewer steps than planned; with a single repeat, parts hold whole observations.
    done = ((design.n_repeats == 1) | (counts == n_masks(design, table.n_tokens[first])))[observation]
    if not done.any():
        return None
    n_calls = sum(calls for _, calls in parts)
    how = HowScored(design, manifest.key, manifest.conditionals, manifest.base_measure)
    return summarize_scores(table.select(done), how, n_calls)


def noun_of(runs: Sequence[ReportedRun]) -> str:
    """The noun for one observation of these runs, such as "text" or "row"; "observation" if they differ."""
    return common_noun(run.manifest for run in runs)
