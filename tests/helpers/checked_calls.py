"""Shapes and types are checked at run time, at a fraction of what jaxtyping's own decorator costs.

It checks arguments twice, once more beside the answer, and it makes the check of a nested function anew each
time that the function around it runs. Here the arguments and the answer are checked once, by the same
beartype and with the sizes of one call, and the check of a nested function is kept.
"""

import threading
from collections.abc import Callable
from functools import wraps
from inspect import isgeneratorfunction
from types import CodeType, FunctionType
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

_RULES = BeartypeConf(is_pep484_tower=True)  # a whole number passes for a float, as in Python's own typing
_decorate = jaxtyping.jaxtyped
_same_sizes = jaxtyping.jaxtyped("context")  # in which a letter such as B stands for one size
_checks: dict[CodeType, Callable[..., Any]] = {}  # of nested functions
_called = threading.local()  # the nested functions that are being called, the last one on top


def check_calls_of(package: str) -> None:
    """Check the arguments and answers of every function of a package that is imported from now on."""
    jaxtyping.jaxtyped = _jaxtyped  # type: ignore[assignment]
    jaxtyping.install_import_hook(
        package, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    )


def _jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator that the import hook writes before every function and class."""

    def decorated(function: Any) -> Any:
        if not isinstance(function, FunctionType):
            return _decorate(function, typechecker=typechecker)
        if "<locals>" not in function.__qualname__:
            return _checked(function, function, typechecker)
        if function.__code__ not in _checks:
            _checks[function.__code__] = _checked(function, _top_of(function), typechecker)
        return _through(_checks[function.__code__], function)

    return decorated


def _checked(function: FunctionType, act: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    """What `act` does, checked by the annotations of a function."""
    if isgeneratorfunction(function):  # its checks would be made, with other sizes, where it is asked
        return _decorate(act, typechecker=typechecker)
    try:
        act.__annotations__ = get_type_hints(function, include_extras=True)
    except NameError:  # a name for the checks before run time alone
        return _decorate(act, typechecker=typechecker)
    check = beartype(conf=_RULES)(act)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return act(*args, **options)
        with _same_sizes:
            return check(*args, **options)

    return call


def _top_of(function: FunctionType) -> Callable[..., Any]:
    """A function with the same signature that calls the nested function on top."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return _called.functions[-1](*args, **options)

    return call


def _through(check: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """A nested function with its arguments and answer checked."""

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
