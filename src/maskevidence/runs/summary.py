"""Compute a run's estimate from its scores, and read all shards of a run as one run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.curve import curve_lines
from maskevidence.core.evidence.result import (
    EvidenceEstimate,
    HowScored,
    Rows,
    joined,
    observation_tables,
    summarize_scores,
)
from maskevidence.core.show.draw import draw_into
from maskevidence.core.support.files import check_place, write_atomic, write_json
from maskevidence.core.support.provenance import command
from maskevidence.runs.blocks import SavedPart, scores_of
from maskevidence.runs.directory import (
    CURVE,
    CURVE_PICTURE,
    ESTIMATE,
    MANY_OBSERVATIONS,
    OBSERVATIONS,
    TEXTS,
    Ids,
    RunDirectory,
    read_closed_form,
    read_labels,
    saved_beginnings,
    with_texts,
)
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.observation_files import csv_in_parts, parquet_of
from maskevidence.runs.prepared import content_of

MANY = 10**7  # observations, from which on they are written as Parquet


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        manifest: the content of run.json.
        estimate: the estimate of the log evidence.
        parts: the files of the scores.
        texts: the files with the beginnings of the texts; none for other data.
    """

    manifest: Manifest
    estimate: EvidenceEstimate
    parts: tuple[SavedPart, ...]
    texts: tuple[Path, ...] = ()

    def observations(self) -> Rows:
        """The content of observations.csv, one row per observation."""
        return joined(self.observations_in_parts())

    def observations_in_parts(self) -> Iterator[Rows]:
        """The rows of observations.csv, some at a time."""
        tables = observation_tables(self.estimate)
        return with_texts(tables, saved_beginnings(self.texts, self.manifest)) if self.texts else tables

    def result(self) -> dict[str, Any]:
        """The content of estimate.json."""
        manifest, estimate = self.manifest, self.estimate
        notes, (k, n) = list[str](), manifest.shard
        if n > 1:
            notes.append(
                f"shard {k} of {n}: {estimate.n_observations:,} of "
                f"{manifest.data.n_observations:,} observations"
            )
        if len(manifest.devices) > 1:
            notes.append(f"scored on {' and '.join(manifest.devices)}, which agree up to rounding")
        result = content_of(estimate, manifest.data, manifest.details)
        result["notes"] = list(dict.fromkeys([*result["notes"], *notes]))
        result |= {"versions": manifest.versions, "command": manifest.command}
        if manifest.closed_form is not None:  # to the last bit as when the run began
            result |= {"closed_form": manifest.closed_form, "closed_form_se": estimate.closed_form_se}
        return result


def agrees(answer: Any, expected: Any) -> bool:
    """Whether two contents of estimate.json agree up to rounding.

    Example:
        >>> agrees({"log_evidence": -1.0 - 1e-12}, {"log_evidence": -1.0}), agrees([1.0], [1.1])
        (True, False)
    """
    if isinstance(expected, Mapping):
        same = isinstance(answer, Mapping) and answer.keys() == expected.keys()
        return same and all(agrees(answer[name], value) for name, value in expected.items())
    if isinstance(expected, list | tuple):
        same = isinstance(answer, list | tuple) and len(answer) == len(expected)
        return same and all(map(agrees, answer, expected))
    if isinstance(expected, float):
        return isinstance(answer, int | float) and math.isclose(answer, expected, rel_tol=1e-6, abs_tol=1e-9)
    return type(answer) is type(expected) and answer == expected


def read_run(*folders: str | Path) -> Run:
    """Read a finished run from its folder, or from the folders of all its shards.

    Its parts are read one after the other, each time that all masks are asked for; `estimate.scores` holds
    them all in memory.

    Args:
        folders: one run directory, or the run directories of all shards of a run.

    Raises:
        InputError: a folder holds no run, or a run that is unfinished, damaged or changed, or the folders are
            not the shards of one run.
    """
    manifests, parts = list[Manifest](), list[SavedPart]()
    labels, exact = dict[int, str](), list[tuple[Any, Any]]()
    for folder in folders:
        directory = RunDirectory(folder)
        manifest = directory.existing_manifest()
        labels |= read_labels(directory.path, manifest)
        exact.append(read_closed_form(directory.path, manifest))
        own = directory.parts(manifest)
        _check_complete(directory, manifest, own)
        manifests.append(manifest)
        parts += own
    manifest = manifests[0] if len(manifests) == 1 else _whole(list(map(str, folders)), manifests, exact)
    record, n_calls = scores_of(parts)
    how = HowScored(manifest.mask_design(), manifest.key, manifest.conditionals, manifest.base_measure)
    estimate = summarize_scores(record, how, n_calls, labels)
    if (target := manifest.target()) is not None:
        verdict = target.verdict(estimate)
        estimate = replace(estimate, notes=(*estimate.notes, verdict))
    texts = [Path(folder) / TEXTS for folder in folders]
    of_texts = tuple(texts) if all(file.exists() for file in texts) else ()
    ids, values = map(np.concatenate, zip(*exact, strict=True))
    return Run(manifest, beside_masks(estimate, labels, (ids, values)), tuple(parts), of_texts)


def beside_masks(
    estimate: EvidenceEstimate, labels: Mapping[int, str], exact: tuple[Ids, Float64[np.ndarray, " n"]]
) -> EvidenceEstimate:
    """Add the labels and closed-form log evidence of the observations to a run's estimate."""
    ids, values = exact
    if len(ids):
        order = np.argsort(ids)
        places = order[np.searchsorted(ids, estimate.ids, sorter=order)]
        estimate = replace(estimate, closed_form=values[places])
    return replace(estimate, labels=tuple(labels[key] for key in estimate.ids.tolist()) if labels else None)


def _check_complete(directory: RunDirectory, manifest: Manifest, parts: Sequence[SavedPart]) -> None:
    pieces = [part.piece for part in parts]
    missing = manifest.missing(pieces)
    if missing:
        n_missing = len({piece.first_block for piece in missing})
        raise InputError(
            f"the run in {str(directory.path)!r} is not finished, {n_missing} of its "
            f"{len(manifest.blocks())} blocks of rows lack scores; run its command again: {manifest.command}"
        )
    if sum(len(piece.blocks()) * len(piece.repeats()) for piece in pieces) != (
        len(manifest.blocks()) * manifest.mask_design().n_repeats
    ):
        raise InputError(
            f"{str(directory.scores)!r} holds scores twice, perhaps copied files; run the command again "
            "into a new folder"
        )


def _whole(
    names: Sequence[str],
    manifests: Sequence[Manifest],
    exact: Sequence[tuple[Ids, Float64[np.ndarray, " _"]]],
) -> Manifest:
    """Merge the manifests of all shards into the manifest of the whole run."""
    first = manifests[0]
    for name, other in zip(names, manifests, strict=True):
        differences = first.differences(other, but=("shard",))
        if other.rows_per_block != first.rows_per_block:
            differences.append(f"blocks of {other.rows_per_block} rows instead of {first.rows_per_block}")
        if other.kept_model != first.kept_model:
            differences.append("a model that was fitted with another result")
        if other.version != first.version:
            differences.append(f"maskevidence {other.version} instead of {first.version}")
        if differences:
            raise InputError(
                f"{name!r} is not a shard of the run in {names[0]!r} ({'; '.join(differences)}); "
                "give shards of one run, or use compare"
            )
    n = first.shard[1]
    numbers = sorted(manifest.shard[0] for manifest in manifests)
    if any(manifest.shard[1] != n for manifest in manifests) or numbers != list(range(1, n + 1)):
        shards = ", ".join(f"{k}/{of}" for k, of in sorted(manifest.shard for manifest in manifests))
        if n == 1:
            raise InputError(f"{names[0]!r} is a whole run and no shard; use compare, or give one run")
        raise InputError(f"these are the shards {shards}; give each of 1/{n} to {n}/{n} once")
    in_order = sorted(range(n), key=lambda place: manifests[place].shard)
    values = np.concatenate([exact[place][1] for place in in_order])
    closed_form = float(values.mean()) if all(len(each) for _, each in exact) else None
    update = {"shard": (1, 1), "closed_form": closed_form, "command": command()}
    return first.model_copy(update=update)


def write_summary(folder: RunDirectory, run: Run, result: Mapping[str, Any]) -> str | None:
    """Write curve.csv, curve.png, observations.csv or .parquet and, last, estimate.json.

    The caller holds the folder (`locked`).

    Args:
        folder: the run directory.
        run: the finished run.
        result: the content of estimate.json.

    Returns:
        One line on a picture that could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    manifest, curve = run.manifest, run.estimate.curve
    many = run.estimate.n_observations >= MANY
    for name in (CURVE, CURVE_PICTURE, MANY_OBSERVATIONS if many else OBSERVATIONS, ESTIMATE):
        check_place(folder.path / name)
    folder.remove_temporaries()
    write_atomic(folder.path / CURVE, curve.to_csv())
    observations = run.observations_in_parts()
    if many:
        write_atomic(folder.path / MANY_OBSERVATIONS, parquet_of(observations))
    else:
        write_atomic(folder.path / OBSERVATIONS, csv_in_parts(observations))
    missing = None
    if run.estimate.design["name"] != "leave-one-out":  # one hidden token in each mask is no curve
        lines, title = curve_lines({manifest.named: curve}), _title(manifest, run.estimate)
        missing = draw_into(folder.path / CURVE_PICTURE, lines, title)
    else:
        (folder.path / CURVE_PICTURE).unlink(missing_ok=True)
    write_json(folder.path / ESTIMATE, result)
    return missing


def _title(manifest: Manifest, estimate: EvidenceEstimate) -> str:
    """Model, data, and the log evidence with its errors."""
    answer = estimate.picture()[1].replace("nats per observation", f"nats per {manifest.data.noun}")
    return f"{manifest.named} on {manifest.data.name}: {answer[0].lower()}{answer[1:]}"
