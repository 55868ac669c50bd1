"""Designs in words: "random-size", "fixed-rate:0.15", "policy:block:4+confidence"."""

import math
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.masks import DESIGNS, POLICIES, MaskDesign, design_class
from maskevidence.support.files import reading

_MAX_RATES = 10_000
_COUNTS = ("masks_per_size", "draws", "replicates", "orders", "tokens_per_step")
_OPTIONS = (*_COUNTS, "bound", "order_mixture", "blocks")


def as_design(design: object) -> MaskDesign:
    """A design as it is, or that of a word.

    Raises:
        InputError: neither a design nor a word of one.

    Example:
        >>> as_design("fixed-rate:0.15")
        FixedRate(rate=0.15, masks_per_size=4)
    """
    if isinstance(design, str):
        return parse_design(design)
    if not isinstance(design, MaskDesign):
        names = ", ".join(one.name for one in DESIGNS)
        given = f"the class {design.__name__}" if isinstance(design, type) else repr(design)
        raise InputError(f"design={given}; give a design such as RandomSize(), or one of the words {names}")
    return design


def parse_design(word: str, **options: Any) -> MaskDesign:
    """Turn a --design word and its options into a design.

    Args:
        word: such as "every-size", "fixed-rate:0.15", "rates:0.01-0.99-0.01" or "policy:confidence".
        options: masks_per_size, draws, replicates, orders, bound, order_mixture, blocks and tokens_per_step;
            None for the default of the design.

    Raises:
        InputError: an unknown design (the message lists close matches), a rate that is missing or outside
            (0, 1], or an option that the design does not have.

    Example:
        >>> parse_design("fixed-rate:0.15", masks_per_size=2)
        FixedRate(rate=0.15, masks_per_size=2)
        >>> parse_design("policy:block:4+confidence").settings()["blocks"]
        4
    """
    name, _, argument = word.partition(":")
    design = design_class(name)
    fields: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    known = [field for field in design.__dataclass_fields__ if field in _OPTIONS]  # type: ignore[attr-defined]
    for option in fields:
        if option not in known:
            of_design = ", ".join(_flag(field) for field in known) or "no option"
            raise InputError(f"{_flag(option)} does not belong to {name}, which has {of_design}")
    if name == "fixed-rate":
        fields["rate"] = _rates(word, argument, count=1)[0]
    elif name == "rates":
        start, stop, step = _rates(word, argument, count=3)
        if not (step > 0 and start <= stop < math.inf):
            raise InputError(
                f"design {word!r} has no rates; write rates:FIRST-LAST-STEP, such as rates:0.01-0.99-0.01"
            )
        n_rates = (stop - start) / step + 1
        if n_rates > _MAX_RATES:
            raise InputError(f"design {word!r} has {n_rates:.3g} rates; give at most {_MAX_RATES:,}")
        fields["rates"] = tuple(round(start + i * step, 12) for i in range(int(n_rates + 1e-9)))
    elif name == "policy":
        fields |= _policy(word, argument, fields.get("blocks"))
    elif argument:
        raise InputError(f"design {word!r}: {name} takes nothing after a colon")
    return design(**fields)


def _policy(word: str, argument: str, blocks: int | None) -> dict[str, Any]:
    """The options that a policy's word holds: block:SIZE+NAME, NAME or order:FILE."""
    if argument.startswith("block:"):
        size, _, argument = argument.removeprefix("block:").partition("+")
        if not (size.isascii() and size.isdigit() and int(size)) or blocks not in (None, int(size)):
            raise InputError(
                f"design {word!r} lacks the size of its blocks, or has another one than --blocks; write "
                "policy:block:4+confidence"
            )
        blocks = int(size)
    name, _, file = argument.partition(":")
    if not name or bool(file) != (name == "order"):
        raise InputError(
            f"design {word!r} is not a policy; write policy:NAME with one of {', '.join(POLICIES)}, or "
            "policy:order:FILE with a file of places"
        )
    return {"policy": name, "blocks": blocks, "order": _places(Path(file)) if file else None}


def _places(file: Path) -> tuple[int, ...]:
    """The whole numbers that a text file lists."""
    with reading(file):
        if file.exists() and not file.is_file():
            raise InputError(f"{str(file)!r} is not a file; give a text file that lists the places")
        words = file.read_text(encoding="utf-8", errors="replace").split()
    bad = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)), None)
    if bad is not None or not words:
        raise InputError(
            f"{str(file)!r} {'is empty' if bad is None else f'has {bad[:20]!r}, which is not a place'}; list "
            "the places 0, 1, ... of the tokens in the order in which they are shown"
        )
    return tuple(map(int, words))


def _rates(word: str, argument: str, count: int) -> list[float]:
    try:
        rates = [float(part) for part in argument.split("-")]
    except ValueError:
        rates = []
    if len(rates) != count:
        form = "fixed-rate:0.15" if count == 1 else "rates:0.01-0.99-0.01 (first, last, step)"
        raise InputError(f"design {word!r} lacks its {'rate' if count == 1 else 'rates'}; write {form}")
    return rates


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
