"""The entries on texts, from their data to their numbers, on the pretended device."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from maskevidence.core.masks.sizes import FixedRate, RandomSize
from maskevidence.texts.masked_lm import MaskedLM
from paper import figure_5_right, masking_rates
from paper.berts import SmallText
from paper.figures import computing_on, current_device
from paper.masking_rates import RANDOM, USUAL
from paper.table_2 import table_2
from text_models import SENTENCES, small_bert, small_tokenizer

# no memory to pin for a pretended device
pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument")


def of_table_2() -> Any:
    figure = table_2((1,), model="a model", n_blocks=25, block_size=20)
    return [area["area"] for area in figure.numbers["areas"].values()]


def of_figure_5_right() -> Any:
    figure = figure_5_right.figure_5_right(steps=1, limit=1)  # its BERT-base is that of table 2
    return [value for area in figure.numbers["areas"].values() for value in area]


def of_masking_rates() -> Any:
    numbers = masking_rates.masking_rates((1,), steps=1, limit=1).numbers
    return [*numbers["log_evidence"][USUAL], *numbers["log_evidence"][RANDOM]]


@pytest.mark.usefixtures("glue")
@pytest.mark.parametrize(
    "entry",
    [
        of_table_2,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (of_figure_5_right, of_masking_rates)),
    ],
)
def test_entries_on_texts_on_a_device(
    entry: Callable[[], Any], device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = small_tokenizer()
    bert = small_bert(tokenizer, hidden_size=16, intermediate_size=16, num_hidden_layers=1)
    tokens = MaskedLM(bert, tokenizer).tokens(SENTENCES * 3, block_size=16)

    def loaded(_name: str, *, device: torch.device) -> MaskedLM:
        return MaskedLM(copy.deepcopy(bert).to(device), tokenizer)

    monkeypatch.setattr(
        MaskedLM, "from_pretrained", loaded
    )  # transformers cannot load onto a pretended device

    def text(limit: int | None = None) -> SmallText:
        return SmallText(tokenizer, tokens, tokens[:limit], current_device())

    for module in (figure_5_right, masking_rates):
        monkeypatch.setattr(module, "small_text", text)
    monkeypatch.setattr(masking_rates, "SIZES", masking_rates.SizesById(4, 4))
    monkeypatch.setattr(masking_rates, "DESIGNS", {USUAL: FixedRate(0.15, 1), RANDOM: RandomSize(1, 1)})
    numbers = []
    for where in (torch.device("cpu"), device):
        with computing_on(where):
            numbers.append(entry())
    np.testing.assert_allclose(numbers[1], numbers[0], rtol=1e-4)
