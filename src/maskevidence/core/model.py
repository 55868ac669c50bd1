"""The protocol of a masked model, which predicts hidden from visible tokens; fingerprints of models."""

import inspect
import json
from collections.abc import Callable
from itertools import chain
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, device, nn

from maskevidence.core.errors import InputError, NumericalError, unknown_name
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import Tokens, columns_among

Conditionals = Literal["exact", "approximate", "learned", "transformed"]
Placed = TypeVar("Placed", Tokens, GaussianMoments)

# Base measures; models may name others, such as "density per level (0..255) of each pixel".
MASS = "probability mass"
DENSITY = "density per unit of each column"
CELLS = "mass of each cell over its step"
# Relative rounding tolerance by bytes per number: rows in one call may change each other's sums slightly.
_ROUNDING = {8: 1e-7, 4: 2e-4, 2: 0.05}


def as_tokens(model: object, data: object, like: Tensor | None = None) -> Tokens:
    """Convert data to the tokens that a model takes.

    Args:
        model: a model; if its class has a method `tokens(data)`, that method reads the data.
        data: `Tokens`, which are returned as they are, or whatever the model's `tokens` reads; for other
            models an (N, D) table with NaN where a value is missing.
        like: a tensor whose dtype and device a table gets if the model has no `tokens` method; by default
            float64 on the CPU.

    Example:
        >>> as_tokens(None, [[0.5, float("nan")]]).n_tokens.tolist()
        [1]
    """
    if isinstance(data, Tokens):
        return data
    if callable(getattr(type(model), "tokens", None)):
        return model.tokens(data)  # type: ignore[attr-defined]
    if like is None:
        return Tokens.from_array(data)
    return Tokens.from_array(data, dtype=like.dtype).to(like.device)


def for_limits(model: Any, data: object) -> tuple[Any, tuple[str, ...]]:
    """The model that also scores the limits of a table, such as <0.5, if there are any; and notes."""
    with_limits = getattr(type(model), "with_limits", None)
    return with_limits(model, data) if with_limits and getattr(data, "limits", None) else (model, ())


def columns_read(model: object, data: object) -> list[int] | None:
    """The position in the data of each of the model's columns by name; None if columns go by position.

    Example:
        >>> import maskevidence as me, pandas as pd
        >>> model = me.models.Gaussian(n_features=2)
        >>> model.columns = ["a", "b"]
        >>> columns_read(model, pd.DataFrame([[1.0, 2.0, 3.0]], columns=["b", "c", "a"]))
        [2, 0]
    """
    return columns_among(getattr(model, "columns", None), getattr(model, "n_features", 0), data)


def moments_of(model: object, moments: GaussianMoments) -> GaussianMoments:
    """Select the model's columns from moments, in the model's order.

    Example:
        >>> import maskevidence as me, pandas as pd
        >>> moments = GaussianMoments.from_rows(pd.DataFrame({"b": [1.0, 3.0], "a": [5.0, 5.0]}))
        >>> model = me.models.Gaussian(n_features=2)
        >>> model.columns = ["a", "b"]
        >>> moments_of(model, moments).mean.tolist()
        [5.0, 2.0]
    """
    places = columns_read(model, moments)
    return moments if places is None else moments.select(places)


def device_of(model: object) -> device | None:
    """The device of a model's first parameter or buffer; None if it has neither.

    Example:
        >>> import maskevidence as me
        >>> device_of(me.models.Gaussian(n_features=2))
        device(type='cpu')
    """
    if not isinstance(model, nn.Module):
        return None
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), None)


def active_dropout(model: object) -> list[str]:
    """The classes of submodules that are in training mode and answer differently there.

    Example:
        >>> network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
        >>> active_dropout(network), active_dropout(network.eval())
        (['Dropout'], [])
    """
    names = []
    for part in model.modules() if isinstance(model, nn.Module) else ():
        drops = "Dropout" in type(part).__name__ and getattr(part, "p", getattr(part, "share", 1.0)) > 0
        if part.training and (drops or isinstance(part, nn.modules.batchnorm._BatchNorm)):
            names.append(type(part).__name__)
    return names


def refuse_training_mode(model: object) -> None:
    """Raise an InputError if a model's dropout is on."""
    if names := active_dropout(model):
        raise InputError(
            f"{type(model).__name__} is in training mode, in which {names[0]} changes its answers; call "
            "eval() first"
        )


def rounding(model: Any, answer: Tensor | None = None) -> float:
    """The rounding tolerance for the least precise parameter, buffer or answer of a model.

    Example:
        >>> rounding(torch.nn.Linear(2, 1)), rounding(torch.nn.Linear(2, 1).double())
        (0.0002, 1e-07)
    """
    tensors = [answer] if answer is not None else []
    for name in ("parameters", "buffers"):
        listed: Callable[[], Any] | None = getattr(model, name, None)
        tensors += list(listed()) if callable(listed) else []
    sizes = [tensor.element_size() for tensor in tensors if tensor.is_floating_point()]
    return _ROUNDING.get(min(sizes, default=8), _ROUNDING[2])


def to_device_of(model: object, data: Placed) -> Placed:
    """Move tokens or moments to the device of a torch module; no change for other models.

    Example:
        >>> import maskevidence as me
        >>> to_device_of(me.models.Gaussian(n_features=1), Tokens.from_array([[0.5]])).values.device
        device(type='cpu')
    """
    target = device_of(model)
    return data if target is None else data.to(target)


def check_conditionals(model: "MaskedModel") -> None:
    """Check a model's attribute `conditionals`, which determines the kind of its estimates.

    Example:
        >>> import maskevidence as me
        >>> check_conditionals(me.models.Gaussian(n_features=2))
    """
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class; give a model of it, such as {model.__name__}()")
    if isinstance(model, str):
        raise InputError(
            f"{model!r} is a word; give a model, such as me.models.PPCA(n_features=4, n_components=2).fit(x)"
        )
    if inspect.iscoroutinefunction(getattr(model, "log_conditionals", None)):
        raise InputError(
            f"log_conditionals of {type(model).__name__} is an async method; write def instead of async def"
        )
    word = getattr(model, "conditionals", None)
    if word not in get_args(Conditionals) or not hasattr(model, "log_conditionals"):
        if word is not None and hasattr(model, "log_conditionals"):
            raise unknown_name(f"conditionals of {type(model).__name__},", str(word), get_args(Conditionals))
        name = type(model).__name__
        if not callable(getattr(model, "log_conditionals", None)):
            raise InputError(f"{name} has no method `log_conditionals`; wrap it: {how_to_wrap(model)}")
        raise InputError(
            f"{name} has no attribute `conditionals`; set it to one of {', '.join(get_args(Conditionals))}"
        )


def how_to_wrap(model: object) -> str:
    """Advise how to wrap an object that is not a `MaskedModel`, from its methods and submodules.

    Example:
        >>> print(how_to_wrap(nn.ModuleDict({"encoder": nn.Linear(3, 2), "decoder": nn.Linear(1, 3)})))
        me.models.VAE(model.encoder, model.decoder)
    """
    if callable(getattr(model, "get_output_embeddings", None)):
        return "me.models.MaskedLM(model, tokenizer), or me.models.MaskedImage(model) for a ViT-MAE"
    if isinstance(model, nn.Module) and {"encoder", "decoder"} <= dict(model.named_children()).keys():
        return "me.models.VAE(model.encoder, model.decoder)"
    if callable(getattr(model, "get_params", None)):
        return (
            "maskevidence.sklearn has densities for scikit-learn's estimators: fit one, and give its model_"
        )
    return "in a class with `conditionals` and `log_conditionals(tokens, masked)`, see docs/own_model.md"


@runtime_checkable
class MaskedModel(Protocol):
    """The protocol that users implement to get curves, evidence and comparisons for their models.

    Attributes:
        conditionals: "exact" if `log_conditionals` are the conditionals of one joint density, "approximate"
            if they approximate the conditionals of a joint density, "learned" if no joint density has them,
            "transformed" if the model scores something else than the tokens (every sum is then `pseudo`).

    A model should also have the attribute `base_measure`: `MASS` ("probability mass") if it gives
    probabilities of discrete values, otherwise the density and its unit in words, such as `DENSITY` ("density
    per unit of each column"). Estimates with different base measures are not compared, and a comparison with
    a model that lacks the attribute says so.

    Further methods are optional and found by their names: those of the protocols below, and

    - `log_evidence(tokens)`: log p of the maskable tokens given the context, in closed form or by an accurate
      integral, nats per observation, shape (B,);
    - `score_orderings(tokens, ranks)`: the scores of the nested masks {j maskable: rank_j < M}, M = 1..D, all
      at once, nats, shape (B, D); columns beyond an observation's number of tokens are 0;
    - `batches(n_present)`: which masks share a call, for example by a token budget. For pairs of observation
      and mask, with the number of tokens of each observation, shape (n_pairs,), context included, it yields
      the positions of the pairs of each call; each position occurs once;
    - `log_leave_one_out(tokens, visible)`: log p of each visible token given the other visible ones, nats,
      shape (B, D), 0 elsewhere, in much less time than one by one;
    - `log_cells(tokens, masked, step)`: log [P(x_j - δ_j/2 < X_j < x_j + δ_j/2 | x_visible) / δ_j], with
      steps of shape (D,), nats, shape (B, D), 0 elsewhere;
    - `values_of(column)`: all values of a discrete column, shape (V,); None for a column of numbers;
    - `notes_on(tokens, data=None)`: notes for the user on the answers for these observations, one sentence
      each; `data` is what they were read from, with the names and words that tokens lack;
    - `refine(tokens)`: refine a numerical integral for these tokens in place, and return one sentence on the
      result; `estimate_evidence` refines a copy of the model;
    - `elbo(tokens, generator=None, samples=1)`: a bound of log p of the maskable tokens from draws of an
      encoder q(z | x), nats, shape (B,);
    - `score_moments(moments, masked)`: the score of each of P masks, (P, D), averaged over the complete rows
      behind `GaussianMoments`, nats, shape (P,);
    - `launched(tokens, masked)`: `log_conditionals` of tokens in the processor's memory, on the model's
      device, which may still be computing them;
    - `timed_batches(n_present)`: calls like those of `batches`, whose sizes may depend on the time of earlier
      calls, with the attribute `call_note` on the result in one sentence. Each call is made before the next
      is taken.
    """

    conditionals: Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        Visible are the tokens that are present and not masked, `tokens.visible(masked)`; the answer must
        not depend on the values of the others.
        """
        ...


def conditionals_of(model: MaskedModel, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """Ask a model for the conditionals of one mask per observation; check the masks and the answer.

    Returns:
        Shape (B, D), nats; the log-probability of each masked token.
    """
    answer = asked(model, model.log_conditionals, tokens, masked)
    check_masses(model, tokens, answer)
    return answer


def asked(
    model: MaskedModel, ask: Callable[..., Any], tokens: Tokens, masked: Bool[Tensor, "B D"]
) -> Float[Tensor, "B D"]:
    """Ask by `log_conditionals` or `launched`; check the masks, and the form of the answer."""
    if bool((masked & ~tokens.maskable).any()) or not bool(masked.any(1).all()):
        raise InputError("a mask is empty or hides a token that is not maskable; mask 1..D maskable tokens")
    answer = ask(tokens, masked)
    if isinstance(answer, Tensor) and (answer.is_complex() or answer.dtype == torch.bool):
        kind = "complex numbers" if answer.is_complex() else "yes or no"
        raise InputError(
            f"log_conditionals of {type(model).__name__} answers {kind}; log-probabilities are real"
        )
    if not isinstance(answer, Tensor) or answer.shape != masked.shape:
        what = f"shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else f"{type(answer).__name__}"
        raise InputError(
            f"log_conditionals of {type(model).__name__} answers {what}; it must give a torch tensor of "
            f"shape (B, D) = {tuple(masked.shape)}, the log-probability of each token"
        )
    return answer


def check_masses(model: MaskedModel, tokens: Tokens, answer: Float[Tensor, "B D"]) -> None:
    """Raise an InputError if a log-probability of a mass exceeds 0 by more than rounding."""
    if base_measure_of(model) != MASS or not bool((answer > 0).any()):
        return
    above = torch.nonzero(answer > rounding(model, answer)).tolist()
    if above:
        row, column = above[0]
        raise InputError(
            f"log_conditionals of {type(model).__name__} is {answer[row, column].item():.4g} for token "
            f"{column} of observation {int(tokens.ids[row])}: the logarithm of a {MASS} is at most 0; return "
            "logarithms, or name the density in base_measure"
        )


def not_finite(log_conditionals: Float[Tensor, "B D"], tokens: Tokens) -> NumericalError:
    """The error for log-probabilities, or their sum over an observation, that are not finite."""
    bad = torch.nonzero(~torch.isfinite(log_conditionals)).tolist()
    if not bad:
        row = int(torch.nonzero(~torch.isfinite(log_conditionals.sum(1)))[0])
        return NumericalError(
            f"the log-probabilities of observation {int(tokens.ids[row])} are finite, but their sum is too "
            "large for its dtype; rescale the data"
        )
    row, column = bad[0]
    return NumericalError(
        f"the log-probability of token {column} of observation {int(tokens.ids[row])} is "
        f"{log_conditionals[row, column].item()}; a model must give every token a probability above 0"
    )


def base_measure_of(model: object) -> str | None:
    """The model's attribute `base_measure`: a probability mass, or a density and its unit.

    Returns:
        The attribute, or None if the model has none.

    Example:
        >>> import maskevidence as me
        >>> base_measure_of(me.models.PPCA(3, 1)), base_measure_of(me.models.BernoulliPCA(3, 1))
        ('density per unit of each column', 'probability mass')
    """
    return getattr(model, "base_measure", None)


@runtime_checkable
class HasLogDistributions(Protocol):
    """A model of discrete tokens that lists the log-probabilities of all values.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 5), mask_token_id=4)
        >>> isinstance(model, me.HasLogDistributions), isinstance(me.models.Gaussian, me.HasLogDistributions)
        (True, False)
    """

    def log_distributions(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "n V"]:
        """log p(v | x_visible) for all V values of each masked token, row by row, nats, shape (n_masked, V).

        The values of the masked tokens must not be read.
        """
        ...


@runtime_checkable
class HasUnmaskedLogDistributions(Protocol):
    """A model that also predicts visible tokens, as masked language models learn to do.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 5), mask_token_id=4)
        >>> isinstance(model, me.HasUnmaskedLogDistributions)
        True
    """

    def unmasked_log_distributions(self, tokens: Tokens, places: Bool[Tensor, "B D"]) -> Float[Tensor, "n V"]:
        """log p(v | x) for all V values at some visible places, row by row, nats, shape (n, V)."""
        ...


def fingerprint(model: object) -> str | None:
    """Identify a model by all that affects its numbers; None for anything but a torch module.

    The answer is `weights_fingerprint(model)`, followed by a hyphen and the SHA-256 of
    `fingerprint_settings()`, JSON values such as a network's config, if the model has that method.

    Example:
        >>> import maskevidence as me
        >>> coarse, fine = (me.models.BernoulliPCA(3, 1, integration=me.models.Grid(n)) for n in (10, 20))
        >>> weights_fingerprint(coarse) == weights_fingerprint(fine), fingerprint(coarse) == fingerprint(fine)
        (True, False)
    """
    if not isinstance(model, nn.Module):
        return None
    weights = weights_fingerprint(model)
    settings = getattr(model, "fingerprint_settings", None)
    return weights if settings is None else f"{weights}-{digest(json.dumps(settings(), sort_keys=True))}"


def weights_fingerprint(model: nn.Module) -> str:
    """The SHA-256 of a model's class name and its weights by name.

    Example:
        >>> weights_fingerprint(nn.Linear(2, 1)) == weights_fingerprint(nn.Linear(2, 1))
        False
    """
    weights = (
        part
        for name, value in model.state_dict().items()
        for part in (f"\x1f{name} {value.dtype} {tuple(value.shape)}\x1f", value)
    )
    return digest(type(model).__name__, weights)
