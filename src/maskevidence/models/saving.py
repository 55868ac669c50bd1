"""Saved models: a folder with config.json (class, arguments, version) and model.safetensors."""

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from maskevidence import models
from maskevidence.errors import InputError
from maskevidence.support.files import read_json, write_atomic, write_json

FORMAT = 1
_WEIGHTS_LENGTH = 64  # of a SHA-256 in hexadecimal digits
_NETWORKS = ("encoder", "decoder")  # arguments that are modules, which a folder cannot hold


@runtime_checkable
class HasFingerprintSettings(Protocol):
    """A model whose numbers depend on more than its class and its weights."""

    def fingerprint_settings(self) -> dict[str, Any]:
        """What else decides the numbers, as JSON values: the arguments of the class, a network's config."""
        ...


def save_model(
    model: nn.Module, arguments: dict[str, Any], columns: list[str] | None, folder: str | Path
) -> None:
    """Write a model into a folder, which is made where it is missing.

    Args:
        model: one of the classes that `load` knows.
        arguments: the keyword arguments that build it again.
        columns: the names of the columns that it was fitted to.
        folder: the folder to write.

    Raises:
        InputError: the folder cannot be written.
    """
    from safetensors.torch import save

    path = Path(folder)
    state = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    write_atomic(path / "model.safetensors", save(state))
    config = {
        "format": FORMAT,
        "class": type(model).__name__,
        "arguments": arguments,
        "columns": columns,
    }
    write_json(path / "config.json", config)


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
    if hasattr(model, "conditioning"):
        digest.update(repr((model.conditioning, model.seed)).encode())
    for name, value in model.state_dict().items():
        digest.update(f"\x1f{name} {value.dtype} {tuple(value.shape)}\x1f".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def same_fingerprint(one: str | None, other: str | None) -> bool:
    """Whether two fingerprints are of the same model.

    A fingerprint without settings, as older versions wrote it, is compared by the weights alone, so that a
    run that was begun then can be resumed.

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


def load(folder: str | Path, **networks: nn.Module) -> Any:
    """Read a model that was saved with its `save` method.

    Args:
        folder: that it was saved into.
        networks: `encoder` and `decoder` of a VAE with networks of its own, built as they were; their weights
            are read from the folder.

    Raises:
        InputError: no such folder, no model in it, one of another format, or networks that are missing.

    Example:
        >>> import tempfile, maskevidence as me
        >>> folder = tempfile.mkdtemp()
        >>> me.models.PPCA(n_features=3, n_components=1).save(folder)
        >>> me.models.load(folder).n_features
        3
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"there is no folder {str(path)!r}; give one that a model was saved into")
    for file in ("config.json", "model.safetensors"):
        if not (path / file).exists():
            raise InputError(f"{str(path)!r} holds no saved model: {file} is missing")
    config = read_json(path / "config.json", "save the model again")
    try:
        state = load_file(path / "model.safetensors")
    except SafetensorError as error:
        raise InputError(f"the model in {str(path)!r} cannot be read: {error}; save it again") from error
    name = config.get("class") if isinstance(config, dict) else None
    if not isinstance(name, str) or name not in models.TABLE_MODELS or config.get("format") != FORMAT:
        raise InputError(
            f"{str(path / 'config.json')!r} describes class {name!r} in format "
            f"{config.get('format') if isinstance(config, dict) else None!r}; "
            f"this version reads format {FORMAT} of {', '.join(models.TABLE_MODELS)}"
        )
    try:
        arguments = _with_networks(config["arguments"], networks, str(path))
        model = getattr(models, name)(**arguments)
        for tensor in state.values():
            model.to(tensor.dtype)
        model.load_state_dict(state)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"config.json and weights in {str(path)!r} do not fit: {reason}") from error
    model.columns = config.get("columns")
    return model


def _with_networks(arguments: dict[str, Any], networks: dict[str, nn.Module], folder: str) -> dict[str, Any]:
    """A model's arguments with modules in the place of their names.

    Raises:
        InputError: a module is missing, or is not asked for.
    """
    asked = {name: arguments[name] for name in _NETWORKS if isinstance(arguments.get(name), str)}
    if networks.keys() != asked.keys():
        if not asked:
            raise InputError(f"the model in {folder!r} takes no networks; leave out {', '.join(networks)}")
        raise InputError(
            f"the model in {folder!r} has networks of its own ({', '.join(asked.values())}), which a folder "
            "does not hold; build them and give load(folder, encoder=..., decoder=...)"
        )
    return arguments | networks
