"""A model of rows gives the same answer in any units.

evidence(x + c) = evidence(x), and evidence(s x) = evidence(x) - D log s. A shift by 1e12 leaves float64 a
resolution of 1e-4, so that the data are whole numbers with a spread of about 1000, which stay exact.
Bernoulli models are left out: their tokens are 0 and 1, which have no units.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.tables.base import TableModel

D = 4
SHIFT, SCALES = 1e12, (1e-100, 1e100)
SMALL = 2.0**-13  # whole numbers times this are below 1, so that no square of them times 1e100 is infinite
EPOCHS = 3
NEW: dict[str, Callable[[torch.dtype], TableModel]] = {
    "Gaussian": lambda dtype: me.models.Gaussian(n_features=D, dtype=dtype),
    "PPCA": lambda dtype: me.models.PPCA(D, 2, seed=1, dtype=dtype),
    "FactorAnalysis": lambda dtype: me.models.FactorAnalysis(D, 1, seed=1, dtype=dtype),
    "VAE": lambda dtype: me.models.VAE(n_features=D, n_components=2, hidden=(4,), dtype=dtype),
}
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-3}  # nats per observation; of sums of some 10 nats
every_model = pytest.mark.parametrize("name", NEW)
every_dtype = pytest.mark.parametrize("dtype", ROUNDING, ids=["float64", "float32"])


def whole_numbers(n: int = 60, holes: bool = False) -> np.ndarray:
    """Correlated rows of whole numbers, spread about 1000."""
    rng = np.random.default_rng(0)
    x = np.round(1000 * (rng.normal(size=(n, 2)) @ rng.normal(size=(2, D)) + 0.5 * rng.normal(size=(n, D))))
    if holes:
        x[::7, 1] = x[3::11, 2] = np.nan
    return x


def fitted(name: str, dtype: torch.dtype, x: np.ndarray) -> TableModel:
    model = NEW[name](dtype)
    return model.fit(x, epochs=EPOCHS) if isinstance(model, me.models.VAE) else model.fit(x)


def evidences(model: TableModel, x: np.ndarray) -> list[float]:
    """The mean log evidence of the rows by every way that the model has."""
    designs = (me.EverySize(2), me.Orderings(2))
    estimates = [me.estimate_evidence(model, x, design).log_evidence for design in designs]
    estimates += [me.estimate_evidence(model, me.Tokens.from_array(x), me.EverySize(2)).log_evidence]
    estimates.append(float(model.score_samples(x).mean()))
    if not isinstance(model, me.models.VAE) and not np.isnan(x).any():
        moments = me.GaussianMoments.from_rows(x)
        estimates.append(me.estimate_evidence(model, moments, me.EverySize(2)).log_evidence)
    return estimates


@every_model
@every_dtype
@pytest.mark.parametrize("holes", [False, True], ids=["complete", "holes"])
def test_a_shift_changes_nothing(name: str, dtype: torch.dtype, holes: bool) -> None:
    x = whole_numbers(holes=holes)
    before = evidences(fitted(name, dtype, x), x)
    after = evidences(fitted(name, dtype, x + SHIFT), x + SHIFT)
    np.testing.assert_allclose(after, before, rtol=0, atol=3 * ROUNDING[dtype])


@every_model
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("holes", [False, True], ids=["complete", "holes"])
def test_a_scale_moves_it_by_its_log(name: str, scale: float, holes: bool) -> None:
    x = SMALL * whole_numbers(holes=holes)
    before = np.array(evidences(fitted(name, torch.float64, x), x))
    after = evidences(fitted(name, torch.float64, scale * x), scale * x)
    n_tokens = (~np.isnan(x)).sum() / len(x)
    np.testing.assert_allclose(after, before - n_tokens * math.log(scale), rtol=0, atol=1e-6)


@every_model
@every_dtype
def test_imputed_and_drawn_values_move_with_the_data(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    x = whole_numbers(holes=True)
    one, other = fitted(name, dtype, x), fitted(name, dtype, x + SHIFT)
    here, there = one.impute(x), other.impute(x + SHIFT)
    np.testing.assert_allclose(there.values - SHIFT, here.values, rtol=0, atol=0.02)
    np.testing.assert_allclose(there.variance, here.variance, rtol=1e-4)
    np.testing.assert_allclose(other.sample(9) - SHIFT, one.sample(9), rtol=0, atol=0.02)
    other.save(tmp_path)
    loaded = me.models.load(tmp_path)
    np.testing.assert_array_equal(loaded.score_samples(x + SHIFT), other.score_samples(x + SHIFT))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["ppca:2", "vae:2"])
@pytest.mark.parametrize("command", ["score", "train"])
def test_on_the_command_line(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    x = SMALL * whole_numbers()

    def answers(name: str, table: np.ndarray) -> np.ndarray:
        np.save(f"{name}.npy", table)
        options = ["--design", "every-size:2"]
        if command == "train":
            options = ["--epochs", EPOCHS, "--out", f"runs/{name}"]
        result = run(command, word, f"{name}.npy", *options, "--json", "-")
        assert result.code == 0, result.err
        found = json.loads(result.out)
        return np.array([found[key] for key in found if key.startswith("log_evidence")])

    before = answers("x", x)
    assert len(before) == (2 if command == "train" else 1)
    rounding = ROUNDING[torch.float32 if word == "vae:2" else torch.float64]
    for name, table, scale in (
        ("shifted", x / SMALL + SHIFT, 1 / SMALL),
        ("large", SCALES[1] * x, SCALES[1]),
        ("small", SCALES[0] * x, SCALES[0]),
    ):
        moved = answers(name, table) + D * math.log(scale)
        np.testing.assert_allclose(moved, before, rtol=0, atol=3 * rounding)
