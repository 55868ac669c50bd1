"""Scores of single tokens and cells, texts split at their tokens, and shades for all of them."""

import csv
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.comparing.cell_search import CellJudge, facts_of
from maskevidence.errors import MaskEvidenceError
from maskevidence.evidence.estimate import estimate_evidence
from maskevidence.masks.sizes import LeaveOneOut
from maskevidence.model import base_measure_of, to_device_of
from maskevidence.models import load
from maskevidence.models.base import TableModel
from maskevidence.models.fingerprints import fingerprint
from maskevidence.report.reading import ImageContent, ReportedRun, RowContent, Unavailable
from maskevidence.runs.directory import MODEL, TOKENS
from maskevidence.scores.record import ScoreTable
from maskevidence.show.words import MINUS, typeset
from maskevidence.tokens import Tokens


@dataclass(frozen=True)
class Shades:
    """Steps from certain (0, no shade) to least expected (5, the darkest)."""

    edges: tuple[float, ...]  # five decreasing log-probabilities; a value at or above the first has step 0
    names: tuple[str, ...]  # six phrases, one for each step
    unit: str  # what the values are

    def step(self, log_prob: float) -> int:
        """The shade of a log-probability.

        Example:
            >>> of_probabilities().step(-0.01), of_probabilities().step(-10.0)
            (0, 5)
        """
        return sum(log_prob < edge for edge in self.edges)


def of_probabilities() -> Shades:
    """Shades for words: the steps are at probabilities of 1/2, 1/10, 1/100, 1/1000 and 1/10,000."""
    edges = tuple(float(np.log(p)) for p in (0.5, 0.1, 0.01, 0.001, 0.0001))
    first, *others = ("1/2", "1/10", "1/100", "1/1000", "1/10,000")
    names = (f"p ≥ {first}", *(f"≥ {share}" for share in others), f"< {others[-1]}")
    return Shades(edges, names, "probability of the token")


def of_densities(scores: Sequence[Float64[np.ndarray, " D"]]) -> Shades:
    """Shades for numbers, whose log-densities have no natural steps: the 50, 25, 10, 5 and 1 % quantiles."""
    values = np.concatenate(scores)
    edges = tuple(float(edge) for edge in np.quantile(values, (0.5, 0.25, 0.1, 0.05, 0.01)))
    shown = [typeset(edge) for edge in edges]
    return Shades(edges, (*(f"≥ {edge}" for edge in shown), f"< {shown[-1]}"), "log-density, nats")


_MARKS = re.compile(r"^(?:##|[ĠĊ▁]+)|</w>$")
_REACH = 24  # characters that a token missing from the text, such as [UNK], may stand for


@dataclass(frozen=True)
class Span:
    """A stretch of text."""

    text: str  # the characters as they stand in the source
    # log-probability of the token given all others, nats; None for text between tokens
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
        spelled = _plain(_MARKS.sub("", token))[0].strip()
        start = end
        while start < len(plain) and plain[start].isspace():
            start += 1
        if unplaced and spelled:
            place = plain.find(spelled, start, start + len(spelled) + _REACH * len(unplaced))
        else:
            place = start if spelled and plain.startswith(spelled, start) else -1
        if place < 0:
            unplaced.append(log_prob)
            continue
        spans += _between(text[origin[end] : origin[place]], unplaced)
        end, unplaced = place + len(spelled), []
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
    for position, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).lower():
            if not unicodedata.combining(part):
                characters.append(part)
                origin.append(position)
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


MOST_WORK = 5e7  # rows times columns squared
USUAL = 21  # rows in the middle, with which a row is compared
_NAMED, _LOOKS = 2, 10  # cells of a row that are named; looks at it that they may take


def cell_scores(run: ReportedRun, ids: Sequence[int]) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each observed cell given the others of its row, nats, by the run's own model.

    Returns:
        The scores by id; empty unless the run is of a table, and its model and data are at hand.
    """
    return _scores(run, {key: row.values for key in ids if (row := _row(run, key)) is not None})


def unlikely_cells(
    run: ReportedRun, places: Sequence[int], values: Float64[np.ndarray, " N"]
) -> dict[int, str]:
    """The most suspicious cell of each row, and others that `wrong_cells` would hide, in words.

    Returns:
        By place, such as ": age = 999"; empty where `cell_scores` is.
    """
    assert run.estimate is not None
    ids = run.estimate.ids.tolist()
    usual = np.argsort(np.abs(values - np.median(values)), kind="stable")[:USUAL].tolist()
    rows = {place: row for place in [*places, *usual] if (row := _row(run, ids[place])) is not None}
    model = _model_for(run, _LOOKS * len(rows)) if places else None
    if model is None or not rows:
        return {}
    table = np.stack([row.values for row in rows.values()])
    judge = CellJudge(model, facts_of(model, table))
    try:
        judged = judge.search(np.stack([rows[place].values for place in places]))
    except MaskEvidenceError:
        return {}
    unlikely = {}
    for place, suspicion, hidden in zip(places, judged.suspicion, judged.hidden, strict=True):
        order = np.argsort(-np.nan_to_num(suspicion, nan=-np.inf), kind="stable")[:_NAMED]
        cells = [j for k, j in enumerate(order.tolist()) if not k or hidden[j]]
        row = rows[place]
        named = (f"{row.columns[j]} = {row.values[j]:.4g}".replace("-", MINUS) for j in cells)
        unlikely[place] = f": {', '.join(named)}"
    return unlikely


def _scores(
    run: ReportedRun, rows: Mapping[int, Float64[np.ndarray, " D"]]
) -> dict[int, Float64[np.ndarray, " n_observed"]]:
    """log p of each observed cell of these rows given the others."""
    model = _model_for(run, len(rows))
    if model is None:
        return {}
    tokens = to_device_of(model, Tokens.from_array(np.stack(list(rows.values())), ids=np.array(list(rows))))
    try:
        estimate = estimate_evidence(model, tokens, LeaveOneOut(), refine=False, check=False)
    except MaskEvidenceError:
        return {}
    return token_scores(estimate.scores, LeaveOneOut.name)


def _row(run: ReportedRun, key: int) -> RowContent | None:
    content = None if isinstance(run.contents, Unavailable) else run.contents(key)
    if isinstance(content, ImageContent):
        return content.row
    return content if isinstance(content, RowContent) else None


def _model_for(run: ReportedRun, n_rows: int) -> TableModel | None:
    """The model of a run, if it can judge the cells of so many rows in little time."""
    model, width = _model(run) if n_rows else None, len(run.manifest.data.columns)
    little = n_rows * width**2 <= MOST_WORK
    return model if model is not None and model.n_features == width and little else None


def _model(run: ReportedRun) -> TableModel | None:
    """The model of a run: kept in its folder, or saved where the user named it and unchanged."""
    kept = run.manifest.kept_model is not None
    folder = run.folder / MODEL if kept else Path(run.manifest.model)
    try:
        model = load(folder) if folder.is_dir() else None
        same = kept or model is None or fingerprint(model) == run.manifest.model_fingerprint
    except (MaskEvidenceError, OSError):
        return None
    same = same and base_measure_of(model) == run.manifest.base_measure  # not by cells
    return model if same and isinstance(model, TableModel) else None
