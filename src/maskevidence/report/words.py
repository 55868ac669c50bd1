"""How the report puts numbers and characters into words."""

import math
import unicodedata
from typing import Any

from maskevidence.errors import import_extra

MINUS = "\N{MINUS SIGN}"
KINDS = {
    "exact": (
        "Exact",
        "Every mask was enumerated on exact conditionals: this is the log evidence itself.",
    ),
    "unbiased": (
        "Unbiased",
        "Random masks of all sizes on exact conditionals: the log evidence, up to the masks’ error.",
    ),
    "approximate": (
        "Approximate",
        "The model’s conditionals approximate those of a joint density, so the number approximates the log "
        "evidence.",
    ),
    "lower_bound": (
        "Lower bound",
        "The conditionals are learned and no joint density stands behind them: the number is a lower bound "
        "on the log evidence of the mixture over orders.",
    ),
    "pseudo": (
        "Pseudo",
        "Not all mask sizes are covered, or the target is transformed: not the log evidence, nor a bound on "
        "it. Compare it with numbers of the same design only.",
    ),
}
NAMES = {
    "exact": "Log evidence",
    "unbiased": "Log evidence",
    "approximate": "Log evidence, approximately",
    "lower_bound": "Lower bound on the log evidence",
    "pseudo": "Pseudo log evidence",
}
_KEPT = "\n\t"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # shape letters and emoji, and turn no text around


def number(value: float, digits: int = 2) -> str:
    """A number with a minus sign and thousands apart.

    Example:
        >>> number(-1234.567), number(-0.001)
        ('−1,234.57', '0.00')
    """
    text = f"{value:,.{digits}f}"
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def count(n: int, noun: str) -> str:
    """How many of something.

    Example:
        >>> count(1, "mask"), count(2000, "mask")
        ('1 mask', '2,000 masks')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def digits_for(*errors: float | None) -> int:
    """So many decimals that the least error shows a digit; 2 to 4.

    Example:
        >>> digits_for(0.049, 0.86), digits_for(0.0031, None), digits_for(None)
        (2, 3, 2)
    """
    known = [error for error in errors if error]
    return min(4, max(2, -math.floor(math.log10(min(known))))) if known else 2


def visible(text: object) -> Any:
    """Text for the page: markup escaped, and characters that are not seen or turn the text around by name.

    Example:
        >>> visible("<b>&\\u202e")
        Markup('&lt;b&gt;&amp;<span class="hidden-character">U+202E</span>')
    """
    markup = import_extra("markupsafe", "plots", "the report")
    named = markup.Markup('<span class="hidden-character">U+{:04X}</span>')
    parts = []
    for character in str(text):
        if _is_hidden(character):
            parts.append(named.format(ord(character)))
        else:
            parts.append(markup.escape(character))
    return markup.Markup("").join(parts)


def plain(text: object) -> str:
    """The same for places that hold no markup, such as a title or a description.

    Example:
        >>> plain("a\u202eb")
        'aU+202Eb'
    """
    return "".join(
        f"U+{ord(character):04X}" if _is_hidden(character) else character for character in str(text)
    )


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _KEPT + _JOINERS
