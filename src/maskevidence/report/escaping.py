"""Text for the page: markup is escaped, and characters that cannot be seen are shown by name."""

import unicodedata
from typing import Any

from maskevidence.errors import import_extra

_KEPT = "\n\t"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # shape letters and emoji, and turn no text around


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
