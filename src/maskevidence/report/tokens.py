"""The score of each token of an observation, and texts cut where their tokens are."""

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.runs.directory import TOKENS
from maskevidence.score_table import ScoreTable

_MARKS = re.compile(r"^(?:##|[ĠĊ▁]+)|</w>$")
_REACH = 24  # characters that a token which is not in the text, such as [UNK], may stand for


@dataclass(frozen=True)
class Span:
    """A stretch of text.

    Attributes:
        text: as it stands in the source.
        log_prob: of its token given all others, nats; None for what lies between tokens.
    """

    text: str
    log_prob: float | None = None


def scores_of_tokens(scores: ScoreTable, design: str) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each token given all others, by observation; empty unless tokens were hidden one at a time."""
    if design != "leave-one-out":
        return {}
    table = scores.sorted()
    ids, first = np.unique(table.id, return_index=True)
    return dict(zip(ids.tolist(), np.split(table.score, first[1:]), strict=True))


def read_tokens(folder: Path, scores: dict[int, Float64[np.ndarray, " D"]]) -> dict[int, list[str]] | None:
    """The tokens of each observation, from a run's tokens.csv; None unless it is of these very scores."""
    try:
        with (folder / TOKENS).open(newline="", encoding="utf-8") as file:
            rows = [(int(row["id"]), row["token"], float(row["log_prob"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return None
    tokens: dict[int, list[str]] = {}
    values: dict[int, list[float]] = {}
    for number, token, value in rows:
        tokens.setdefault(number, []).append(token)
        values.setdefault(number, []).append(value)
    same = values.keys() == scores.keys() and all(
        np.array_equal(scores[number], found) for number, found in values.items()
    )
    return tokens if same else None


def aligned(text: str, tokens: Sequence[str], log_probs: Sequence[float]) -> list[Span]:
    """The text in spans, one per token and one for what lies between.

    Tokens are looked for one after the other, whatever their case and accents. One that is not there, such as
    `[UNK]`, stands for what no other token takes.

    Example:
        >>> spans = aligned("Café in π", ["cafe", "in", "[UNK]"], [-1.0, -2.0, -3.0])
        >>> [(span.text, span.log_prob) for span in spans if span.log_prob is not None]
        [('Café', -1.0), ('in', -2.0), ('π', -3.0)]
    """
    plain, origin = _plain(text)
    spans: list[Span] = []
    waiting: list[float] = []
    at = 0
    for token, log_prob in zip(tokens, log_probs, strict=True):
        wanted = _plain(_MARKS.sub("", token))[0].strip()
        start = at
        while start < len(plain) and plain[start].isspace():
            start += 1
        if waiting and wanted:
            found = plain.find(wanted, start, start + len(wanted) + _REACH * len(waiting))
        else:
            found = start if wanted and plain.startswith(wanted, start) else -1
        if found < 0:
            waiting.append(log_prob)
            continue
        spans += _between(text[origin[at] : origin[found]], waiting)
        at, waiting = found + len(wanted), []
        spans.append(Span(text[origin[found] : origin[at]], log_prob))
    return [*spans, *_between(text[origin[at] :], waiting)]


def _between(text: str, waiting: Sequence[float]) -> Iterator[Span]:
    """What no token was found for: the text of those that were not found, if any."""
    core = text.strip()
    if not waiting or not core:
        if text:
            yield Span(text)
        return
    before, _, after = text.partition(core)
    if before:
        yield Span(before)
    yield Span(core, float(np.mean(waiting)))
    if after:
        yield Span(after)


def _plain(text: str) -> tuple[str, list[int]]:
    """Lower case without accents, and where in the text each character, and the end, comes from."""
    characters, origin = [], []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).lower():
            if not unicodedata.combining(part):
                characters.append(part)
                origin.append(place)
    return "".join(characters), [*origin, len(text)]


def glued(tokens: Sequence[str], log_probs: Sequence[float]) -> list[Span]:
    """The tokens themselves as spans, for a text that is not there any more.

    Example:
        >>> [span.text for span in glued(["un", "##seen", "it"], [-1.0, -2.0, -3.0])]
        ['un', 'seen', ' ', 'it']
    """
    spans: list[Span] = []
    for token, log_prob in zip(tokens, log_probs, strict=True):
        piece = token.startswith("##")
        marked = token.startswith(("Ġ", "▁"))
        if spans and not piece:
            spans.append(Span(" "))
        spans.append(Span(token[2:] if piece else token[1:] if marked else token, log_prob))
    return spans
