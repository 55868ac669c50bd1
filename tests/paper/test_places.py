"""The figures on the pretended device: nothing mixes, and the numbers agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command_line import Result
from maskevidence import EverySize, FixedRate, GaussianMoments, MaskDesign, RandomSize, Rates
from maskevidence.core.table import Table
from maskevidence.huggingface.recipe import Recipe
from maskevidence.images.image_files import Images
from maskevidence.models import VAE
from maskevidence.texts.masked_lm import MaskedLM
from paper import figure_1, figure_2, figure_3_lower, figure_3_upper, figure_4, figure_6, table_1
from paper.berts import SmallText
from paper.figure_5_left import figure_5_left
from paper.figures import computing_on, put
from paper.known_noise import log_evidence, published
from text_models import SENTENCES, small_bert, small_tokenizer


def of_table_1() -> list[float]:
    result = table_1.table_1((4,), masks_per_size=(1,)).numbers
    return [result["true"], *result["rows"][0]["estimates"]]


def of_figure_1() -> Any:
    return list(figure_1.figure_1((4,), max_masks=2).numbers["mean_difference"].values())


def of_figure_2() -> list[float]:
    x, model = published(60, 5, 2)
    designs: tuple[MaskDesign, ...] = (EverySize(1), RandomSize(1, 1), FixedRate(0.2, 1))
    runs = [figure_2.train_together(x, design, (1, 2), 3, [0, 3]) for design in designs]
    moments = GaussianMoments.from_rows(x)
    ends = [log_evidence(model, moments), figure_2.optimum_of_rate(moments, (1, 2))]
    return [value for run in runs for part in (run.objective, run.bias) for value in part.ravel()] + ends


def of_figure_3_upper() -> list[float]:
    values = (np.random.default_rng(0).random((20, 6)) < 0.5).astype(float)
    table = Table("rows", values, tuple("abcdef"), np.arange(20))
    runs = [figure_3_upper.train(table, method, 0, 1, [0, 1]) for method in figure_3_upper.METHODS]
    return [float(value) for run in runs for value in run.log_evidence]


def of_figure_3_lower() -> list[float]:
    model = put(VAE(n_features=4, n_components=figure_3_lower.N_COMPONENTS, seed=1))
    x = np.random.default_rng(0).random((6, 4))
    model.set_units(x)
    numbers = list(figure_3_lower.simple_estimates(model, x, 4).values())
    return [*numbers, figure_3_lower.code_size(model, x)]


def of_figure_4() -> Any:
    return figure_4.figure_4((4,), masks_per_size=(1, 1, 1)).numbers["panels"][0]["area"]


def of_figure_5_left() -> Any:
    numbers = figure_5_left((4,), epochs=2, masks_per_size=1).numbers
    return [*numbers["area"], *numbers["exact"], numbers["true_model"]]


ROWS: dict[str, Callable[[], Any]] = {
    "table-1": of_table_1,
    "figure-1": of_figure_1,
    "figure-2": of_figure_2,
    "figure-3-upper": of_figure_3_upper,
    "figure-3-lower": of_figure_3_lower,
    "figure-4": of_figure_4,
    "figure-5-left": of_figure_5_left,
}


@pytest.mark.parametrize(
    "word", ["table-1", "figure-4", *(pytest.param(word, marks=pytest.mark.slow) for word in ROWS)]
)
def test_figures_of_rows_on_a_device(
    device: torch.device, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_1, "RATE_WIDTH", 20)
    monkeypatch.setattr(figure_1, "WIDTHS", (5,))
    here = ROWS[word]()
    with computing_on(torch.device("cpu")):
        assert list(ROWS[word]()) == list(here)
    with computing_on(device):
        np.testing.assert_allclose(ROWS[word](), here, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_the_small_bert_on_a_device(device: torch.device) -> None:
    tokenizer = small_tokenizer()
    tokens = MaskedLM(small_bert(tokenizer), tokenizer).tokens(SENTENCES)
    text = SmallText(tokenizer, tokens, tokens, device)
    assert text.trained(RandomSize(1, 1), Recipe(steps=1, batch_size=2, warmup=0)).device == device


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.slow
def test_small_masked_autoencoders_on_a_device(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 1), dtype=np.uint8)
    images = Images("noise", pixels, np.arange(24))
    monkeypatch.setattr("maskevidence.data.read_images", lambda *_words, **_options: images)
    data = figure_6.ImageSet("noise", "noise", None, 2, 1, 24)
    curves = []
    for where in (torch.device("cpu"), device):
        with computing_on(where):
            panel = figure_6._small(data, 0, Rates((0.5,), 1), 4)
        curves.append([panel.random.estimate.log_evidence, panel.trained.estimate.log_evidence])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4)


@pytest.mark.parametrize("word", ["table-1", "all"])
def test_a_device_that_cannot_be_used_is_one_line(
    paper: Callable[..., Result], word: str, tmp_path: Path
) -> None:
    error = paper(word, "--device", "gpu", "--out", tmp_path / "a").error
    assert "device 'gpu' cannot be used; give cpu, cuda" in error
    assert not (tmp_path / "a").exists()
