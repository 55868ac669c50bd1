"""A page on a model, as notebooks show it."""

from collections.abc import Mapping, Sequence
from typing import Any

from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import some_of

_CONDITIONALS = {
    "exact": "exact: the conditionals of one joint density",
    "approximate": "approximate: close to the conditionals of one joint density",
    "learned": "learned: not the conditionals of a joint density",
    "transformed": "of transformed values",
}
_MAX_COLUMNS = 12


def model_page(model: Any, arguments: Mapping[str, Any], columns: Sequence[str] | None = None) -> Page:
    """Show a model, the kind of its conditionals, and the data it was fitted to.

    Example:
        >>> import maskevidence as me
        >>> model_page(me.models.PPCA(8, 2), {"n_features": 8, "n_components": 2}).line
        'PPCA(n_features=8, n_components=2)'
    """
    line = f"{type(model).__name__}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    n_parameters = sum(value.numel() for value in model.parameters())
    rows = [
        ["conditionals", _CONDITIONALS.get(model.conditionals, model.conditionals)],
        ["log-probabilities", model.base_measure or "not known before the density is fitted"],
        ["parameters", f"{n_parameters:,}"],
    ]
    if columns is not None:
        rows.append([count(len(columns), "column"), some_of(columns, _MAX_COLUMNS)])
    return Page(line, line, parts=[Table((), rows, words=(0, 1))])
