"""Limits such as <0.5 that lie far from where a model expects the value."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.core.table import Table
from maskevidence.tables.limits import WithLimits
from maskevidence.tables.wrong_cells.found_cells import FAR, WrongCell, name_of_row

_LEAST = 3.0  # nats of suspicion of a limit that is listed


def far_limits(
    table: Table,
    judges: Iterable[tuple[Any, Int64[np.ndarray, " n"]]],
    suspicion: Float64[np.ndarray, "N D"],
) -> tuple[list[WrongCell], list[str]]:
    """The limits of a suspicion above 3 nats, never called, and notes.

    The suspicion of a limit is log q - log P(its half-line | the other cells), with q the share of the
    column's cells in the half-line; its p-value the share of the judged cells that are as suspicious.

    Args:
        table: the rows in the codes of the models.
        judges: models, and the places of the rows that each judges.
        suspicion: of the judged cells; NaN for others.
    """
    found, notes, ordered = list[WrongCell](), list[str](), np.sort(suspicion[~np.isnan(suspicion)])
    shares = dict[tuple[int, tuple[float, float]], float]()
    if not any(rows for name, rows in table.limits.items() if name in table.columns):
        return found, notes
    for model, places in judges:
        if not len(places):  # of a fold without a judged row
            continue
        if not hasattr(model, "log_cells"):
            return [], ["limits such as <0.5 are not judged: this search has no probability of them"]
        part = table.take(places)
        scored = WithLimits(model, part)
        tokens = scored.tokens(part)
        place = {row: k for k, row in enumerate(tokens.ids.tolist())}
        cells = [(key, both) for key, both in scored.ends.items() if key[0] in place]
        if not cells:
            continue
        rows, columns = torch.tensor([(place[row], j) for (row, j), _ in cells]).T
        masked = torch.zeros(len(rows), tokens.width, dtype=torch.bool)
        masked[torch.arange(len(rows)), columns] = True
        with torch.no_grad():
            answer = scored.log_conditionals(tokens[rows], masked.to(tokens.values.device))
        log_p = answer.cpu().double()[torch.arange(len(rows)), columns].tolist()
        for ((row, j), both), log_mass in zip(cells, log_p, strict=True):
            if (j, both) not in shares:
                shares[j, both] = _log_share(table, j, both)
            nats = shares[j, both] - log_mass
            if nats > _LEAST:
                rank = len(ordered) - np.searchsorted(ordered, nats)
                how = {"suspicion": nats, "p_value": (rank + 1) / (len(ordered) + 1)}
                label, name, text = name_of_row(part, place[row]), table.columns[j], limit_text(both)
                found.append(WrongCell(row=row, label=label, column=name, value=text, fault=FAR, **how))
    return sorted(found, key=lambda cell: -cell.suspicion), notes


def limit_text(ends: tuple[float, float]) -> str:
    """A limit as people write it.

    Example:
        >>> limit_text((0.0, 0.5)), limit_text((100.0, np.inf))
        ('<0.5', '>100')
    """
    low, high = ends
    return f">{low:g}" if np.isinf(high) else f"<{high:g}"


def _log_share(table: Table, j: int, ends: tuple[float, float]) -> float:
    """The log of the share of a column's cells in a half-line, its equal limits included."""
    low, high = (ends[0], np.inf) if np.isinf(ends[1]) else (-np.inf, ends[1])
    values, limits = table.values[:, j], table.limits.get(table.columns[j], {})
    same = sum(limits.get(int(row)) == ends for row in table.ids)
    inside = int(((values > low) & (values < high)).sum()) + same
    return float(np.log((inside + 0.5) / (int((~np.isnan(values)).sum()) + same + 1)))
