"""Saved models: a folder with config.json (class, arguments, version) and model.safetensors."""

from pathlib import Path
from string import hexdigits
from typing import Any

import torch
from torch import Tensor, nn

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import counted_weights
from maskevidence.core.support.files import model_inside, read_json
from maskevidence.tables.base import FORMAT, MANY_EQUAL, TableModel

_KEPT_IN_FLOAT64 = ("mean", "shift", "scale", "rows")  # in a model of any dtype
_NETWORKS = ("encoder", "decoder")  # arguments that are modules, which a folder cannot store


def load(folder: str | Path, **networks: nn.Module) -> Any:
    """Load a model that its `save` method wrote.

    Args:
        folder: the folder of the model.
        networks: `encoder` and `decoder` of a VAE that was built with your own networks, in the same shapes;
            their weights are read from the folder.

    Returns:
        A model of rows (`TableModel`).

    Raises:
        InputError: no such folder, no model in it, a model in another format, or missing networks.

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
        remedy = model_inside(path) or "; give one that a model was saved into"
        raise InputError(f"there is no folder {str(folder)!r}{remedy}")
    for file in ("config.json", "model.safetensors"):
        if not (path / file).is_file():
            where = model_inside(path)
            raise InputError(f"{str(path)!r} holds no saved model: {file} is missing or not a file{where}")
    config = read_json(path / "config.json", "save the model again")
    try:
        state = load_file(path / "model.safetensors")
    except SafetensorError as error:
        raise InputError(f"the model in {str(path)!r} cannot be read: {error}; save it again") from error
    name, form = (config.get("class"), config.get("format")) if isinstance(config, dict) else (None, None)
    model_class = getattr(me.models, name) if isinstance(name, str) and name in dir(me.models) else None
    if not isinstance(model_class, type) or not issubclass(model_class, TableModel) or form != FORMAT:
        raise InputError(
            f"{str(path / 'config.json')!r} describes class {name!r} in format {form!r}; this version reads "
            f"format {FORMAT} of models of rows, such as PPCA"
        )
    _check_content(config, state, str(path))
    try:
        arguments = _with_networks(config["arguments"], networks, str(path))
        try:
            model = model_class(**arguments)
        except InputError as error:
            raise InputError(f"config.json of {str(path)!r} describes no {name}: {error}") from error
        _check_weights(model, state, str(path))
        device = next(model.parameters()).device  # of the user's networks
        model.load_state_dict(state, assign=True)  # keeps the dtypes of the file
        model.to(device)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"config.json and weights in {str(path)!r} do not fit: {reason}") from error
    model.columns, model.fitted_rows = config.get("columns"), config.get("fitted_rows", "")
    model.read_with = config.get("read_with", {})
    return model


def _check_weights(model: nn.Module, state: dict[str, Tensor], folder: str) -> None:
    """Compare names, shapes and dtypes of a new model's weights with those of the file."""
    new, name = model.state_dict(), type(model).__name__
    unfit = f"config.json and weights in {folder!r} do not fit:"
    for names, what in ((state.keys() - new, "has no place for"), (new.keys() - state, "misses")):
        if names:
            raise InputError(f"{unfit} {name} {what} {counted_weights(names)}")
    for each, weights in new.items():
        shapes = tuple(state[each].shape), tuple(weights.shape)
        if shapes[0] != shapes[1]:
            raise InputError(f"{unfit} {each!r} has the shape {shapes[0]}, where {name} has {shapes[1]}")
    for dtype in {weights.dtype for weights in new.values()}:
        alike = [each for each in new if new[each].dtype == dtype and each not in _KEPT_IN_FLOAT64]
        single = [each for each in alike if state[each].dtype == torch.float32]
        if 0 < len(single) < len(alike):
            raise InputError(
                f"{unfit} {min(single)!r} is in float32 and others are in float64; save the model again"
            )


def _check_content(config: dict[str, Any], state: dict[str, Tensor], folder: str) -> None:
    """Refuse wrong types in config.json, unusable weights, and sizes larger than the weights."""
    unfit = f"config.json and weights in {folder!r} do not fit:"
    for name, weights in state.items():
        if weights.dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"weights {name!r} in {folder!r} are of {weights.dtype}; save the model in torch.float32 or "
                "torch.float64"
            )
        if not bool(torch.isfinite(weights).all()):
            raise InputError(f"weights {name!r} in {folder!r} hold NaN or infinity; fit the model again")
    arguments, columns = config.get("arguments"), config.get("columns")
    if not isinstance(arguments, dict):
        raise InputError(f"{unfit} the arguments are {arguments!r}; save the model again")
    n_features = arguments.get("n_features")
    names = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
    if columns is not None and not (names and len(columns) == n_features):
        raise InputError(f"{unfit} the columns are not {n_features!r} names; save the model again")
    fitted_rows = config.get("fitted_rows", "")
    if not isinstance(fitted_rows, str) or not set(fitted_rows.removeprefix(MANY_EQUAL)) <= {*hexdigits}:
        raise InputError(f"{unfit} fitted_rows are no hashes in hexadecimal; save the model again")
    read_with = config.get("read_with", {})
    if not isinstance(read_with, dict) or not all(isinstance(word, str) for word in read_with.values()):
        raise InputError(f"{unfit} read_with are no options of a table; save the model again")
    own_networks = any(isinstance(arguments.get(network), str) for network in _NETWORKS)
    largest = max((size for weights in state.values() for size in weights.shape), default=0)
    hidden = arguments.get("hidden")
    layers = hidden if isinstance(hidden, list) else [hidden]
    sizes = [(name, arguments.get(name)) for name in ("n_features", "n_components", "width", "layers")]
    for name, size in sizes + [("hidden", layer) for layer in layers]:
        if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
            raise InputError(f"{unfit} {name}={size!r} is not a whole number")
        if size is not None and size > largest and not own_networks:  # a huge size would be allocated
            raise InputError(
                f"{unfit} {name}={size}, but no weights have more than {largest} rows or columns"
            )


def _with_networks(arguments: dict[str, Any], networks: dict[str, nn.Module], folder: str) -> dict[str, Any]:
    """The model's constructor arguments, with the user's networks in place of class names."""
    needed = {name: arguments[name] for name in _NETWORKS if isinstance(arguments.get(name), str)}
    if networks.keys() != needed.keys():
        if not needed:
            raise InputError(f"the model in {folder!r} takes no networks; leave out {', '.join(networks)}")
        raise InputError(
            f"the model in {folder!r} was built with your own networks ({', '.join(needed.values())}), which "
            "a folder does not hold; build them again and give load(folder, encoder=..., decoder=...)"
        )
    return arguments | networks
