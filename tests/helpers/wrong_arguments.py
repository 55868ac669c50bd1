"""Every argument of every public function and constructor, replaced by values that it was not made for.

`python tests/helpers/wrong_arguments.py` prints what comes of all of them.
"""

import inspect
import io
import math
import numbers
import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from beartype import BeartypeConf
from beartype.door import is_bearable

import maskevidence as me

X = np.random.default_rng(0).normal(size=(12, 3)) @ np.array(
    [[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]]
)
GAUSSIAN = me.models.Gaussian(n_features=3).fit(X)
ESTIMATE = me.estimate_evidence(GAUSSIAN, X, me.RandomSize(2))
TOKENS = me.Tokens.from_array(X)
MASKED = torch.ones(12, 3, dtype=torch.bool)
IDS = me.Tokens(torch.zeros(2, 3, dtype=torch.int64), MASKED[:2], ~MASKED[:2], torch.arange(2))
SECONDS = 5  # of CPU


def text_model() -> Any:
    """Uniform letters."""
    return me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)


def _pieces() -> tuple[Any, ...]:
    return (
        None,
        True,
        0,
        -1,
        2.5,
        2**70,
        -(2**70),
        math.nan,
        math.inf,
        -math.inf,
        1j,
        "",
        "x",
        "nan",
        b"x",
        [],
        (),
        {},
        set(),
        [None],
        ["x", 1],
        [[1.0], [2.0, 3.0]],
        [1j],
        {"x": 1},
        object(),
        len,
        int,
        Path("x"),
        range(0),
        iter(range(0)),
        np.int64(3),
        np.float32(0.5),
        np.bool_(True),
        np.array([]),
        np.zeros((2, 2, 2)),
        np.full((12, 3), 1j),
        np.array(["a", "b"]),
        np.array([None, {}]),
        torch.zeros(2),
        ESTIMATE,
        GAUSSIAN,
    )


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """By public name, the function or class and arguments that it takes."""
    m, d = me.models, me.data
    small = {"n_features": 3, "n_components": 1}
    given: list[tuple[Any, dict[str, Any]]] = [
        (
            me.check_model,
            {"model": GAUSSIAN, "data": X, "texts": None, "seed": 0, "tolerance": 0.1},
        ),
        (me.compare, {"estimates": {"a": ESTIMATE, "b": ESTIMATE}}),
        (me.decode, {"model": text_model(), "tokens": IDS, "policy": "confidence"}),
        (me.draw_missing, {"model": GAUSSIAN, "x": X, "draws": 2, "refit": False}),
        (me.estimate_evidence, {"model": GAUSSIAN, "data": X}),
        (
            me.evidence_of_rows,
            {"maker": m.BayesianRegression(), "x": X, "y": X[:, 0], "design": me.Orderings(2)},
        ),
        (me.fit, {"model": lambda: m.PPCA(3, 1), "x": X, "objective": me.RandomSize(1, 1), "epochs": 1}),
        (me.impute, {"model": GAUSSIAN, "x": X}),
        (me.information, {"model": GAUSSIAN, "data": X, "a": 0, "b": [1], "given": 2, "seed": 0}),
        (me.information_matrix, {"model": "gaussian", "data": X, "target": 1, "rate": 0.1, "folds": 3}),
        (me.o_information, {"model": GAUSSIAN, "data": X, "columns": [0, 1, 2]}),
        (me.order_mixture, {"log_conditionals": np.zeros((4, 2))}),
        (me.pair_texts, {"first": ESTIMATE, "second": ESTIMATE}),
        (me.pool, {"estimates": [1.0, 2.0], "standard_errors": [1.0, 1.0]}),
        (me.save_run, {"estimate": ESTIMATE, "folder": "run", "overwrite": True}),
        (me.score_masks, {"model": GAUSSIAN, "tokens": TOKENS, "masked": MASKED}),
        (me.select, {"data": X, "families": ["ppca", "gaussian"], "components": [1], "folds": 2}),
        (me.shared_masks, {"design": me.EverySize(1), "key": me.MaskKey(0, "shared"), "n_tokens": 3}),
        (me.total_correlation, {"model": GAUSSIAN, "data": X, "columns": [0, 1], "given": 2}),
        (me.subtract_sets, {"first": ESTIMATE, "second": ESTIMATE}),
        (me.variants, {"model": text_model(), "wild_type": "AC", "mutants": ["A1C"], "draws": 2}),
        (me.look, {"table": X, "model": "gaussian", "minutes": 0.1}),
        (me.wrong_cells, {"model": "gaussian", "table": X, "folds": 2}),
        (m.load, {"folder": "model"}),
        (d.describe, {"table": "table.csv"}),
        (d.digits, {}),
        (d.read_images, {"source": "images"}),
        (d.read_table, {"path": "table.csv"}),
        (d.read_texts, {"source": "texts.txt"}),
        (me.Elbo, {}),
        (me.EverySize, {}),
        (me.Exhaustive, {}),
        (me.FixedRate, {"rate": 0.5}),
        (me.LeaveOneOut, {}),
        (me.Likelihood, {}),
        (me.LogSizes, {}),
        (me.MaskKey, {}),
        (me.MaskedObjective, {"design": me.EverySize(1)}),
        (me.Orderings, {}),
        (me.Policy, {}),
        (me.Precise, {"target_se": 0.1}),
        (me.RandomSize, {}),
        (me.Rates, {"rates": (0.1, 0.5)}),
        (me.RowsModel, {"predict": len}),
        (m.Annealing, {}),
        (m.BayesianRegression, {}),
        (m.BernoulliPCA, small),
        (m.CellMass, {"model": GAUSSIAN, "cells": X}),
        (m.DirichletMultinomial, {"alpha": [1.0, 1.0]}),
        (m.FactorAnalysis, small),
        (m.Gaussian, {"n_features": 3}),
        (m.Grid, {}),
        (m.Importance, {}),
        (m.ImportanceSampling, {}),
        (m.KernelGaussian, {"n_features": 3, "n_centres": 2}),
        (m.MaskedNetwork, {"n_features": 3, "width": 4}),
        (m.MixedKernelGaussian, {"n_features": 3}),
        (m.MixtureTransition, {"n_features": 3}),
        (m.PPCA, small),
        (m.PosteriorDraws, {"sample": len, "log_likelihood": len}),
        (m.VAE, {**small, "hidden": (4,)}),
        (m.MaskedImage, {"model": None}),
        (m.MaskedLM, {"model": len, "mask_token_id": 4}),
        (m.ReconstructionLoss, {"model": None}),
        (m.WholeWords, {"model": text_model(), "texts": None}),
    ]
    return {function.__name__: (function, arguments) for function, arguments in given}


class Outcome(NamedTuple):
    """What came of one call."""

    kind: str  # "told", "raw", "silent", "slow", "ok"
    function: str
    argument: str
    value: str
    message: str


def outcomes(every: int = 1) -> Iterator[Outcome]:
    """What comes of every so many-th replacement."""
    number, pieces = 0, _pieces()
    for name, (function, valid) in calls().items():
        parameters = inspect.signature(function).parameters
        for argument, parameter in parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            for value in pieces:
                number += 1
                if number % every == 0:
                    given = {
                        k: v() if inspect.isfunction(v) and k == "model" else v for k, v in valid.items()
                    }
                    kind, message = _called(
                        function, given | {argument: value}, _is_right(name, argument, value, parameter)
                    )
                    yield Outcome(kind, name, argument, _short(value), message)


def _short(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:40].replace("\n", " ")


def _is_right(function: str, argument: str, value: Any, parameter: inspect.Parameter) -> bool:
    """Whether an argument may be this value, by another reader of annotations."""
    hint = parameter.annotation
    if isinstance(hint, str):
        return True
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if argument == "seed" and whole:
        return 0 <= value < 2**63 or function == "MaskKey"
    parts = get_args(hint) or (hint,)
    if isinstance(value, bool | np.bool_):
        return bool in parts or hint in (Any, object)
    if (
        isinstance(value, complex)
        or (isinstance(value, np.ndarray) and value.dtype.kind == "c")
        or (isinstance(value, list) and value == [1j])
    ):
        return False
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return hint in (Any, object) or parameter.default == math.inf
    if isinstance(value, int | float) and value < 0 and hint not in (Any, object):
        return argument in ("start", "mask_token_id", "missing")
    if whole and abs(value) >= 2**63 and hint not in (Any, object):
        return False
    if isinstance(value, np.integer | np.floating | np.ndarray | torch.Tensor):
        value = value.tolist() if "jaxtyping" not in str(hint) else value
    if isinstance(value, set | list | torch.Tensor) and "jaxtyping" not in str(hint):  # as a list
        value = tuple(value) if "tuple" in str(hint) else [*value]
    return is_bearable(value, hint, conf=BeartypeConf(is_pep484_tower=True))


def _called(function: Callable[..., Any], given: dict[str, Any], is_right: bool) -> tuple[str, str]:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            answer = function(**given)
        if isinstance(answer, me.CheckReport) and answer.failed:
            return "told", ""
    except TimeoutError:
        return "slow", ""
    except me.MaskEvidenceError as error:
        return "told", str(error)
    except Exception as error:
        return "raw", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ("ok" if is_right else "silent"), ""


def write_files() -> None:
    """The files that the calls read, in the working directory."""
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv("table.csv", index=False)
    Path("texts.txt").write_text("one\ntwo\n")
    GAUSSIAN.save("model")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files()
        found = list(outcomes(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
    for outcome in found:
        if outcome.kind in ("raw", "silent", "slow"):
            sys.stdout.write(" | ".join(outcome) + "\n")
    sys.stdout.write(f"{len(found)} {Counter(outcome.kind for outcome in found)}\n")
