"""maskevidence train: train a model by masked prediction, by its exact likelihood, or by a bound on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from maskevidence import kinds
from maskevidence.commands.result import Result
from maskevidence.kinds.declaring import Argument, one_of_kind
from maskevidence.kinds.options import ImageTraining, TextTraining, TrainingOptions
from maskevidence.kinds.words import kind_of_training
from maskevidence.show.parts import Page, Part, Table

_LITTLE = 0.05  # nats per token that a context is worth


@dataclass(frozen=True)
class Trained(Result):
    """The result of a training.

    Attributes:
        result: what `train.json` holds.
        folder: the folder with the model.
        files: the names of the files that were written.
        finished_before: whether the folder held the finished training, so that nothing was trained.
    """

    result: dict[str, Any]
    folder: Path
    files: tuple[str, ...] = ()
    finished_before: bool = False

    def page(self) -> Page:
        """The evidence of the data, and what was noted."""
        pages = {"rows": _page_of_rows, "texts": _page_of_texts, "images": _page_of_images}
        return pages[kind_of_training(self.result["model"])](self.result)

    def to_dict(self) -> Mapping[str, Any]:
        """What `train.json` holds."""
        return self.result

    @property
    def written(self) -> Sequence[str]:
        """The files of the model."""
        if self.finished_before:
            return [f"This training in {self.folder} was finished before; --overwrite trains again."]
        return [f"Written to {self.folder}: {', '.join(self.files)}"]

    @property
    def file(self) -> Path | None:
        """The result of a training that was finished before."""
        return self.folder / "train.json" if self.finished_before else None


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
) -> Trained | None:
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

    Args:
        model: a word such as "ppca:8", "masked-lm" or "vit-mae".
        data: rows, texts or images.
        options: how the model is trained: `RowTraining`, `TextTraining` or `ImageTraining`.

    Returns:
        The result; None in the other processes of a training that `torchrun` started.

    Raises:
        InputError: options that belong to other models, or a model, data or a folder that cannot be used.
        NumericalError: a loss or a parameter that is not finite.
    """
    options = one_of_kind(kind_of_training(model), model, options, TrainingOptions)
    if isinstance(options, TextTraining):
        trained = kinds.texts_training.train(data, options)
    elif isinstance(options, ImageTraining):
        trained = kinds.images_training.train(data, options)
    else:
        trained = kinds.rows_training.train(model, data, options)
    return None if trained is None else Trained(**vars(trained))


def _page_of_rows(result: Mapping[str, Any]) -> Page:
    """The exact log evidence of a model of rows, or a bound on it."""
    rows = [[f"training, {result['n_train']:,} rows", f"{result['log_evidence_train']:.4f}"]]
    if result["log_evidence_held_out"] is not None:
        rows.append([f"held out, {result['n_test']:,} rows", f"{result['log_evidence_held_out']:.4f}"])
    what = "exact log evidence" if result["kind"] == "exact" else "importance-weighted bound, 1,024 draws"
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: {what}"
    notes = _notes_on_devices(result)
    if result["dropped_columns"]:
        notes.append(f"dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["stopped"] is not None:
        notes.append(f"{result['stopped']}; the model is that of epoch {result['best_epoch']}")
    if result["resumed_from"] is not None:
        notes.append(f"resumed from the checkpoint after epoch {result['resumed_from']}")
    return Page("", title, parts=[Table(["rows", "nats per observation"], rows)], notes=notes)


def _page_of_texts(result: Mapping[str, Any]) -> Page:
    """The held-out evidence of a masked language model, beside what the frequencies of tokens give."""
    recipe = result["recipe"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, {recipe['steps']:,} "
        f"steps of {recipe['batch_size']} texts, {result['n_train']:,} texts to train on"
    )
    more: list[Part] = []
    held_out, notes = result["held_out"], []
    if held_out is not None and "frequencies_per_token" in held_out:
        frequencies = held_out["frequencies_per_token"]
        more.append(f"the frequencies of tokens alone give {frequencies:.4f} nats per token")
        if held_out["per_token"] < frequencies + _LITTLE:
            notes.append(
                "the model does hardly better than these, so that it has not learnt from the context; "
                "give more --steps or another --learning-rate"
            )
    return _page_of_transformer(title, result, "held out:", more, notes)


def _page_of_images(result: Mapping[str, Any]) -> Page:
    """The held-out evidence of a masked image model, and its reconstruction loss."""
    recipe, held_out = result["recipe"], result["held_out"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, "
        f"{result['n_patches']} patches of {result['patch_size']}×{result['patch_size']} pixels, trained on "
        f"{result['n_train']:,} images, {recipe['steps']:,} steps of {recipe['batch_size']}"
    )
    n_scored = 0 if held_out is None else held_out["n_observations"]
    more: list[Part] = []
    if held_out is not None and "mean_image_loss" in held_out:
        more.append(
            f"reconstruction loss, mean over mask sizes: {held_out['reconstruction_loss_mean']:.4f}; of "
            f"the mean image: {held_out['mean_image_loss']:.4f}"
        )
    return _page_of_transformer(title, result, f"{n_scored:,} of {result['n_test']:,} images held out:", more)


def _notes_on_devices(result: Mapping[str, Any]) -> list[str]:
    """A note on a training that went on elsewhere, or none."""
    devices = result["devices"]
    if len(devices) < 2:
        return []
    return [
        f"trained on {' and '.join(devices)}; a training on one of them differs by rounding and in what is "
        "drawn there"
    ]


def _page_of_transformer(
    title: str, result: Mapping[str, Any], heading: str, more: Sequence[Part], notes: Sequence[str] = ()
) -> Page:
    """The notes of a training and, below a heading, the held-out estimate."""
    of_training = [*result["notes"], *_notes_on_devices(result)]
    if result["resumed_from"] is not None:
        of_training.append(f"resumed from the checkpoint after step {result['resumed_from']}")
    if result["held_out"] is None:
        return Page("", title, parts=["nothing was held out"], notes=of_training)
    from maskevidence.evidence.result import page_of_numbers

    page = page_of_numbers(result["held_out"])
    parts = [heading, f"{page.headline} {page.aside}", *page.parts, *more]
    return Page("", title, parts=parts, notes=[*of_training, *page.notes, *notes])
