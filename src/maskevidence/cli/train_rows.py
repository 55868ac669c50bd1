"""What `train` does with models of rows: standard units, `fit`, and the model back in the data's units."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.cli import output
from maskevidence.data.tabular import Table
from maskevidence.errors import InputError
from maskevidence.masks import Masks
from maskevidence.model import HasLogEvidence
from maskevidence.support.files import write_atomic, write_json
from maskevidence.support.provenance import command, versions
from maskevidence.tasks.options import RowReading
from maskevidence.tasks.parse import parse_design, parse_model
from maskevidence.tasks.prepare_rows import read_rows
from maskevidence.training.checkpoints import FILE
from maskevidence.training.fit import fit
from maskevidence.training.objectives import Elbo, Likelihood, MaskedObjective, Objective

_ONE_EACH = {
    "every-size": {"masks_per_size": 1},
    "random-size": {"draws": 1, "replicates": 1},
    "orderings": {"orders": 1},
    "fixed-rate": {"masks_per_size": 1},
    "rates": {"masks_per_size": 1},
}


@dataclass(frozen=True)
class RowTraining:
    """How a model of rows is trained.

    Attributes:
        model: such as "ppca:8".
        data: its rows.
        out: the folder for the model and its checkpoints.
        objective: "likelihood", "elbo", "iwae:5" or a mask design.
        masks_per_size, draws, orders: of the design; None for one each.
        masks: "own" or "shared".
        epochs: passes over the rows.
        learning_rate: of Adam, in standard units; None for the model's own, or 0.02.
        batch_size: rows in one step.
        test_fraction: share of the rows held out; 0 for none.
        patience: stop when the held-out evidence was not higher for so many epochs.
        checkpoint_every: epochs between two checkpoints.
        seed: of masks, order and held-out rows.
        limit: the first so many rows.
        overwrite: replace a model in `out`.
        rows: how the data are read.
    """

    model: str
    data: str
    out: Path
    objective: str
    masks_per_size: int | None = None
    draws: int | None = None
    orders: int | None = None
    masks: Masks = "own"
    epochs: int = 500
    learning_rate: float | None = None
    batch_size: int = 512
    test_fraction: float = 0.2
    patience: int | None = None
    checkpoint_every: int = 20
    seed: int = 0
    limit: int | None = None
    overwrite: bool = False
    rows: RowReading = field(default_factory=RowReading)


def train_rows(asked: RowTraining, screen: Any) -> dict[str, Any]:
    """Train and save the model, and print its log evidence.

    Returns:
        What train.json holds.
    """
    loss = _objective(
        asked.objective,
        asked.masks,
        asked.seed,
        masks_per_size=asked.masks_per_size,
        draws=asked.draws,
        orders=asked.orders,
    )
    build, _ = parse_model(asked.model)
    if build is None:
        raise InputError(f"{asked.model!r} is a saved model; give one to be trained, such as ppca:8")
    table = read_rows(asked.data, asked.rows, limit=asked.limit, seed=asked.seed)
    rows, test = (table, None) if asked.test_fraction == 0 else table.split(asked.test_fraction, asked.seed)
    made = build(len(table.columns))
    dropped = [] if made.keeps_units else rows.constant_columns()
    kept = [column for column in table.columns if column not in dropped]
    if not kept:
        raise InputError(f"every column of {table.name} is constant; there is nothing to train on")
    rows = rows.select(kept)
    made = build(len(kept)) if dropped else made
    made.columns = kept
    if isinstance(loss, Elbo):
        made.add_encoder()
    made.set_units(rows.values)
    shift, scale = made.units(rows.values)
    learning_rate = asked.learning_rate
    if learning_rate is None:
        learning_rate = made.learning_rate
    out = asked.out
    if asked.overwrite:
        (out / FILE).unlink(missing_ok=True)
    elif (out / "config.json").exists() and not (out / FILE).exists():
        raise InputError(f"{str(out)!r} holds a model; give another folder, or --overwrite to replace it")
    history = fit(
        made,
        (rows.values - shift) / scale,
        loss,
        learning_rate=learning_rate,
        epochs=asked.epochs,
        batch_size=asked.batch_size,
        seed=asked.seed,
        held_out=None if asked.patience is None else (_held_out(test, kept) - shift) / scale,
        patience=asked.patience,
        checkpoint=out,
        checkpoint_every=asked.checkpoint_every,
    )
    made.rescale(shift, scale)
    made.save(out)
    write_atomic(out / "history.csv", history.to_csv())
    train_evidence = float(made.score_samples(rows.values).mean())
    held_out = None
    if test is not None:
        held_out = float(made.score_samples(test.select(kept).values).mean())
    result = {
        "model": asked.model,
        "data": asked.data,
        "objective": loss.settings(),
        "epochs": len(history),
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "resumed_from": history.resumed_from,
        "n_train": len(rows),
        "n_test": 0 if test is None else len(test),
        "learning_rate": learning_rate,
        "kind": "exact" if isinstance(made, HasLogEvidence) else "lower_bound",
        "log_evidence_train": train_evidence,
        "log_evidence_held_out": held_out,
        "dropped_columns": dropped,
        "seed": asked.seed,
        "versions": versions(),
        "command": command(),
    }
    write_json(out / "train.json", result)
    _show(screen, result, out)
    return result


def _held_out(test: Table | None, columns: list[str]) -> Float64[np.ndarray, "N D"]:
    if test is None:
        raise InputError("--patience needs held-out rows to judge by; give --test-fraction above 0")
    return test.select(columns).values


def _objective(word: str, masks: Masks, seed: int, **counts: int | None) -> Objective:
    """The --objective word; a design has one mask of a kind per step where no number is given."""
    if word == "likelihood":
        if any(count is not None for count in counts.values()):
            raise InputError(
                "the likelihood draws no masks; leave --masks-per-size, --draws and --orders out"
            )
        return Likelihood()
    name, _, samples = word.partition(":")
    if name in ("elbo", "iwae"):
        if any(count is not None for count in counts.values()):
            raise InputError("the ELBO draws no masks; leave --masks-per-size, --draws and --orders out")
        if name == "elbo" and not samples:
            return Elbo(seed=seed)
        if name == "elbo" or not samples.isascii() or not samples.isdigit() or int(samples) < 2:
            raise InputError(f"objective {word!r}; write elbo, or iwae:5 for a bound of 5 weighted draws")
        return Elbo(int(samples), weighted=True, seed=seed)
    given = {name: count for name, count in counts.items() if count is not None}
    replicates = {"replicates": 1} if "draws" in given else {}
    chosen = _ONE_EACH.get(word.partition(":")[0], {}) | given | replicates
    names = ("masks_per_size", "draws", "replicates", "orders")
    design = parse_design(word, **{name: chosen.get(name) for name in names})
    return MaskedObjective(design, seed=seed, masks=masks)


def _show(screen: Any, result: dict[str, Any], out: Path) -> None:
    rows = [[f"training, {result['n_train']:,} rows", f"{result['log_evidence_train']:.4f}"]]
    if result["log_evidence_held_out"] is not None:
        rows.append([f"held out, {result['n_test']:,} rows", f"{result['log_evidence_held_out']:.4f}"])
    what = "exact log evidence" if result["kind"] == "exact" else "importance-weighted bound, 1,024 draws"
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: {what}"
    screen.print(output.table(["rows", "nats per observation"], rows, title))
    if result["dropped_columns"]:
        screen.print(f"note: dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["stopped"] is not None:
        screen.print(f"note: {result['stopped']}; the model is that of epoch {result['best_epoch']}")
    if result["resumed_from"] is not None:
        screen.print(f"note: went on from the checkpoint after epoch {result['resumed_from']}")
    screen.print(f"Left in {out}: config.json, model.safetensors, history.csv, train.json, {FILE}")
