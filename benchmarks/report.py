"""The report of a run of 10,000 observations: how much it weighs, and how fast a browser opens and draws it.

Each opening is a new context of headless Chromium, without a cache, from the navigation to the drawn curve.
Beside it stands the page that plotly itself writes for the same curve alone, its library inside. Needs
Chromium and the extras plots and dev; takes about two minutes on two cores.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio

# isort: split
import numpy as np
import plotly.graph_objects as go
from playwright.sync_api import sync_playwright

import maskevidence as me
from maskevidence.masks import MaskKey
from maskevidence.report.page import write_report
from maskevidence.report.reading import read_runs
from maskevidence.runs import DataSource, Manifest, RunDirectory, write_run
from maskevidence.score import Scoring
from maskevidence.tasks.prepared import Prepared
from maskevidence.tasks.score import score_prepared

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
MOST_SECONDS = 3.0
MOST_BYTES = 8_000_000
CURVE = "path.js-line[d*=L], .points path"


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("there is no Chromium here; apt-get install chromium")
    n_rows, rounds = (1_000, 3) if options.quick else (10_000, 9)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make_run(folder, n_rows)
        start = time.perf_counter()
        write_report(read_runs([made]), folder / "report.html")
        written = time.perf_counter() - start
        plotly_page(made, folder / "plotly.html")
        timings = time_openings(chromium, folder, rounds)
        weights = {kind: (folder / f"{kind}.html").stat().st_size for kind in ("report", "plotly")}
    rows = [
        (
            label,
            f"{weights[kind] / 1e6:.2f} MB",
            f"{timings[kind].median:.2f} s",
            f"{min(timings[kind].seconds):.2f} to {max(timings[kind].seconds):.2f} s",
        )
        for kind, label in (("report", "report, all of it"), ("plotly", "plotly's own page, the curve alone"))
    ]
    show(f"{n_rows:,} observations of 20 tokens", ("page", "weight", "opened, median", "range"), rows)
    ratio = timings["report"].median / timings["plotly"].median
    print(f"\nReport over plotly's own page: {ratio:.2f} ({spread_of_ratio(timings, 'report', 'plotly')})")
    print(f"Record read and page written: {written:.2f} s\n{machine()}")
    numbers = {
        "n_rows": n_rows,
        "seconds": timings["report"].median,
        "seconds_plotly": timings["plotly"].median,
        "bytes": weights["report"],
        "seconds_to_write": written,
    }
    targets = [
        Target("seconds until the curve is drawn", timings["report"].median, high=MOST_SECONDS),
        Target("bytes of the page", weights["report"], high=MOST_BYTES),
    ]
    return finish(numbers, targets, options.json)


def make_run(folder: Path, n_rows: int) -> Path:
    """A scored table of so many rows of 20 numbers, each size twice, which the report can read again."""
    file = folder / "rows.npy"
    values = me.models.PPCA(n_features=20, n_components=3).sample(n_rows, seed=1)
    np.save(file, values)
    table = me.data.read_table(file)
    model = me.models.PPCA(n_features=20, n_components=3).fit(values[: min(n_rows, 2_000)])
    design = me.EverySize(masks_per_size=2)
    result, estimate = score_prepared(Prepared(model, table, ()), Scoring(design, MaskKey()))
    data = DataSource(
        name=str(file),
        fingerprint=table.fingerprint(),
        n_observations=n_rows,
        columns=list(table.columns),
    )
    manifest = Manifest(
        model="ppca:3",
        conditionals="exact",
        data=data,
        design=design.settings(),
        masks="own",
        seed=0,
        rows_per_block=n_rows,
    )
    write_run(RunDirectory(folder / "run"), manifest, result, estimate)
    return folder / "run"


def plotly_page(run: Path, target: Path) -> None:
    """The same curve as plotly writes it by itself."""
    (reported,) = read_runs([run])
    assert reported.estimate is not None
    curve = reported.estimate.curve
    go.Figure(go.Scatter(x=curve.size, y=curve.score)).write_html(target, include_plotlyjs=True)


def time_openings(chromium: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds from the navigation to the drawn curve, in turn."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)

        def opening(kind: str) -> Any:
            def run() -> None:
                context = browser.new_context()
                page = context.new_page()
                page.goto((folder / f"{kind}.html").as_uri())
                page.wait_for_selector(CURVE, state="attached")
                context.close()

            return run

        timings = interleaved({kind: opening(kind) for kind in ("report", "plotly")}, rounds)
        browser.close()
    return timings


if __name__ == "__main__":
    raise SystemExit(main())
