"""--revision: a branch or a tag of a model on the hub, in place of which stands a cache on disk."""

import json
from pathlib import Path

import pytest

from command_line import CommandLine
from image_models import saved, small_vit_mae, smooth_images, write_images
from maskevidence.runs import read_run
from text_models import SENTENCES, save_bert


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub with two revisions of a BERT and of a ViT-MAE, and no network."""
    place = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for module in ("core.support.hub", "core.pretrained", "texts.loading"):
        monkeypatch.setattr(f"maskevidence.{module}.hub_reachable", lambda: False)
    for name in ("bert", "vit-mae"):
        for number, revision in enumerate(("main", "early")):
            folder = place / f"models--lab--{name}"
            snapshot = folder / "snapshots" / f"{number:040d}"
            (folder / "refs").mkdir(parents=True, exist_ok=True)
            (folder / "refs" / revision).write_text(snapshot.name)
            if name == "bert":
                save_bert(snapshot)
            else:
                saved(small_vit_mae(), snapshot)
            _scale_biases(snapshot / "model.safetensors", 1.0 + number)
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES))
    write_images(tmp_path / "images", smooth_images(12))
    return tmp_path


def _scale_biases(file: Path, factor: float) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(file)
    scaled = {name: factor * each if name.endswith("bias") else each for name, each in weights.items()}
    save_file(scaled, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("model", "data"),
    [("lab/bert", "texts.txt"), pytest.param("lab/vit-mae", "images", marks=pytest.mark.slow)],
    ids=["texts", "images"],
)
def test_a_revision_is_loaded_recorded_and_told_apart(
    run: CommandLine, hub: Path, model: str, data: str
) -> None:
    score = ("score", model, hub / data, "--json", "-")
    plain, early = (json.loads(run(*score, *more).out) for more in ((), ("--revision", "early")))
    assert plain["log_evidence"] != early["log_evidence"]
    for name, more in (("main", ()), ("early", ("--revision", "early"))):
        assert run("score", model, hub / data, "--out", hub / name, *more).code == 0
    assert read_run(hub / "early").manifest.revision == "early"
    assert read_run(hub / "early").estimate.log_evidence == pytest.approx(early["log_evidence"])
    refused = run("score", model, hub / data, "--out", hub / "early").error
    assert "revision none instead of early" in refused
    page = hub / "page.html"
    assert run("report", hub / "main", hub / "early", "--out", page).code == 0
    assert f"{model} (revision early)" in page.read_text()


def test_a_revision_that_is_not_there_or_of_a_folder_is_one_line(run: CommandLine, hub: Path) -> None:
    folder, texts = save_bert(hub / "own"), hub / "texts.txt"
    assert (
        "model 'lab/bert' of revision 'late'" in run("score", "lab/bert", texts, "--revision", "late").error
    )
    variants = ("variants", folder, hub / "none.csv", "--wild-type", "MKT")
    for words in (("score", folder, texts), ("check", folder, texts), variants):
        message = run(*words, "--revision", "main").error
        assert message == (
            f"--revision 'main' is of a model on the hub, and {str(folder)!r} is a folder; leave it out"
        )


def test_a_revision_is_not_that_of_another_tokenizer(run: CommandLine, hub: Path) -> None:
    both = ("--revision", "early", "--tokenizer", "lab/vocabulary", "--limit", 2)
    folder = hub / "hub" / "models--lab--vocabulary"
    save_bert(folder / "snapshots" / "0")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0")
    assert run("score", "lab/bert", hub / "texts.txt", *both).code == 0
    own_class = ("--model-class", "transformers:BertForMaskedLM")
    scores = [
        json.loads(run("score", "lab/bert", hub / "texts.txt", *both, *more, "--json", "-").out)
        for more in ((), own_class)
    ]
    assert scores[0]["log_evidence"] == pytest.approx(scores[1]["log_evidence"])
