"""Checkpoints: one safetensors file, written atomically, from which training resumes exactly."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence import __version__
from maskevidence.core.errors import InputError
from maskevidence.core.support.files import reading, write_atomic
from maskevidence.core.support.provenance import differences

_FORMAT = 1
FILE = "checkpoint.safetensors"
_HEADER = "maskevidence"
_TENSOR, _TUPLE, _ITEMS = "__tensor__", "__tuple__", "__items__"


def save_checkpoint(folder: str | Path, settings: Mapping[str, Any], state: Mapping[str, Any]) -> Path:
    """Write `checkpoint.safetensors` into a folder; the old file stays until the new one is complete.

    Args:
        settings: the settings of the training; only a training with equal settings can resume.
        state: nested dicts, lists and tuples of tensors, numbers, strings and None.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = save_checkpoint(folder, {"seed": 1}, {"w": torch.ones(2), "betas": (0.9, 0.999)})
        >>> load_checkpoint(folder, {"seed": 1})
        {'w': tensor([1., 1.]), 'betas': (0.9, 0.999)}
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    tree = _encode(state, tensors)
    header = {"format": _FORMAT, "version": __version__}
    header |= {"settings": dict(settings), "state": tree}
    path = Path(folder) / FILE
    write_atomic(path, save(tensors, metadata={_HEADER: json.dumps(header)}))
    return path


def load_checkpoint(folder: str | Path, settings: Mapping[str, Any]) -> Any:
    """Read the checkpoint of a folder; None if there is none."""
    from safetensors import SafetensorError, safe_open

    path = Path(folder) / FILE
    with reading(path):
        if not path.exists():
            return None
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise InputError(
            f"{str(path)!r} is not a readable checkpoint ({type(error).__name__}); "
            "remove it to start from the beginning, or give another folder"
        ) from error
    if header.get("format") != _FORMAT or header.get("version") != __version__:
        raise InputError(
            f"{str(path)!r} was written by maskevidence {header.get('version')}, checkpoint format "
            f"{header.get('format')}; this is {__version__}, format {_FORMAT}: resume with that version, or "
            "start in another folder"
        )
    check_settings(path, header["settings"], settings, "give another folder, or remove it to start again")
    return _decode(header["state"], tensors)


def check_settings(path: Path, saved: Mapping[str, Any], settings: Mapping[str, Any], remedy: str) -> None:
    """Raise an InputError for a file of a training with other settings; `saved` was read from JSON."""
    different = differences(saved, json.loads(json.dumps(dict(settings))))
    if different:
        raise InputError(f"{str(path)!r} belongs to another training ({'; '.join(different)}); {remedy}")


def _encode(node: Any, tensors: dict[str, Tensor]) -> Any:
    """Replace tensors by names and make all keys strings, for JSON."""
    if isinstance(node, Tensor):
        name = str(len(tensors))
        tensors[name] = node.detach().cpu().contiguous().clone()
        return {_TENSOR: name}
    if isinstance(node, Mapping):
        return {_ITEMS: [[key, _encode(value, tensors)] for key, value in node.items()]}
    if isinstance(node, tuple):
        return {_TUPLE: [_encode(value, tensors) for value in node]}
    if isinstance(node, list):
        return [_encode(value, tensors) for value in node]
    return node


def _decode(node: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(node, dict):
        if _TENSOR in node:
            return tensors[node[_TENSOR]]
        if _TUPLE in node:
            return tuple(_decode(value, tensors) for value in node[_TUPLE])
        return {key: _decode(value, tensors) for key, value in node[_ITEMS]}
    if isinstance(node, list):
        return [_decode(value, tensors) for value in node]
    return node


def parameter_shapes(model: torch.nn.Module) -> dict[str, str]:
    """Shape and dtype of each entry of a model's state, to compare with a checkpoint.

    Example:
        >>> parameter_shapes(torch.nn.Linear(2, 1))
        {'weight': '(1, 2) float32', 'bias': '(1,) float32'}
    """
    return {
        name: f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        for name, value in model.state_dict().items()
    }
