"""The fingerprint of a transformer covers its configuration, and nothing that differs between two loads."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from image_models import saved, small_vit_mae
from maskevidence.core.model import fingerprint, weights_fingerprint
from maskevidence.images.masked_image import MaskedImage
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.whole_words import WholeWords
from text_models import SENTENCES, small_bert, small_tokenizer

pytest.importorskip("transformers", reason="the extra hf is not installed")


def bert_with(folder: Path, **changes: Any) -> MaskedLM:
    """The model in a folder, loaded from a copy whose config.json has these changes."""
    copy = folder.with_name(f"copy-{len(list(folder.parent.iterdir()))}")
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | changes))
    return MaskedLM.from_pretrained(copy, device="cpu")


def test_of_a_masked_language_model(tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    in_memory = MaskedLM(small_bert(tokenizer), tokenizer)
    in_memory.save(tmp_path / "bert")
    own = fingerprint(in_memory)
    assert fingerprint(MaskedLM.from_pretrained(tmp_path / "bert", device="cpu")) == own
    assert fingerprint(bert_with(tmp_path / "bert")) == own
    incidental = {"_name_or_path": "a/b", "transformers_version": "4.0", "architectures": ["Other"]}
    assert fingerprint(bert_with(tmp_path / "bert", **incidental)) == own
    for change in ({"layer_norm_eps": 1e-3}, {"hidden_act": "relu"}, {"num_attention_heads": 4}):
        changed = bert_with(tmp_path / "bert", **change)
        assert weights_fingerprint(changed) == weights_fingerprint(in_memory)
        assert fingerprint(changed) != own
    other_mask = MaskedLM(in_memory.network, mask_token_id=7)
    assert fingerprint(other_mask) != own


def test_of_whole_words(tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    models = [MaskedLM(small_bert(tokenizer, hidden_act=name), tokenizer) for name in ("gelu", "relu")]
    gelu, relu = (fingerprint(WholeWords(model, model.encode(SENTENCES))) for model in models)
    assert gelu != relu


def test_of_a_masked_image_model(tmp_path: Path) -> None:
    folder = saved(small_vit_mae(), tmp_path / "vit-mae")
    model = MaskedImage.from_pretrained(folder, device="cpu")
    own = fingerprint(model)
    config = json.loads((folder / "config.json").read_text())
    for change, same in (
        ({}, True),
        ({"mask_ratio": 0.5}, True),  # each call sets its own
        ({"norm_pix_loss": True}, False),
        ({"layer_norm_eps": 1e-3}, False),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        assert (fingerprint(MaskedImage.from_pretrained(folder, device="cpu")) == own) == same


def test_of_a_function_of_images() -> None:
    def model(patch_size: int) -> MaskedImage:
        return MaskedImage.from_callable(lambda x, _: x, image_size=8, patch_size=patch_size, channels=1)

    assert fingerprint(model(2)) == fingerprint(model(2)) != fingerprint(model(4))
