"""A package's public names: imported on first use (PEP 562), and their arguments checked by annotations."""

import ast
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.support.checks import in_short, whole_number

_Found = TypeVar("_Found")
_NUMBERS = {bool: "True or False", float: "a finite number", int: "a whole number", Annotated: "a number"}
_IN_WORDS = _NUMBERS | {
    str: "text",
    NoneType: "None",
    Callable: "a function",
    Mapping: "a dict",
    Path: "a path",
}
_LARGEST = 2**63 - 1  # torch and numpy hold no larger whole number
_ANYTHING = (Any, object, inspect.Parameter.empty)


def checked(found: _Found) -> _Found:
    """A function, or a class in place, whose arguments are checked.

    Of a class, its constructor and the methods that take a number, a word or an option: methods of tensors
    alone are called many times, and cost nothing.

    Example:
        >>> def sample(n: int, seed: int = 0) -> int: return n
        >>> checked(sample)(4, seed=-1)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: seed=-1; give a whole number of 0 or more
    """
    if isinstance(found, FunctionType):
        return _checked_function(found)
    skipped = getattr(found, "_is_protocol", False) or hasattr(found, "checks_arguments")
    for part in () if skipped else getattr(found, "__mro__", ()):
        for name, method in list(vars(part).items()) if part.__module__.startswith("maskevidence") else ():
            if isinstance(method, FunctionType) and (name == "__init__" or not name.startswith("_")):
                is_rare = _is_plain if name != "__init__" else _is_no_array
                if any(is_rare(hint) for hint in _hints(method).values()):
                    setattr(part, name, _checked_function(method, only_plain=name != "__init__"))
    return found


def _checked_function(function: Any, *, only_plain: bool = False) -> Any:
    """The function with a check before it; annotations are read at the first call.

    With `only_plain`, results may be of another class than annotated, as long as they have what is read.
    """
    if hasattr(function, "checks_arguments"):
        return function
    hints: dict[str, tuple[Any, bool]] = {}
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if not hints:
            plain = {name: (hint, _is_plain(hint)) for name, hint in _hints(function).items()}
            hints.update(
                {
                    name: (hint if is_plain or not only_plain else Any, is_plain)
                    for name, (hint, is_plain) in plain.items()
                }
            )
        values = [fitting(name, value, *hints[name]) for name, value in zip(positional, given, strict=False)]
        for name in named:
            if name in hints:
                named[name] = fitting(name, named[name], *hints[name])
        return function(*values, *given[len(values) :], **named)

    call.checks_arguments = True  # type: ignore[attr-defined]
    return call


def _hints(function: Any) -> dict[str, Any]:
    """The annotation of each argument; Any where another check says more, as the reader of a word does."""
    names, hints = vars(sys.modules[function.__module__]), dict[str, Any]()
    for name, parameter in inspect.signature(function).parameters.items():
        try:
            hint = parameter.annotation
            hint = eval(hint, names) if isinstance(hint, str) else hint
        except NameError:  # imported for type checkers alone
            hint = Any
        words = {*get_args(hint)} if get_origin(hint) in (Union, UnionType) else set()
        has_reader = str in words and float not in words and not words <= {str, Path, NoneType}
        is_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        hints[name] = Any if has_reader or is_many or getattr(hint, "_is_protocol", False) else hint
        if isinstance(parameter.default, float) and math.isinf(parameter.default):
            hints[name] = Annotated[float, "infinite, too"]
    return hints


def _is_plain(hint: Any) -> bool:
    """Whether an annotation has a number, a word or an option in it."""
    is_one = hint in (bool, int, float, str) or get_origin(hint) is Literal
    return is_one or any(map(_is_plain, get_args(hint)))


def _is_no_array(hint: Any) -> bool:
    """Whether an annotation names more than an array or any object."""
    return _is_plain(hint) or (
        isinstance(hint, type) and hint not in _ANYTHING and not hasattr(hint, "dtypes")
    )


def fitting(name: str, value: Any, hint: Any, is_plain: bool = True) -> Any:
    """The value, numbers of numpy as Python's; an InputError where the annotation does not take it.

    Example:
        >>> fitting("rates", (0.5, "a"), tuple[float, ...])
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: rates=(0.5, 'a'); give a list, each a finite number
    """
    if hint in _ANYTHING:
        return value
    is_endless = is_plain and isinstance(value, float) and not math.isfinite(value)
    is_endless = is_endless and get_origin(hint) is not Annotated
    if is_endless or not _takes(hint, value):
        if isinstance(value, str) and get_origin(hint) is Literal:
            raise unknown_name(name, value, get_args(hint))
        raise InputError(f"{name}={in_short(value)}; give {_needed(hint)}")
    if not is_plain or isinstance(value, str | bool | float | NoneType | Sequence | Mapping):
        return value
    if hasattr(type(value), "__index__") and getattr(value, "ndim", 0) == 0:
        bounds = (0, 2**64 - 1) if name == "seed" else (-_LARGEST, _LARGEST)  # of keys, and of arrays
        return whole_number(name, value, *bounds)
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, Collection) else value


def _takes(hint: Any, value: Any) -> bool:
    """Whether a value fits an annotation; arrays are asked for their type and dtype, not for their shape."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    is_scalar = getattr(value, "ndim", 0) == 0 and not isinstance(value, bool)
    if hint is int:
        return is_scalar and hasattr(type(value), "__index__")
    if hint is float or origin is Annotated:
        real = isinstance(value, float) or "float" in str(getattr(value, "dtype", ""))
        return is_scalar and hasattr(type(value), "__float__" if real else "__index__")
    if hint is bool:
        return isinstance(value, bool) or (is_scalar and str(getattr(value, "dtype", "")) == "bool")
    if origin in (Union, UnionType):
        return any(_takes(part, value) for part in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Callable:
        return callable(value)
    if hasattr(hint, "dtypes"):  # of jaxtyping
        is_any = not isinstance(hint.dtypes, tuple) or not isinstance(value, hint.array_type)
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        return isinstance(value, hint.array_type) and (is_any or kind in hint.dtypes)
    if not isinstance(origin, type) or origin in _ANYTHING:
        return True
    if getattr(origin, "_is_protocol", False) and origin is not Iterable:
        return all(hasattr(value, name) for name in vars(origin) if not name.startswith("_"))
    if not inner or not issubclass(origin, Collection):
        return isinstance(value, os.PathLike if hint is Path else origin)
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_takes(inner[1], item) for item in value.values())
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if not is_list or getattr(value, "ndim", 1) < 1:
        return False
    parts = inner if origin is tuple and ... not in inner else [inner[0]] * len(value)
    return len(parts) == len(value) and all(map(_takes, parts, value))


def _needed(hint: Any) -> str:
    """What an annotation takes, in words."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in _IN_WORDS:
        return _IN_WORDS[origin]
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_needed, inner)))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if hasattr(hint, "dtypes"):
        kinds = hint.dtypes if isinstance(hint.dtypes, tuple) else ()
        kind = " of floats" if "float32" in kinds else f" of {kinds[0]}" if kinds else ""
        return f"a {hint.array_type.__name__}{kind}, shape ({', '.join(hint.dim_str.split())})"
    if inner[:1] == (str,):
        return "a list of str"
    return f"a list, each {_needed(inner[0])}" if inner else f"a {getattr(origin, '__name__', origin)}"


def lazy_names(
    package: str, file: str, check: bool = False
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` for a package that imports its names on first use.

    The public names are those that the package's `__init__.pyi` imports, each by its
    own `from .module import Name as Name`: type checkers, editors and this function read the same lines.
    Modules of the package are attributes as well, but are not listed.

    Args:
        check: whether functions and classes check their arguments, once they were asked for.

    Example:
        >>> get, names, public = lazy_names("maskevidence", __import__("maskevidence").__file__)
        >>> get("InputError").__module__, names() == public, "InputError" in public
        ('maskevidence.core.errors', True, True)
    """
    modules, ready = dict[str, str](), set[str]()
    for statement in ast.parse(Path(file).with_suffix(".pyi").read_text()).body:
        if isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            modules |= {name.name: module for name in statement.names}

    def get(name: str) -> Any:
        module = modules.get(name, ".")
        if module != ".":
            holder = import_module(module, package)
            found = getattr(holder, name, None)
            if check and name not in ready and found is not None:
                ready.add(name)
                found = checked(found)
                setattr(holder, name, found)
            return import_module(f"{module}.{name}", package) if found is None else found
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    public = sorted(modules)
    return get, lambda: public, public
