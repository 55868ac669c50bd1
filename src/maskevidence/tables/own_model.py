"""Load a model from the user's code, FILE.py:FUNCTION, given by the user and never read from a run."""

import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from torch import nn

from maskevidence.command.options import own_file
from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.model import check_conditionals
from maskevidence.core.support.devices import choose_device
from maskevidence.core.support.files import reading
from maskevidence.core.support.provenance import digest
from maskevidence.tables.table_options import RowDevice


def own_model(word: str, device: RowDevice = RowDevice()) -> Any:
    """Run the user's file and call its function to get the model.

    Args:
        device: where the model computes, if it is a torch module; by default where the function puts it.
    """
    file, _, name = word.rpartition(":")
    path = own_file(word)
    if path is None or not name.isidentifier():
        raise InputError(f"{word!r} names no function; write FILE.py:FUNCTION, such as model.py:make")
    if not path.is_file():
        raise InputError(f"there is no file {file!r}; give FILE.py:FUNCTION, whose function returns a model")
    if device.dtype is not None:
        raise InputError(f"--dtype {device.dtype}: the function of {word!r} decides that; leave it out")
    with reading(path):
        if b"\0" in path.read_bytes():
            raise InputError(f"{file!r} has a zero byte, which no Python file has; write the file again")
    sys.path.append(str(path.parent))
    specification = importlib.util.spec_from_file_location(f"maskevidence_own_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module  # needed by dataclasses and pickles
    specification.loader.exec_module(module)
    make = getattr(module, name, None)
    if not callable(make):
        functions = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise unknown_name(f"function of {file!r},", name, functions)
    if isinstance(make, nn.Module):
        raise InputError(
            f"{name} of {file!r} is a model; write a function that returns it, def make(): return {name}"
        )
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} of {file!r} cannot be called without arguments: {error}") from error
    if inspect.iscoroutinefunction(make):
        raise InputError(f"{name} of {file!r} is an async function; write def {name}() instead")
    model = make()
    try:
        check_conditionals(model)
    except InputError as error:
        raise InputError(f"{word!r} returns no model: {error}") from error
    if device.device is not None and isinstance(model, nn.Module):
        model.to(choose_device(device.device))
    return model


def fingerprint_of_code(word: str) -> str:
    """SHA-256 of the user's file and of the modules it imported from its folder.

    Call it after the function has returned, when its imports are known. A run is not resumed if a file
    changed.
    """
    path = own_file(word)
    assert path is not None
    parts = list[str | bytes]()
    for file in sorted({path, *_imported_from(path.parent)}):
        with reading(file):
            parts += [f"{file.relative_to(path.parent)}\0{file.stat().st_size}\0", file.read_bytes()]
    return digest(*parts)


def _imported_from(folder: Path) -> set[Path]:
    """Imported files in the folder, except this package's, installed packages' and the standard library's."""
    named = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {Path(name).resolve() for name in named if name is not None}
    package = Path(__file__).resolve().parents[1]
    return {
        file
        for file in files
        if file.is_relative_to(folder)
        and file.is_file()
        and "site-packages" not in file.parts
        and not file.is_relative_to(package)
        and not file.is_relative_to(Path(os.__file__).resolve().parent)
    }
