"""Networks of checkpoints that `AutoModelForMaskedLM` does not load: another class, or renamed weights."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import InputError, import_extra
from maskevidence.models.pretrained import first_sentence, load_network, loading, unread_note
from maskevidence.models.saving import counted_weights
from maskevidence.support.files import reading

_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_NESTED = ("state_dict", "model", "module")  # where training frameworks put the weights


def load_checkpoint(
    name: str, model_class: str | None, state_prefix: str | None, *, trust_remote_code: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """A network in float32 from a folder or the hub, and notes on its weights.

    Args:
        name: a folder, or OWNER/NAME on the hub.
        model_class: the name of a class in transformers, or MODULE:CLASS of an installed package, with a
            `from_pretrained`; by default the class that the configuration names for masked language models.
        state_prefix: what the names of the weights begin with in the folder's file of weights; others are
            left out.
        trust_remote_code: whether code that comes with the model may run.

    Raises:
        InputError: no such class, model, file or weights, or weights that do not fit.
        MissingExtraError: transformers is not installed.

    Example:
        >>> load_checkpoint("a/b", "BertForMaskedLMs", None)
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: transformers has no class 'BertForMaskedLMs'; give the name of one,
        or MODULE:CLASS
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    found = None if model_class is None else _class(transformers, model_class)
    if found is not None and not hasattr(found, "from_pretrained"):
        raise InputError(f"{model_class!r} has no from_pretrained; give a class that loads itself")
    if found is not None and not issubclass(found, transformers.PreTrainedModel):
        if state_prefix is not None:
            raise InputError("--state-prefix needs a class of transformers; leave it out")
        return _by_itself(found, name), ()
    with loading(name, None, trust_remote_code=trust_remote_code) as options:
        if state_prefix is None:
            return load_network(found or transformers.AutoModelForMaskedLM, name, "head", **options)
        config = transformers.AutoConfig.from_pretrained(name, **options)
        network = (found or transformers.AutoModelForMaskedLM.from_config)(config)
        return network, _load_weights(network.float(), Path(name), state_prefix)


def _class(transformers: Any, name: str) -> Any:
    module, _, own = name.rpartition(":")
    if not module:
        found = getattr(transformers, name, None)
        if not isinstance(found, type):
            raise InputError(f"transformers has no class {name!r}; give the name of one, or MODULE:CLASS")
        return found
    try:
        return getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--model-class {name!r} cannot be imported ({first_sentence(error)})") from error


def _by_itself(found: Any, name: str) -> Any:
    """A network of a class outside transformers, which loads its weights in its own way."""
    try:
        network = found.from_pretrained(name)
    except Exception as error:
        raise InputError(
            f"{found.__name__} cannot load {name!r}: {first_sentence(error)}; check the name"
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise InputError(f"{found.__name__}.from_pretrained gives no torch module; give another class")
    return network


def _load_weights(network: Any, folder: Path, prefix: str) -> tuple[str, ...]:
    """Load the weights of a folder whose names begin with a prefix; a note on those that are not read.

    Raises:
        InputError: no file of weights or several, none with that prefix, or others than the network has.
    """
    with reading(folder):
        files = sorted(one for one in folder.iterdir() if one.suffix in _SUFFIXES) if folder.is_dir() else []
    if len(files) != 1:
        what = "no file" if not files else f"{len(files)} files"
        raise InputError(f"{str(folder)!r} has {what} of weights ({', '.join(_SUFFIXES)}); leave one there")
    stored = _read_weights(files[0])
    weights = {name.removeprefix(prefix): one for name, one in stored.items() if name.startswith(prefix)}
    if not weights:
        first = min(stored, default="none")
        raise InputError(
            f"no weight in {str(files[0])!r} begins with {prefix!r} (the first is {first}); correct "
            "--state-prefix"
        )
    try:
        report = network.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise InputError(f"the weights in {str(files[0])!r} do not fit: {first_sentence(error)}") from error
    network.tie_weights()
    own = network.state_dict(keep_vars=True)
    loaded = {own[name].data_ptr() for name in weights if name in own}
    missing = [name for name in report.missing_keys if own[name].data_ptr() not in loaded]
    if missing:
        raise InputError(
            f"{str(files[0])!r} lacks {counted_weights(missing)}; check --model-class and --state-prefix"
        )
    return unread_note(network, report.unexpected_keys, repr(str(files[0])))


def _read_weights(file: Path) -> Mapping[str, Tensor]:
    """Names and weights of a file, without running code that it may hold."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds, for damaged files and for pickled code
        raise InputError(
            f"the weights in {str(file)!r} cannot be read without running code: {first_sentence(error)}; "
            "save them as .safetensors"
        ) from error
    names = [name for name in _NESTED if isinstance(content, dict) and name in content]
    nested = content[names[0]] if names else content
    if not isinstance(nested, dict) or not all(isinstance(one, Tensor) for one in nested.values()):
        raise InputError(f"{str(file)!r} holds no weights by name; save them as .safetensors")
    return nested
