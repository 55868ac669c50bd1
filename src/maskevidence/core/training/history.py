"""The history of a training, one row per epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.pictures import Line, Lines
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import capital, count, number, typeset
from maskevidence.core.support.files import csv_text

_FEWEST_EPOCHS = 10  # fewest epochs for a note on the best
_LABELS = {
    "objective": "objective, mean over the epoch's batches",
    "log_evidence": "log evidence of the training data",
    "held_out": "log evidence of the held-out data",
}


class EpochRecord(NamedTuple):
    """One epoch of the history; NaN for values not requested or not known."""

    epoch: int  # counted from 1
    # minus the mean loss over the epoch's batches, computed before each step, nats per observation
    objective: float
    log_evidence: float  # mean exact log evidence of the training data after the epoch, nats per observation
    held_out: float  # mean log evidence of the held-out data after the epoch, nats per observation


Callback = Callable[[EpochRecord, Any], bool | None]


@dataclass(frozen=True, repr=False)
class History(Shown):
    """The history of a training, one entry per epoch.

    Attributes:
        epoch: shape (n_epochs,); 1, 2, ...
        objective: shape (n_epochs,); see `EpochRecord`, also for the next two.
        log_evidence: shape (n_epochs,).
        held_out: shape (n_epochs,).
        best_epoch: the epoch with the highest held-out evidence, whose parameters the model has now; None
            without patience.
        stopped: why training ended before its last epoch; None if it did not.
        resumed_from: the epoch of the checkpoint from which training resumed; None for a fresh start.
        devices: where the model was trained, each device once.
        paced: whether the learning rate fell by a `Pace`, which tries lower rates itself.
    """

    epoch: Int64[np.ndarray, " n_epochs"]
    objective: Float64[np.ndarray, " n_epochs"]
    log_evidence: Float64[np.ndarray, " n_epochs"]
    held_out: Float64[np.ndarray, " n_epochs"]
    best_epoch: int | None = None
    stopped: str | None = None
    resumed_from: int | None = None
    devices: tuple[str, ...] = ()
    paced: bool = False

    def __len__(self) -> int:
        return len(self.epoch)

    def page(self) -> Page:
        """The first, last and highest values, and the curves."""
        recorded, n = self._recorded(), len(self)
        last = ", ".join(f"{name} {number(float(values[-1]), 3)}" for name, values in recorded.items())
        line = f"History({count(n, 'epoch')}{', last ' + last + ' nats per observation' if n else ''})"
        if not n:
            return Page(line, "No epochs")
        rows = [
            [
                _LABELS[name],
                *(typeset(float(value), 3) for value in (values[0], values[-1], np.nanmax(values))),
            ]
            for name, values in recorded.items()
        ]
        table = Table(["nats per observation", "first", "last", "highest"], rows)
        stopped = () if self.stopped is None else (f"ended early: {self.stopped}",)
        return Page(line, self._headline(), parts=[table, self.picture()[0]], notes=(*stopped, *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Note if the best of 10 or more epochs was among the first 5 % or was the last.

        With a pace, a note if its limit of epochs ended training with the best among the last 5 %.
        """
        best, n = self.best_epoch, len(self)
        if best is None or n < _FEWEST_EPOCHS or (self.paced and self.stopped is not None):
            return ()
        late = best > n - max(1, n // 20) if self.paced else best == n
        if not late and (self.paced or best > max(2, n // 20)):
            return ()
        more = "more epochs may reach more" if late else "a lower learning rate may reach more"
        return (f"the held-out evidence was highest after epoch {best} of {n}: {more}",)

    def picture(self) -> tuple[Lines, str]:
        """Objective and log evidence by epoch."""
        lines = []
        for k, (name, values) in enumerate(self._recorded().items()):
            shown = ~np.isnan(values)
            lines.append(Line(_LABELS[name], self.epoch[shown].astype(float), values[shown], number=k))
        best = self.best_epoch
        mark = None if best is None else (float(best), f"epoch {best}, kept")
        return Lines(lines, "epoch", "nats per observation", mark=mark), self._headline()

    def columns(self) -> Columns:
        """The columns objective, log_evidence and held_out, by epoch."""
        return Columns({name: getattr(self, name) for name in _LABELS}, self.epoch, "epoch")

    def _recorded(self) -> dict[str, Float64[np.ndarray, " n_epochs"]]:
        values = {name: getattr(self, name) for name in _LABELS}
        return {name: column for name, column in values.items() if not np.isnan(column).all()}

    def _headline(self) -> str:
        """The last held-out evidence, else the last log evidence, else the last objective."""
        recorded, n = self._recorded(), len(self)
        if not recorded:
            return count(n, "epoch")
        name = next(name for name in reversed(_LABELS) if name in recorded)
        epoch = self.best_epoch or int(np.flatnonzero(~np.isnan(recorded[name]))[-1]) + 1
        value = typeset(float(recorded[name][epoch - 1]), 3)
        quantity = capital(_LABELS[name].split(",")[0])
        return f"{quantity} {value} nats per observation after epoch {epoch} of {n:,}"

    def to_csv(self) -> str:
        """CSV text with the columns epoch,objective,log_evidence,held_out; unknown values are empty."""
        columns = EpochRecord._fields
        return csv_text(columns, zip(*(getattr(self, name) for name in columns), strict=True))
