"""Saved models: a folder with config.json (class, arguments, version) and model.safetensors."""

import hashlib
import importlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maskevidence.errors import InputError
from maskevidence.support.files import read_json, write_atomic, write_json

FORMAT = 1
# class name -> module; a module is imported only when one of its models is loaded
_CLASSES = {
    "Gaussian": "maskevidence.models.gaussian.full_covariance",
    "PPCA": "maskevidence.models.gaussian.ppca",
    "FactorAnalysis": "maskevidence.models.gaussian.factor_analysis",
    "BernoulliPCA": "maskevidence.models.bernoulli.bernoulli_pca",
    "VAE": "maskevidence.models.vae.vae",
}
_NETWORKS = ("encoder", "decoder")  # arguments that are modules, which a folder cannot hold


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
    """A hash of a model's weights by their names; None for one that is no torch module.

    Example:
        >>> import torch
        >>> fingerprint(torch.nn.Linear(2, 1)) == fingerprint(torch.nn.Linear(2, 1))
        False
    """
    if not isinstance(model, nn.Module):
        return None
    digest = hashlib.sha256(type(model).__name__.encode())
    if hasattr(model, "conditioning"):  # how a VAE computes its conditionals decides its scores too
        digest.update(repr((model.conditioning, model.seed)).encode())
    for name, value in model.state_dict().items():
        digest.update(f"\x1f{name} {value.dtype} {tuple(value.shape)}\x1f".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


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
    if not isinstance(name, str) or name not in _CLASSES or config.get("format") != FORMAT:
        raise InputError(
            f"{str(path / 'config.json')!r} describes class {name!r} in format "
            f"{config.get('format') if isinstance(config, dict) else None!r}; "
            f"this version reads format {FORMAT} of {', '.join(_CLASSES)}"
        )
    try:
        arguments = _with_networks(config["arguments"], networks, str(path))
        model = getattr(importlib.import_module(_CLASSES[name]), name)(**arguments)
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
