"""Import a package's public names on first use (PEP 562), declared once in its stub file."""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


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
                from maskevidence.core.support.calls import checked

                ready.add(name)
                found = checked(found)
                setattr(holder, name, found)
            return import_module(f"{module}.{name}", package) if found is None else found
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    public = sorted(modules)
    return get, lambda: public, public
