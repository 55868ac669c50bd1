"""Find the unlikely cells of outlying rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np
from jaxtyping import Float64

from maskevidence.command.pages.reported_runs import ImageContent, ReportedRun, RowContent
from maskevidence.command.pages.token_shades import scores_of_tokens
from maskevidence.core.errors import CollapsedWeightsWarning, MaskEvidenceError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.model import base_measure_of, fingerprint, to_device_of
from maskevidence.core.show.words import cell_text
from maskevidence.core.tokens import Tokens
from maskevidence.runs.directory import MODEL
from maskevidence.tables.base import TableModel
from maskevidence.tables.saving import load
from maskevidence.tables.wrong_cells.cell_search import CellJudge, facts_of

MOST_WORK = 5e7  # limit of rows times columns squared
USUAL = 21  # rows with typical scores, for comparison
_NAMED, _LOOKS = 2, 10  # cells named per row; scoring passes allowed per row


def cell_scores(run: ReportedRun, ids: Sequence[int]) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each observed cell given the others in its row, nats, by the run's own model.

    Returns:
        The scores by id; empty unless the run is of a table, and its model and data are at hand.
    """
    return _scores(run, {key: row.values for key in ids if (row := _row(run, key)) is not None})


def unlikely_cells(
    run: ReportedRun, places: Sequence[int], values: Float64[np.ndarray, " N"]
) -> dict[int, str]:
    """Name each row's most suspicious cell, and others that `wrong_cells` would hide.

    Texts by place, such as ": age = 999"; empty where `cell_scores` is empty.
    """
    assert run.estimate is not None
    ids = run.estimate.ids.tolist()
    usual = np.argsort(np.abs(values - np.median(values)), kind="stable")[:USUAL].tolist()
    rows = {place: row for place in [*places, *usual] if (row := _row(run, ids[place])) is not None}
    model = _model_for(run, _LOOKS * len(rows)) if places else None
    if model is None or not rows:
        return {}
    table = np.stack([row.values for row in rows.values()])
    judge = CellJudge(model, facts_of(model, table))
    try:
        with catch_warnings():  # warnings about integrals, already given by the run
            simplefilter("ignore", CollapsedWeightsWarning)
            judged = judge.search(np.stack([rows[place].values for place in places]))
    except MaskEvidenceError:
        return {}
    unlikely = {}
    for place, suspicion, hidden in zip(places, judged.suspicion, judged.hidden, strict=True):
        order = np.argsort(-np.nan_to_num(suspicion, nan=-np.inf), kind="stable")[:_NAMED]
        cells = [j for k, j in enumerate(order.tolist()) if not k or hidden[j]]
        row = rows[place]
        named = (f"{row.columns[j]} = {cell_text(row.cell(j), 4)}" for j in cells)
        unlikely[place] = f": {', '.join(named)}"
    return unlikely


def _scores(
    run: ReportedRun, rows: Mapping[int, Float64[np.ndarray, " D"]]
) -> dict[int, Float64[np.ndarray, " n_observed"]]:
    """log p of each observed cell of these rows given the others in its row."""
    model = _model_for(run, len(rows))
    if model is None:
        return {}
    tokens = to_device_of(model, Tokens.from_array(np.stack(list(rows.values())), ids=np.array(list(rows))))
    try:
        estimate = estimate_evidence(model, tokens, LeaveOneOut(), refine=False, check=False)
    except MaskEvidenceError:
        return {}
    return scores_of_tokens(estimate.scores, LeaveOneOut.name)


def _row(run: ReportedRun, key: int) -> RowContent | None:
    content = None if isinstance(run.contents, str) else run.contents(key)
    if isinstance(content, ImageContent):
        return content.row
    return content if isinstance(content, RowContent) else None


def _model_for(run: ReportedRun, n_rows: int) -> TableModel | None:
    """The run's model, or None if judging this many rows would take long."""
    model, width = _model(run) if n_rows else None, len(run.manifest.data.columns)
    little = n_rows * width**2 <= MOST_WORK
    return model if model is not None and model.n_features == width and little else None


def _model(run: ReportedRun) -> TableModel | None:
    """The run's model: from its folder, or from where it was saved if unchanged since."""
    kept = run.manifest.kept_model is not None
    folder = run.folder / MODEL if kept else Path(run.manifest.model)
    try:
        model = load(folder) if folder.is_dir() else None
        same = kept or model is None or fingerprint(model) == run.manifest.model_fingerprint
    except (MaskEvidenceError, OSError):
        return None
    same = same and base_measure_of(model) == run.manifest.base_measure  # not scored by cells
    return model if same and isinstance(model, TableModel) else None
