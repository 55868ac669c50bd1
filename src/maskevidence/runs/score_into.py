"""Score into a run directory: keep existing scores, compute and save missing ones."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence import __version__
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import (
    MASKS_AT_ONCE,
    MaskDesign,
    check_n_masks,
    lengths_of,
    n_masks_by_length,
)
from maskevidence.core.model import device_of, rounding, to_device_of
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.scores.score_masks import Scoring, check_scorable, score_repeats
from maskevidence.core.support.progress import progress, silent
from maskevidence.runs.blocks import (
    MIN_BLOCKS,
    Engine,
    Piece,
    SavedPart,
    Scorer,
    Work,
    block_rows,
    is_whole,
    local_engine,
    read_part,
    write_part,
)
from maskevidence.runs.directory import (
    CLOSED_FORM,
    LABELS,
    MODEL,
    TEXTS,
    Beginnings,
    Ids,
    RunDirectory,
    write_beside,
)
from maskevidence.runs.folder import locked
from maskevidence.runs.manifest import Manifest

SAVE_EVERY = "MASKEVIDENCE_SAVE_EVERY"
_MASKS_TO_SAVE = MASKS_AT_ONCE // 2  # which bounds the memory of scores that wait


def _seconds() -> float:
    """Seconds between saves: 10, or the value of an environment variable, which tests of kills set."""
    word = os.environ.get(SAVE_EVERY, "10")
    try:
        return float(word)
    except ValueError as error:
        raise InputError(f"{SAVE_EVERY}={word!r} is not a number of seconds; unset it") from error


@dataclass(frozen=True)
class Recording:
    """How to record a run; this does not change its numbers.

    Attributes:
        batch_size: number of masks in one call of the model, within a block; it changes the last bits only.
        save_every: seconds of scoring between two saves; a kill loses at most this and a block.
        engine: the engine that calls the model, by default in this process. Any engine can resume any run.
        overwrite: replace another run in the folder.
        labels: names of the observations, in the order of the tokens; None if they have none.
        texts: gives the beginnings of the texts, in the order of the tokens; None for other data.
        verify: score a sample of the stored rows again before a run is extended, and refuse a model that
            gives other scores: that of a user's code may read files that no fingerprint knows.
    """

    batch_size: int = 1024
    save_every: float = field(default_factory=_seconds)
    engine: Engine = local_engine
    overwrite: bool = False
    labels: Sequence[str] | None = None
    texts: Beginnings | None = None
    verify: bool = False


def record_run(
    folder: RunDirectory,
    manifest: Manifest,
    model: Any,
    tokens: Observations,
    recording: Recording = Recording(),
    *,
    fitted: bool = False,
) -> int:
    """Begin or resume a run: score all that its folder lacks.

    Args:
        folder: the run directory; it is created if it does not exist.
        manifest: the content of run.json.
        model: the model to score.
        tokens: all rows, over all shards, in the order of their source.
        recording: how the run is recorded.
        fitted: whether the model was fitted for this run. It is then kept in the folder, and a resumed run is
            scored by the kept model, because another fit may differ in the last bits.

    Returns:
        The number of masks that were scored by this call.

    Raises:
        InputError: the folder holds another run, this run as another version began it, or parts or a model
            that are not of this run; another process writes into it, or it cannot be written.
        NumericalError: a log-probability is not finite.
    """
    check_scorable(model, tokens, manifest.mask_design())
    tokens = tokens.scored_together()
    existing = _existing(folder, manifest, recording)
    manifest = manifest.resuming(existing)
    _check_blocks(manifest, tokens)  # raises for more shards than blocks, before anything is written
    if existing is not None and not existing.differences(manifest) and is_complete(folder, existing):
        return 0
    _check_version(folder, existing)
    with recording.engine() as score_all, locked(folder.path):
        existing = _existing(folder, manifest, recording)  # another process may have begun the run meanwhile
        _check_version(folder, existing)
        manifest = manifest.resuming(existing)
        if existing is None:
            exact = closed_form_by_row(model, manifest, tokens)
            manifest = begin_run(folder, manifest, exact, model.save if fitted else None)
        else:
            if recording.verify:
                _verify(folder, existing, model, tokens, recording.batch_size)
            if existing.extended_by(manifest) or existing.devices != manifest.devices:
                folder.extend(manifest)
        if recording.labels is not None:
            write_beside(folder.path / LABELS, manifest, tokens.ids.cpu().numpy(), recording.labels)
        if recording.texts is not None and not (folder.path / TEXTS).exists():
            blocks, cut = manifest.blocks(), manifest.rows_per_block
            first, last = (min(block * cut, len(tokens)) for block in (blocks.start, blocks.stop))
            own = islice(recording.texts(), first, last)
            write_beside(folder.path / TEXTS, manifest, tokens.ids[first:last].cpu().numpy(), own)
        if fitted:
            model = _kept(folder, model)
        if manifest.closed_form is not None and not (folder.path / CLOSED_FORM).exists():
            exact = closed_form_by_row(model, manifest, tokens)
            if exact is not None:
                write_beside(folder.path / CLOSED_FORM, manifest, *exact)
        folder.remove_temporaries()
        return _score_missing(folder, manifest, model, tokens, recording, score_all)


def _verify(
    folder: RunDirectory, manifest: Manifest, model: Any, tokens: Observations, batch_size: int
) -> None:
    """Score a sample of stored rows again, and refuse to extend the run if the scores differ."""
    stored: dict[range, list[SavedPart]] = {}
    for part in filter(is_whole, folder.parts(manifest)):
        stored.setdefault(part.piece.repeats(), []).append(part)
    scoring = Scoring(manifest.mask_design(), manifest.key, batch_size, per_token=manifest.token_scores)
    cut, room = manifest.rows_per_block, rounding(model)
    for repeats, parts in stored.items():
        blocks = [block_rows(block, cut, len(tokens)) for part in parts for block in part.piece.blocks()]
        rows = torch.cat([torch.arange(block.start, block.stop) for block in blocks])
        n = min(len(rows), max(cut, MIN_BLOCKS))
        sample = tokens[rows[((torch.arange(n) + 0.5) * len(rows) / n).long()].to(tokens.ids.device)]
        again = score_repeats(model, sample, scoring, repeats, silent)[0].sorted()
        tables = [read_part(part)[0] for part in parts]
        ids = sample.ids.cpu().numpy()
        before = ScoreTable.join([table.select(np.isin(table.id, ids)) for table in tables]).sorted()
        if before.score.shape != again.score.shape or not np.allclose(
            before.score, again.score, rtol=room, atol=room
        ):
            raise InputError(
                f"the model gives other scores than those stored in {str(folder.path)!r}: its code or a file "
                "that it reads has changed; give another folder, or --overwrite to replace the run"
            )


def begin_run(
    folder: RunDirectory,
    manifest: Manifest,
    exact: tuple[Ids, Float64[np.ndarray, " n"]] | None,
    save: Callable[[Path], object] | None,
) -> Manifest:
    """Write run.json, the fitted model and the closed-form log evidence; return the manifest as written."""
    mean = None if exact is None else float(exact[1].mean())
    manifest = folder.begin(manifest.model_copy(update={"closed_form": mean}), save)
    if exact is not None:
        write_beside(folder.path / CLOSED_FORM, manifest, *exact)
    return manifest


def _score_missing(
    folder: RunDirectory,
    manifest: Manifest,
    model: Any,
    tokens: Observations,
    recording: Recording,
    score_all: Scorer,
) -> int:
    """Score and save missing pieces; return their number of masks."""
    design, per_token = manifest.mask_design(), manifest.token_scores
    scoring = Scoring(design, manifest.key, recording.batch_size, per_token=per_token)
    pieces, cut = _missing(folder, manifest), manifest.rows_per_block
    total = _n_masks_of(pieces, cut, design, tokens)
    work = (Work(piece, tokens[block_rows(piece.first_block, cut, len(tokens))]) for piece in pieces)
    pending = _Pending(folder, manifest, recording.save_every)
    with progress("scoring masks", total) as advance:
        try:
            score_all(model, work, scoring, advance, pending.add)
        except KeyboardInterrupt:
            pending.save()
            raise
        pending.save()
    return total


def _n_masks_of(pieces: Sequence[Piece], cut: int, design: MaskDesign, tokens: Observations) -> int:
    """The number of masks of some pieces."""
    n_tokens = tokens.n_tokens.cpu().numpy()
    lengths, _ = lengths_of(n_tokens)
    asked = {piece.repeats() for piece in pieces}
    counts = {repeats: n_masks_by_length(design, lengths, repeats) for repeats in asked}
    rows = ((piece, block_rows(piece.first_block, cut, len(n_tokens))) for piece in pieces)
    return sum(int(counts[piece.repeats()][n_tokens[part]].sum()) for piece, part in rows)


def _existing(folder: RunDirectory, manifest: Manifest, recording: Recording) -> Manifest | None:
    """The manifest of the run to resume; None without a run, or if there is only a manifest."""
    folder.check(manifest, overwrite=recording.overwrite)
    existing = None if recording.overwrite else folder.manifest()
    return existing if folder.has_begun() else None


def _check_version(folder: RunDirectory, existing: Manifest | None) -> None:
    if existing is not None and existing.version != __version__:
        raise InputError(
            f"the scores in {str(folder.path)!r} are by maskevidence {existing.version}, and this is "
            f"{__version__}, which does not add to them; go on with that version, or start again with "
            "--overwrite"
        )


def _kept(folder: RunDirectory, like: Any) -> Any:
    """Load the model kept in a run, onto the device of the model given for it."""
    if not (folder.path / MODEL).is_dir():
        raise InputError(
            f"the model of the run in {str(folder.path)!r} is missing; restore the folder {MODEL}, or score "
            "again with --overwrite"
        )
    device, model = device_of(like), like.reloaded(folder.path / MODEL)
    return model if device is None else model.to(device)


def is_complete(folder: RunDirectory, manifest: Manifest) -> bool:
    """Whether all scores of a run exist undamaged."""
    parts = folder.parts(manifest)
    return not manifest.missing(part.piece for part in parts) and all(map(is_whole, parts))


def closed_form_by_row(
    model: Any, manifest: Manifest, tokens: Observations
) -> tuple[Ids, Float64[np.ndarray, " n"]] | None:
    """The ids of the rows of this shard and their closed-form log evidence; None if the model has none.

    It is computed block by block, so that it is the same over shards to the last bit.
    """
    if not hasattr(model, "log_evidence"):
        return None
    ids, values = list[np.ndarray](), list[np.ndarray]()
    with torch.no_grad():
        for block in manifest.blocks():
            rows = tokens[block_rows(block, manifest.rows_per_block, len(tokens))]
            values.append(model.log_evidence(to_device_of(model, rows)).double().cpu().numpy())
            ids.append(rows.ids.cpu().numpy())
    return np.concatenate(ids), np.concatenate(values)


def _check_blocks(manifest: Manifest, tokens: Observations) -> None:
    """Refuse masks of a block of this shard, which is scored at once, that need too much memory."""
    blocks, cut = manifest.blocks(), manifest.rows_per_block
    lengths, n_rows = lengths_of(tokens.n_tokens.cpu().numpy()[blocks.start * cut : blocks.stop * cut])
    n_draws = manifest.mask_design().n_draws(lengths)
    order = np.argsort(n_draws)[::-1]
    before = np.cumsum(n_rows[order]) - n_rows[order]
    check_n_masks(n_draws[order] * np.clip(cut - before, 0, n_rows[order]))


def _missing(folder: RunDirectory, manifest: Manifest) -> list[Piece]:
    """The pieces still to be scored; removes damaged parts."""
    done = []
    for part in folder.parts(manifest):
        if is_whole(part):
            done.append(part.piece)
        else:
            part.path.unlink()
    return manifest.missing(done)


class _Pending:
    """Scores not yet saved; consecutive blocks are saved as one part."""

    def __init__(self, folder: RunDirectory, manifest: Manifest, save_every: float) -> None:
        self.folder = folder
        self.identity = manifest.identity()
        self.save_every = save_every
        self.last_save = time.monotonic()
        self.scored: list[tuple[Piece, ScoreTable, int]] = []
        self.n_masks = 0

    def add(self, piece: Piece, table: ScoreTable, n_calls: int) -> None:
        self.scored.append((piece, table, n_calls))
        self.n_masks += len(table)
        if time.monotonic() - self.last_save >= self.save_every or self.n_masks >= _MASKS_TO_SAVE:
            self.save()

    def save(self) -> None:
        """Write the pending scores; workers may have finished their blocks in any order."""
        self.scored.sort(key=lambda part: (part[0].first_repeat, part[0].last_repeat, part[0].first_block))
        while self.scored:
            n = next((k for k in range(1, len(self.scored)) if not self._follows(k)), len(self.scored))
            pieces, tables, n_calls = zip(*self.scored[:n], strict=True)
            piece = pieces[0]._replace(last_block=pieces[-1].last_block)
            write_part(self.folder.scores, piece, ScoreTable.join(tables), sum(n_calls), self.identity)
            del self.scored[:n]
        self.last_save, self.n_masks = time.monotonic(), 0

    def _follows(self, k: int) -> bool:
        before, piece = self.scored[k - 1][0], self.scored[k][0]
        return piece == before._replace(first_block=before.last_block, last_block=before.last_block + 1)


def write_scores(folder: RunDirectory, manifest: Manifest, scores: ScoreTable, n_model_calls: int) -> None:
    """Write all scores of a run computed in memory as one part."""
    blocks = manifest.blocks()
    piece = Piece(blocks.start, blocks.stop, 0, manifest.mask_design().n_repeats)
    write_part(folder.scores, piece, scores, n_model_calls, manifest.identity())
