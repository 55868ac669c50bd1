"""Kinds, verdicts and numbers in words, for terminals and reports alike.

Some functions take ``write``: `number` for a line of Python, `typeset` for the terminal and pages.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

MINUS = "\N{MINUS SIGN}"
RESIDUES = "the tokens are residues of proteins; spaces between them are not counted as bytes"
NOT_KNOWN = "not known"
NOT_RESOLVED = "not resolved beside the masks' error"
ENUMERATED = "the masks are enumerated, not drawn"
WORDS_OF_KINDS = {
    "exact": "every mask was enumerated on exact conditionals, so this is the log evidence itself",
    "unbiased": "random masks of all sizes on exact conditionals estimate the log evidence without bias",
    "approximate": (
        "the conditionals of the model approximate those of a joint density, so the number approximates the "
        "log evidence"
    ),
    "lower_bound": (
        "the learned conditionals define no single p(x); the number is a lower bound on the log evidence of "
        "the mixture over orders"
    ),
    "mixture": (
        "the learned conditionals define no single p(x); this is the log evidence of the "
        "mixture over the orders in which they can be chained, exactly"
    ),
    "policy": (
        "this is the log-probability that a decoder which follows the policy writes the observation; another "
        "policy has another one"
    ),
    "pseudo": (
        "this is neither the log evidence nor a bound on it, and can be compared only with numbers of the "
        "same design"
    ),
}
_SIGNS = 80  # of a text that are shown
_SIZES, _TARGET = "not all mask sizes are covered", "the target is transformed"
_WEIGHTS = "mask sizes have other weights than in the sum over sizes"
_REWEIGHTING = ("random-time", "llada")
_COVERING = ("every-size", "random-size", "orderings", "log-sizes", "exhaustive")
_LEAVING_OUT = ("leave-one-out", "fixed-rate", "rates", "policy")
_PROBABLE = (
    "how probable the model finds {a} {noun}, in nats, and higher is better. A difference of 1 nat per "
    "{noun} means that one model finds the average {noun} 2.7 times as probable as the other does"
)
_ORDERS = "when its tokens are filled in in random order, in nats, and higher is better"
_MEANINGS = {
    "exact": f"the log evidence is log p(x): {_PROBABLE}",
    "unbiased": f"the log evidence is log p(x): {_PROBABLE}",
    "approximate": f"the number approximates the log evidence, log p(x): {_PROBABLE}",
    "lower_bound": (
        "a model of learned conditionals defines no single p(x): the number is a lower bound on the log "
        f"evidence of {{a}} {{noun}} {_ORDERS}"
    ),
    "mixture": (
        "a model of learned conditionals defines no single p(x): the number is the log evidence of {a} "
        f"{{noun}} {_ORDERS}"
    ),
    "policy": (
        "the number is the log-probability that a decoder which follows the policy writes {a} {noun}, in "
        "nats, and higher is better"
    ),
    "pseudo": (
        "the number is not log p(x): it adds up log-probabilities of tokens given others, in nats, and "
        "higher is better among numbers of the same design"
    ),
}
OF_A_DENSITY = frozenset({"exact", "unbiased"})  # kinds that estimate the closed form
_EVIDENCE_NAMES = {
    "exact": "log evidence",
    "unbiased": "log evidence",
    "approximate": "log evidence, approximately",
    "lower_bound": "lower bound on the log evidence",
    "mixture": "log evidence of the order mixture",
    "policy": "log-probability of the decoding policy",
    "pseudo": "pseudo log evidence",
}
BOUND, PSEUDO = "perplexity_bound", "pseudo_perplexity"  # keys of exp(-log evidence per token)
_PERPLEXITY_NAMES = {"lower_bound": "perplexity bound", "pseudo": "pseudo-perplexity"}

Write = Callable[[float, int], str]


def number(value: float, digits: int = 2) -> str:
    """Format a number in plain ASCII, readable by programs; never minus zero.

    Example:
        >>> number(-1234.567), number(-0.001)
        ('-1234.57', '0.00')
    """
    text = f"{value:.{digits}f}"
    return text if text.strip("-0.") else text.lstrip("-")


def typeset(value: float, digits: int = 2) -> str:
    """Format a number with a minus sign and commas between thousands; never minus zero.

    Example:
        >>> typeset(-1234.567), typeset(-0.001)
        ('−1,234.57', '0.00')
    """
    sign = MINUS if number(value, digits).startswith("-") else ""
    return f"{sign}{abs(value):,.{digits}f}"


def plus_minus(value: float, error: float | None, digits: int, write: Write = typeset) -> str:
    """Format a value with its standard error, if known.

    Example:
        >>> plus_minus(-1.5, 0.25, 2), plus_minus(-1.5, None, 2)
        ('−1.50 ± 0.25', '−1.50')
    """
    return write(value, digits) + ("" if error is None else f" ± {write(error, digits)}")


def standard_error(error: float | None, digits: int) -> str:
    """Format a standard error; "none" for 0, which means enumerated masks.

    Example:
        >>> standard_error(0.25, 2), standard_error(0.0, 2), standard_error(None, 2)
        ('± 0.25', 'none', 'not known')
    """
    if error is None:
        return NOT_KNOWN
    return f"± {typeset(error, digits)}" if error else "none"


def data_error(error: float | None, mask_se: float | None, n_observations: int, digits: int) -> str:
    """Format the sampling error of the observations, or say why there is none.

    Example:
        >>> data_error(0.25, 0.1, 9, 2), data_error(None, 0.1, 1, 2), data_error(None, 0.1, 9, 2)
        ('± 0.25', 'not known', "not resolved beside the masks' error")
    """
    if error is not None or n_observations < 2:
        return standard_error(error, digits)
    return NOT_RESOLVED if mask_se else "not known: the numbers of all observations are equal"


def interval_95(low: float, high: float, digits: int, write: Write = typeset) -> str:
    """Format a 95 % interval.

    Example:
        >>> interval_95(-2.0, 1.0, 1)
        '95 % interval −2.0 to 1.0'
    """
    return f"95 % interval {write(low, digits)} to {write(high, digits)}"


def wider(low: float, middle: float, high: float, digits: int) -> str:
    """Say why one side of an interval is wider; "" if the sides are equal up to rounding.

    Sides are told apart from three units of the last digit, and from a tenth of the shorter side: the three
    printed numbers may make equal sides differ by two units.

    Example:
        >>> wider(-2.0, -1.0, -0.5, 2)
        ', wider below because masks that were not drawn may be far lower'
        >>> wider(-1.52, -1.0, -0.5, 2)
        ''
    """
    below, above = middle - low, high - middle
    if abs(below - above) < max(3 * 10.0**-digits, 0.1 * min(below, above)):
        return ""
    side, level = ("below", "lower") if below > above else ("above", "higher")
    return f", wider {side} because masks that were not drawn may be far {level}"


def digits_for(*errors: float | None) -> int:
    """Number of decimals, 2 to 4, at which the smallest error has a nonzero digit.

    Example:
        >>> digits_for(0.049, 0.86), digits_for(0.0031, None), digits_for(None)
        (2, 3, 2)
    """
    positive = [error for error in errors if error]
    return min(4, max(2, -math.floor(math.log10(min(positive))))) if positive else 2


def cell_text(value: float | str, digits: int = 6) -> str:
    """Format a cell of a table on a page.

    Example:
        >>> cell_text("red"), cell_text(2.5), cell_text(math.nan)
        ('red', '2.5', 'missing')
    """
    if isinstance(value, str):
        return value
    return "missing" if math.isnan(value) else figures(value, digits)


def figures(value: float, digits: int = 4, *, padded: bool = False) -> str:
    """Format a number by its significant figures, whole numbers in full: a power of ten only beyond 1e±15.

    With `padded`, 13 has as many figures as 12.8: 13.0.

    Example:
        >>> figures(0.50312), figures(64712.3, 3), figures(-0.0000123, 2), figures(13.0, 3, padded=True)
        ('0.5031', '64712', '−0.000012', '13.0')
    """
    short = f"{value:{'#' * padded}.{digits}g}".rstrip("." * padded)
    if "e" in short and 1e-15 < abs(value) < 1e15:
        short = f"{value:.0f}" if abs(value) >= 1 else f"{Decimal(short):f}"
    return short.replace("-", MINUS)


def p_text(p: float) -> str:
    """Format a p-value, with four decimals in every row of a column.

    Example:
        >>> p_text(0.003), p_text(2e-35)
        ('0.0030', '< 0.0001')
    """
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def count(n: int, noun: str) -> str:
    """Format a number of things: "1 row", "2 rows".

    Example:
        >>> count(1, "mask"), count(2000, "mask")
        ('1 mask', '2,000 masks')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def capital(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Capitalise the first letter and add a full stop."""
    return f"{capital(text)}."


def kind_name(kind: str) -> str:
    """Name the kind of an estimate."""
    return kind.replace("_", " ")


def evidence_name(kind: str, design: str) -> str:
    """Name an estimate by its kind and mask design.

    Example:
        >>> evidence_name("approximate", "every-size"), evidence_name("pseudo", "leave-one-out")
        ('log evidence, approximately', 'pseudo-log-likelihood')
    """
    return "pseudo-log-likelihood" if design == "leave-one-out" else _EVIDENCE_NAMES[kind]


def kind_words(kind: str, design: str) -> str:
    """Explain the kind of an estimate, by kind and mask design.

    Example:
        >>> kind_words("pseudo", "leave-one-out").split(":")[0]
        'not all mask sizes are covered'
        >>> kind_words("pseudo", "random-size").split(":")[0]
        'the target is transformed'
    """
    if kind != "pseudo":
        return WORDS_OF_KINDS[kind]
    why = _TARGET if design in _COVERING else _SIZES if design in _LEAVING_OUT else f"{_SIZES}, or {_TARGET}"
    why = _WEIGHTS if design in _REWEIGHTING else why
    return f"{why}: {WORDS_OF_KINDS[kind]}"


def meaning(kind: str, noun: str) -> str:
    """Explain a number of this kind to a new reader.

    Example:
        >>> meaning("unbiased", "image")[:68]
        'the log evidence is log p(x): how probable the model finds an image,'
    """
    return _MEANINGS[kind].format(a="an" if noun[0] in "aeiou" else "a", noun=noun)


def orders_in_words(
    result: Mapping[str, Any], digits: int, noun: str = "observation"
) -> list[tuple[str, str]]:
    """Rows of names and values about orders in an estimate.json: bounds, area, mixture, spread.

    Example:
        >>> orders_in_words({"bracket": None}, 2)
        []
    """
    bracket, spread = result.get("bracket"), result.get("order_spread")
    if bracket is None:
        return []
    named = [("area", "area", "area_se")]
    if bracket["mixture"] is None:
        named += [("lower bound", "lower", "lower_se"), ("upper bound", "upper", "upper_se")]
    listed = [
        (name, f"{plus_minus(bracket[value], bracket[error] or None, digits)} nats per {noun}")
        for name, value, error in named
        if bracket[value] is not None
    ]
    if bracket["no_upper"] is not None:
        listed.append(("upper bound", f"none: {bracket['no_upper']}"))
    if spread is not None:
        within = typeset(math.sqrt(spread["within"]), digits)
        share = (
            ""
            if spread["share_within"] is None
            else f", {100 * spread['share_within']:.2g} % of its variance"
        )
        listed.append(("orders", f"log p has a standard deviation of {within} nats over orders{share}"))
    return listed


def units_in_words(result: Mapping[str, Any], token: str = "token") -> list[list[str]]:
    """Rows that give the number per token, per byte of text and per pixel, if these exist."""
    per_token, bits = typeset(result["per_token"], 4), typeset(result["bits_per_token"], 4)
    rows = [[f"per {token}", f"{per_token} nats ({bits} bits of code)"]]
    if result.get("bits_per_byte") is not None:
        rows.append(["per byte", f"{typeset(result['bits_per_byte'], 4)} bits of code per byte of text"])
    if result.get("bits_per_dimension") is not None:
        bits = typeset(result["bits_per_dimension"], 4)
        rows.append(["per pixel", f"{bits} bits of code per level (dimension)"])
    recipe = result.get("recipe")
    if recipe is not None:
        return [*rows, *_perplexity_of_recipe(result, recipe)]
    perplexity = result.get(PSEUDO, result.get(BOUND))
    if perplexity is not None:
        kind, least = result["kind"], "at most " if result["kind"] == "lower_bound" else ""
        value = f"{least}{perplexity:,.4g} per {token} ({kind_name(kind)})"
        rows.append([_PERPLEXITY_NAMES.get(kind, "perplexity"), value])
    return rows


def _perplexity_of_recipe(result: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[list[str]]:
    """The perplexity with both standard errors, if the convention names it."""
    if recipe["number"] is None:
        return []
    perplexity = math.exp(-result["per_token"])
    unit = perplexity * result["n_observations"] / result["n_tokens"]  # d perplexity / d log evidence
    errors = [
        f"{name} {NOT_KNOWN if result[key] is None else f'± {unit * result[key]:.2g}'}"
        for name, key in (("masks", "mask_se"), ("data", "data_se"))
    ]
    value = f"{perplexity:,.4g} ({', '.join(errors)}) per {recipe['per']}"
    return [[recipe["number"], f"{value}, as {recipe['name']} names it"]]


# Invisible characters, and characters that change the direction of text.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Line ends, tabs, and joiners of letters and emoji, which leave the direction of text unchanged.
_KEPT = "\n\t\u200c\u200d"


def plain(text: object) -> str:
    """Replace invisible and bidirectional characters by their code points.

    Example:
        >>> plain("a\\u202eb")
        'aU+202Eb'
    """

    def shown(character: str) -> str:
        hidden = unicodedata.category(character) in _HIDDEN and character not in _KEPT
        return f"U+{ord(character):04X}" if hidden else character

    return "".join(map(shown, str(text)))


def beginning(text: str) -> str:
    """The first 80 signs of a text, on one line.

    Example:
        >>> beginning("a\\nb"), len(beginning("x" * 99))
        ('a b', 80)
    """
    return " ".join(text[: 2 * _SIGNS].split())[:_SIGNS].rstrip()
