"""Arguments that a public function was not made for are told in one line, and never give a number."""

import inspect
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.show.shown import Shown
from wrong_arguments import calls, outcomes, write_files

MAX_RAW = 30
MADE_BY_US = {  # results and what a user does not build
    *("Bracket", "Curve", "EvidenceOfRows", "Finding", "GaussianMoments", "History", "OrderSpread", "Pooled"),
    *("ScoreTable", "Tokens", "VariantPlan", "VariantScores", "EvidenceBound", "Images", "Table", "Texts"),
    *("CellAt", "ColumnDescription", "TableDescription"),
}


def _found(every: int) -> Counter[str]:
    write_files()
    listed = list(outcomes(every))
    wrong = [outcome for outcome in listed if outcome.kind in ("silent", "slow")]
    assert not wrong
    assert all("\n" not in outcome.message for outcome in listed if outcome.kind == "told")
    return Counter(outcome.kind for outcome in listed)


@pytest.mark.parametrize(
    ("every", "most"), [(37, 4), pytest.param(1, MAX_RAW, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_wrong_arguments_are_told(
    every: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    monkeypatch.chdir(tmp_path)
    counted = _found(every)
    assert counted["raw"] <= most
    assert counted["told"] > 10 * counted["raw"]


def test_every_public_function_and_class_is_called() -> None:
    names = {
        name
        for package in (me, me.models, me.data)
        for name in dir(package)
        if inspect.isfunction(found := getattr(package, name))
        or (
            isinstance(found, type)
            and not issubclass(found, BaseException | Shown)
            and not getattr(found, "_is_protocol", False)
            and not inspect.isabstract(found)
        )
    }
    assert names - MADE_BY_US <= {*calls()}


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert me.RandomSize(np.int64(3)) == me.RandomSize(3)  # type: ignore[arg-type]
    assert type(me.RandomSize(np.int64(3)).draws) is int  # type: ignore[arg-type]


@pytest.mark.parametrize("build", [me.models.VAE, me.models.Gaussian])
def test_counts_of_models_are_whole_numbers(build: type, unchecked: None) -> None:
    with pytest.raises(me.InputError, match=r"n_features=2\.5; give a whole number"):
        build(n_features=2.5)
