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
from maskevidence.models.image.masked_image import MaskedImage
from maskevidence.models.text.masked_lm import MaskedLM
from text_models import small_bert, small_tokenizer


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


def refused(load: Callable[[Path], object], folder: Path) -> str:
    """The one-line error of loading a folder."""
    with pytest.raises(me.InputError) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_language_model_with_more_layers_than_its_config(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = small_lm(tmp_path / "bert")
    edit_config(folder, num_hidden_layers=1)
    message = refused(MaskedLM.from_pretrained, folder)
    first = "bert.encoder.layer.1.attention.output.LayerNorm.bias"
    assert f"16 weights (the first is {first}) that BertForMaskedLM has no place for; give the" in message


def test_an_image_model_with_more_layers_than_its_config(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = saved(small_vit_mae(), tmp_path / "vit-mae")
    edit_config(folder, num_hidden_layers=1)
    message = refused(MaskedImage.from_pretrained, folder)
    assert "16 weights (the first is vit." in message
    assert "that ViTMAEForPreTraining has no place for" in message


def test_a_published_checkpoint_of_bert_has_a_pooler_and_a_second_head(tmp_path: Path) -> None:
    """As google-bert/bert-base-uncased has them; no masked-LM head reads them."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = small_lm(tmp_path / "bert")
    before = MaskedLM.from_pretrained(folder)
    of_bert = ("bert.pooler.dense.weight", "bert.pooler.dense.bias", "bert.embeddings.position_ids")
    second = ("cls.seq_relationship.weight", "cls.seq_relationship.bias", "sop_classifier.classifier.bias")
    add_weights(folder, *of_bert, *second)
    tokens = before.tokens(["the rain falls"])
    after = MaskedLM.from_pretrained(folder)
    assert torch.equal(
        *(model.log_conditionals(tokens, tokens.maskable).detach() for model in (before, after))
    )
    assert after.notes == before.notes == ()


def test_a_checkpoint_of_several_tasks_is_loaded_with_a_note(tmp_path: Path) -> None:
    """Its classifier, and its further heads beside the masked-LM head, are not read."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = small_lm(tmp_path / "bert")
    before = MaskedLM.from_pretrained(folder)
    add_weights(folder, "classifier.weight", "cls.tasks.0.weight", "bert.pooler.dense.weight")
    after = MaskedLM.from_pretrained(folder)
    weights = "2 weights (the first is classifier.weight)"
    assert after.notes == (f"the checkpoint also holds {weights} that BertForMaskedLM does not read",)
    tokens = before.tokens(["the rain falls"])
    assert torch.equal(
        *(model.log_conditionals(tokens, tokens.maskable).detach() for model in (before, after))
    )


@pytest.mark.parametrize("name", ["bert.extra.weight", "cls.predictions.extra.weight"])
def test_a_weight_inside_the_backbone_or_the_head_is_an_error(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    folder = small_lm(tmp_path / "bert")
    add_weights(folder, name, "classifier.weight")
    message = refused(MaskedLM.from_pretrained, folder)
    assert f"1 weight (the first is {name}) that BertForMaskedLM has no place for" in message


def test_a_saved_model_of_rows(tmp_path: Path) -> None:
    me.models.PPCA(4, 2).save(tmp_path)
    add_weights(tmp_path, "encoder.2.weight", "encoder.1.weight")
    message = refused(me.models.load, tmp_path)
    assert "do not fit: PPCA has no place for 2 weights (the first is encoder.1.weight)" in message


def test_a_saved_vae_with_fewer_layers_than_its_weights(tmp_path: Path) -> None:
    me.models.VAE(n_features=4, n_components=1, hidden=(3, 3)).save(tmp_path)
    arguments = json.loads((tmp_path / "config.json").read_text())["arguments"]
    edit_config(tmp_path, arguments=arguments | {"hidden": [3]})
    message = refused(me.models.load, tmp_path)
    assert "do not fit: VAE has no place for 4 weights (the first is decoder.4.bias)" in message


def test_weights_that_are_missing_are_counted_too(tmp_path: Path) -> None:
    me.models.PPCA(4, 2).save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({"mean": weights["mean"]}, tmp_path / "model.safetensors")
    assert "do not fit: PPCA misses 2 weights (the first is loadings)" in refused(me.models.load, tmp_path)
