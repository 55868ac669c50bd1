"""Render pages for notebooks, readable in light and dark and at any width.

There is no style sheet, since notebooks that are not trusted lose it, and no colour of text or background.
"""

from collections.abc import Sequence
from html import escape

from maskevidence.core.errors import MissingExtraError
from maskevidence.core.show.draw import svg
from maskevidence.core.show.parts import Page, Part, Table, Values
from maskevidence.core.show.words import plain

_SMALL = "font-size:90%;opacity:0.85"


def page_html(page: Page) -> str:
    """Render a whole page; without matplotlib, only tables and sentences."""
    aside = f" {text(page.aside)}" if page.aside else ""
    head = f"<div><strong>{text(page.headline)}</strong>{aside}</div>"
    parts = "".join(_part(part, page.headline) for part in page.parts)
    return f'<div style="max-width:48em;line-height:1.5">{head}{parts}{_notes(page.notes)}</div>'


def text(value: object) -> str:
    """Escape a value for HTML and show invisible characters by code point.

    Example:
        >>> text("<b>&")
        '&lt;b&gt;&amp;'
    """
    return escape(plain(value))


def table(part: Table, label: str = "") -> str:
    """An HTML table, scrollable if it is too wide.

    Args:
        part: the table.
        label: what it shows, for readers of a page who cannot see it; the keyboard then reaches it, and its
            first column names the rows.
    """

    def cell(tag: str, value: str, row: int, column: int) -> str:
        style = "text-align:left" if column in part.words else "text-align:right"
        content = text(value)
        if column not in part.words and (tag == "td" or len(content) <= 10):
            style += ";white-space:nowrap"
        elif len(content) > 40:
            style += ";min-width:16em"
        if (row, column) in part.bold:
            content = f"<strong>{content}</strong>"
        if (row, column) in part.marked:
            content = f"<mark>{content}</mark>"
        scope = ' scope="col"' if tag == "th" else ""
        if label and column == 0 and tag == "td":
            tag, scope = "th", ' scope="row"'
        return f'<{tag}{scope} style="{style}">{content}</{tag}>'

    def line(tag: str, cells: Sequence[str], row: int) -> str:
        return f"<tr>{''.join(cell(tag, value, row, column) for column, value in enumerate(cells))}</tr>"

    body = "".join(line("td", cells, row) for row, cells in enumerate(part.rows))
    head = f"<thead>{line('th', part.columns, -1)}</thead>" if part.columns else ""
    title = f"<div>{text(part.title)}</div>" if part.title else ""
    named = f' class="scroll" role="region" tabindex="0" aria-label="{text(label)}"' if label else ""
    return f'{title}<div style="overflow-x:auto"{named}><table>{head}<tbody>{body}</tbody></table></div>'


def _part(part: Part, summary: str) -> str:
    if isinstance(part, str):
        return f'<div style="{_SMALL}">{text(part)}</div>'
    if isinstance(part, Table):
        return table(part)
    try:
        return svg(part, summary)
    except MissingExtraError:
        return f'<div style="{_SMALL}">{text(part.words)}</div>' if isinstance(part, Values) else ""


def _notes(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    return f'<ul style="{_SMALL}">{items}</ul>' if items else ""
