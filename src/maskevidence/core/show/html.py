"""Render pages for notebooks, readable in light and dark and at any width.

There is no style sheet, since notebooks that are not trusted lose it, and no colour of text or background.
"""

from collections.abc import Sequence
from html import escape

from maskevidence.core.errors import MissingExtraError
from maskevidence.core.show.cell_map import cell_map_svg
from maskevidence.core.show.draw import svg
from maskevidence.core.show.parts import Bars, BigNumbers, Group, Page, Part, Table, ValueRows
from maskevidence.core.show.pictures import CellMap
from maskevidence.core.show.words import plain

_SMALL = "font-size:90%;opacity:0.85"
_LARGE = "font-size:190%;font-weight:650;line-height:1.2"
_BAR, _TALL = 7, 22  # width and height of a bar chart in a cell
_PRINTED = 12  # rows of a sortable table on paper


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
        content = _bars(value) if isinstance(value, Bars) else text(value)
        if isinstance(value, Bars):
            style = "text-align:left"
        elif column not in part.words and (tag == "td" or len(content) <= 10):
            style += ";white-space:nowrap"
        elif len(content) > 40:
            style += f";min-width:{13 if part.sortable else 16}em"
        elif part.sortable and len(content) <= 24:
            style += ";white-space:nowrap"
        if (row, column) in part.bold:
            content = f"<strong>{content}</strong>"
        if (row, column) in part.marked:
            content = f"<mark>{content}</mark>"
        if (share := part.shades.get((row, column), 0.0)) > 0:
            style += f";background:color-mix(in srgb, #3987c5 {100 * share:.0f}%, transparent)"
        more = ' scope="col"' if tag == "th" else ""
        if label and tag == "td":
            if folds and (head := part.columns[column]):
                more = f' data-head="{text(head)}"'  # on narrow screens, where cells stand below each other
            if column == 0:
                tag, more = "th", ' scope="row"'
        return f'<{tag}{more} style="{style}">{content}</{tag}>'

    def line(tag: str, cells: Sequence[str], row: int) -> str:
        more = ' class="more"' if part.sortable and row >= _PRINTED else ""
        return (
            f"<tr{more}>{''.join(cell(tag, value, row, column) for column, value in enumerate(cells))}</tr>"
        )

    told = part.marked or len(part.words) > 3  # words rather than numbers that are compared down a column
    folds = part.columns and (part.sortable or part.shades or told)
    body = "".join(line("td", cells, row) for row, cells in enumerate(part.rows))
    head = f"<thead>{line('th', part.columns, -1)}</thead>" if part.columns else ""
    title = f'<div style="margin-top:0.8em;break-after:avoid">{text(part.title)}</div>' if part.title else ""
    kind = "sortable" if part.sortable else "matrix" if part.shades else "told" if folds else ""
    n_more = len(part.rows) - _PRINTED if part.sortable else 0
    where = f" and in {part.elsewhere}" if part.elsewhere else ""
    words = f"{n_more:,} more row{'' if n_more == 1 else 's'} on the screen{text(where)}"
    rest = f'<div class="rest" style="display:none">{words}</div>' if n_more > 0 else ""
    named = f' class="scroll" role="region" tabindex="0" aria-label="{text(label)}"' if label else ""
    kind = f' class="{kind}"' if kind else ""
    grid = f"<table{kind}>{head}<tbody>{body}</tbody></table>"
    return f'{title}<div style="overflow-x:auto"{named}>{grid}</div>{rest}'


def answers(part: BigNumbers) -> str:
    """Numbers in large letters side by side."""
    items = "".join(
        f'<div style="flex:1 1 11em"><div style="{_LARGE}">{text(number)}</div><div>{text(words)}</div>'
        f'<div style="{_SMALL}">{text(remark)}</div></div>'
        for number, words, remark in part.items
    )
    style = "display:flex;flex-wrap:wrap;gap:0.8em 1.6em;margin:0.8em 0"
    return f'<div class="answers" style="{style}">{items}</div>'


def _bars(chart: Bars) -> str:
    """A bar chart in a cell, in the colour of its text."""
    bars = "".join(
        f'<rect x="{_BAR * k}" y="{_TALL - max(0.6, _TALL * share):.1f}" width="{_BAR - 1}" '
        f'height="{max(0.6, _TALL * share):.1f}"/>'
        for k, share in enumerate(chart.heights)
    )
    width = _BAR * len(chart.heights)
    return (
        f'<svg viewBox="0 0 {width} {_TALL}" width="{width}" height="{_TALL}" fill="currentColor" '
        f'fill-opacity="0.55" role="img" aria-label="distribution">{bars}</svg>'
    )


def _part(part: Part, summary: str) -> str:
    if isinstance(part, str):
        return f'<div style="{_SMALL}">{text(part)}</div>'
    if isinstance(part, Table):
        return table(part)
    if isinstance(part, BigNumbers):
        return answers(part)
    if isinstance(part, Group):
        inner = "".join(_part(each, part.title) for each in part.parts)
        return f'<div style="margin-top:1em"><strong>{text(part.title)}</strong></div>{inner}'
    if isinstance(part, CellMap):
        return cell_map_svg(part, summary)
    try:
        return svg(part, summary)
    except MissingExtraError:
        return f'<div style="{_SMALL}">{text(part.words)}</div>' if isinstance(part, ValueRows) else ""


def _notes(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    return f'<ul style="{_SMALL}">{items}</ul>' if items else ""
