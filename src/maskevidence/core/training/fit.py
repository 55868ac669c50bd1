"""`fit`: train a model in memory with a torch optimizer."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.model import as_tokens, moments_of
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.checks import whole_number
from maskevidence.core.tokens import Tokens, column_names
from maskevidence.core.training.history import Callback, History
from maskevidence.core.training.loop import TrainingLoop
from maskevidence.core.training.objectives import MaskedObjective, Objective
from maskevidence.core.training.training_pace import Pace


def fit(
    model: Any,
    x: object,
    objective: Objective | MaskDesign,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    learning_rate: float = 0.01,
    schedule: Callable[[float], float] | None = None,
    epochs: int = 100,
    batch_size: int | None = None,
    epoch_size: int | None = None,
    seed: int = 0,
    held_out: object = None,
    patience: int | None = None,
    pace: Pace | None = None,
    evidence_every: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    callbacks: Sequence[Callback] = (),
) -> History:
    """Train a model in place by a masked objective or its exact likelihood.

    Minibatches, masks and the model's own random numbers (dropout) are functions of the seeds and the step:
    a training that resumes from a checkpoint ends bit by bit where an uninterrupted one does. The global
    random state is left as it was.

    Args:
        model: a `MaskedModel` that is a `torch.nn.Module`. To keep a parameter fixed, set its
            `requires_grad` to False.
        x: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table with NaN for missing values;
            or `GaussianMoments` for a model that scores them. Complete rows in one batch under shared masks
            are turned into moments, so that a step costs the same for any number of rows.
        objective: a `MaskedObjective`, `Likelihood()`, `Elbo()`, or a mask design, which stands for a
            `MaskedObjective` with the same `seed`.
        optimizer: any optimizer of torch.optim over the model's parameters, including L-BFGS; by default
            Adam.
        learning_rate: learning rate of the default optimizer, above 0.
        schedule: from the share of the steps that are done to the learning rate, as a part of the
            optimizer's; by default the rate stays the same.
        epochs: number of passes over the data in total, including those before a checkpoint.
        batch_size: observations in one step; by default all.
        epoch_size: observations in one epoch; by default all. Each epoch continues where the last one ended,
            in passes over the data.
        seed: seed of the order of the observations and of the model's own random numbers.
        held_out: `Tokens` or a table, whose evidence is recorded after each epoch: exact if the model has
            `log_evidence`, otherwise estimated on fixed masks of random sizes.
        patience: stop after this number of epochs without a higher held-out evidence, and restore the best
            parameters.
        pace: a `Pace`, by which the learning rate falls where the held-out evidence stands still, until
            training ends; the best parameters are restored.
        evidence_every: epochs between two exact log evidences of the training data; 0 for none.
        checkpoint: a folder; training resumes from the checkpoint in it, if there is one.
        checkpoint_every: epochs between two checkpoints; the last epoch always leaves one.
        callbacks: called as callback(record, model) after each epoch; one that returns True ends training.

    Returns:
        The history, including the epochs before a checkpoint.

    Raises:
        InputError: options, data, an objective or a checkpoint that cannot be used.
        NumericalError: a loss or a parameter that is not finite; the message names the step, the value, the
            parameters and the last good checkpoint.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=5, n_components=1, seed=1).sample(200)
        >>> model = me.models.PPCA(n_features=5, n_components=1, seed=2)
        >>> history = me.fit(model, x, me.RandomSize(1, 1), epochs=30)
        >>> bool(history.log_evidence[-1] > history.log_evidence[0])
        True
    """
    counts = {"epochs": epochs, "batch_size": batch_size, "epoch_size": epoch_size, "patience": patience}
    for name, count in (counts | {"checkpoint_every": checkpoint_every}).items():
        if count is not None:
            whole_number(name, count, 1)
    whole_number("evidence_every", evidence_every, 0)
    for name, judge in {"patience": patience, "pace": pace}.items():
        if judge is not None and held_out is None:
            raise InputError(f"{name}={judge} needs rows to judge by; give held_out")
    optimizer = _checked_optimizer(model, optimizer, learning_rate)
    loss = MaskedObjective(objective, seed=seed) if isinstance(objective, MaskDesign) else objective
    loss.check(model)
    data, test, n_rows = _prepared(model, x, held_out)
    return TrainingLoop(
        model,
        data,
        test,
        loss,
        optimizer,
        epochs=epochs,
        batch_size=min(batch_size or n_rows, n_rows),
        seed=seed,
        patience=patience,
        evidence_every=evidence_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        schedule=schedule,
        epoch_size=epoch_size or n_rows,
        pace=pace,
    ).run()


def _prepared(model: Any, x: object, held_out: object) -> tuple[Tokens | GaussianMoments, Tokens | None, int]:
    """The data as the model takes them, and the number of rows; the model keeps the names of its columns."""
    like = next(model.parameters())
    data = moments_of(model, x) if isinstance(x, GaussianMoments) else as_tokens(model, x, like)
    if getattr(model, "columns", ()) is None:  # columns of later data are matched by name
        model.columns = column_names(x)
    test = None if held_out is None else as_tokens(model, held_out, like)
    return data, test, data.n_rows if isinstance(data, GaussianMoments) else len(data)


def _checked_optimizer(
    model: object, optimizer: torch.optim.Optimizer | None, learning_rate: float
) -> torch.optim.Optimizer:
    """The optimizer, by default Adam; parameters and learning rates that train nothing are refused."""
    if not (learning_rate > 0 and math.isfinite(learning_rate)):
        raise InputError(f"learning_rate={learning_rate}; give a finite number above 0, such as 0.01")
    parameters = [p for p in model.parameters() if p.requires_grad] if isinstance(model, nn.Module) else []
    if not parameters:
        raise InputError(
            f"{type(model).__name__} has no parameters to train; give a torch.nn.Module with some that "
            "require a gradient"
        )
    optimizer = torch.optim.Adam(parameters, lr=learning_rate) if optimizer is None else optimizer
    for group in optimizer.param_groups:
        if not float(group["lr"]) > 0:
            raise InputError(f"the optimizer has a learning rate of {group['lr']}; give one above 0")
    return optimizer
