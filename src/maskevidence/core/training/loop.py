"""The training loop of `fit`, which a checkpoint can resume exactly."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.model import device_of, to_device_of
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.devices import seeded
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.support.progress import progress
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import Tokens
from maskevidence.core.training.checkpoints import FILE, load_checkpoint, parameter_shapes, save_checkpoint
from maskevidence.core.training.history import Callback, EpochRecord, History
from maskevidence.core.training.objectives import MaskedObjective, Objective
from maskevidence.core.training.training_pace import Pace

_HELD_OUT_MASKS = 8_192  # in all, if each row has 2 to 8


@dataclass
class TrainingLoop:
    """The loop of `fit` and its state, which checkpoints hold."""

    model: Any  # the model, trained in place
    data: Tokens | GaussianMoments  # the training data
    held_out: Tokens | None  # data whose evidence is computed after each epoch; None for none
    objective: Objective  # the loss
    optimizer: torch.optim.Optimizer  # the optimizer
    # the settings, named like the arguments of `fit`
    epochs: int
    batch_size: int  # at most that of the data
    seed: int
    patience: int | None
    evidence_every: int
    checkpoint: str | Path | None
    checkpoint_every: int
    callbacks: Sequence[Callback]
    schedule: Callable[[float], float] | None
    epoch_size: int
    pace: Pace | None
    records: list[EpochRecord] = field(default_factory=list, init=False)  # the epochs so far
    # the parameters of the best epoch; None without patience
    best: dict[str, Tensor] | None = field(default=None, init=False)
    # the epoch with the highest held-out evidence; None without patience
    best_epoch: int | None = field(default=None, init=False)
    # the held-out evidence before the first epoch; NaN without a pace
    before: float = field(default=math.nan, init=False)
    # the last checkpoint and its epoch; None before the first
    saved: tuple[Path, int] | None = field(default=None, init=False)
    # devices of the training, in the order of the epochs
    devices: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.n_rows = self.data.n_rows if isinstance(self.data, GaussianMoments) else len(self.data)
        self.n_batches = math.ceil(self.epoch_size / self.batch_size)
        self.step_data = self._moments_if_sufficient()
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.gpus = sorted({p.device.index or 0 for p in self.model.parameters() if p.device.type == "cuda"})

    def run(self) -> History:
        """Train until the last epoch, until patience is exhausted or a callback stops."""
        resumed_from = self._resume()
        self._add_device()
        if self.pace is not None and math.isnan(self.before):
            self.model.eval()
            self.before, self.best = self._held_out_evidence(), self._parameters()
        stopped = self._ended()
        with progress("training", self.epochs) as advance:
            advance(len(self.records), None, self._forecast())
            while len(self.records) < self.epochs and stopped is None:
                record = self._epoch(len(self.records))
                before = self._rate()
                self.records.append(record)
                self._keep_best(record)
                stopped = self._ended()
                if self._rate() < before and self.best is not None:
                    self.model.load_state_dict(self.best)
                answers = [callback(record, self.model) for callback in self.callbacks]
                if any(answers):
                    stopped = stopped or "a callback ended it"
                last = len(self.records) == self.epochs or stopped is not None
                if last or len(self.records) % self.checkpoint_every == 0:
                    self._save()
                advance(1, _description(record), self._forecast())
        if self.best is not None:
            self.model.load_state_dict(self.best)
        columns: Any = np.array(self.records, dtype=np.float64).reshape(-1, len(EpochRecord._fields)).T
        epoch, *of_epochs = columns
        ended: Any = self.best_epoch, stopped, resumed_from, tuple(self.devices), self.pace is not None
        return History(epoch.astype(np.int64), *of_epochs, *ended)

    def _add_device(self) -> None:
        """Record the model's device unless the last epoch is already in the checkpoint."""
        target = device_of(self.model)
        if target is not None and str(target) not in self.devices and len(self.records) < self.epochs:
            self.devices.append(str(target))

    def _epoch(self, epoch: int) -> EpochRecord:
        """Run one epoch and compute the evidence afterwards."""
        total = 0.0
        self.model.train()
        for batch, (data, share) in enumerate(self._batches(epoch)):
            step = epoch * self.n_batches + batch
            total += share * self._step(data, epoch, step)
        self.model.eval()
        every = self.evidence_every
        exact = every and (epoch + 1) % every == 0
        train = math.nan
        if exact and isinstance(self.data, Tokens) and hasattr(self.model, "log_evidence"):
            with torch.no_grad():
                train = float(self.model.log_evidence(to_device_of(self.model, self.data)).mean())
        return EpochRecord(epoch + 1, -total, train, self._held_out_evidence())

    def _rate(self) -> float:
        """The learning rate of the next epoch, relative to the highest, from the held-out evidence so far."""
        if self.pace is None:
            return 1.0
        return self.pace.rate([self.before, *(record.held_out for record in self.records)])

    def _forecast(self) -> int:
        """The number of epochs, or its forecast by the pace."""
        pace, epochs = self.pace, self.epochs
        if pace is None or not self.records:
            return epochs
        return min(epochs, pace.forecast([self.before, *(record.held_out for record in self.records)]))

    def _batches(self, epoch: int) -> Iterator[tuple[Tokens | GaussianMoments, float]]:
        """Yield the batches of an epoch with their shares of the observations."""
        whole = self.batch_size == self.epoch_size == self.n_rows
        if whole or isinstance(self.step_data, GaussianMoments):
            yield self.step_data, 1.0
            return
        first, n = epoch * self.epoch_size, self.n_rows
        passes = range(first // n, (first + self.epoch_size - 1) // n + 1)
        orders = [np.argsort(keyed_bits(self.seed, each, np.arange(n))) for each in passes]
        order = np.concatenate(orders)[first - passes.start * n :][: self.epoch_size]
        for rows in torch.split(torch.from_numpy(order).to(self.step_data.values.device), self.batch_size):
            yield self.step_data[rows], len(rows) / self.epoch_size

    def _step(self, data: Tokens | GaussianMoments, epoch: int, step: int) -> float:
        """Take one optimizer step; return the loss before it."""

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            try:
                loss = self.objective(self.model, data, step=step)
            except (NumericalError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
                raise self._failure(epoch, step, f"the loss cannot be computed: {error}") from error
            if not bool(torch.isfinite(loss)):
                raise self._failure(epoch, step, f"the loss is {loss.item()}")
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        if self.schedule is not None or self.pace is not None:
            part = self._rate()
            if self.schedule is not None:
                part *= self.schedule(step / (self.epochs * self.n_batches))
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * part
        loss: Any
        with seeded(int(keyed_bits(self.seed, step)) >> 1, self.gpus):
            loss = self.optimizer.step(closure)  # type: ignore[arg-type]
        value = float(loss.detach())
        norm = get_total_norm([parameter.detach() for parameter in self.model.parameters()])
        if not bool(torch.isfinite(norm)) and self._not_finite():
            raise self._failure(epoch, step, f"the loss was {value:.6g}, but the step has no finite end")
        return value

    def _not_finite(self) -> list[str]:
        return [
            f"{name} ({int((~torch.isfinite(value)).sum())} of {value.numel()})"
            for name, value in self.model.named_parameters()
            if not bool(torch.isfinite(value).all())
        ]

    def _failure(self, epoch: int, step: int, reason: str) -> NumericalError:
        checkpoint = (
            "none was kept (give checkpoint=FOLDER)"
            if self.saved is None
            else f"{self.saved[0]} (after epoch {self.saved[1]})"
        )
        return NumericalError(
            f"training stopped in epoch {epoch + 1}, step {step}: {reason}; parameters that are not finite: "
            f"{', '.join(self._not_finite()) or 'none'}; last good checkpoint: {checkpoint}; "
            "lower the learning rate, or rescale the data"
        )

    def _held_out_evidence(self) -> float:
        """Held-out evidence, nats per observation; NaN without held-out data."""
        with torch.no_grad():
            return math.nan if self.held_out is None else self._evidence(self.held_out)

    def _evidence(self, tokens: Tokens) -> float:
        if hasattr(self.model, "log_evidence"):
            return float(self.model.log_evidence(to_device_of(self.model, tokens)).mean())
        n_masks = min(max(_HELD_OUT_MASKS // len(tokens), 2), 8)
        return estimate_evidence(self.model, tokens, RandomSize(n_masks), seed=self.seed).log_evidence

    def _keep_best(self, record: EpochRecord) -> None:
        if self.patience is None and self.pace is None:
            return
        best = -math.inf if math.isnan(self.before) else self.before
        if self.best_epoch is not None:
            best = self.records[self.best_epoch - 1].held_out
        if record.held_out > best:
            self.best_epoch, self.best = record.epoch, self._parameters()

    def _parameters(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def _ended(self) -> str | None:
        """Why training stops now; None if it continues."""
        if self._rate() == 0.0:
            return "the held-out evidence stood still at the lowest learning rate"
        patience = self.patience
        if patience is None or len(self.records) - (self.best_epoch or 0) < patience:
            return None
        return f"the held-out evidence was not higher for {patience} epochs"

    def _moments_if_sufficient(self) -> Tokens | GaussianMoments:
        """The moments of complete rows if all steps depend on them alone, else the data."""
        if (
            isinstance(self.data, GaussianMoments)
            or not isinstance(self.objective, MaskedObjective)
            or self.objective.key.masks != "shared"
            or not hasattr(self.model, "score_moments")
            or self.batch_size < self.n_rows
            or not bool(self.data.maskable.all())
        ):
            return self.data
        return GaussianMoments.from_rows(self.data.values)

    def _settings(self) -> dict[str, Any]:
        return {
            "model": type(self.model).__name__,
            "parameters": parameter_shapes(self.model),
            "objective": self.objective.settings(),
            "optimizer": type(self.optimizer).__name__,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "patience": self.patience,
            "epoch_size": self.epoch_size,
            "pace": None if self.pace is None else asdict(self.pace),
            "data": _fingerprint(self.data),
            "held_out": None if self.held_out is None else _fingerprint(self.held_out),
        }

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        state = {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "rates": self.rates,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "before": self.before,
            "devices": self.devices,
            "records": torch.tensor(self.records, dtype=torch.float64),
        }
        self.saved = save_checkpoint(self.checkpoint, self._settings(), state), len(self.records)

    def _resume(self) -> int | None:
        """Load the checkpoint in the folder and return its epoch; None without a checkpoint."""
        folder, epochs = self.checkpoint, self.epochs
        state = None if folder is None else load_checkpoint(folder, self._settings())
        if folder is None or state is None:
            return None
        done = len(state["records"])
        if done > epochs:
            raise InputError(
                f"the checkpoint in {str(folder)!r} is after epoch {done}, beyond epochs={epochs}; "
                "ask for more epochs, or give another folder"
            )
        self.model.load_state_dict(state["model"])
        rates, saved = self.rates, state["rates"]
        if rates != saved:
            raise InputError(
                f"the checkpoint in {str(folder)!r} has learning rate {saved}, this training {rates}; "
                "give the same, or another folder"
            )
        self.optimizer.load_state_dict(state["optimizer"])
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self.before = state.get("before", math.nan)
        self.records = [EpochRecord(int(row[0]), *row[1:]) for row in state["records"].tolist()]
        self.saved, self.devices = (Path(folder) / FILE, done), state.get("devices", [])
        return done


def _description(record: EpochRecord) -> str:
    parts = [f"objective {record.objective:.4f}"]
    parts += [
        f"{name} {value:.4f}"
        for name, value in (("log evidence", record.log_evidence), ("held out", record.held_out))
        if not math.isnan(value)
    ]
    return ", ".join(parts)


def _fingerprint(data: Tokens | GaussianMoments) -> str:
    """Hash the data; a checkpoint resumes only with exactly the same data."""
    parts = list[str | np.ndarray]()
    names = [field.name for field in fields(data) if field.name not in ("text", "position")]  # unused
    for value in (getattr(data, name) for name in names):
        array = value.detach().cpu().contiguous().numpy() if isinstance(value, Tensor) else np.array([value])
        parts += [f"{array.shape}{array.dtype}", *([] if value is None else [array])]
    return digest(*parts)[:16]
