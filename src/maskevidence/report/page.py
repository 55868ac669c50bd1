"""The report: one self-contained page on one or more runs, which opens without a network."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from maskevidence.comparing.comparison import Comparison, answer, common_name
from maskevidence.errors import InputError, import_extra
from maskevidence.evidence.result import page_of_numbers
from maskevidence.report.figures import components, figures_of_curves, forest, orders, rank
from maskevidence.report.observations import Extremes, all_observations, find_extremes, spread_of
from maskevidence.report.reading import MadeRow, ReportedRun, noun_of
from maskevidence.report.selection import ReportedSelection
from maskevidence.runs.directory import MODEL
from maskevidence.show.html import page_html, table, text
from maskevidence.show.parts import Page
from maskevidence.show.words import (
    NOT_KNOWN,
    capital,
    count,
    digits_for,
    is_hidden,
    meaning,
    name_of,
    plain,
    sentence,
    typeset,
)
from maskevidence.support.files import write_atomic
from maskevidence.support.progress import progress
from maskevidence.support.provenance import versions


def visible(text: object) -> Any:
    """Text as markup: special characters are escaped, invisible and bidirectional ones are shown by name.

    Example:
        >>> visible("<b>&\\u202e")
        Markup('&lt;b&gt;&amp;<span class="hidden-character">U+202E</span>')
    """
    markup = import_extra("markupsafe", "plots", "the report")
    named = markup.Markup('<span class="hidden-character">{}</span>')
    parts = (named.format(name_of(c)) if is_hidden(c) else markup.escape(c) for c in str(text))
    return markup.Markup("").join(parts)


def common_digits(runs: Sequence[ReportedRun]) -> int:
    """The number of decimals that shows every error of these runs."""
    estimates = [run.estimate for run in runs if run.estimate is not None]
    return digits_for(*(error for each in estimates for error in (each.mask_se, each.data_se)))


def numbers(run: ReportedRun, noun: str) -> Page:
    """The numbers of a run that has an estimate."""
    assert run.estimate is not None
    exact = {"closed_form": run.closed_form, "closed_form_se": run.estimate.closed_form_se}
    return page_of_numbers(run.run.result() | exact, noun, run.manifest.data.token)


def caution(run: ReportedRun, noun: str) -> str | None:
    """What a reader must know before the numbers of a run that has an estimate, if anything."""
    estimate = run.estimate
    assert estimate is not None
    if not run.finished:
        return (
            f"This run is not finished: {run.n_done:,} of its {run.n_blocks:,} blocks of rows have all their "
            f"masks. The numbers are of the {estimate.n_observations:,} {noun}s that are done."
        )
    if estimate.n_observations == 1:
        return f"This run has one {noun}: the numbers say nothing about others."
    return None


_WORDS = {"masks_per_size": "{} masks per size"}


def made_rows(runs: Sequence[ReportedRun], noun: str = "observation") -> list[MadeRow]:
    """The rows of the table, in the order in which they are shown."""
    of_runs = [dict(_provenance(run, noun)) for run in runs]
    names = dict.fromkeys(name for entries in of_runs for name in entries)
    rows = []
    for name in names:
        values = [entries.get(name, "–") for entries in of_runs]
        same = len(set(values)) == 1
        rows.append(MadeRow(name, values[:1] if same else values, code=name == "Command"))
    return rows


def _provenance(run: ReportedRun, noun: str) -> list[tuple[str, str]]:
    manifest, estimate = run.manifest, run.estimate
    data = manifest.data
    settings = ", ".join(
        _WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(_setting(value))
        for name, value in manifest.design.items()
        if name != "name" and value not in (None, False)
    )
    design = str(manifest.design.get("name")) + (f" ({settings})" if settings else "")
    masks = f"other masks for each {noun}" if manifest.masks == "own" else "the same masks for all"
    held = f", {100 * data.test_fraction:g} % held out and scored" if data.test_fraction is not None else ""
    entries = [
        ("Command", manifest.command),
        ("Model", manifest.named + (f": {manifest.model_words}" if manifest.model_words else "")),
        ("Conditionals", manifest.conditionals),
        ("Data", f"{data.name}: {count(data.n_observations, noun)}{held}"),
        ("Design", f"{design}; {masks}"),
        ("Seed", str(manifest.seed)),
    ]
    if manifest.shard[1] > 1:
        entries.append(("Shard", f"{manifest.shard[0]} of {manifest.shard[1]}"))
    if estimate is not None:
        work = f"{count(estimate.n_masks, 'mask')}, {count(estimate.n_model_calls, 'call')} of the model"
        entries.append(("Work", work))
        entries.append(("Base measure", capital(estimate.base_measure or NOT_KNOWN)))
    entries.append(("Fingerprint of the data", data.fingerprint[:16]))
    if manifest.model_fingerprint is not None:
        entries.append(("Fingerprint of the model", manifest.model_fingerprint[:16]))
    entries.append(("Folder", str(run.folder)))
    entries.append(("Versions", ", ".join(f"{name} {value}" for name, value in manifest.versions.items())))
    return entries


def _setting(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{value[0]} to {value[-1]}, {len(value)} of them"
    return str(value)


OBSERVATIONS = 5
_AREAS = frozenset({"exact", "unbiased", "approximate", "lower_bound"})  # kinds that are areas under curves


@dataclass(frozen=True)
class Section:
    """What the page says about one run."""

    run: ReportedRun
    subject: str  # model and data, in a few words
    numbers: Page | None  # the numbers, if there are any yet
    caution: str | None  # what a reader must know before them, if anything
    extremes: Extremes | None  # the hardest and easiest observations, if they are shown
    notes: list[str]  # what the reader should know, one sentence each


def write_report(
    runs: Sequence[ReportedRun] | ReportedSelection | Page,
    path: str | Path,
    *,
    observations: int = OBSERVATIONS,
) -> None:
    """Write the report of one or more runs, of a selection, or of scored mutants.

    Args:
        runs: the runs, from `read_runs`; the selection, from `read_selection`; or any page, such as that of
            `read_variants`.
        path: the page, a file that ends in .html.
        observations: number of hardest, and of easiest, observations to show; 0 for none.

    Raises:
        InputError: the path is not an .html file, or cannot be written.
        MissingExtraError: matplotlib, Jinja2 or Pillow is not installed.

    Example:
        >>> import tempfile, maskevidence as me
        >>> write_report([], Path(tempfile.mkdtemp()) / "report.txt")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: ...report.txt' is not an .html file; give one, such as report.html
    """
    target = Path(path)
    check_target(target)
    if isinstance(runs, Page):
        page = _alone(runs)
    elif isinstance(runs, ReportedSelection):
        page = render([runs.run], observations, runs)
    else:
        page = render(runs, observations)
    write_atomic(target, page.encode(errors="backslashreplace"))


def _alone(page: Page) -> str:
    """A page as a file of its own, as a notebook shows it."""
    style = (resources.files("maskevidence.report") / "page.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    title = text(page.headline)
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style>'
    )
    main = page_html(replace(page, headline=""))
    body = f"<header><h1>{title}</h1></header><main>{main}</main>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def check_target(path: Path) -> None:
    """Refuse a path that no page can be written to."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{str(path)!r} is not an .html file; give one, such as report.html")


def render(
    runs: Sequence[ReportedRun], observations: int = OBSERVATIONS, selection: ReportedSelection | None = None
) -> str:
    """Render the page of one or more runs, or of the run of a selection, as HTML; see `write_report`."""
    jinja, markup = (import_extra(name, "plots", "the report") for name in ("jinja2", "markupsafe"))
    sections, noun = [], noun_of(runs)
    digits = common_digits(runs)
    with progress("runs", len(runs)) as advance:
        for run in runs:
            sections.append(_section(run, observations, noun))
            advance(1)
    with_estimates = [run for run in runs if run.estimate is not None]
    estimates = [run.estimate for run in runs if run.estimate is not None]
    kinds, name = {estimate.kind: None for estimate in estimates}, common_name(estimates)
    ranking = rank(runs) if len(runs) > 1 else None
    comparison = None if ranking is None else ranking.comparison
    opened = runs[0] if comparison is None else next(run for run in runs if run.name == comparison.names[0])
    listed, spread = None, None
    if observations and opened.estimate is not None:
        others = [run for run in with_estimates if run is not opened]
        listed = all_observations(opened, others, ranking, noun)
        spread = spread_of(opened, noun)
    folder = resources.files("maskevidence.report")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True)
    environment.filters |= {"visible": visible, "plain": plain, "number": typeset}
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page = template.render(
        title=_title(runs),
        selection=selection,
        date=_today(),
        noun=noun,
        meanings=[sentence(words) for words in dict.fromkeys(meaning(kind, noun) for kind in kinds)],
        area=None if name == "number" or not _AREAS.issuperset(kinds) else name,
        answer=None if comparison is None else answer(comparison, noun),
        forest=forest(runs, ranking, digits, noun),
        sections=sections,
        in_order=_best_first(sections, comparison),
        ranking=ranking,
        table=lambda part, label: markup.Markup(table(part, label)),
        components=components(runs, ranking, noun),
        curves=[] if selection else figures_of_curves(runs, ranking),
        orders=orders(runs, noun),
        spread=spread,
        listed=listed,
        opened=opened.name,
        made=made_rows(runs, noun) if selection is None else [*made_rows(runs, noun), selection.made],
        notes=_notes(sections) if selection is None else [(note, "") for note in selection.page.notes],
        with_numbers=bool(with_estimates),
        shows_observations=any(section.extremes for section in sections),
        listed_json=_json(None if listed is None else asdict(listed)),
        style=style,
        script=script,
        hash=_hash(script),
        generator=f"maskevidence {versions()['maskevidence']}",
    )
    return page.strip() + "\n"


def _today() -> str:
    """The date on which the page is written."""
    today = datetime.now().astimezone().date()
    return f"{today.day} {today:%B %Y}"


def _title(runs: Sequence[ReportedRun]) -> str:
    if len(runs) == 1:
        return _subject(runs[0])
    data = {run.manifest.data.name for run in runs}
    return f"{len(runs)} runs" + (f" on {_short(data.pop())}" if len(data) == 1 else "")


def _subject(run: ReportedRun) -> str:
    words, revision = run.manifest.model_words, run.manifest.revision
    model = _short(run.manifest.model) + (f" (revision {revision})" if revision else "")
    return f"{f'{words} ({model})' if words else model} on {_short(run.manifest.data.name)}"


def _short(name: str) -> str:
    """A name for a heading: the last part of a path, or the last two if the last is "model"."""
    path = Path(name)
    if not path.is_absolute() and len(path.parts) <= 2:
        return name
    return "/".join(path.parts[-2:] if path.name == MODEL else path.parts[-1:])


def _section(run: ReportedRun, observations: int, noun: str) -> Section:
    notes = list(run.manifest.data.notes)
    if run.estimate is None:
        return Section(run, _subject(run), None, None, None, notes)
    page = numbers(run, noun)
    extremes = find_extremes(run, observations, noun) if observations else None
    return Section(
        run, _subject(run), page, caution(run, noun), extremes, list(dict.fromkeys([*notes, *page.notes]))
    )


def _best_first(sections: Sequence[Section], comparison: Comparison | None) -> list[Section]:
    """The sections in the order of the comparison, and those that it leaves out last."""
    names = [] if comparison is None else list(comparison.names)
    return sorted(
        sections, key=lambda each: names.index(each.run.name) if each.run.name in names else len(names)
    )


def _notes(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """Each note once, with the names of the runs that it is about; no name if it is about all."""
    names: dict[str, list[str]] = {}
    for section in sections:
        for note in section.notes:
            names.setdefault(note, []).append(section.run.name)
    return [(note, "" if len(of) == len(sections) else ", ".join(of)) for note, of in names.items()]


def _json(content: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(script: str) -> str:
    """The hash by which the content security policy of the page allows this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
