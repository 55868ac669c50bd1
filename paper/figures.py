"""What the paper's tables and figures share: claims with their numbers, files, and a device."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float64
from tqdm import tqdm

import maskevidence as me
from maskevidence.core.show import Page, Table
from maskevidence.core.show.words import MINUS

SEEDS = (4, 44, 444, 4444, 44444)
_DEVICE: ContextVar[torch.device | None] = ContextVar("device", default=None)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Claim:
    """One claim of a figure, and the measurement that supports or refutes it.

    Attributes:
        claim: the claim in words.
        measured: the measured numbers in words.
        holds: whether they support the claim; None for numbers that are reported without a verdict.
        too_short: the training, or the masks, were too few for a verdict, as with --quick; `holds` is None.

    Example:
        >>> Claim("it converges").by("1 nat short", False).verdict
        'does not hold'
        >>> Claim("it converges").by("9 nats short", False, too_short=True).verdict
        'too short to tell'
    """

    claim: str
    measured: str = ""
    holds: bool | np.bool_ | None = None
    too_short: bool = False

    def __post_init__(self) -> None:
        known = self.holds is not None and not self.too_short
        object.__setattr__(self, "holds", bool(self.holds) if known else None)

    def by(self, measured: str, holds: bool | np.bool_ | None = None, *, too_short: bool = False) -> "Claim":
        """The same claim with its measurement."""
        return Claim(self.claim, measured, holds, too_short)

    @property
    def verdict(self) -> str:
        """The verdict in words, empty for numbers without one."""
        if self.too_short:
            return "too short to tell"
        return "" if self.holds is None else "holds" if self.holds else "does not hold"


def below(claim: str, measured: str, value: float, bound: float, room: float) -> Claim:
    """The claim that a number is below a bound, without a verdict within `room` of it, the reach of noise.

    Example:
        >>> [below("flat", "", spread, 0.3, room=0.1).verdict for spread in (0.1, 0.35, 0.5)]
        ['holds', 'too short to tell', 'does not hold']
    """
    return Claim(claim, measured, value < bound, too_short=not abs(value - bound) > room)


def near_exact(claim: str, value: float, se: float, exact: float, digits: int) -> Claim:
    """The claim that an estimate is within 3 standard errors of the exact value; NaN gives no verdict."""
    off = abs(value - exact) / se
    measured = f"{value:.{digits}f} ± {se:.{digits}f}, exact {exact:.{digits}f} ({off:.1f} se apart)"
    return Claim(claim, measured, None if math.isnan(off) else off <= 3)


def _with_minus(text: str) -> str:
    """Typeset the minus signs of numbers, as everywhere in the terminal."""
    return re.sub(r"(?<![\w)])-(?=\d)", MINUS, text)


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its claims, its numbers and its picture.

    Attributes:
        name: the stem of its files, such as "figure_1".
        title: one line.
        claims: the claims of the figure.
        rows: the numbers behind the panels in long form, the rows of the CSV file.
        numbers: further numbers for `--json`.
        draw: draws the picture, a matplotlib figure.
        tables: tables that are printed as they are.
        checks: what is true by construction and fails only if the code is wrong; not findings.
    """

    name: str
    title: str
    claims: Sequence[Claim]
    rows: Sequence[Mapping[str, Any]]
    numbers: dict[str, Any] = field(default_factory=dict)
    draw: Callable[[], Any] | None = None
    tables: Sequence[Table] = ()
    checks: Sequence[Claim] = ()

    def to_csv(self) -> str:
        """The rows as CSV text; None and NaN become empty cells."""
        text = io.StringIO()
        lines = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        lines.writeheader()
        for row in self.rows:
            lines.writerow({name: None if cell != cell else cell for name, cell in row.items()})
        return text.getvalue()

    def write(self, out: Path) -> str:
        """Write the CSV and, with matplotlib, the picture as PNG and PDF; say what was written."""
        contents, missing = {f"{self.name}.csv": self.to_csv().encode()}, ""
        try:
            figure = None if self.draw is None else self.draw()
            if figure is not None:
                contents |= {f"{self.name}.{kind}": picture(figure, kind) for kind in ("png", "pdf")}
        except ImportError:
            missing = "; no picture: it needs matplotlib, pip install '.[plots]'"
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (out / name).write_bytes(content)
        return f"Written to {out}: {', '.join(contents)}{missing}"

    def page(self) -> Page:
        """What the terminal shows: the tables, the claims and the checks."""
        claims = [(claim.claim, claim.verdict, _with_minus(claim.measured)) for claim in self.claims]
        checks = [(c.claim, "passed" if c.holds else "FAILED", _with_minus(c.measured)) for c in self.checks]
        constructed = "Checks of the code, true by construction"
        parts = [
            Table((what, "verdict", "measured"), rows, title, words=range(3))
            for what, rows, title in (("claim", claims, ""), ("check", checks, constructed))
            if rows
        ]
        return Page(self.title, self.title, parts=[*self.tables, *parts])

    def to_dict(self) -> dict[str, Any]:
        """What `--json` writes: title, claims, checks, tables and numbers, with None for NaN and infinity."""
        claims, checks = ([asdict(each) for each in part] for part in (self.claims, self.checks))
        tables = [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in self.tables]
        named = {"figure": self.name, "title": self.title, "claims": claims, "checks": checks}
        return named | ({"tables": tables} if tables else {}) | {"numbers": _finite(self.numbers)}


def _finite(content: Any) -> Any:
    """The same nested numbers with None for those that JSON does not have."""
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def points(curve: me.Curve, *columns: str) -> list[dict[str, Any]]:
    """The points of a curve as rows with some of its columns; sizes are whole numbers.

    Example:
        >>> model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
        >>> estimate = me.estimate_evidence(model, np.zeros((3, 2)), me.EverySize(1))
        >>> points(estimate.curve, "size", "rate")
        [{'size': 1, 'rate': 0.5}, {'size': 2, 'rate': 1.0}]
    """
    values = {name: getattr(curve, name).tolist() for name in columns}
    if "size" in values:
        values["size"] = [int(size) for size in values["size"]]
    return [dict(zip(values, point, strict=True)) for point in zip(*values.values(), strict=True)]


def standard_error(values: Float64[np.ndarray, " n"]) -> float:
    """The standard error of the mean of independent values; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def plus_minus(values: Iterable[float]) -> str:
    """The mean and its standard error in words.

    Example:
        >>> plus_minus([1.0, 2.0, 3.0])
        '2.00 ± 0.58'
    """
    array = np.array(list(values))
    mean = f"{array.mean():.2f}"
    return mean if len(array) < 2 else f"{mean} ± {standard_error(array):.2f}"


def shown(each: Iterable[_T], what: str, total: int | None = None) -> Iterable[_T]:
    """The same values with a bar of progress in a terminal."""
    bar: Iterable[_T] = tqdm(each, what, total, leave=False, delay=0.5, disable=None)
    return bar


def picture(figure: Any, kind: str) -> bytes:
    """The figure as the bytes of a "png" or "pdf" file, which do not depend on when it is drawn."""
    buffer = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
    figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def current_device() -> torch.device | None:
    """The device of the innermost `computing_on`; None leaves it to each model."""
    return _DEVICE.get()


@contextmanager
def computing_on(device: torch.device | None) -> Iterator[None]:
    """Let the models that are built inside compute on a device. Random numbers are drawn as before.

    Example:
        >>> with computing_on(torch.device("cpu")):
        ...     current_device()
        device(type='cpu')
    """
    before = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(before)


def put(what: _T) -> _T:
    """A model, tensor, tokens or moments on the current device; a model is moved in place."""
    device, movable = current_device(), cast(Any, what)
    return what if device is None else cast(_T, movable.to(device))


def pretrained(load: Callable[..., _T], model: str | None, default: str) -> _T | None:
    """The given model on the current device; the default or, where that cannot be had, None without one."""
    try:
        return load(model or default, device=current_device())
    except me.InputError:
        if model is not None:
            raise
        return None
