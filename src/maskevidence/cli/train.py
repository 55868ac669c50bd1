"""maskevidence train: train a model by masked prediction, by its exact likelihood, or by a bound on it."""

from collections.abc import Mapping
from typing import Annotated, Any

from rich.console import Console

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import Json
from maskevidence.kinds.training_options import TrainingOptions
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable, print_page

_LITTLE = 0.05  # nats per token that a context is worth


def train(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20 or bernoulli-vae:20; masked-lm or "
            "vit-mae for transformers.",
        ),
    ],
    data: Annotated[str, Argument("DATA", "Rows, texts or images, as `score` takes them.")],
    options: TrainingOptions,
    json: Json = None,
) -> None:
    """Train MODEL on DATA by masked prediction, and write it into a folder that `score` reads.

    Columns are centred and scaled for training, and the model is saved in the units of the data; models of
    0 and 1 take the values as they are. The same command resumes an interrupted training from its
    checkpoint.

    Examples:

        maskevidence train ppca:8 digits --out runs/masked

        maskevidence train ppca:8 digits --objective likelihood --out runs/exact

        maskevidence score runs/masked digits --test-fraction 0.2

        maskevidence train masked-lm python-topics --out runs/bert

        maskevidence train vit-mae mnist:train --out runs/vit-mae
    """
    use_threads(options.threads)
    from maskevidence.tasks.train import train as train_task

    trained = train_task(model, data, options)
    if trained is None:  # another process of this training reports
        return
    screen, result = output.console(json), trained.result
    show = {"masked-lm": _show_texts, "vit-mae": _show_images}.get(model, _show_rows)
    with output.read_from(trained.folder / "train.json" if trained.finished_before else None, screen):
        show(screen, result)
    if trained.finished_before:
        screen.print(f"This training in {trained.folder} was finished before; --overwrite trains again.")
    else:
        screen.print(f"Written to {trained.folder}: {', '.join(trained.files)}")
    output.write_json(result, json)


def _show_rows(screen: Console, result: Mapping[str, Any]) -> None:
    rows = [[f"training, {result['n_train']:,} rows", f"{result['log_evidence_train']:.4f}"]]
    if result["log_evidence_held_out"] is not None:
        rows.append([f"held out, {result['n_test']:,} rows", f"{result['log_evidence_held_out']:.4f}"])
    what = "exact log evidence" if result["kind"] == "exact" else "importance-weighted bound, 1,024 draws"
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: {what}"
    screen.print(FittingTable(Table(["rows", "nats per observation"], rows, title)))
    _show_devices(screen, result)
    if result["dropped_columns"]:
        screen.print(f"note: dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["stopped"] is not None:
        screen.print(f"note: {result['stopped']}; the model is that of epoch {result['best_epoch']}")
    if result["resumed_from"] is not None:
        screen.print(f"note: resumed from the checkpoint after epoch {result['resumed_from']}")


def _show_texts(screen: Console, result: Mapping[str, Any]) -> None:
    recipe = result["recipe"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, {recipe['steps']:,} "
        f"steps of {recipe['batch_size']} texts, {result['n_train']:,} texts to train on"
    )
    _show_transformer(screen, title, result, "held out:")
    held_out = result["held_out"]
    if held_out is not None and "frequencies_per_token" in held_out:
        frequencies = held_out["frequencies_per_token"]
        screen.print(f"the frequencies of tokens alone give {frequencies:.4f} nats per token")
        if held_out["per_token"] < frequencies + _LITTLE:
            screen.print(
                "note: the model does hardly better than these, so that it has not learnt from the context; "
                "give more --steps or another --learning-rate"
            )


def _show_images(screen: Console, result: Mapping[str, Any]) -> None:
    recipe, held_out = result["recipe"], result["held_out"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, "
        f"{result['n_patches']} patches of {result['patch_size']}×{result['patch_size']} pixels, trained on "
        f"{result['n_train']:,} images, {recipe['steps']:,} steps of {recipe['batch_size']}"
    )
    n_scored = 0 if held_out is None else held_out["n_observations"]
    _show_transformer(screen, title, result, f"{n_scored:,} of {result['n_test']:,} images held out:")
    if held_out is not None and "mean_image_loss" in held_out:
        screen.print(
            f"reconstruction loss, mean over mask sizes: {held_out['reconstruction_loss_mean']:.4f}; of "
            f"the mean image: {held_out['mean_image_loss']:.4f}"
        )


def _show_devices(screen: Console, result: Mapping[str, Any]) -> None:
    devices = result["devices"]
    if len(devices) > 1:
        screen.print(
            f"note: trained on {' and '.join(devices)}; a training on one of them differs by rounding and in "
            "what is drawn there"
        )


def _show_transformer(screen: Console, title: str, result: Mapping[str, Any], heading: str) -> None:
    """Print the notes of a training and, below a heading, the held-out estimate."""
    screen.print(title, style="bold")
    for note in result["notes"]:
        screen.print(f"note: {note}")
    _show_devices(screen, result)
    if result["resumed_from"] is not None:
        screen.print(f"note: resumed from the checkpoint after step {result['resumed_from']}")
    if result["held_out"] is None:
        screen.print("nothing was held out")
        return
    from maskevidence.evidence.result import page_of_numbers

    screen.print(heading)
    print_page(screen, page_of_numbers(result["held_out"]))
