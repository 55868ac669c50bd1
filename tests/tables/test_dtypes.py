"""Models of rows in float32 give the numbers of float64 up to rounding, by every use and with any data."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from uses_of_models import MODELS, USES, NotHad, numbers, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:the importance weights"),
    pytest.mark.usefixtures("unchecked"),  # for speed: the calls are those of other tests
]
WITHOUT_HOLES = {"fit", "moments"}  # EM of so few rows may not converge, and moments need complete rows


def tolerance(name: str, use: str) -> float:
    """Torch draws other numbers in float32: in the training of a VAE, by the ELBO, and of its 0s and 1s."""
    drawn = use == "train by the ELBO" or ("VAE" in name and use.startswith(("train", "fit", "sample")))
    return 1.0 if drawn else 0.05 if use == "fit" else 2e-3


def _frame(x: np.ndarray) -> Any:
    return pytest.importorskip("pandas").DataFrame(x)


DATA: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy float64": lambda x: x,
    "numpy float32": lambda x: x.astype(np.float32),
    "numpy int64": lambda x: x.astype(np.int64),
    "a list": lambda x: x.tolist(),
    "pandas": _frame,
    "pandas int8": lambda x: _frame(x.astype(np.int8)),
    "torch float32": lambda x: torch.from_numpy(x).float(),
    "tokens float64": me.Tokens.from_array,
    "tokens float32": lambda x: me.Tokens.from_array(x, dtype=torch.float32),
    "tokens int64": lambda x: me.Tokens.from_array(x, dtype=torch.int64),
}


@cache
def fitted(name: str, dtype: torch.dtype) -> Any:
    model = MODELS[name](torch.float64)
    if not isinstance(model, me.models.VAE):
        model.fit(rows(40))
    return model.to(dtype).eval()


def answer(use: str, model: Any, data: Any) -> list[float]:
    try:
        return list(numbers(USES[use](model, data)))
    except NotHad:
        return []


@cache
def of_float64_data(use: str, name: str) -> list[float]:
    return answer(use, fitted(name, torch.float32), rows())


@pytest.mark.parametrize("name", MODELS)
def test_every_use_of_a_model_in_float32(name: str) -> None:
    single, double = fitted(name, torch.float32), fitted(name, torch.float64)
    for use in USES:
        x = rows(holes=use not in WITHOUT_HOLES)
        found, wanted = answer(use, single, x), answer(use, double, x)
        assert np.isfinite(found).all(), use
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance(name, use), err_msg=use)


@pytest.mark.parametrize("kind", DATA)
def test_any_kind_of_data(kind: str) -> None:
    data = DATA[kind](rows())
    for name in MODELS:
        for use in ("every size", "orderings", "score_masks", "log_evidence", "moments", "impute"):
            found = answer(use, fitted(name, torch.float32), data)
            wanted = of_float64_data(use, name) if found else []
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5, err_msg=f"{name}: {use}")
