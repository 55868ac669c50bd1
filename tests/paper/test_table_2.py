"""Table 2 and the right half of Figure 5 on small data: areas by hand, rates, pre-trained weights."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import Result
from paper.bert_curves import RATES, RateCurve, curve_of, mean_curve, published_curves, rate_curve
from paper.berts import blocks_of
from paper.figure_5_right import figure_5_right
from paper.table_2 import _SPREAD_OF_NOISE, _flat, table_2
from text_models import SENTENCES, small_bert, small_tokenizer

PRINTED = {
    ("AX", "random"): -5245.31,
    ("CoLA", "random"): -5283.52,
    ("QNLI", "random"): -5343.98,
    ("MRPC", "random"): -5362.21,
    ("AX", "pretrained"): -1715.75,
    ("CoLA", "pretrained"): -1657.68,
    ("QNLI", "pretrained"): -1770.28,
    ("MRPC", "pretrained"): -1773.45,
}


@pytest.fixture(scope="module")
def model() -> me.models.MaskedLM:
    tokenizer = small_tokenizer()
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    return me.models.MaskedLM(small_bert(tokenizer, **shape), tokenizer)


def test_the_published_curves_give_the_printed_table() -> None:
    curves = published_curves()
    assert {key: round(curve.area, 2) for key, curve in curves.items()} == pytest.approx(PRINTED, abs=0.011)


def test_the_areas_and_their_error() -> None:
    rate = np.repeat(np.arange(99), 4)
    deviation = np.tile([0.5, -0.5, 0.5, -0.5], 99)
    curve = RateCurve(np.linspace(-1.0, -3.0, 99), np.arange(396), rate, deviation)
    assert curve.area == pytest.approx(512 * 0.01 * -198)
    assert curve.mean_times_width == pytest.approx(512 * -2)
    assert curve.spread == pytest.approx(2.0)
    variance = 0.25 * 396 / 391  # for the five fitted coefficients
    assert curve.area_se == pytest.approx(512 * 0.01 * math.sqrt(396 / 395 * 99 * variance / 4))
    assert curve.score_se == pytest.approx(math.sqrt(variance / 4))
    both = mean_curve([curve, RateCurve(curve.score - 1, np.arange(396), rate, deviation)])
    assert both.area == pytest.approx(512 * 0.01 * -247.5)
    assert both.area_se == pytest.approx(curve.area_se)


@pytest.mark.parametrize(
    ("n_blocks", "rates_per_block"), [(64, 4), pytest.param(20, 99, marks=pytest.mark.slow), (25, 4)]
)
def test_the_error_of_the_area_is_its_scatter(n_blocks: int, rates_per_block: int) -> None:
    """Simulate 2,000 sets of blocks with a spread of 1 nat, and masks with a spread of 0.7 in a block."""
    generator = np.random.default_rng(5)
    block = np.repeat(np.arange(n_blocks), rates_per_block)
    rate = np.arange(len(block)) * 25 % 99
    effects = generator.normal(size=(2000, n_blocks))[:, block]
    scores = effects + 0.7 * generator.normal(size=effects.shape) - 2 * RATES[rate] ** 4
    curves = [curve_of(block, rate, score) for score in scores]
    scatter = np.var([curve.area for curve in curves], ddof=1)
    estimated = np.mean([curve.area_se**2 for curve in curves])
    assert estimated == pytest.approx(scatter, rel=0.12)  # the scatter itself is known to 3 %


def test_blocks_cover_all_rates_and_agree_with_one_mask_at_a_time(model: me.models.MaskedLM) -> None:
    tokens = model.tokens(SENTENCES * 60, block_size=20)[:50]
    curve = rate_curve(model, tokens, 2, seed=3)
    assert curve.n_masks.sum() == 100
    assert curve.n_masks.min() == 1
    rate = np.arange(100) * 25 % 99
    assert len(set(rate[:99])) == 99
    # The design itself draws the mask of block 0 at its second rate.
    n = tokens.n_tokens.numpy()[:1]
    design = me.Rates(tuple(RATES.tolist()))
    size = np.maximum(1, np.floor(RATES[rate[1:2]] * n + 1e-9).astype(int))
    masked = design.masked(
        me.MaskKey(3), tokens.ids.numpy()[:1], rate[1:2], size, tokens.maskable[:1].numpy()
    )
    with torch.no_grad():
        score = me.score_masks(model, tokens[:1], torch.from_numpy(masked))
    assert curve.n_masks[rate[1]] == 1
    assert curve.score[rate[1]] == pytest.approx(float(score), rel=1e-5)
    with pytest.raises(me.InputError, match="do not cover 99 rates"):
        rate_curve(model, tokens[:10], 2)


def test_blocks_come_from_each_set_in_turn(model: me.models.MaskedLM) -> None:
    texts = {"a": ["the cat"] * 50, "b": ["rain falls"] * 50}
    tokens = blocks_of(model, texts, 5, block_size=12)
    assert tokens.ids.tolist() == [0, 1, 2, 3, 4]
    cat = model.tokenizer.convert_tokens_to_ids("cat")
    assert [(row == cat).any().item() for row in tokens.values] == [True, True, True, False, False]
    with pytest.raises(me.InputError, match="b has 1 blocks of 12 tokens, 3 are needed"):
        blocks_of(model, {"a": texts["a"], "b": ["rain falls"] * 5}, 5, block_size=12)


def test_a_pre_trained_model_is_compared_with_random_weights(
    glue: Path, model: me.models.MaskedLM, paper: Callable[..., Result]
) -> None:
    folder = glue / "model"
    model.save(folder)
    target = glue / "a.json"
    result = paper(
        "table-2", "--model", folder, "--quick", "--seeds", "1,2", "--out", glue / "o", "--json", target
    )
    assert result.code == 0, result
    areas = json.loads(target.read_text())["numbers"]["areas"]
    keys = {
        f"{name}, {weights}"
        for name in ("QNLI", "MRPC")
        for weights in ("random, seed 1", "random, seed 2", "pretrained")
    }
    assert set(areas) == keys | {"all, mean of random"}
    assert areas["QNLI, random, seed 1"]["area"] != areas["QNLI, random, seed 2"]["area"]
    with (glue / "o" / "table_2.csv").open() as file:
        rows = [
            row for row in csv.DictReader(file) if (row["text"], row["weights"]) == ("QNLI", "pretrained")
        ]
    assert 5.12 * sum(float(row["score"]) for row in rows) == pytest.approx(areas["QNLI, pretrained"]["area"])
    assert (glue / "o" / "table_2.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.slow
def test_the_right_half_of_figure_5_without_bert_base(glue: Path) -> None:
    """Without a vocabulary the figure has the published curves and the small BERT alone."""
    figure = figure_5_right(steps=2, limit=5)
    assert [claim.holds for claim in figure.claims[:4]] == [True] * 4
    assert "no vocabulary of BERT-base" in figure.claims[-1].measured
    assert {row["weights"] for row in figure.rows} == {"random", "trained"}


def test_missing_text_or_vocabulary_is_an_error(glue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(me.InputError, match="no vocabulary of BERT-base"):
        table_2((1,))
    monkeypatch.setenv("MASKEVIDENCE_DATA", str(glue / "nothing"))
    with pytest.raises(me.InputError, match="there is no GLUE text"):
        table_2((1,))


@pytest.mark.parametrize(
    ("spread", "score_se", "verdict"),
    [
        (0.131, 0.02, "holds"),
        (0.25, 0.188, "holds"),  # noise only adds to the spread
        (1.142, 0.188, "too short to tell"),  # of --quick: the range of 99 scores that differ by noise alone
        (2.0, 0.188, "does not hold"),
        (2.0, float("nan"), "too short to tell"),
    ],
)
def test_noise_makes_no_verdict_on_a_flat_curve(spread: float, score_se: float, verdict: str) -> None:
    curve = SimpleNamespace(spread=spread, score_se=score_se)
    assert _flat("flat", curve).verdict == verdict
    if spread > 1:
        rng = np.random.default_rng(0)
        assert np.ptp(rng.normal(size=(2000, 99)), axis=1).max() < _SPREAD_OF_NOISE + 0.5
