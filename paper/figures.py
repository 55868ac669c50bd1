"""What every figure of the paper is made of: claims with their numbers, tables and a CSV file."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from paper.pictures import picture

SEEDS = (4, 44, 444, 4444, 44444)


@dataclass(frozen=True)
class Claim:
    """One claim of a figure, and the measurement that supports or refutes it.

    Attributes:
        claim: the claim in words.
        measured: the measured numbers in words.
        holds: whether they support the claim; None for numbers that are reported without a verdict.
        too_short: the training was too short for a verdict, as with --quick; `holds` is then None.

    Example:
        >>> Claim("it converges", "1 nat short", False).verdict
        'does not hold'
        >>> Claim("it converges", "9 nats short", False, too_short=True).verdict
        'too short to tell'
    """

    claim: str
    measured: str
    holds: bool | None
    too_short: bool = False

    def __post_init__(self) -> None:
        if self.too_short:
            object.__setattr__(self, "holds", None)

    @property
    def verdict(self) -> str:
        """The verdict in words, empty for numbers without one."""
        if self.too_short:
            return "too short to tell"
        return {True: "holds", False: "does not hold", None: ""}[self.holds]


class ResultTable(NamedTuple):
    """Numbers of a figure as a small table of text.

    Attributes:
        title: one line.
        columns: the names of the columns.
        rows: the cells.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[str]]

    def in_words(self) -> str:
        """The table in plain text, the first column to the left and the others to the right."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        cells = [[name.ljust(widths[0]), *map(str.rjust, row, widths[1:])] for name, *row in lines]
        title = [self.title] if self.title else []
        return "\n".join([*title, *("  ".join(row).rstrip() for row in cells), ""])


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its claims, its numbers and its picture.

    Attributes:
        name: the stem of its files, such as "figure_1".
        title: one line.
        claims: the claims of the figure.
        columns: the numbers behind the panels in long form, one list per column, all of the same length.
        numbers: further numbers for `--json`.
        draw: draws the picture, a matplotlib figure.
        tables: tables that are printed as they are.
        checks: what is true by construction and fails only if the code is wrong; not findings.
    """

    name: str
    title: str
    claims: list[Claim]
    columns: dict[str, list[Any]]
    numbers: dict[str, Any] = field(default_factory=dict)
    draw: Callable[[], Any] | None = None
    tables: list[ResultTable] = field(default_factory=list)
    checks: list[Claim] = field(default_factory=list)

    def to_csv(self) -> str:
        """The columns as CSV text; None and NaN become empty cells."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(self.columns)
        for row in zip(*self.columns.values(), strict=True):
            rows.writerow("" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row)
        return text.getvalue()

    def write(self, out: Path) -> str:
        """Write the CSV and, with matplotlib, the picture as PNG and PDF; say what was written."""
        contents = {f"{self.name}.csv": self.to_csv().encode()}
        missing = ""
        try:
            figure = None if self.draw is None else self.draw()
            if figure is not None:
                contents |= {f"{self.name}.{kind}": picture(figure, kind) for kind in ("png", "pdf")}
        except ImportError:
            missing = "; no picture: it needs matplotlib, pip install 'maskevidence[plots]'"
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (out / name).write_bytes(content)
        return f"Written to {out}: {', '.join(contents)}{missing}"

    def in_words(self) -> str:
        """What the terminal shows: the tables, the claims and the checks."""
        lines = [self.title, *(f"\n{table.in_words()}" for table in self.tables)]
        lines += [f"  {claim.claim}\n    {claim.verdict}: {claim.measured}" for claim in self.claims]
        if self.checks:
            lines.append("\nChecks of the code, true by construction:")
        for check in self.checks:
            lines.append(f"  {check.claim}\n    {'passed' if check.holds else 'FAILED'}: {check.measured}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` writes: title, claims, checks, tables and numbers, with None for NaN and infinity."""
        claims, checks = ([asdict(each) for each in part] for part in (self.claims, self.checks))
        tables = [table._asdict() for table in self.tables]
        named = {"figure": self.name, "title": self.title, "claims": claims, "checks": checks}
        return named | ({"tables": tables} if tables else {}) | {"numbers": _finite(self.numbers)}


def _finite(content: Any) -> Any:
    """The same nested numbers with None for those that JSON does not have."""
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def long_form(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def standard_error(values: Float64[np.ndarray, " n"]) -> float:
    """The standard error of the mean of independent values; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def plus_minus(values: Float64[np.ndarray, " n"]) -> str:
    """The mean and its standard error in words.

    Example:
        >>> plus_minus(np.array([1.0, 2.0, 3.0]))
        '2.00 ± 0.58'
    """
    mean = f"{values.mean():.2f}"
    return mean if len(values) < 2 else f"{mean} ± {standard_error(values):.2f}"
