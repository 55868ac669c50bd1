"""The score of each token of an observation, and texts split into spans at their tokens."""

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.runs.directory import TOKENS
from maskevidence.scores.record import ScoreTable

_MARKS = re.compile(r"^(?:##|[ĠĊ▁]+)|</w>$")
_REACH = 24  # characters that a token missing from the text, such as [UNK], may stand for


@dataclass(frozen=True)
class Span:
    """A stretch of text.

    Attributes:
        text: the characters as they stand in the source.
        log_prob: log-probability of the token given all others, nats; None for text between tokens.
    """

    text: str
    log_prob: float | None = None


def token_scores(scores: ScoreTable, design: str) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each token given all others, by observation; empty unless the design is leave-one-out."""
    if design != "leave-one-out":
        return {}
    table = scores.sorted()
    ids, first = np.unique(table.id, return_index=True)
    return dict(zip(ids.tolist(), np.split(table.score, first[1:]), strict=True))


def read_tokens(folder: Path, scores: dict[int, Float64[np.ndarray, " D"]]) -> dict[int, list[str]] | None:
    """Read the tokens of each observation from tokens.csv; None unless the file holds these very scores."""
    if not (folder / TOKENS).is_file():
        return None
    try:
        with (folder / TOKENS).open(newline="", encoding="utf-8") as file:
            rows = [(int(row["id"]), row["token"], float(row["log_prob"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return None
    tokens: dict[int, list[str]] = {}
    values: dict[int, list[float]] = {}
    for key, token, value in rows:
        tokens.setdefault(key, []).append(token)
        values.setdefault(key, []).append(value)
    same = values.keys() == scores.keys() and all(np.array_equal(scores[key], values[key]) for key in values)
    return tokens if same else None


def aligned(text: str, tokens: Sequence[str], log_probs: Sequence[float]) -> list[Span]:
    """Split a text into spans, one for each token and one for each stretch between tokens.

    The tokens are searched one after the other, ignoring case and accents. A token that is not in the text,
    such as `[UNK]`, stands for the characters that no other token takes.

    Example:
        >>> spans = aligned("Café in π", ["cafe", "in", "[UNK]"], [-1.0, -2.0, -3.0])
        >>> [(span.text, span.log_prob) for span in spans if span.log_prob is not None]
        [('Café', -1.0), ('in', -2.0), ('π', -3.0)]
    """
    plain, origin = _plain(text)
    spans: list[Span] = []
    unplaced: list[float] = []
    end = 0
    for token, log_prob in zip(tokens, log_probs, strict=True):
        wanted = _plain(_MARKS.sub("", token))[0].strip()
        start = end
        while start < len(plain) and plain[start].isspace():
            start += 1
        if unplaced and wanted:
            place = plain.find(wanted, start, start + len(wanted) + _REACH * len(unplaced))
        else:
            place = start if wanted and plain.startswith(wanted, start) else -1
        if place < 0:
            unplaced.append(log_prob)
            continue
        spans += _between(text[origin[end] : origin[place]], unplaced)
        end, unplaced = place + len(wanted), []
        spans.append(Span(text[origin[place] : origin[end]], log_prob))
    return [*spans, *_between(text[origin[end] :], unplaced)]


def _between(text: str, unplaced: Sequence[float]) -> Iterator[Span]:
    """The spans of text between two tokens, which stands for the unplaced tokens between them, if any."""
    core = text.strip()
    if not unplaced or not core:
        if text:
            yield Span(text)
        return
    before, _, after = text.partition(core)
    if before:
        yield Span(before)
    yield Span(core, float(np.mean(unplaced)))
    if after:
        yield Span(after)


def _plain(text: str) -> tuple[str, list[int]]:
    """The text in lower case without accents, and the place in the text of each character and of the end."""
    characters, origin = [], []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).lower():
            if not unicodedata.combining(part):
                characters.append(part)
                origin.append(place)
    return "".join(characters), [*origin, len(text)]


def spans_of_tokens(tokens: Sequence[str], log_probs: Sequence[float]) -> list[Span]:
    """The tokens themselves as spans, for a text that is not available any more.

    Example:
        >>> [span.text for span in spans_of_tokens(["un", "##seen", "it"], [-1.0, -2.0, -3.0])]
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
