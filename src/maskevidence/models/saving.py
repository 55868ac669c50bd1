"""Saved models: a folder with config.json (class, arguments, version) and model.safetensors."""

import importlib
import json
from pathlib import Path
from typing import Any

from torch import nn

from maskevidence.errors import InputError

FORMAT = 1
# class name -> module; a module is imported only when one of its models is loaded
_CLASSES = {
    "Gaussian": "maskevidence.models.gaussian",
    "PPCA": "maskevidence.models.ppca",
    "FactorAnalysis": "maskevidence.models.factor_analysis",
}


def save_model(model: nn.Module, arguments: dict[str, Any], folder: str | Path) -> None:
    """Write a model into a folder, which is made where it is missing.

    Args:
        model: one of the classes that `load` knows.
        arguments: what its class is built with again.
        folder: where to.
    """
    from safetensors.torch import save_file

    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    save_file(state, path / "model.safetensors")
    config = {
        "format": FORMAT,
        "class": type(model).__name__,
        "arguments": arguments,
        "columns": getattr(model, "columns", None),
    }
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load(folder: str | Path) -> Any:
    """Read a model that was saved with its `save` method.

    Raises:
        InputError: no such folder, no model in it, or one of another format.

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
    try:
        config = json.loads((path / "config.json").read_text())
        state = load_file(path / "model.safetensors")
    except FileNotFoundError as error:
        raise InputError(
            f"{str(path)!r} holds no saved model: {Path(error.filename or '').name or error} is missing"
        ) from error
    except (json.JSONDecodeError, SafetensorError, UnicodeDecodeError) as error:
        raise InputError(f"the model in {str(path)!r} cannot be read: {error}; save it again") from error
    name = config.get("class") if isinstance(config, dict) else None
    if not isinstance(name, str) or name not in _CLASSES or config.get("format") != FORMAT:
        raise InputError(
            f"{str(path / 'config.json')!r} describes class {name!r} in format "
            f"{config.get('format') if isinstance(config, dict) else None!r}; "
            f"this version reads format {FORMAT} of {', '.join(_CLASSES)}"
        )
    try:
        model = getattr(importlib.import_module(_CLASSES[name]), name)(**config["arguments"])
        for tensor in state.values():
            model.to(tensor.dtype)
        model.load_state_dict(state)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"config.json and weights in {str(path)!r} do not fit: {reason}") from error
    model.columns = config.get("columns")
    return model
