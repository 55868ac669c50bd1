"""Scoring into a run directory: what is there is kept, what is missing is scored and saved."""

import time
from typing import Any

import torch

from maskevidence.model import HasLogEvidence, MaskedModel
from maskevidence.models import load
from maskevidence.runs.blocks import Piece, block_rows, missing, shard_blocks
from maskevidence.runs.directory import MODEL, RunDirectory
from maskevidence.runs.engine import Engine, Scorer, Work, here
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.parts import is_whole, list_parts, write_part
from maskevidence.score import Scoring, check_tokens
from maskevidence.score_table import ScoreTable
from maskevidence.support.progress import progress
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
    engine: Engine = here,
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
        engine: what calls the model; by default this process. Whichever began a run, any can go on with it.

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
    with engine() as score_all, locked(folder.path):
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
        scoring = Scoring(manifest.mask_design(), manifest.key, batch_size)
        return _score_missing(folder, manifest, cut, model, tokens, scoring, save_every, score_all)


def is_complete(folder: RunDirectory, manifest: Manifest) -> bool:
    """Whether all scores of a run are there and whole."""
    parts = list_parts(folder.scores)
    blocks = shard_blocks(manifest.data.n_observations, manifest.rows_per_block, manifest.shard)
    left = missing([part.piece for part in parts], blocks, manifest.mask_design().n_repeats)
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
    scoring: Scoring,
    save_every: float,
    score_all: Scorer,
) -> int:
    whole = []
    for part in list_parts(folder.scores):
        if is_whole(part):
            whole.append(part.piece)
        else:
            part.path.unlink()
    blocks = shard_blocks(len(tokens), rows_of_block, manifest.shard)
    work = [
        Work(piece, tokens[block_rows(piece.first_block, rows_of_block, len(tokens))])
        for piece in missing(whole, blocks, scoring.design.n_repeats)
    ]
    total = sum(scoring.n_masks(one.rows, one.repeats) for one in work)
    pending = _Pending(folder, save_every)
    with progress("scoring masks", total) as advance:
        try:
            score_all(model, work, scoring, advance, pending.add)
        except KeyboardInterrupt:
            pending.save()
            raise
        pending.save()
    return total


class _Pending:
    """Scores that wait to be saved: those of consecutive blocks as one part."""

    def __init__(self, folder: RunDirectory, save_every: float) -> None:
        self.folder = folder
        self.save_every = save_every
        self.last_save = time.monotonic()
        self.scored: list[tuple[Piece, ScoreTable, int]] = []

    def add(self, piece: Piece, table: ScoreTable, n_calls: int) -> None:
        self.scored.append((piece, table, n_calls))
        if time.monotonic() - self.last_save >= self.save_every:
            self.save()

    def save(self) -> None:
        """Write the parts; blocks come in any order where several workers score them."""
        self.scored.sort(key=lambda one: (one[0].first_repeat, one[0].last_repeat, one[0].first_block))
        while self.scored:
            n = next((k for k in range(1, len(self.scored)) if not self._follows(k)), len(self.scored))
            pieces, tables, n_calls = zip(*self.scored[:n], strict=True)
            piece = pieces[0]._replace(last_block=pieces[-1].last_block)
            write_part(self.folder.scores, piece, ScoreTable.join(tables), sum(n_calls))
            del self.scored[:n]
        self.last_save = time.monotonic()

    def _follows(self, k: int) -> bool:
        before, piece = self.scored[k - 1][0], self.scored[k][0]
        return piece == before._replace(first_block=before.last_block, last_block=before.last_block + 1)


def write_scores(folder: RunDirectory, manifest: Manifest, scores: ScoreTable, n_model_calls: int) -> None:
    """Write the scores of a whole run that was made in memory, as one part."""
    blocks = shard_blocks(manifest.data.n_observations, manifest.rows_per_block, manifest.shard)
    piece = Piece(blocks.start, blocks.stop, 0, manifest.mask_design().n_repeats)
    write_part(folder.scores, piece, scores, n_model_calls)
