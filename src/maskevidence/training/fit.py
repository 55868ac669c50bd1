"""A small loop over torch.optim for models that fit in memory: `fit`."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError, NumericalError
from maskevidence.evidence import estimate_evidence
from maskevidence.gaussian_moments import GaussianMoments
from maskevidence.masks import MaskDesign, RandomSize
from maskevidence.model import HasLogEvidence, HasScoreMoments
from maskevidence.support.files import csv_text
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens
from maskevidence.training.checkpoints import FILE, load_checkpoint, parameter_shapes, save_checkpoint
from maskevidence.training.objectives import MaskedObjective, Objective


class EpochRecord(NamedTuple):
    """One row of the history; NaN where a value was not asked for or is not known.

    Attributes:
        epoch: 1 for the first.
        objective: minus the mean loss over the epoch's batches, each before its step, nats per observation.
        log_evidence: mean exact log evidence of the training data after the epoch, nats per observation.
        held_out: mean log evidence of the held-out data after the epoch, nats per observation.
    """

    epoch: int
    objective: float
    log_evidence: float
    held_out: float


Callback = Callable[[EpochRecord, Any], bool | None]
Floats = Float64[np.ndarray, " n_epochs"]


@dataclass(frozen=True)
class History:
    """What happened, a row per epoch.

    Attributes:
        epoch: shape (n_epochs,); 1, 2, ...
        objective: shape (n_epochs,); see `EpochRecord`, as for the next two.
        log_evidence: shape (n_epochs,).
        held_out: shape (n_epochs,).
        best_epoch: of the highest held-out evidence, whose parameters the model has; None without patience.
        stopped: why training ended before its last epoch; None where it did not.
        resumed_from: the epoch of the checkpoint that it went on from; None for a fresh start.
    """

    epoch: Int64[np.ndarray, " n_epochs"]
    objective: Float64[np.ndarray, " n_epochs"]
    log_evidence: Float64[np.ndarray, " n_epochs"]
    held_out: Float64[np.ndarray, " n_epochs"]
    best_epoch: int | None = None
    stopped: str | None = None
    resumed_from: int | None = None

    def __len__(self) -> int:
        return len(self.epoch)

    def to_csv(self) -> str:
        """CSV text, columns epoch,objective,log_evidence,held_out; unknown is empty."""
        columns = EpochRecord._fields
        return csv_text(columns, zip(*(getattr(self, name) for name in columns), strict=True))


def fit(
    model: Any,
    x: object,
    objective: Objective | MaskDesign,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    learning_rate: float = 0.01,
    epochs: int = 100,
    batch_size: int | None = None,
    seed: int = 0,
    held_out: object = None,
    patience: int | None = None,
    evidence_every: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    callbacks: Sequence[Callback] = (),
) -> History:
    """Train a model in place by a masked objective, or by its exact likelihood.

    Minibatches, masks and the model's own random numbers (dropout) are functions of the seeds and the step,
    so that a training that goes on from a checkpoint ends bit by bit where an uninterrupted one does; global
    random state is left as it was.

    Args:
        model: a `MaskedModel` that is a `torch.nn.Module`. To keep a parameter as it is, set its
            `requires_grad` to False.
        x: `Tokens`, or an (N, D) table with NaN where a value is missing; or `GaussianMoments` for a model
            that scores them. Complete rows in one batch under shared masks are turned into moments, so that
            a step costs the same however many rows there are.
        objective: a `MaskedObjective`, `Likelihood()`, or a mask design (for a `MaskedObjective` of it with
            the same `seed`).
        optimizer: over the model's parameters; by default Adam. Any of torch.optim will do, L-BFGS included.
        learning_rate: of the default optimizer, above 0.
        epochs: how many passes over the data in total, those of a checkpoint included.
        batch_size: observations in one step; by default all.
        seed: of the order of the observations and of the model's own random numbers.
        held_out: `Tokens` or a table, whose evidence is recorded after each epoch: exact where the model has
            `log_evidence`, else estimated on fixed masks of random sizes.
        patience: stop when the held-out evidence was not higher for so many epochs, and give the model its
            best parameters.
        evidence_every: epochs between two exact log evidences of the training data; 0 for none.
        checkpoint: a folder. Training goes on from the checkpoint in it where there is one.
        checkpoint_every: epochs between two checkpoints; the last epoch always leaves one.
        callbacks: called as callback(record, model) after each epoch; one that returns True ends training.

    Returns:
        The history, those epochs included that a checkpoint brought.

    Raises:
        InputError: options, data, an objective or a checkpoint that cannot be used.
        NumericalError: a loss or a parameter that is not finite: names the step, the value, the parameters
            and the last good checkpoint.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=5, n_components=1, seed=1).sample(200)
        >>> model = me.models.PPCA(n_features=5, n_components=1, seed=2)
        >>> history = me.fit(model, x, me.RandomSize(1, 1), epochs=30)
        >>> bool(history.log_evidence[-1] > history.log_evidence[0])
        True
    """
    _check_options(
        model, learning_rate, epochs, batch_size, held_out, patience, evidence_every, checkpoint_every
    )
    loss = MaskedObjective(objective, seed=seed) if isinstance(objective, MaskDesign) else objective
    loss.check(model)
    if optimizer is None:
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=learning_rate)
    _check_optimizer(optimizer)
    data = _as_data(model, x)
    test = None if held_out is None else _as_tokens(model, held_out)
    trainer = _Trainer(model, data, loss, optimizer, test, batch_size, seed, patience, evidence_every)
    return trainer.run(epochs, checkpoint, checkpoint_every, callbacks)


class _Trainer:
    """The loop of `fit`, and what a checkpoint of it holds."""

    def __init__(
        self,
        model: Any,
        data: Tokens | GaussianMoments,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        held_out: Tokens | None,
        batch_size: int | None,
        seed: int,
        patience: int | None,
        evidence_every: int,
    ) -> None:
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.data, self.held_out = data, held_out
        self.seed, self.patience, self.evidence_every = seed, patience, evidence_every
        self.n_rows = data.n_rows if isinstance(data, GaussianMoments) else len(data)
        self.batch_size = self.n_rows if batch_size is None else min(batch_size, self.n_rows)
        self.for_steps = self._moments_where_they_do()
        self.records: list[EpochRecord] = []
        self.best: dict[str, Tensor] | None = None
        self.best_epoch: int | None = None
        self.saved: tuple[Path, int] | None = None

    def run(
        self, epochs: int, folder: str | Path | None, every: int, callbacks: Sequence[Callback]
    ) -> History:
        resumed_from = None if folder is None else self._resume(folder, epochs)
        stopped = self._waited_long_enough()
        with _own_random_state(self.model), progress("training", epochs) as advance:
            advance(len(self.records))
            while len(self.records) < epochs and stopped is None:
                record = self._epoch(len(self.records))
                self.records.append(record)
                self._keep_best(record)
                stopped = self._waited_long_enough()
                answers = [callback(record, self.model) for callback in callbacks]
                if any(answers):
                    stopped = stopped or "a callback ended it"
                last = len(self.records) == epochs or stopped is not None
                if folder is not None and (last or len(self.records) % every == 0):
                    self._save(folder)
                advance(1, _description(record))
        if self.best is not None:
            self.model.load_state_dict(self.best)
        columns = np.array(self.records, dtype=np.float64).reshape(-1, len(EpochRecord._fields)).T
        epoch, objective, log_evidence, held_out = columns
        return History(
            epoch.astype(np.int64), objective, log_evidence, held_out, self.best_epoch, stopped, resumed_from
        )

    def _epoch(self, epoch: int) -> EpochRecord:
        """One pass over the data, and the evidences after it."""
        n_batches = math.ceil(self.n_rows / self.batch_size)
        total = 0.0
        self.model.train()
        for batch, (data, share) in enumerate(self._batches(epoch)):
            step = epoch * n_batches + batch
            total += share * self._step(data, epoch, step)
        self.model.eval()
        exact = self.evidence_every and (epoch + 1) % self.evidence_every == 0
        train = math.nan
        with torch.no_grad():
            if exact and isinstance(self.data, Tokens) and isinstance(self.model, HasLogEvidence):
                train = float(self.model.log_evidence(self.data).mean())
            test = math.nan if self.held_out is None else self._evidence(self.held_out)
        return EpochRecord(epoch + 1, -total, train, test)

    def _batches(self, epoch: int) -> Iterator[tuple[Tokens | GaussianMoments, float]]:
        """The epoch's batches, each with its share of the observations."""
        if self.batch_size == self.n_rows or isinstance(self.for_steps, GaussianMoments):
            yield self.for_steps, 1.0
            return
        order = torch.from_numpy(np.argsort(keyed_bits(self.seed, epoch, np.arange(self.n_rows))))
        for rows in torch.split(order.to(self.for_steps.values.device), self.batch_size):
            yield self.for_steps[rows], len(rows) / self.n_rows

    def _step(self, data: Tokens | GaussianMoments, epoch: int, step: int) -> float:
        """One step of the optimizer; the loss before it."""
        torch.manual_seed(int(keyed_bits(self.seed, step)) >> 1)

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            try:
                loss = self.objective(self.model, data, step=step)
            except (NumericalError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
                raise self._failed(epoch, step, f"the loss cannot be computed: {error}") from error
            if not bool(torch.isfinite(loss)):
                raise self._failed(epoch, step, f"the loss is {loss.item()}")
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        loss: Any = self.optimizer.step(closure)  # type: ignore[arg-type]
        value = float(loss.detach())
        if self._not_finite():
            raise self._failed(epoch, step, f"the loss was {value:.6g}, but the step has no finite end")
        return value

    def _not_finite(self) -> list[str]:
        return [
            f"{name} ({int((~torch.isfinite(value)).sum())} of {value.numel()})"
            for name, value in self.model.named_parameters()
            if not bool(torch.isfinite(value).all())
        ]

    def _failed(self, epoch: int, step: int, what: str) -> NumericalError:
        kept = (
            "none was kept (give checkpoint=FOLDER)"
            if self.saved is None
            else f"{self.saved[0]} (after epoch {self.saved[1]})"
        )
        return NumericalError(
            f"training stopped in epoch {epoch + 1}, step {step}: {what}; parameters that are not finite: "
            f"{', '.join(self._not_finite()) or 'none'}; last good checkpoint: {kept}; "
            "lower the learning rate, or rescale the data"
        )

    def _evidence(self, tokens: Tokens) -> float:
        if isinstance(self.model, HasLogEvidence):
            return float(self.model.log_evidence(tokens).mean())
        return estimate_evidence(self.model, tokens, RandomSize(8), seed=self.seed).log_evidence

    def _keep_best(self, record: EpochRecord) -> None:
        if self.patience is None:
            return
        best = self.records[self.best_epoch - 1].held_out if self.best_epoch is not None else -math.inf
        if record.held_out > best:
            self.best_epoch = record.epoch
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def _waited_long_enough(self) -> str | None:
        if self.patience is None or len(self.records) - (self.best_epoch or 0) < self.patience:
            return None
        return f"the held-out evidence was not higher for {self.patience} epochs"

    def _moments_where_they_do(self) -> Tokens | GaussianMoments:
        """Moments in place of complete rows, where the steps need no more."""
        if (
            isinstance(self.data, GaussianMoments)
            or not isinstance(self.objective, MaskedObjective)
            or self.objective.key.masks != "shared"
            or not isinstance(self.model, HasScoreMoments)
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
            "data": _fingerprint(self.data),
            "held_out": None if self.held_out is None else _fingerprint(self.held_out),
        }

    def _save(self, folder: str | Path) -> None:
        columns = torch.tensor(self.records, dtype=torch.float64)
        state = {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "best_epoch": self.best_epoch,
            "records": columns,
        }
        self.saved = save_checkpoint(folder, self._settings(), state), len(self.records)

    def _resume(self, folder: str | Path, epochs: int) -> int | None:
        state = load_checkpoint(folder, self._settings())
        if state is None:
            return None
        done = len(state["records"])
        if done > epochs:
            raise InputError(
                f"the checkpoint in {str(folder)!r} is after epoch {done}, beyond epochs={epochs}; "
                "ask for more epochs, or give another folder"
            )
        self.model.load_state_dict(state["model"])
        rates = [group["lr"] for group in self.optimizer.param_groups]
        saved = [group["lr"] for group in state["optimizer"]["param_groups"]]
        if rates != saved:
            raise InputError(
                f"the checkpoint in {str(folder)!r} has learning rate {saved}, this training {rates}; "
                "give the same, or another folder"
            )
        self.optimizer.load_state_dict(state["optimizer"])
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self.records = [EpochRecord(int(row[0]), *row[1:]) for row in state["records"].tolist()]
        self.saved = Path(folder) / FILE, done
        return done


def _description(record: EpochRecord) -> str:
    parts = [f"objective {record.objective:.4f}"]
    parts += [
        f"{name} {value:.4f}"
        for name, value in (("log evidence", record.log_evidence), ("held out", record.held_out))
        if not math.isnan(value)
    ]
    return ", ".join(parts)


@contextmanager
def _own_random_state(model: nn.Module) -> Iterator[None]:
    devices = {p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        yield


def _as_tokens(model: nn.Module, x: object) -> Tokens:
    if isinstance(x, Tokens):
        return x
    parameter = next(iter(model.parameters()))
    return Tokens.from_array(x, dtype=parameter.dtype).to(parameter.device)


def _as_data(model: nn.Module, x: object) -> Tokens | GaussianMoments:
    return x if isinstance(x, GaussianMoments) else _as_tokens(model, x)


def _fingerprint(data: Tokens | GaussianMoments) -> str:
    """A hash of the data: a checkpoint goes on with the very same."""
    digest = hashlib.sha256()
    names = [field.name for field in fields(data)]
    for value in (getattr(data, name) for name in names):
        array = value.detach().cpu().contiguous().numpy() if isinstance(value, Tensor) else np.array([value])
        digest.update(f"{array.shape}{array.dtype}".encode() + (b"" if value is None else array.tobytes()))
    return digest.hexdigest()[:16]


def _check_options(
    model: Any,
    learning_rate: float,
    epochs: int,
    batch_size: int | None,
    held_out: object,
    patience: int | None,
    evidence_every: int,
    checkpoint_every: int,
) -> None:
    if not isinstance(model, nn.Module) or not any(p.requires_grad for p in model.parameters()):
        raise InputError(
            f"{type(model).__name__} has no parameters to train; give a torch.nn.Module with some that "
            "require a gradient"
        )
    if not (learning_rate > 0 and math.isfinite(learning_rate)):
        raise InputError(f"learning_rate={learning_rate}; give a finite number above 0, such as 0.01")
    counts = {
        "epochs": epochs,
        "batch_size": batch_size,
        "patience": patience,
        "checkpoint_every": checkpoint_every,
    }
    for name, count in counts.items():
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InputError(f"{name}={count!r}; give a whole number of 1 or more")
    if not isinstance(evidence_every, int) or evidence_every < 0:
        raise InputError(f"evidence_every={evidence_every!r}; give a whole number, 0 for none")
    if patience is not None and held_out is None:
        raise InputError(f"patience={patience} needs rows to judge by; give held_out")


def _check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        if not float(group["lr"]) > 0:
            raise InputError(f"the optimizer has a learning rate of {group['lr']}; give one above 0")
