"""Outlying rows: which observations lie far from the others, and which of their cells makes them such."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import MaskEvidenceError
from maskevidence.evidence.estimate import estimate_evidence
from maskevidence.masks.sizes import LeaveOneOut
from maskevidence.model import base_measure_of, to_device_of
from maskevidence.models import load
from maskevidence.models.base import TableModel
from maskevidence.models.fingerprints import fingerprint
from maskevidence.report.reading import ImageContent, ReportedRun, RowContent, Unavailable
from maskevidence.report.tokens import token_scores
from maskevidence.runs.directory import MODEL
from maskevidence.show.words import MINUS
from maskevidence.tokens import Tokens

OUTLYING = 3.5  # robust standard deviations from the median
_MAD_OF_NORMAL = 1.4826
MOST_WORK = 5e7  # rows times columns squared
USUAL = 21  # rows in the middle, with which a row is compared
UNLIKELY = 8.0  # nats below the usual score


def outliers(values: Float64[np.ndarray, " N"]) -> tuple[list[int], list[int]]:
    """The places of the values that lie far below and far above the others, the farthest first.

    A value is far if it is more than 3.5 robust standard deviations (1.4826 times the median of the absolute
    deviations) from the median.

    Example:
        >>> outliers(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 50.0, -90.0]))
        ([6], [5])
    """
    far = values - np.median(values)
    scale = _MAD_OF_NORMAL * float(np.median(np.abs(far)))
    if scale == 0:
        return [], []
    order = np.argsort(far, kind="stable")
    low = [int(row) for row in order if far[row] < -OUTLYING * scale]
    high = [int(row) for row in order[::-1] if far[row] > OUTLYING * scale]
    return low, high


def cell_scores(run: ReportedRun, ids: Sequence[int]) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each observed cell given the others of its row, nats, by the run's own model.

    Returns:
        The scores by id; empty unless the run is of a table, and its model and data are at hand.
    """
    return _scores(run, {key: row.values for key in ids if (row := _row(run, key)) is not None})


def unlikely_cells(
    run: ReportedRun, places: Sequence[int], values: Float64[np.ndarray, " N"]
) -> dict[int, str]:
    """The cell of each row that lies farthest below the usual score of its column, in words.

    A second cell is named if it is unlikely without the first, too.

    Returns:
        By place, such as ": age = 999"; empty where `cell_scores` is.
    """
    assert run.estimate is not None
    ids = run.estimate.ids.tolist()
    usual = np.argsort(np.abs(values - np.median(values)), kind="stable")[:USUAL].tolist()
    rows = {place: row for place in [*places, *usual] if (row := _row(run, ids[place])) is not None}
    scores = _scores(run, {place: row.values for place, row in rows.items()}) if places else {}
    if not scores:
        return {}
    middle = np.array([_in_columns(rows[place].values, scores[place]) for place in usual])
    seen = ~np.isnan(middle).all(axis=0)
    level = np.zeros(middle.shape[1])
    level[seen] = np.nanmedian(middle[:, seen], axis=0)
    worst = {place: _worst(rows[place].values, scores[place], level)[0] for place in places}
    rest = {place: rows[place].values.copy() for place in places}
    for place, column in worst.items():
        rest[place][column] = np.nan
    rest = {place: row for place, row in rest.items() if not np.isnan(row).all()}
    unlikely = {}
    again = _scores(run, rest)
    for place in places:
        cells = [worst[place]]
        if place in again:
            column, below = _worst(rest[place], again[place], level)
            cells += [column] * (below < -UNLIKELY)
        row = rows[place]
        named = (f"{row.columns[j]} = {row.values[j]:.4g}".replace("-", MINUS) for j in cells)
        unlikely[place] = f": {', '.join(named)}"
    return unlikely


def _scores(
    run: ReportedRun, rows: Mapping[int, Float64[np.ndarray, " D"]]
) -> dict[int, Float64[np.ndarray, " n_observed"]]:
    """log p of each observed cell of these rows given the others."""
    model, width = _model(run) if rows else None, len(run.manifest.data.columns)
    if model is None or model.n_features != width or len(rows) * width**2 > MOST_WORK:
        return {}
    tokens = to_device_of(model, Tokens.from_array(np.stack(list(rows.values())), ids=np.array(list(rows))))
    try:
        estimate = estimate_evidence(model, tokens, LeaveOneOut(), refine=False, check=False)
    except MaskEvidenceError:
        return {}
    return token_scores(estimate.scores, LeaveOneOut.name)


def _in_columns(
    values: Float64[np.ndarray, " D"], scores: Float64[np.ndarray, " n_observed"]
) -> Float64[np.ndarray, " D"]:
    """The scores at the places of their columns; NaN where the value is missing."""
    placed = np.full(len(values), np.nan)
    placed[~np.isnan(values)] = scores
    return placed


def _worst(
    values: Float64[np.ndarray, " D"],
    scores: Float64[np.ndarray, " n_observed"],
    level: Float64[np.ndarray, " D"],
) -> tuple[int, float]:
    """The column that lies farthest below its level, and by how much."""
    below = _in_columns(values, scores) - level
    column = int(np.nanargmin(below))
    return column, float(below[column])


def _row(run: ReportedRun, key: int) -> RowContent | None:
    content = None if isinstance(run.contents, Unavailable) else run.contents(key)
    if isinstance(content, ImageContent):
        return content.row
    return content if isinstance(content, RowContent) else None


def _model(run: ReportedRun) -> TableModel | None:
    """The model of a run: kept in its folder, or saved where the user named it and unchanged."""
    kept = run.manifest.kept_model is not None
    folder = run.folder / MODEL if kept else Path(run.manifest.model)
    try:
        model = load(folder) if folder.is_dir() else None
        same = kept or model is None or fingerprint(model) == run.manifest.model_fingerprint
    except (MaskEvidenceError, OSError):
        return None
    same = same and base_measure_of(model) == run.manifest.base_measure  # not by cells
    return model if same and isinstance(model, TableModel) else None
