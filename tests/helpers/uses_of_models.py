"""Every model of rows and every use of one in Python, for tests of dtypes and devices.

A use takes a model and data and returns numbers; it raises `NotHad` if the model lacks a method for it.
"""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import maskevidence as me
from maskevidence.core.model import as_tokens
from maskevidence.tables.base import TableModel

D = 4
_SMALL = me.models.ImportanceSampling(8, steps=2, prior_draws=2, fills=2)


def _vae(likelihood: str, rule: object) -> Callable[[torch.dtype], TableModel]:
    return lambda dtype: me.models.VAE(
        likelihood=likelihood, n_features=D, n_components=2, hidden=(4,), conditioning=rule, dtype=dtype
    )


MODELS: dict[str, Callable[[torch.dtype], TableModel]] = {
    "Gaussian": lambda dtype: me.models.Gaussian(n_features=D, dtype=dtype),
    "PPCA": lambda dtype: me.models.PPCA(D, 2, seed=1, dtype=dtype),
    "FactorAnalysis": lambda dtype: me.models.FactorAnalysis(D, 1, seed=1, dtype=dtype),
    "BernoulliPCA": lambda dtype: me.models.BernoulliPCA(D, 1, seed=1, encoder=True, dtype=dtype),
    "BernoulliPCA, importance": lambda dtype: me.models.BernoulliPCA(
        D, 2, seed=1, integration=me.models.Importance(64), encoder=True, dtype=dtype
    ),
    "VAE": _vae("gaussian", _SMALL),
    "Bernoulli VAE": _vae("bernoulli", _SMALL),
}


class NotHad(Exception):
    """The model lacks this use."""


def rows(n: int = 8, holes: bool = False) -> np.ndarray:
    """Rows of 0 and 1, valid for every model; no column is determined by the others."""
    x = np.random.default_rng(15).integers(2, size=(n, D)).astype(np.float64)
    if holes:
        x[0, 1] = x[5, 3] = np.nan
    return x


def _needing(name: str, use: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Limit a use to models with a given method."""

    def of_some(model: Any, data: Any) -> Any:
        if not hasattr(model, name):
            raise NotHad
        return use(model, data)

    return of_some


def _tokens(model: Any, data: object) -> me.Tokens:
    """The data as tokens, on the processor unless they are tokens already."""
    return data if isinstance(data, me.Tokens) else me.Tokens.from_array(data)


def _table(data: object) -> object:
    if isinstance(data, me.Tokens):
        raise NotHad
    return data


def _estimate(design: me.MaskDesign, masks: str = "own") -> Callable[[Any, Any], Any]:
    return lambda model, data: me.estimate_evidence(model, data, design, masks=masks).log_evidence


def _curve(model: Any, data: Any) -> Any:
    return me.estimate_evidence(model, data, me.EverySize(2)).curve.score


def _score_masks(model: Any, data: Any) -> Any:
    tokens = _tokens(model, data)
    masked = tokens.maskable.clone()
    masked[:, -1] = False
    with torch.no_grad():
        return me.score_masks(model, tokens, masked & tokens.maskable)


def _compare(model: Any, data: Any) -> Any:
    estimates = {str(seed): me.estimate_evidence(model, data, me.EverySize(2), seed=seed) for seed in (1, 2)}
    return me.compare(estimates).log_evidence


def _moments(model: Any, data: Any) -> Any:
    moments = me.GaussianMoments.from_rows(_table(data))
    model = me.models.load(_saved(model)).to(model._like().device)
    me.fit(model, moments, me.MaskedObjective(me.EverySize(1), masks="shared"), epochs=1)
    return me.estimate_evidence(model, moments, me.EverySize(1)).log_evidence


def _impute(model: Any, data: Any) -> Any:
    filled = me.impute(model, _table(data))
    return filled.values, filled.variance


def _latent_means(model: Any, data: Any) -> Any:
    latent = model.latent_means(as_tokens(model, data))
    return latent, model.means_given(latent)


def _refine(model: Any, data: Any) -> Any:
    with torch.no_grad():
        return model.integrate(as_tokens(model, data)).log_evidence


def _annealed(model: Any, data: Any) -> Any:
    rule = me.models.Annealing(chains=2, temperatures=3, leapfrog=1)
    return model.annealed_evidence(data, annealing=rule).log_evidence


def _saved(model: Any) -> str:
    folder = tempfile.mkdtemp()
    model.save(folder)
    return folder


def _trained(objective: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """Train a copy of the model for one epoch of two batches, with held-out rows."""

    def use(model: Any, data: Any) -> Any:
        copy = me.models.load(_saved(model)).to(model._like().device)
        history = me.fit(copy, data, objective(), epochs=1, batch_size=7, held_out=data)
        return history.objective, history.held_out

    return use


def _fit(model: Any, data: Any) -> Any:
    copy = me.models.load(_saved(model)).to(model._like().device)
    copy.fit(_table(data), **({"epochs": 1} if isinstance(copy, me.models.VAE) else {}))
    return copy.score_samples(data)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "every size": _estimate(me.EverySize(2)),
    "shared masks": _estimate(me.EverySize(2), "shared"),
    "random sizes": _estimate(me.RandomSize(4)),
    "orderings": _estimate(me.Orderings(2)),
    "shared orderings": _estimate(me.Orderings(2), "shared"),
    "leave-one-out": _estimate(me.LeaveOneOut()),
    "exhaustive": _estimate(me.Exhaustive()),
    "a rate": _estimate(me.FixedRate(0.5, 2)),
    "the default design": lambda model, data: me.estimate_evidence(model, data).log_evidence,
    "curve": _curve,
    "score_masks": _score_masks,
    "compare": _compare,
    "moments": _needing("score_moments", _moments),
    "impute": _impute,
    "sample": lambda model, data: model.sample(3),
    "score_samples": lambda model, data: model.score_samples(_table(data)),
    "log_evidence": _needing("log_evidence", lambda model, data: model.log_evidence(as_tokens(model, data))),
    "latent means": _needing("latent_means", _latent_means),
    "integrals": _needing("refine", _refine),
    "annealed evidence": _needing("annealed_evidence", _annealed),
    "importance evidence": _needing(
        "importance_evidence", lambda model, data: model.importance_evidence(data, samples=8).log_evidence
    ),
    "fit": _fit,
    "train by random sizes": _trained(lambda: me.RandomSize(1, 1)),
    "train by orderings": _trained(lambda: me.Orderings(1)),
    "train by shared masks": _trained(lambda: me.MaskedObjective(me.EverySize(1), masks="shared")),
    "train by the likelihood": _needing("log_evidence", _trained(me.Likelihood)),
    "train by the ELBO": _needing("elbo", _trained(me.Elbo)),
}


def numbers(answer: Any) -> Iterator[float]:
    """Iterate over all numbers in a nested answer."""
    if isinstance(answer, dict | tuple | list):
        for part in answer.values() if isinstance(answer, dict) else answer:
            yield from numbers(part)
    else:
        array = answer.detach().cpu().numpy() if isinstance(answer, torch.Tensor) else np.asarray(answer)
        yield from array.astype(np.float64).ravel().tolist()
