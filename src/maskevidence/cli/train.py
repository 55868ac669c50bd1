"""maskevidence train: a model fitted by masked prediction, or by its exact likelihood."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from maskevidence.checkpoints import FILE
from maskevidence.cli import options, output
from maskevidence.errors import InputError
from maskevidence.files import write_atomic
from maskevidence.masks import Masks
from maskevidence.objective import Likelihood, MaskedObjective, Objective
from maskevidence.provenance import command, versions
from maskevidence.specs import parse_data, parse_design, parse_model
from maskevidence.training import fit
from maskevidence.units import to_data_units, units_of

_ONE_EACH = {
    "every-size": {"masks_per_size": 1},
    "random-size": {"draws": 1, "replicates": 1},
    "orderings": {"orders": 1},
    "fixed-rate": {"masks_per_size": 1},
    "rates": {"masks_per_size": 1},
}


def train(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="gaussian, ppca:8 or factor-analysis:8.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="digits, or a .csv, .npy or .parquet table.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Leave the model in this folder.")],
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            help="likelihood, or a mask design: random-size, every-size, orderings, leave-one-out, "
            "fixed-rate:0.15, ...",
        ),
    ] = "random-size",
    masks_per_size: Annotated[
        int | None, typer.Option("--masks-per-size", help="For every-size, fixed-rate, rates; by default 1.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option("--draws", help="Masks per observation and step, for random-size; 1.")
    ] = None,
    orders: Annotated[int | None, typer.Option("--orders", help="For orderings; by default 1.")] = None,
    masks: Annotated[
        Masks, typer.Option("--masks", help="own: for each observation; shared: by all.")
    ] = "own",
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over the rows.")] = 500,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", help="Of Adam, in standard units.")
    ] = 0.02,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Rows in one step; by default 512 or all.")
    ] = 512,
    test_fraction: Annotated[
        float, typer.Option("--test-fraction", help="Share of the rows held out; 0 trains on all.")
    ] = 0.2,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", help="Epochs between two checkpoints.")
    ] = 20,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    json: options.Json = None,
) -> None:
    """Train MODEL on DATA by masked prediction, and leave it in a folder that `score` reads.

    Columns are centred and scaled for training, and the model is saved in the data's own units. A training
    that was interrupted goes on from its checkpoint when the same command is given again.

    Examples:

        maskevidence train ppca:8 digits --out runs/masked

        maskevidence train ppca:8 digits --objective likelihood --out runs/exact

        maskevidence score runs/masked digits --test-fraction 0.2
    """
    options.use_threads(threads)
    loss = _objective(objective, masks, seed, masks_per_size=masks_per_size, draws=draws, orders=orders)
    build, _ = parse_model(model)
    if build is None:
        raise InputError(f"{model!r} is a saved model; give one to be trained, such as ppca:8")
    table = parse_data(data, limit)
    rows, test = (table, None) if test_fraction == 0 else table.split(test_fraction, seed)
    dropped = rows.constant_columns()
    kept = [column for column in table.columns if column not in dropped]
    if not kept:
        raise InputError(f"every column of {table.name} is constant; there is nothing to train on")
    rows = rows.select(kept)
    made = build(len(kept))
    made.columns = kept
    units = units_of(made, rows.values)
    if overwrite:
        (out / FILE).unlink(missing_ok=True)
    elif (out / "config.json").exists() and not (out / FILE).exists():
        raise InputError(f"{str(out)!r} holds a model; give another folder, or --overwrite to replace it")
    history = fit(
        made,
        units.standard(rows.values),
        loss,
        learning_rate=learning_rate,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        checkpoint=out,
        checkpoint_every=checkpoint_every,
    )
    to_data_units(made, units)
    made.save(out)
    write_atomic(out / "history.csv", history.to_csv())
    with torch.no_grad():
        train_evidence = float(made.log_evidence(rows.tokens()).mean())
        held_out = None
        if test is not None:
            held_out = float(made.log_evidence(test.select(kept).tokens()).mean())
    result = {
        "model": model,
        "data": data,
        "objective": loss.settings(),
        "epochs": len(history),
        "resumed_from": history.resumed_from,
        "n_train": len(rows),
        "n_test": 0 if test is None else len(test),
        "log_evidence_train": train_evidence,
        "log_evidence_held_out": held_out,
        "dropped_columns": dropped,
        "seed": seed,
        "versions": versions(),
        "command": command(),
    }
    write_atomic(out / "train.json", json_module.dumps(result, indent=2, allow_nan=False) + "\n")
    _show(output.console(json), result, out)
    output.write_json(result, json)


def _objective(word: str, masks: Masks, seed: int, **counts: int | None) -> Objective:
    """The --objective word; a design has one mask of a kind per step where no number is given."""
    if word == "likelihood":
        if any(count is not None for count in counts.values()):
            raise InputError(
                "the likelihood draws no masks; leave --masks-per-size, --draws and --orders out"
            )
        return Likelihood()
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
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: exact log evidence"
    screen.print(output.table(["rows", "nats per observation"], rows, title))
    if result["dropped_columns"]:
        screen.print(f"note: dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["resumed_from"] is not None:
        screen.print(f"note: went on from the checkpoint after epoch {result['resumed_from']}")
    screen.print(f"Left in {out}: config.json, model.safetensors, history.csv, train.json, {FILE}")
