"""Shapes and types are checked at run time, and those of a nested function are made into a check once.

jaxtyping's import hook decorates a nested function each time that the function around it runs, which takes
longer than most of the calls themselves.
"""

import threading
from collections.abc import Callable
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

import jaxtyping

_TYPECHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"  # an int is a float, too
_decorate = jaxtyping.jaxtyped
_checks: dict[CodeType, Callable[..., Any]] = {}  # of nested functions
_called = threading.local()  # the nested functions that are being called, the last one on top


def check_calls_of(package: str) -> None:
    """Check the arguments and answers of every function of a package that is imported from now on."""
    jaxtyping.jaxtyped = _jaxtyped  # type: ignore[assignment]
    jaxtyping.install_import_hook(package, _TYPECHECKER)


def _jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator that the import hook writes before every function and class."""

    def decorated(function: Any) -> Any:
        if not isinstance(function, FunctionType) or "<locals>" not in function.__qualname__:
            return _decorate(function, typechecker=typechecker)
        if function.__code__ not in _checks:
            _checks[function.__code__] = _decorate(_top_of(function), typechecker=typechecker)
        return _through(_checks[function.__code__], function)

    return decorated


def _top_of(function: FunctionType) -> Callable[..., Any]:
    """A function with the same signature that calls the function on top."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return _called.functions[-1](*args, **options)

    return call


def _through(check: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """A function with its arguments and answer checked."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if not hasattr(_called, "functions"):
            _called.functions = []
        _called.functions.append(function)
        try:
            return check(*args, **options)
        finally:
            _called.functions.pop()

    return call
