"""Weights that backbone or head have no place for are an error; those beside them are one note."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import maskevidence as me
from image_models import saved, small_vit_mae
from maskevidence.images.masked_image import MaskedImage
from maskevidence.texts.masked_lm import MaskedLM
from refusals import one_line
from text_models import small_bert, small_tokenizer

pytest.importorskip("transformers", reason="the extra hf is not installed")


def small_lm(folder: Path) -> Path:
    MaskedLM(small_bert(small_tokenizer()), small_tokenizer()).save(folder)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def add_weights(folder: Path, *names: str) -> None:
    weights = load_file(folder / "model.safetensors")
    extra = {name: torch.ones(2) for name in names}
    save_file(weights | extra, folder / "model.safetensors", metadata={"format": "pt"})


BERT = (MaskedLM.from_pretrained, small_lm)
VIT_MAE = (MaskedImage.from_pretrained, lambda folder: saved(small_vit_mae(), folder))
PPCA = (me.models.load, lambda folder: me.models.PPCA(4, 2).save(folder))


def one_layer(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=1)


def with_weights(*names: str) -> Callable[[Path], None]:
    return lambda folder: add_weights(folder, *names)


def fewer(folder: Path) -> None:
    """Only the first weight in the order of names."""
    weights = load_file(folder / "model.safetensors")
    save_file({"mean": weights["mean"]}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (
            BERT,
            one_layer,
            "16 weights .the first is bert.encoder.layer.1.attention.output.LayerNorm.bias. that Bert",
        ),
        (VIT_MAE, one_layer, "16 weights .the first is vit..* that ViTMAEForPreTraining has no place for"),
        (
            BERT,
            with_weights("bert.extra.w", "classifier.w"),
            "1 weight .the first is bert.extra.w. that BertForMask",
        ),
        (
            BERT,
            with_weights("cls.predictions.extra.w"),
            "1 weight .the first is cls.predictions.extra.w. that Bert",
        ),
        (
            PPCA,
            with_weights("encoder.2", "encoder.1"),
            "fit: PPCA has no place for 2 weights .the first is encoder.1.",
        ),
        (PPCA, fewer, "do not fit: PPCA misses 2 weights .the first is loadings."),
    ],
)
def test_weights_without_a_place_are_one_line(
    model: Any, change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    load, save = model
    save(tmp_path)
    change(tmp_path)
    one_line(lambda: load(tmp_path), match=message)


POOLER = ("bert.pooler.dense.weight", "bert.pooler.dense.bias", "bert.embeddings.position_ids")
HEADS = ("cls.seq_relationship.weight", "cls.seq_relationship.bias", "sop_classifier.classifier.bias")


@pytest.mark.parametrize(
    ("names", "notes"),
    [
        ((*POOLER, *HEADS), ()),  # as google-bert/bert-base-uncased has them
        (
            ("classifier.weight", "cls.tasks.0.weight", POOLER[0]),
            (
                "the checkpoint also holds 2 weights (the first is classifier.weight) that BertForMaskedLM "
                "does not read",
            ),
        ),
    ],
)
def test_weights_of_other_heads_are_not_read(
    names: tuple[str, ...], notes: tuple[str, ...], tmp_path: Path
) -> None:
    before = MaskedLM.from_pretrained(small_lm(tmp_path))
    add_weights(tmp_path, *names)
    after = MaskedLM.from_pretrained(tmp_path)
    assert (before.notes, after.notes) == ((), notes)
    tokens = before.tokens(["the rain falls"])
    answers = (model.log_conditionals(tokens, tokens.maskable).detach() for model in (before, after))
    assert torch.equal(*answers)
