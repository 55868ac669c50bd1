"""Scoring into a run directory: what is there is kept, what is missing is scored and saved."""

import time
from typing import Any

import torch

from maskevidence.masks import MaskDesign
from maskevidence.model import HasLogEvidence, MaskedModel
from maskevidence.models import load
from maskevidence.progress import progress
from maskevidence.runs.blocks import Piece, block_rows, missing, shard_blocks
from maskevidence.runs.directory import MODEL, RunDirectory
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.parts import is_whole, joined, list_parts, write_part
from maskevidence.score import ScoreTable
from maskevidence.scoring import check_tokens, growing_option, n_masks, score_repeats
from maskevidence.tokens import Tokens

SAVE_EVERY = 10.0


def record_run(
    folder: RunDirectory,
    manifest: Manifest,
    model: Any,
    tokens: Tokens,
    *,
    fitted: bool = False,
    overwrite: bool = False,
    batch_size: int = 1024,
    save_every: float = SAVE_EVERY,
) -> int:
    """Begin a run, or go on with one: score what is missing in its folder.

    Args:
        folder: where the run is or shall be.
        manifest: what the run is of.
        model: that it scores.
        tokens: all rows, over all shards, in the order of their source.
        fitted: True for a model fitted for this run, which is kept in the folder; a run that goes on has the
            kept one score, so that a fit that is not repeatable to the last bit makes no difference.
        overwrite: replace another run.
        batch_size: how many masks go into one call, within a block.
        save_every: seconds of scoring after which it is saved; a kill loses so much at most, and a block.

    Returns:
        How many masks were scored now.

    Raises:
        InputError: the folder holds another run, another process writes into it, or it cannot be written.
        NumericalError: a log-probability that is not finite.
    """
    check_tokens(tokens)
    folder.check(manifest, overwrite=overwrite)
    found = None if overwrite else folder.manifest()
    # Fewer blocks than shards is refused before anything is written.
    cut = manifest.rows_per_block if found is None else found.rows_per_block
    blocks = shard_blocks(len(tokens), cut, manifest.shard)
    if found is not None and not found.differences(manifest) and is_complete(folder, found):
        return 0
    with locked(folder.path):
        folder.check(manifest, overwrite=overwrite)
        found = None if overwrite else folder.manifest()
        if found is None:
            rows = tokens[slice(blocks.start * cut, blocks.stop * cut)]
            folder.begin(manifest.model_copy(update={"closed_form": _closed_form(model, rows)}))
        elif found.extended_by(manifest):
            kept = {"rows_per_block": found.rows_per_block, "closed_form": found.closed_form}
            folder.extend(manifest.model_copy(update=kept))
        folder.remove_temporaries()
        if fitted:
            folder.keep_model(model)
            model = load(folder.path / MODEL)
        return _score_missing(folder, manifest, cut, model, tokens, batch_size, save_every)


def is_complete(folder: RunDirectory, manifest: Manifest) -> bool:
    """Whether all scores of a run are there and whole."""
    parts = list_parts(folder.scores)
    _, n_repeats = growing_option(manifest.mask_design())
    blocks = shard_blocks(manifest.data.n_observations, manifest.rows_per_block, manifest.shard)
    left = missing([part.piece for part in parts], blocks, n_repeats)
    return next(left, None) is None and all(is_whole(part) for part in parts)


def _closed_form(model: Any, tokens: Tokens) -> float | None:
    if not isinstance(model, HasLogEvidence):
        return None
    with torch.no_grad():
        return float(model.log_evidence(tokens).mean())


def _score_missing(
    folder: RunDirectory,
    manifest: Manifest,
    rows_of_block: int,
    model: MaskedModel,
    tokens: Tokens,
    batch_size: int,
    save_every: float,
) -> int:
    design = manifest.mask_design()
    whole = []
    for part in list_parts(folder.scores):
        if is_whole(part):
            whole.append(part.piece)
        else:
            part.path.unlink()
    blocks = shard_blocks(len(tokens), rows_of_block, manifest.shard)
    work = [
        (piece, tokens[block_rows(piece.first_block, rows_of_block, len(tokens))])
        for piece in missing(whole, blocks, growing_option(design)[1])
    ]
    total = sum(n_masks(rows, design, _repeats(piece)) for piece, rows in work)
    pending = _Pending(folder, save_every)
    with progress("scoring masks", total) as advance:
        try:
            for piece, rows in work:
                table, n_calls = score_repeats(
                    model, rows, design, manifest.key, _repeats(piece), batch_size, advance
                )
                pending.add(piece, table, n_calls)
        except KeyboardInterrupt:
            pending.save()
            raise
        pending.save()
    return total


def _repeats(piece: Piece) -> range:
    return range(piece.first_repeat, piece.last_repeat)


class _Pending:
    """Scores of consecutive blocks that wait to be saved as one part."""

    def __init__(self, folder: RunDirectory, save_every: float) -> None:
        self.folder = folder
        self.save_every = save_every
        self.last_save = time.monotonic()
        self.pieces: list[Piece] = []
        self.tables: list[ScoreTable] = []
        self.n_calls = 0

    def add(self, piece: Piece, table: ScoreTable, n_calls: int) -> None:
        if self.pieces and piece != self.pieces[-1]._replace(
            first_block=self.pieces[-1].last_block, last_block=self.pieces[-1].last_block + 1
        ):
            self.save()
        self.pieces.append(piece)
        self.tables.append(table)
        self.n_calls += n_calls
        if time.monotonic() - self.last_save >= self.save_every:
            self.save()

    def save(self) -> None:
        if self.pieces:
            piece = self.pieces[0]._replace(last_block=self.pieces[-1].last_block)
            write_part(self.folder.scores, piece, joined(self.tables), self.n_calls)
        self.pieces, self.tables, self.n_calls = [], [], 0
        self.last_save = time.monotonic()


def write_scores(folder: RunDirectory, manifest: Manifest, scores: ScoreTable, n_model_calls: int) -> None:
    """Write the scores of a whole run that was made in memory, as one part."""
    design: MaskDesign = manifest.mask_design()
    blocks = shard_blocks(manifest.data.n_observations, manifest.rows_per_block, manifest.shard)
    piece = Piece(blocks.start, blocks.stop, 0, growing_option(design)[1])
    write_part(folder.scores, piece, scores, n_model_calls)
