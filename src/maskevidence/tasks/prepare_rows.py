"""A model and the rows to score it on: fitted to a training part, or saved before."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from maskevidence.data.tabular import Table
from maskevidence.errors import InputError
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.masks import MaskDesign, Masks
from maskevidence.model import HasLogEvidence, HasRefine
from maskevidence.models.image.summary import image_summary
from maskevidence.tasks.image_rows import ImageRows
from maskevidence.tasks.text_rows import TextRows


@dataclass(frozen=True)
class Prepared:
    """A model that is ready, and the table that it is scored on.

    Attributes:
        model: fitted or loaded; its `columns` are those of a table of numbers.
        table: the rows to be scored.
        notes: what was done to get there, one sentence each.
        test_fraction: the share of rows that was held out and is scored; None where all are.
        fitted: whether the model was fitted here.
        source_fingerprint: of all rows that a model fitted here came from; None where none was.
        details: what else decides the numbers and is kept with them, such as the density of images.
        load: gives the same model in another process; None where it is best sent as it is.
    """

    model: Any
    table: Table | TextRows | ImageRows
    notes: tuple[str, ...]
    test_fraction: float | None = None
    fitted: bool = False
    source_fingerprint: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    load: Callable[[], Any] | None = None


def fit_held_out(
    build: Callable[[int], Any], table: Table, test_fraction: float = 0.2, seed: int = 0
) -> Prepared:
    """Fit a model to a training part of the rows, and hold the rest out for scoring.

    Columns that are constant in the training part are dropped and named, unless the model `keeps_units`.

    Args:
        build: makes the model from its number of features.
        table: all rows.
        test_fraction: the share of rows held out, in (0, 1).
        seed: of the choice of rows.

    Raises:
        InputError: a table or a share that leaves nothing to fit or score.
    """
    train, test = table.split(test_fraction, seed)
    model = build(len(table.columns))
    dropped = [] if model.keeps_units else train.constant_columns()
    kept = [column for column in table.columns if column not in dropped]
    if not kept:
        raise InputError(f"every column of {table.name} is constant; there is nothing to fit")
    notes = [*table.notes, f"fitted to {len(train):,} rows, scored on the {len(test):,} others"]
    if dropped:
        notes.append(f"dropped {len(dropped)} constant column(s) of the training part: {', '.join(dropped)}")
    model = (build(len(kept)) if dropped else model).fit(train.select(kept).values)
    model.columns = kept
    if model.bounded:
        names = ", ".join(kept[j] for j in model.bounded)
        notes.append(f"noise variance at its lower bound (10⁻³ of the column's variance): {names}")
    notes += _refined(model, test.select(kept))
    return Prepared(model, test.select(kept), tuple(notes), test_fraction, True, table.fingerprint())


def use_saved(model: Any, table: Table, test_fraction: float | None = None, seed: int = 0) -> Prepared:
    """Score a saved model on a table's rows, all of them or the held-out part.

    Args:
        model: loaded; where it knows its columns, these are taken from the table.
        table: all rows.
        test_fraction: the share of rows held out and scored; None for all rows.
        seed: of the choice of rows.

    Raises:
        InputError: a column that the table lacks, or a wrong number of columns.
    """
    notes = list(table.notes)
    if test_fraction is not None:
        _, table = table.split(test_fraction, seed)
        notes.append(f"scored on the {len(table):,} rows held out")
    if model.columns is not None:
        table = table.select(model.columns)
    elif len(table.columns) != model.n_features:
        raise InputError(
            f"{table.name} has {len(table.columns)} columns, the model {model.n_features} features; "
            "give the table that it was fitted to"
        )
    notes += _refined(model, table)
    return Prepared(model, table, tuple(notes), test_fraction)


def _refined(model: Any, table: Table) -> list[str]:
    """Let a model that integrates numerically do so finely enough for these rows; what it says it did."""
    return [model.refine(table.tokens())] if isinstance(model, HasRefine) else []


def score_rows(
    prepared: Prepared, design: MaskDesign, *, seed: int = 0, masks: Masks = "own", batch_size: int = 1024
) -> tuple[dict[str, Any], EvidenceEstimate]:
    """Estimate the evidence of a prepared model, and what `estimate.json` holds of it.

    Where the model has a closed form, its mean over the same rows stands beside it as `closed_form`.
    """
    tokens = prepared.table.tokens()
    estimate = estimate_evidence(
        prepared.model, tokens, design, seed=seed, masks=masks, batch_size=batch_size
    )
    result = estimate.to_dict()
    if isinstance(prepared.model, HasLogEvidence):
        with torch.no_grad():
            result["closed_form"] = float(prepared.model.log_evidence(tokens).mean())
    if prepared.details:
        result |= prepared.details | image_summary(prepared.details, estimate.log_evidence, estimate.curve)
    result["notes"] = [*prepared.notes, *result["notes"]]
    return result, estimate
