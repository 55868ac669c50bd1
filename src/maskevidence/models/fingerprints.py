"""Fingerprints: two models with the same one give the same numbers."""

import hashlib
import json
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn


@runtime_checkable
class HasFingerprintSettings(Protocol):
    """A model whose numbers depend on more than its class and its weights."""

    def fingerprint_settings(self) -> dict[str, Any]:
        """What else decides the numbers, as JSON values: the arguments of the class, a network's config."""
        ...


def fingerprint(model: object) -> str | None:
    """Identify a model by everything that decides its numbers; None unless it is a torch module.

    The answer is `weights_fingerprint(model)`, followed by a hyphen and the SHA-256 of
    `fingerprint_settings()` if the model has that method.

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

    Example:
        >>> weights_fingerprint(nn.Linear(2, 1)) == weights_fingerprint(nn.Linear(2, 1))
        False
    """
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, value in model.state_dict().items():
        digest.update(f"\x1f{name} {value.dtype} {tuple(value.shape)}\x1f".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
