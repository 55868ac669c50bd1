"""Lay out one HTML file without requests: sections of sentences, tables, pictures and cards.

A page with sortable tables has one small script of its own, and can be read without it.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from itertools import groupby

from maskevidence.core.show.cell_map import cell_map_svg
from maskevidence.core.show.draw import svg
from maskevidence.core.show.html import answers, table, text
from maskevidence.core.show.parts import BigNumbers, Picture, Table
from maskevidence.core.show.pictures import CellMap, ColourGrid
from maskevidence.core.support.provenance import versions


class Html(str):
    """Markup to be shown as it is; plain text is escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class Figure:
    """A picture with heading, description and notes."""

    title: str  # heading
    picture: Picture
    summary: str  # description for readers who cannot see the picture
    numbers: Table | None = None  # the numbers in a table folded below the picture
    notes: Sequence[str] = ()  # notes below the picture


Block = str | Html | Table | BigNumbers | Picture | Figure


@dataclass(frozen=True)
class Section:
    """A section of the page, linked from the top."""

    key: str  # id
    title: str  # heading; "" for none
    parts: Sequence[Block]  # content in order


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


_ABOUT = "Log evidence by masking"
_NATS = (
    " All numbers are in nats unless another unit is named. Log-probabilities keep their sign: higher is "
    "better."
)


def document(title: str, sections: Sequence[Section], about: str = "") -> str:
    """Render the whole HTML file.

    Args:
        title: the headline.
        sections: the first one has no link at the top.
        about: the line above the headline; by default, the page is about log evidence.
    """
    style, script, policy = _file("page.css"), "", _POLICY
    if any(isinstance(part, Table) and part.sortable for each in sections for part in each.parts):
        script = _file("page.js")
        seal = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy, script = f"{_POLICY}; script-src 'sha256-{seal}'", f"<script>{script}</script>\n"
    today = datetime.now().astimezone().date()
    generator = f"maskevidence {versions()['maskevidence']}"
    links = "".join(f'<a href="#{each.key}">{text(each.title)}</a>' for each in sections[1:])
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta name="generator" content="{generator}">',
        f'<title>{text(title)}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>',
        f'<body>\n<header>\n<p class="note">{text(about or _ABOUT)} · {today.day} {today:%B %Y}</p>',
        f"<h1>{text(title)}</h1>",
        f'<nav aria-label="Parts of this page">{links}</nav>' if links else "",
        "</header>\n<main>",
        *map(_section, sections),
        f'</main>\n<footer class="note">{generator}.{"" if about else _NATS}</footer>',
        f"{script}</body>\n</html>\n",
    ]
    return "\n".join(lines)


def _file(name: str) -> str:
    return resources.files("maskevidence.command.pages").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section) -> str:
    title = f"<h2>{text(section.title)}</h2>" if section.title else ""
    shown: list[str] = []
    for grids, parts in groupby(enumerate(section.parts), lambda each: isinstance(each[1], ColourGrid)):
        group = [_shown(part, f"{section.key}-{place}", section) for place, part in parts]
        shown += ['<div class="beside">', *group, "</div>"] if grids and len(group) > 1 else group
    return f'<section id="{section.key}">\n{title}\n' + "\n".join(shown) + "\n</section>"


def _shown(part: Block, key: str, section: Section) -> str:
    """Render one part; `key` is the prefix of a picture's ids."""
    if isinstance(part, Html):
        return part
    if isinstance(part, str):
        return f"<p>{text(part)}</p>"
    if isinstance(part, Table):
        return table(part, part.title or section.title or ", ".join(part.columns))
    if isinstance(part, BigNumbers):
        return answers(part)
    if isinstance(part, Picture):
        return _drawn(part, section.title, key)
    figure = [f"<figure><figcaption><h3>{text(part.title)}</h3></figcaption>"]
    figure.append(_drawn(part.picture, f"{part.title}. {part.summary}", key))
    figure += map(note, part.notes)
    if part.numbers is not None:
        figure.append(folded("The numbers of this picture", [part.numbers]))
    return "\n".join([*figure, "</figure>"])


def _drawn(picture: Picture, summary: str, key: str) -> str:
    """Put a picture in a box that scrolls on narrow screens, with a hint there."""
    box = f'<div class="picture" tabindex="0" role="group" aria-label="{text(summary)}">'
    hint = '<p class="note hint">The picture goes on to the right: swipe or scroll it.</p>'
    drawn = cell_map_svg(picture, summary) if isinstance(picture, CellMap) else svg(picture, summary, key)
    return f"{box}{drawn}</div>{hint}"


def note(words: str) -> Html:
    """A sentence in small print."""
    return Html(f'<p class="note">{text(words)}</p>')


def caution(words: str) -> Html:
    """A highlighted sentence."""
    return Html(f'<p class="caution" role="note">{text(words)}</p>')


def notes(sentences: Sequence[str]) -> list[Block]:
    """A list of sentences in small print; [] without sentences."""
    items = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    return [Html(f'<ul class="note">{items}</ul>')] if items else []


def folded(summary: str, tables: Sequence[Table]) -> Html:
    """Tables that unfold on a click."""
    shown = "".join(table(each, each.title or summary) for each in tables)
    return Html(f"<details><summary>{text(summary)}</summary>{shown}</details>")


def side_by_side(of_runs: dict[str, dict[str, str]]) -> list[Table]:
    """Two tables: entries that differ, with one column per run, and entries common to all runs.

    Example:
        >>> tables = side_by_side({"a": {"seed": "0", "model": "x"}, "b": {"seed": "0", "model": "y"}})
        >>> [table.rows for table in tables]
        [[['model', 'x', 'y']], [['seed', '0']]]
    """
    names = dict.fromkeys(name for entries in of_runs.values() for name in entries)
    rows = [[name, *(entries.get(name, "–") for entries in of_runs.values())] for name in names]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    common = [row[:2] for row in rows if len(set(row[1:])) == 1]
    tables = []
    if differ:
        tables.append(Table(["", *of_runs], differ, words=range(1 + len(of_runs))))
    if common:
        tables.append(Table((), common, "The same for all runs" if differ else "", words=(0, 1)))
    return tables
