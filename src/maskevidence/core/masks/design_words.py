"""Parse and print mask designs as words: "random-size:16,per-token", "fixed-rate:0.15".

A word is the design's name, its first option after a colon, and others after commas. The options are the
arguments of the design's class: KEY=VALUE, a value alone for the first argument, or a key alone for an
option that is true or false. `shared` and `per-token` go with every design; they do what masks="shared" and
per_token=True do. In keys, - and _ are the same. A list is FIRST-LAST-STEP, numbers between +, or, for the
`order` of a policy, a file of whole numbers.
"""

import inspect
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.kind import kinds, named
from maskevidence.core.masks.design import MaskDesign, Masks
from maskevidence.core.masks.orders import LogSizes, Orderings
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import EverySize, Exhaustive, FixedRate, LeaveOneOut, RandomSize, Rates
from maskevidence.core.support.checks import in_short, plain_number
from maskevidence.core.support.files import reading

DESIGNS: tuple[type[MaskDesign], ...] = (  # kinds add their own
    EverySize,
    RandomSize,
    Orderings,
    LogSizes,
    LeaveOneOut,
    Exhaustive,
    FixedRate,
    Rates,
    Policy,
)


def design_names() -> list[str]:
    """The names of all designs, including the designs of kinds."""
    return [*(design.name for design in DESIGNS), *(name for kind in kinds() for name in kind.designs)]


def design_class(name: str) -> type[MaskDesign]:
    """Return the design class of a name."""
    for design in DESIGNS:
        if design.name == name:
            return design
    for kind in kinds():
        if name in kind.designs:
            return named(kind.designs[name])
    raise unknown_name("design", name, design_names())


def design_from_settings(settings: Mapping[str, object]) -> MaskDesign:
    """Rebuild a design from `MaskDesign.settings`, also after a round trip through JSON.

    Example:
        >>> design_from_settings({"name": "rates", "rates": [0.2, 0.4], "masks_per_size": 1})
        Rates(rates=(0.2, 0.4), masks_per_size=1)
    """
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    design = design_class(str(options.pop("name", None)))
    try:
        return design(**options)
    except TypeError as error:
        raise InputError(f"the design {dict(settings)} cannot be used: {error}") from error


_MAX_RATES = 10_000
_OF_ALL = ("shared", "per_token")
_EXAMPLES: dict[Any, str] = {float: "0.15", tuple: "0.1-0.9-0.2"}


@dataclass(frozen=True)
class DesignWord:
    """A parsed design word: a design, whether masks are shared, and whether token scores are recorded.

    Example:
        >>> import maskevidence as me
        >>> str(DesignWord(me.RandomSize(16), per_token=True))
        'random-size:16,per-token'
        >>> str(DesignWord(me.Exhaustive(order_mixture=True, blocks=4), "shared"))
        'exhaustive:order-mixture,blocks=4,shared'
    """

    design: MaskDesign  # the design
    masks: Masks = "own"  # "own" for each observation, or "shared" by all
    per_token: bool = False  # whether to record the score of each hidden token
    # names of the design's arguments that the word sets
    named: frozenset[str] = field(default=frozenset(), compare=False)

    def __str__(self) -> str:
        """The word; `parse_design` turns it back into an equal `DesignWord`."""
        options = [*_written(self.design), *["shared"] * (self.masks == "shared")]
        options += ["per-token"] * self.per_token
        return f"{self.design.name}:{','.join(options)}" if options else self.design.name

    def without_tokens(self, owner: str) -> "DesignWord":
        """Return the word itself; raise an InputError if it is per-token, which `owner` cannot record."""
        if self.per_token:
            raise InputError(f"{owner} records no scores of tokens; leave per-token out")
        return self


def as_design(design: object, masks: Masks = "own", per_token: bool = False) -> DesignWord:
    """Make a `DesignWord` of a design or word and the arguments `masks` and `per_token` of a call.

    Masks are shared, and the scores of tokens kept, if the word or the argument says so.

    Example:
        >>> as_design("fixed-rate:0.15").design
        FixedRate(rate=0.15, masks_per_size=4)
        >>> as_design("every-size:2,shared", per_token=True).masks
        'shared'
    """
    if isinstance(design, str):
        word = parse_design(design)
    elif isinstance(design, MaskDesign):
        word = DesignWord(design)
    else:
        names = ", ".join(design_names())
        value = f"the class {design.__name__}" if isinstance(design, type) else in_short(design)
        raise InputError(f"design={value}; give a design such as RandomSize(), or one of the words {names}")
    masks = word.masks if masks == "own" else masks
    return DesignWord(word.design, masks, word.per_token or per_token, word.named)


def parse_design(word: str, **defaults: int) -> DesignWord:
    """Parse a design word.

    Args:
        word: such as "every-size", "random-size:8,replicates=4" or "policy:order=places.txt".
        defaults: values for arguments that the word leaves out, in place of the defaults of the class.

    Example:
        >>> parse_design("rates:0.1-0.9-0.4,masks-per-size=2").design
        Rates(rates=(0.1, 0.5, 0.9), masks_per_size=2)
        >>> parse_design("random-size:8", draws=1, replicates=1).design
        RandomSize(draws=8, replicates=1)
    """
    name, *rest = re.split("[:,]", word, maxsplit=1)
    design = design_class(name)
    parameters = _parameters(design)
    values: dict[str, Any] = {}
    for number, option in enumerate(rest[0].split(",") if rest else ()):
        key, value = _option(word, option, parameters, first=number == 0)
        if key in values:
            raise InputError(f"design {word!r} gives {_key(key)} twice; leave one of them out")
        values[key] = value
    masks: Masks = "shared" if values.pop("shared", False) else "own"
    per_token = values.pop("per_token", False)
    named = frozenset(values)
    if "order" in values and "policy" in parameters:
        values.setdefault("policy", "order")
    values = {key: value for key, value in defaults.items() if key in parameters} | values
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in values:
            example = _EXAMPLES.get(get_origin(parameter.annotation) or parameter.annotation, "VALUE")
            raise InputError(f"design {word!r} lacks its {key}; write {name}:{example}")
    return DesignWord(design(**values), masks, per_token, named)


def _parameters(design: type[MaskDesign]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a design's constructor, with `| None` removed from their types."""
    return {
        name: parameter.replace(annotation=get_args(parameter.annotation)[0])
        if isinstance(parameter.annotation, UnionType)
        else parameter
        for name, parameter in inspect.signature(design).parameters.items()
    }


def _key(name: str) -> str:
    return name.replace("_", "-")


def _option(
    word: str, option: str, parameters: Mapping[str, inspect.Parameter], *, first: bool
) -> tuple[str, Any]:
    """Parse an option into its key and value."""
    bare = [*(name for name, parameter in parameters.items() if parameter.annotation is bool), *_OF_ALL]
    key, equals, text = option.partition("=")
    key = key.replace("-", "_")
    if key in bare and not equals:
        return key, True
    if first and option and not equals and parameters and next(iter(parameters)) not in bare:
        key, text = next(iter(parameters)), option
    elif key not in parameters and key not in bare:
        allowed = [_key(name) if name in bare else f"{_key(name)}=" for name in (*parameters, *_OF_ALL)]
        unknown = repr(option) if option else "an empty option"
        raise InputError(f"design {word!r} has {unknown}; its options are {', '.join(allowed)}")
    elif key in bare:
        raise InputError(f"design {word!r} gives {_key(key)} a value; write {_key(key)} alone")
    if not text:
        raise InputError(f"design {word!r} gives {_key(key)} no value; write {_key(key)}=VALUE")
    return key, _value(word, key, text, parameters[key].annotation)


def _value(word: str, key: str, text: str, kind: Any) -> Any:
    """Convert an option's text to the type of the design's argument."""
    if kind is int:
        if not re.fullmatch("-?[0-9]{1,30}", text):
            raise InputError(f"design {word!r}: {_key(key)} is {text!r}; give a whole number")
        return int(text)
    if kind is float:
        try:
            return plain_number(text)
        except ValueError:
            raise InputError(f"design {word!r}: {_key(key)} is {text!r}; give a number") from None
    if get_origin(kind) is tuple:
        return parse_places(text) if get_args(kind)[0] is int else _numbers(word, key, text)
    if get_origin(kind) is Literal and text not in get_args(kind):
        raise unknown_name(_key(key), text, get_args(kind))
    return text


def _numbers(word: str, key: str, text: str) -> tuple[float, ...]:
    """Parse FIRST-LAST-STEP or numbers joined by +."""
    try:
        first, last, step = map(float, text.split("-"))
    except ValueError:
        try:
            return tuple(map(float, text.split("+")))
        except ValueError:
            raise InputError(
                f"design {word!r}: {_key(key)} is {text!r}; write FIRST-LAST-STEP, such as 0.1-0.9-0.2, or "
                "numbers between +"
            ) from None
    if not (step > 0 and first <= last < math.inf):
        raise InputError(f"design {word!r} has no {key}; write FIRST-LAST-STEP, such as 0.01-0.99-0.01")
    n_numbers = (last - first) / step + 1
    if n_numbers > _MAX_RATES:
        raise InputError(f"design {word!r} has {n_numbers:.3g} {key}; give at most {_MAX_RATES:,}")
    return tuple(round(first + i * step, 12) for i in range(int(n_numbers + 1e-9)))


def parse_places(text: str) -> tuple[int, ...]:
    """Parse whole numbers joined by +, or read them from a text file."""
    if re.fullmatch(r"[0-9]{1,9}(\+[0-9]{1,9})*", text):
        return tuple(map(int, text.split("+")))
    file = Path(text)
    with reading(file):
        if file.exists() and not file.is_file():
            raise InputError(f"{text!r} is not a file; give a text file that lists the places")
        words = file.read_text(encoding="utf-8", errors="replace").split()
    bad = next((word for word in words if not re.fullmatch("[0-9]{1,9}", word)), None)
    if bad is not None or not words:
        raise InputError(
            f"{text!r} {'is empty' if bad is None else f'has {bad[:20]!r}, which is not a place'}; list "
            "the places 0, 1, ... of the tokens in the order in which they are shown"
        )
    return tuple(map(int, words))


def _written(design: MaskDesign) -> list[str]:
    """The options of a design's word: the first argument, and each argument that the others do not imply."""
    values = {name: getattr(design, name) for name in _parameters(type(design))}
    first = next(iter(values), None)
    for name in reversed(tuple(values)):
        rest = {other: value for other, value in values.items() if other != name}
        if name != first and _makes(type(design), rest, design):
            values = rest
    return [
        _key(name) if value is True else _text(value) if name == first else f"{_key(name)}={_text(value)}"
        for name, value in values.items()
        if value is not False
    ]


def _makes(design: type[MaskDesign], values: Mapping[str, Any], expected: MaskDesign) -> bool:
    try:
        return design(**values) == expected
    except InputError:
        return False


def _text(value: Any) -> str:
    """Format a value for a word."""
    if not isinstance(value, tuple):
        return str(value)
    if len(value) > 2 and isinstance(value[0], float):
        steps = f"{value[0]!r}-{value[-1]!r}-{round(value[1] - value[0], 12)!r}"
        with suppress(InputError):  # numbers such as 1e-05 contain a -
            if _numbers(steps, "", steps) == value:
                return steps
    return "+".join(map(str, value))
