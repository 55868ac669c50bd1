"""The report: one page on one or more runs that holds all it needs, and opens without a network."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError, import_extra
from maskevidence.evidence import EvidenceEstimate
from maskevidence.report.escaping import plain, visible
from maskevidence.report.headline import Headline, common_digits, headline
from maskevidence.report.observations import Extremes, describe, find_extremes
from maskevidence.report.plots import Plot, plot_curves
from maskevidence.report.ranking import Ranking, rank
from maskevidence.report.reading import ReportedRun
from maskevidence.runs import MODEL
from maskevidence.support.files import write_atomic
from maskevidence.support.progress import progress
from maskevidence.support.provenance import versions
from maskevidence.wording import count, typeset

OBSERVATIONS = 5


@dataclass(frozen=True)
class Section:
    """What the page says of one run.

    Attributes:
        run: itself.
        subject: model and data, in a few words.
        headline: its numbers; None where there are none yet.
        extremes: its hardest and easiest observations; None where they are not shown.
        ranked_by: how they were ranked.
        made: name and value of what decides the numbers, and what made them.
        versions: of the packages.
        notes: what a reader should know, one sentence each.
    """

    run: ReportedRun
    subject: str
    headline: Headline | None
    extremes: Extremes | None
    ranked_by: str
    made: list[tuple[str, str]]
    versions: list[tuple[str, str]]
    notes: list[str]


def write_report(runs: Sequence[ReportedRun], path: str | Path, *, observations: int = OBSERVATIONS) -> None:
    """Write the report of one or more runs.

    Args:
        runs: from `read_runs`.
        path: of the page, a file that ends in .html.
        observations: how many of the hardest and of the easiest observations to show; 0 for none.

    Raises:
        InputError: a path that is no .html file or cannot be written.
        MissingExtraError: plotly, Jinja2 or Pillow is not installed.

    Example:
        >>> import tempfile, maskevidence as me
        >>> write_report([], Path(tempfile.mkdtemp()) / "report.txt")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: ...report.txt' is no .html file; give one, such as report.html
    """
    target = Path(path)
    check_target(target)
    write_atomic(target, render(runs, observations).encode(errors="backslashreplace"))


def check_target(path: Path) -> None:
    """Raise an InputError unless a page can be written there."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{str(path)!r} is no .html file; give one, such as report.html")


def render(runs: Sequence[ReportedRun], observations: int = OBSERVATIONS) -> str:
    """The page of one or more runs as HTML; see `write_report`."""
    jinja = import_extra("jinja2", "plots", "the report")
    plotly = import_extra("plotly.offline", "plots", "the report")
    sections = []
    digits = common_digits(runs)
    with progress("runs", len(runs)) as advance:
        for run in runs:
            sections.append(_section(run, observations, digits))
            advance(1)
    with_estimates = [run for run in runs if run.estimate is not None]
    ranking = rank(runs) if len(runs) > 1 else None
    plots = _plots(with_estimates, ranking)
    folder = resources.files("maskevidence.report")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    library = _inline(plotly.get_plotlyjs()) if plots else ""
    environment = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True)
    environment.filters |= {"visible": visible, "plain": plain, "number": typeset}
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page = template.render(
        title=_title(runs),
        sections=sections,
        ranking=ranking,
        plots=plots,
        opened=ranking.rows[0][0] if ranking is not None and ranking.rows else runs[0].name,
        with_numbers=bool(with_estimates),
        shows_observations=any(section.extremes for section in sections),
        figures=_json([{"key": plot.key, "bySize": plot.by_size, **plot.figure} for plot in plots]),
        style=style,
        script=script,
        library=library,
        hashes=" ".join(_hash(text) for text in (library, script) if text),
        generator=f"maskevidence {versions()['maskevidence']}",
    )
    return page.strip() + "\n"


def _title(runs: Sequence[ReportedRun]) -> str:
    if len(runs) == 1:
        return _subject(runs[0])
    data = {run.manifest.data.name for run in runs}
    return f"{len(runs)} runs" + (f" on {_short(data.pop())}" if len(data) == 1 else "")


def _subject(run: ReportedRun) -> str:
    return f"{_short(run.manifest.model)} on {_short(run.manifest.data.name)}"


def _short(name: str) -> str:
    """A name for a heading: of a path the end, and of one that ends in "model" a folder more."""
    path = Path(name)
    if not path.is_absolute() and len(path.parts) <= 2:
        return name
    return "/".join(path.parts[-2:] if path.name == MODEL else path.parts[-1:])


def _plots(runs: Sequence[ReportedRun], ranking: Ranking | None) -> list[Plot]:
    curves = {run.name: run.estimate.curve for run in runs if run.estimate is not None}
    if not curves:
        return []
    plots = [plot_curves("curves", "Score by mask size", curves, "score, nats per hidden token")]
    if ranking is not None and ranking.differences:
        best = next(iter(ranking.differences.values())).first
        differences = {
            difference.second: difference.curve
            for difference in ranking.differences.values()
            if difference.curve is not None
        }
        if differences:
            others = next(iter(differences)) if len(differences) == 1 else "each other run"
            title, value = f"{best} minus {others}", "difference, nats per hidden token"
            places = [list(curves).index(name) for name in differences]
            plots.append(plot_curves("differences", title, differences, value, places=places, zero=True))
    return plots


def _section(run: ReportedRun, observations: int, digits: int) -> Section:
    manifest, estimate = run.manifest, run.estimate
    notes = list(manifest.data.notes)
    if estimate is not None:
        notes += [note for note in run.run.result()["notes"] if note not in notes]
    extremes = None
    if estimate is not None and observations:
        extremes = find_extremes(run, observations)
    return Section(
        run=run,
        subject=_subject(run),
        headline=None if estimate is None else headline(run, digits),
        extremes=extremes,
        ranked_by="" if estimate is None else describe(estimate),
        made=_made(run, estimate),
        versions=list(manifest.versions.items()),
        notes=notes,
    )


def _made(run: ReportedRun, estimate: EvidenceEstimate | None) -> list[tuple[str, str]]:
    manifest = run.manifest
    data = manifest.data
    settings = ", ".join(
        f"{name.replace('_', ' ')} {_setting(value)}"
        for name, value in manifest.design.items()
        if name != "name"
    )
    design = str(manifest.design.get("name")) + (f" ({settings})" if settings else "")
    held = f", {100 * data.test_fraction:g} % held out and scored" if data.test_fraction is not None else ""
    made = [
        ("Model", manifest.model),
        ("Conditionals", manifest.conditionals),
        ("Data", f"{data.name}: {count(data.n_observations, 'observation')}{held}"),
        (
            "Design",
            f"{design}; masks {'of each observation' if manifest.masks == 'own' else 'shared by all'}",
        ),
        ("Seed", str(manifest.seed)),
    ]
    if manifest.shard[1] > 1:
        made.append(("Shard", f"{manifest.shard[0]} of {manifest.shard[1]}"))
    if estimate is not None:
        made.append(
            (
                "Work",
                f"{count(estimate.n_masks, 'mask')}, {count(estimate.n_model_calls, 'call')} of the model",
            )
        )
    made.append(("Fingerprint of the data", data.fingerprint[:16]))
    if manifest.model_fingerprint is not None:
        made.append(("Fingerprint of the model", manifest.model_fingerprint[:16]))
    if run.folder is not None:
        made.append(("Folder", str(run.folder)))
    return made


def _setting(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{value[0]} to {value[-1]}, {len(value)} of them"
    return str(value)


def _json(content: Any) -> str:
    """JSON that ends no script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _inline(script: str) -> str:
    """A script in the line ends that a browser gives it, which its hash is of."""
    return script.replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    """What the page's content security policy allows this script by."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
