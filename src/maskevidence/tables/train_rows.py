"""Train a model of rows in standardised units, and save it in the data's units."""

import re
from collections.abc import Mapping
from typing import Any

from maskevidence.command.options import Result
from maskevidence.command.training_folder import (
    HISTORY,
    check_training_folder,
    notes_on_devices,
    prepare_folder,
    training_folder,
    training_result,
    write_result,
)
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.show import parts
from maskevidence.core.show.parts import Page
from maskevidence.core.show.words import typeset
from maskevidence.core.support.files import write_atomic
from maskevidence.core.table import Table
from maskevidence.core.training.checkpoints import FILE
from maskevidence.core.training.fit import fit
from maskevidence.core.training.history import History
from maskevidence.core.training.objectives import Elbo, Likelihood, MaskedObjective, Objective
from maskevidence.runs.folder import locked
from maskevidence.runs.prepared import recorded
from maskevidence.tables.base import TableModel, marks_of
from maskevidence.tables.by_name import AUTO, COUNTS, KERNELS, NETWORK, is_network, new_model
from maskevidence.tables.network.masked_network import MaskedNetwork
from maskevidence.tables.rows import TEST_FRACTION, model_on, read_rows, read_with
from maskevidence.tables.table_options import RowDevice, RowTraining

EPOCHS, BATCH_SIZE, CHECKPOINT_EVERY = 500, 512, 20
_MAX_DIGITS_IWAE = 5


def train_rows(model: str, data: str, options: RowTraining) -> Result:
    """Train a model of rows, save it, and compute its log evidence.

    Columns are centred and scaled for training, unless the model `keeps_units`, and constant columns are
    dropped. The same call resumes an interrupted training from its checkpoint.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> trained = train_rows("ppca:2", "digits", RowTraining(folder, epochs=2))
        >>> trained.content["n_train"], trained.content["kind"]
        (1438, 'exact')
    """
    check_training_folder(options, FILE)
    objective = parse_objective(options.objective, options.seed)
    build, _ = model_on(model, RowDevice(options.device, options.dtype))
    if build is None:
        raise InputError(f"{model!r} is a saved model; give one to be trained, such as ppca:8")
    if model == AUTO:
        raise InputError(
            "auto is decided by a table, in cells, impute, score and check; give one model to train"
        )
    if model in (KERNELS, COUNTS):
        raise InputError(
            f"{model} has no parameters to train by masks: `maskevidence score {model} {data} --out DIR` "
            "fits it and saves it in DIR/model"
        )
    if is_network(model) and options.objective != RowTraining.objective:
        raise InputError(f"{NETWORK} is trained with masks of random sizes; leave --objective out")
    train, test, everything = _read(data, options, words=is_network(model))
    fitted, dropped = new_model(build, train, everything, "train on")
    columns = fitted.columns or []
    train, test = train.select(columns), None if test is None else test.select(columns)
    if isinstance(objective, Elbo):
        fitted.add_encoder()
    with locked(options.out):
        prepare_folder(options)
        history = _fit(fitted, train, test, objective, options)
        fitted.fitted_rows = marks_of(train.tokens())
        fitted.read_with = read_with(options.reading, everything)
        fitted.save(options.out)
        write_atomic(options.out / HISTORY, history.to_csv())
        result = write_result(
            model,
            data,
            objective.settings(),
            options,
            epochs=len(history),
            best_epoch=history.best_epoch,
            stopped=history.stopped,
            resumed_from=history.resumed_from,
            devices=list(history.devices),
            n_train=len(train),
            n_test=0 if test is None else len(test),
            learning_rate=_learning_rate(fitted, options),
            kind="exact" if hasattr(fitted, "log_evidence") else "lower_bound",
            log_evidence_train=_log_evidence(fitted, train, options.seed),
            log_evidence_held_out=None if test is None else _log_evidence(fitted, test, options.seed),
            dropped_columns=dropped,
            notes=_notes(fitted, history, everything, train, test),
            **recorded(fitted),
        )
    return training_result(result, training_folder(options.out).written())


def _read(data: str, options: RowTraining, *, words: bool) -> tuple[Table, Table | None, Table]:
    """The training rows, the held-out rows or None, and all rows."""
    table = read_rows(data, options.reading, limit=options.limit, seed=options.seed, words=words)
    test_fraction = TEST_FRACTION if options.test_fraction is None else options.test_fraction
    if test_fraction != 0:
        return *table.split(test_fraction, options.seed), table
    if options.patience is not None:
        raise InputError("--patience needs held-out rows to judge by; give --test-fraction above 0")
    return table, None, table


def _fit(
    fitted: TableModel, train: Table, test: Table | None, objective: Objective, options: RowTraining
) -> History:
    """Train the model on standardised rows, and convert it to the data's units.

    A masked network uses its own training recipe, with the options given.
    """
    if isinstance(fitted, MaskedNetwork):
        return _fit_network(fitted, train, test, options)
    fitted.set_units(train.values)
    shift, scale = fitted.units(train.values)
    judged = None if test is None or options.patience is None else (test.values - shift) / scale
    every = options.checkpoint_every
    history = fit(
        fitted,
        (train.values - shift) / scale,
        objective,
        learning_rate=_learning_rate(fitted, options),
        epochs=EPOCHS if options.epochs is None else options.epochs,
        batch_size=BATCH_SIZE if options.batch_size is None else options.batch_size,
        seed=options.seed,
        held_out=judged,
        patience=options.patience,
        checkpoint=options.out,
        checkpoint_every=CHECKPOINT_EVERY if every is None else every,
    )
    fitted.rescale(shift, scale)
    return history


def _fit_network(fitted: MaskedNetwork, train: Table, test: Table | None, options: RowTraining) -> History:
    """Train a masked network; held-out rows choose the epoch."""
    given: dict[str, Any] = {"patience": options.patience, "checkpoint_every": options.checkpoint_every}
    fitted.fit(
        train,
        held_out=test,
        epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=_learning_rate(fitted, options),
        seed=options.seed,
        checkpoint=options.out,
        **{name: value for name, value in given.items() if value is not None},
    )
    assert fitted.history is not None
    return fitted.history


def _notes(
    fitted: TableModel, history: History, everything: Table, train: Table, test: Table | None
) -> list[str]:
    """Notes on the rows and the fit; for a network also on the use of held-out rows."""
    if not isinstance(fitted, MaskedNetwork):
        return [*everything.notes, *history.notes]
    chose = "the held-out rows chose the epoch, so that new rows have a slightly lower log evidence"
    notes = [*everything.notes, *([] if test is None else [chose]), *fitted.fit_notes]
    if len(train) > _most_scored(train):
        notes.append(f"of more than {_most_scored(train):,} rows, that many stand for all, drawn at random")
    return notes


def _learning_rate(fitted: TableModel, options: RowTraining) -> float:
    return fitted.learning_rate if options.learning_rate is None else options.learning_rate


def _log_evidence(fitted: TableModel, table: Table, seed: int) -> float:
    """The mean log evidence per row. A network is scored on a sample of the rows, with 16 masks per
    column.
    """
    if isinstance(fitted, MaskedNetwork) and len(table) > _most_scored(table):
        table = table.split(_most_scored(table) / len(table), seed)[1]
    return float(fitted.score_samples(table.values).mean())


def _most_scored(table: Table) -> int:
    """The largest number of rows to score by a network."""
    return max(200, 30_000 // len(table.columns))


def parse_objective(word: str, seed: int = 0) -> Objective:
    """Parse an --objective word; the counts of a mask design default to 1.

    Args:
        word: "likelihood", "elbo", "iwae:5" or the word of a mask design, such as "every-size:2,shared".

    Example:
        >>> parse_objective("every-size").design
        IndependentMasks(masks_per_size=1)
    """
    name, *options = re.split("[:,]", word, maxsplit=1)
    argument = "".join(options)
    if name == "likelihood" and options:
        raise InputError(f"objective {word!r}; write likelihood alone, which draws no masks")
    if name == "likelihood":
        return Likelihood()
    if name == "elbo" and not argument:
        return Elbo(seed=seed)
    if name in ("elbo", "iwae"):
        if name == "elbo" or not argument.isascii() or not argument.isdigit() or int(argument) < 2:
            raise InputError(f"objective {word!r}; write elbo, or iwae:5 for a bound of 5 weighted draws")
        if len(argument) > _MAX_DIGITS_IWAE:
            raise InputError(f"objective {word!r}; give fewer than {10**_MAX_DIGITS_IWAE:,} weighted draws")
        return Elbo(int(argument), weighted=True, seed=seed)
    once = dict.fromkeys(("masks_per_size", "draws", "replicates", "orders"), 1)
    masks = parse_design(word, **once).without_tokens("train")
    return MaskedObjective(masks.design, seed=seed, masks=masks.masks)


def page_of_training(result: Mapping[str, Any]) -> Page:
    """A page with the model's log evidence, exact or a bound."""
    rows = [[f"training, {result['n_train']:,} rows", typeset(result["log_evidence_train"], 4)]]
    if result["log_evidence_held_out"] is not None:
        rows.append([f"held out, {result['n_test']:,} rows", typeset(result["log_evidence_held_out"], 4)])
    bound = (
        "importance bound, 16 orders"
        if is_network(result["model"])
        else "importance-weighted bound, 1,024 draws"
    )
    what = "exact log evidence" if result["kind"] == "exact" else bound
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: {what}"
    notes = [*result["notes"], *notes_on_devices(result)]
    if result["dropped_columns"]:
        notes.append(f"dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["stopped"] is not None:
        notes.append(f"{result['stopped']}; the model is that of epoch {result['best_epoch']}")
    if result["resumed_from"] is not None:
        notes.append(f"resumed from the checkpoint after epoch {result['resumed_from']}")
    return Page("", title, parts=[parts.Table(["rows", "nats per row"], rows)], notes=notes)
