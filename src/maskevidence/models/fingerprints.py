"""Fingerprints: two models with the same one give the same numbers."""

import hashlib
import json
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

_WEIGHTS_LENGTH = 64  # of a SHA-256 in hexadecimal digits


@runtime_checkable
class HasFingerprintSettings(Protocol):
    """A model whose numbers depend on more than its class and its weights."""

    def fingerprint_settings(self) -> dict[str, Any]:
        """What else decides the numbers, as JSON values: the arguments of the class, a network's config."""
        ...


def fingerprint(model: object) -> str | None:
    """Identify a model by everything that decides its numbers; None unless it is a torch module.

    The answer is `weights_fingerprint(model)`, followed by a hyphen and the SHA-256 of
    `fingerprint_settings()` if the model has that method. Compare two answers with `same_fingerprint`.

    Example:
        >>> import maskevidence as me
        >>> coarse, fine = (me.models.BernoulliPCA(3, 1, integration=me.models.Grid(n)) for n in (10, 20))
        >>> weights_fingerprint(coarse) == weights_fingerprint(fine), fingerprint(coarse) == fingerprint(fine)
        (True, False)
    """
    if not isinstance(model, nn.Module):
        return None
    weights = weights_fingerprint(model)
    if not isinstance(model, HasFingerprintSettings):
        return weights
    settings = json.dumps(model.fingerprint_settings(), sort_keys=True)
    return f"{weights}-{hashlib.sha256(settings.encode()).hexdigest()}"


def weights_fingerprint(model: nn.Module) -> str:
    """The SHA-256 of a model's class name and its weights by name.

    This was the whole fingerprint before settings were part of it. It also covers how a VAE computes its
    conditionals, as it did then, so that `same_fingerprint` recognises the models of older runs.

    Example:
        >>> weights_fingerprint(nn.Linear(2, 1)) == weights_fingerprint(nn.Linear(2, 1))
        False
    """
    digest = hashlib.sha256(type(model).__name__.encode())
    if hasattr(model, "conditioning"):  # a VAE's; as version 0.1.0 computed it, for the models of its runs
        digest.update(repr((model.conditioning, model.seed)).encode())
    for name, value in model.state_dict().items():
        digest.update(f"\x1f{name} {value.dtype} {tuple(value.shape)}\x1f".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def same_fingerprint(one: str | None, other: str | None) -> bool:
    """Whether two fingerprints are of the same model.

    A fingerprint without settings, as older versions wrote it, is compared by the weights alone, so that a
    finished run of then is recognised.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(3, 1)
        >>> same_fingerprint(fingerprint(model), weights_fingerprint(model))
        True
    """
    if one is None or other is None or one == other:
        return one == other
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) == _WEIGHTS_LENGTH and longer.startswith(f"{shorter}-")
