"""Words of the command line mean the same in Python, and what means nothing is one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from maskevidence.core.tokens import Tokens
from refusals import one_line

MODEL = me.models.PPCA(n_features=6, n_components=2, seed=1)
X = MODEL.sample(60, seed=2)


@pytest.mark.parametrize(
    ("word", "design"),
    [
        ("random-size", me.RandomSize()),
        ("every-size", me.EverySize()),
        ("fixed-rate:0.15", me.FixedRate(0.15)),
    ],
)
def test_a_design_by_its_word(word: str, design: me.MaskDesign) -> None:
    by_word, given = me.estimate_evidence(MODEL, X, word), me.estimate_evidence(MODEL, X, design)
    assert (by_word.design, by_word.log_evidence) == (given.design, given.log_evidence)


def test_components_by_a_word_or_a_number() -> None:
    words = [
        [str(candidate.name) for candidate in me.select(X, ["ppca", "gaussian"], given).candidates]
        for given in ("1-2", [1, 2], 2)
    ]
    assert words[0] == words[1]
    assert set(words[2]) == {"ppca:2", "gaussian"}


def test_numbers_that_stand_for_missing_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n?,3\n-999,4\n5,6\n")
    table = me.data.read_table(tmp_path / "a.csv", missing=["?", -999])
    assert np.isnan(table.values[:, 0]).tolist() == [False, True, True, False]


class Complex(torch.nn.Module):
    conditionals = "learned"

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        return torch.where(masked, -1.0 + 1j, 0.0)


HOLES = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
FRAME = pd.DataFrame(X, columns=list("abcdef"))
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: me.estimate_evidence(MODEL, X, "random-sise"), "random-sise"),
    (lambda: me.estimate_evidence(MODEL, X, me.RandomSize), "design=the class RandomSize; give a design"),  # type: ignore[arg-type]
    (lambda: me.estimate_evidence(MODEL, X, 3), "design=3; give a design such as"),  # type: ignore[arg-type]
    (lambda: me.estimate_evidence(Complex(), X), "complex"),
    (lambda: me.select(X, components=[1.5]), "components=1.5; give a whole number"),  # type: ignore[list-item]
    (lambda: me.select(X, components=[1], folds=2.5), "folds=2.5; give a whole number"),  # type: ignore[arg-type]
    (lambda: me.select(X, components=[1], seed=-1), "seed=-1; give a whole number of 0 or more"),
    (lambda: me.check_model(MODEL, X, seed=-1), "seed=-1; give a whole number of 0 or more"),
    (lambda: me.decode(MODEL, MODEL.tokens(X), me.RandomSize()), "takes a policy alone, not RandomSize"),
    (lambda: MODEL.draw_missing(HOLES, draws=10**9), "1,000,000,000 draws of a table need about"),
    *(
        (lambda model=model, scale=scale: model.fit(X * scale), "column 0 reaches .* give it in another unit")
        for model in (me.models.PPCA(6, 2), me.models.FactorAnalysis(6, 2), me.models.Gaussian(n_features=6))
        for scale in (1e200, 1e-200)
    ),
    *(
        (lambda scale=scale: me.select(X * scale, components=[1, 2]), "column 0 reaches")
        for scale in (1e200, 1e-200)
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_means_nothing_is_one_line(call: Callable[[], Any], message: str, unchecked: None) -> None:
    one_line(call, match=message)
