"""Columns of a table: yes/no, categories, and numbers with a resolution."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.model import CELLS, MASS
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens, called, column_names

CodedKind = Literal["yes/no", "category", "number"]
MIXED = f"{CELLS}, mass of each category"
FINEST = 1e-3  # the smallest resolution of a number, in units of the column's scale
_MOST_DECIMALS = 6
_MOST_SHOWN = 100  # characters of unseen words listed in a note
_SAME = 1e-9  # relative tolerance for multiples of 10^-k
_LISTED = ("values", "atoms")
_MOST_ATOMS = 24  # values of a number that may have their own probability
_FEWEST_OF_ATOM = 3  # an atom needs at least this many cells,
_SHARE_OF_ATOM = 0.004  # and this share of all cells


@dataclass(frozen=True)
class Column:
    """How a network encodes a column and predicts its hidden cells.

    A number x has the density P(x - δ/2 < X < x + δ/2) / δ, with δ the `step`: per unit of the column, and
    never above 1/δ. Where all values are multiples of the step, such as whole numbers, it is the probability
    of the value divided by the step.

    Attributes:
        kind: "yes/no" for two numbers, "category", or "number".
        values: the two numbers, or the categories in training, in order; none for a number.
        unseen: the probability of all categories that training has not seen (n₁ + ½)/(n + 1), where n₁
            counts the categories that it saw once; 0 for other kinds.
        centre: the median of a number, one of its values.
        scale: half the distance between the 16 % and 84 % quantiles of a number.
        low, high: the smallest and the largest number.
        step: the resolution δ of a number: the step between its values, at least 1/1000 of its scale.
        atoms: the at most 24 most frequent values of a number, in order, that at least 3 cells and 0.4 % of
            all cells hold.

    Source:
        Good (1953), The Population Frequencies of Species and the Estimation of Population Parameters (n₁/n).
    """

    kind: CodedKind = "number"
    values: tuple[float, ...] = ()
    unseen: float = 0.0
    centre: float = 0.0
    scale: float = 1.0
    low: float = -3.0
    high: float = 3.0
    step: float = FINEST
    atoms: tuple[float, ...] = ()

    @property
    def on_grid(self) -> bool:
        """Whether the training values are multiples of the step, up to a shift."""
        return self.step > (1 + _SAME) * FINEST * self.scale

    @property
    def decimals(self) -> int:
        """The number of decimals needed to write the numbers of the grid, at most 6."""
        both = np.array([self.step, self.centre])
        exact = (np.abs(np.round(both, d) - both).max() <= _SAME * self.step for d in range(_MOST_DECIMALS))
        return next((d for d, fits in enumerate(exact) if fits), _MOST_DECIMALS)

    def __post_init__(self) -> None:
        if self.kind not in get_args(CodedKind):
            raise unknown_name("kind of column", self.kind, get_args(CodedKind))
        of_category = len(self.values) > 0 and self.unseen > 0
        needed = {"yes/no": len(self.values) == 2, "category": of_category, "number": True}
        positive = all(0 < size < math.inf for size in (self.scale, self.step))
        if not needed[self.kind] or not positive or not 0 <= self.unseen < 1:
            raise InputError(f"{self} cannot be a column; fit the model again")


def column_from(
    values: Float64[np.ndarray, " N"], kind: str | None = None, name: str | None = None
) -> Column:
    """Describe a column by its values in the training rows.

    Args:
        kind: by default "yes/no" for two different values, otherwise "number".

    Example:
        >>> column_from(np.array([0.0, 1.0, np.nan, 1.0])).kind, column_from(np.array([3.0, 0.0, 8.0])).step
        ('yes/no', 1.0)
    """
    present, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if kind not in (None, *get_args(CodedKind)):
        raise unknown_name("kind of column", str(kind), get_args(CodedKind))
    if not len(present):
        raise InputError(f"column {name or ''} has no observed value; leave it out")
    kind = kind or ("yes/no" if len(present) == 2 else "number")
    if kind == "number":
        return _number(values[~np.isnan(values)], present, counts)
    if kind == "category":
        unseen = (int((counts == 1).sum()) + 0.5) / (int(counts.sum()) + 1)
        return Column("category", tuple(present.tolist()), min(unseen, 0.5))
    if len(present) != 2:
        raise InputError(
            f"a yes/no column needs two values, column {name or ''} has {len(present)}; call it a number"
        )
    return Column("yes/no", tuple(present.tolist()))


def base_measure(columns: Sequence[Column]) -> str:
    """The base measure of the joint log-probability of all columns.

    Example:
        >>> base_measure([Column("yes/no", (0, 1))]), base_measure([Column("yes/no", (0, 1)), Column()])
        ('probability mass', 'mass of each cell over its step')
    """
    kinds = {column.kind for column in columns}
    if "number" not in kinds:
        return MASS
    return MIXED if "category" in kinds else CELLS


def declared_columns(
    x: Any,
    table: Float64[np.ndarray, "N D"],
    kinds: Mapping[Any, str] | None = None,
    names: Sequence[str] | None = None,
    labels: Mapping[Any, str] = {},
) -> list[Column]:
    """Determine the columns from all rows, before a model is fitted to some of them.

    Args:
        x: the rows; of a `Table`, columns of words are categories, and it may name kinds itself.
        table: the rows as numbers.
        kinds: of some columns, by name or position; the others are guessed.
        names: of the columns; by default the names in x.
        labels: numbers that label columns, with their names; without any, a number is a position.

    Raises:
        InputError: a column without a value, a kind that does not suit its values, or an unknown column.
    """
    names = column_names(x) or names
    position: dict[Any, int] = {} if labels else {k: k for k in range(table.shape[1])}
    position |= {name: k for k, name in enumerate(names or ())}
    position |= {label: position[name] for label, name in labels.items()}
    known: dict[Any, str] = dict.fromkeys(getattr(x, "levels", ()), "category")
    known |= dict(getattr(x, "kinds", {})) | dict(kinds or {})
    strange = [name for name in known if name not in position]
    if strange:
        raise InputError(
            f"kinds names column {strange[0]!r}, which does not exist; there are "
            f"{', '.join(names or ()) or table.shape[1]}"
        )
    kind_of = {position[name]: kind for name, kind in known.items()}
    return [column_from(values, kind_of.get(k), called(names, k)) for k, values in enumerate(table.T)]


def columns_of(
    table: Float64[np.ndarray, "N D"], declared: Sequence[Column] | None = None
) -> tuple[Column, ...]:
    """Describe the columns of training rows, with declared kinds if given.

    Example:
        >>> columns_of(np.array([[1.0, 0.5], [3.0, 0.25], [9.0, 1.0]]))[1].step
        0.25
    """
    if declared is None:
        return tuple(map(column_from, table.T))
    columns = zip(table.T, declared, strict=True)  # some rows may lack one of a yes/no column's values
    return tuple(of if of.kind == "yes/no" else column_from(values, of.kind) for values, of in columns)


def column_settings(columns: Sequence[Column]) -> list[dict[str, object]]:
    """The columns' settings as JSON values.

    Example:
        >>> column_settings([Column("yes/no", (0.0, 1.0))])[0]
        {'kind': 'yes/no', 'values': [0.0, 1.0]}
    """
    kept = {
        "yes/no": ("values",),
        "category": ("values", "unseen"),
        "number": ("centre", "scale", "low", "high", "step", "atoms"),
    }
    return [
        {"kind": column.kind}
        | {
            name: list(setting) if isinstance(setting := getattr(column, name), tuple) else setting
            for name in kept[column.kind]
        }
        for column in columns
    ]


def columns_from(settings: Sequence[Mapping[str, object]]) -> list[Column]:
    """Build columns from their settings."""
    try:
        return [
            Column(**{**setting, **{name: tuple(map(float, setting.get(name, ()))) for name in _LISTED}})  # type: ignore
            for setting in settings
        ]
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the columns of the model cannot be read ({error}); fit it again") from error


def note_on_unseen(
    name: str, column: Column, codes: Float64[np.ndarray, " n"], words: Sequence[str] | None
) -> list[str]:
    """A note on cells with categories unseen in training; an empty list if there are none.

    Args:
        words: of the codes 0, 1, ..., the last one of all further words together, "" if they are not known;
            None if the categories are numbers.

    Example:
        >>> column = Column("category", (0.0, 1.0), unseen=0.25)
        >>> print(*note_on_unseen("'b'", column, np.array([0.0, 2.0]), ["blue", "red", "green, teal"]))
        1 of 2 cells of column 'b' holds a category that training has not seen (green, teal), all of which
        together have the probability 0.25
    """
    unseen = codes[~np.isin(codes, column.values)]
    if not len(unseen):
        return []
    of_code = None if words is None else dict(enumerate(words))
    shown = [f"{code:g}" if of_code is None else of_code.get(code, "") for code in np.unique(unseen)]
    listed = ", ".join(filter(None, shown))
    if len(listed) > _MOST_SHOWN:
        listed = f"{listed[:_MOST_SHOWN]}..."
    hold = "holds a category" if len(unseen) == 1 else "hold categories"
    check = "" if len(unseen) < len(codes) else "; no cell of it was seen: is it the same column?"
    return [
        f"{len(unseen):,} of {len(codes):,} cells of column {name} {hold} that training has not seen"
        f"{f' ({listed})' if listed else ''}, all of which together have the probability "
        f"{column.unseen:.2g}{check}"
    ]


def notes_on_unseen(model: Any, columns: Sequence[Column], tokens: Tokens, data: object = None) -> list[str]:
    """A note for each column with categories that a model of rows has not seen in training.

    Args:
        data: the rows as they were given, which may name the words.
    """
    notes = []
    given = None if not model.levels or column_names(data) is None else model.table(data)
    for k, column in enumerate(columns):
        if column.kind != "category":
            continue
        codes = tokens.values[tokens.maskable[:, k], k].double().cpu().numpy()
        words = None if model.columns is None else model.levels.get(model.columns[k])
        if words is not None:
            others = sorted(given.words(model.columns[k]) - set(words)) if given is not None else []
            words = [*words, ", ".join(others)]
        notes += note_on_unseen(called(model.columns, k), column, codes, words)
    return notes


def _number(
    values: Float64[np.ndarray, " n"], different: Float64[np.ndarray, " m"], counts: Int64[np.ndarray, " m"]
) -> Column:
    centre = float(np.quantile(values, 0.5, method="lower"))
    below, above = np.quantile(values, [0.1587, 0.8413])
    scale = float(above - below) / 2
    if scale == 0:  # most values are equal
        scale = float(spreads(values[:, None])[0]) or 1.0
    low, high, step = float(different[0]), float(different[-1]), _step(different)
    frequent = np.argsort(-counts, kind="stable")[:_MOST_ATOMS]
    frequent = frequent[counts[frequent] >= max(_FEWEST_OF_ATOM, _SHARE_OF_ATOM * len(values))]
    atoms = tuple(different[np.sort(frequent)].tolist())
    return Column("number", (), 0.0, centre, scale, low, high, max(step, FINEST * scale), atoms)


def _step(different: Float64[np.ndarray, " m"]) -> float:
    """The largest step that divides all differences between values; 0 if it has too many decimals."""
    for decimals in range(_MOST_DECIMALS + 1):
        multiples = different * 10.0**decimals
        whole = np.round(multiples)
        if np.abs(whole).max() >= 2**53:
            return 0.0
        if (np.abs(multiples - whole) <= _SAME * np.maximum(np.abs(multiples), 1.0)).all():
            common = math.gcd(*np.diff(whole).astype(np.int64).tolist()) if len(whole) > 1 else 1
            return common / 10.0**decimals
    return 0.0
