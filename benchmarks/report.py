"""Size of the report of a run of 10,000 observations, and the time a browser takes to open it.

Each opening uses a new context of headless Chromium, without a cache, and is timed from the navigation to the
end of the page. It is compared with a page that holds the picture of the same curve alone.
The benchmark needs Chromium and the extras plots and dev, and takes about two minutes on two cores.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio

# isort: split
import numpy as np
from playwright.sync_api import sync_playwright

import maskevidence as me
from maskevidence.command.options import RunOptions
from maskevidence.command.pages.page import write_report
from maskevidence.command.pages.reported_runs import read_runs
from maskevidence.command.score import score
from maskevidence.core.show.draw import svg
from maskevidence.tables.table_options import RowOptions

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
MAX_SECONDS = 3.0
MAX_BYTES = 500_000
READY = {"report": "footer", "picture": "svg"}


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium was not found; install it, for example with: apt-get install chromium")
    n_rows, rounds = 20 if options.quick else 10_000, 9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder, n_rows)
        start = time.perf_counter()
        write_report(read_runs([run]), folder / "report.html")
        seconds_to_write = time.perf_counter() - start
        write_picture(run, folder / "picture.html")
        timings = time_openings(chromium, folder, rounds)
        n_bytes = {kind: (folder / f"{kind}.html").stat().st_size for kind in READY}
    rows = [
        (
            label,
            f"{n_bytes[kind] / 1e6:.2f} MB",
            f"{timings[kind].median:.2f} s",
            f"{min(timings[kind].seconds):.2f} to {max(timings[kind].seconds):.2f} s",
        )
        for kind, label in (
            ("report", "the whole report"),
            ("picture", "a page with the curve alone"),
        )
    ]
    show(f"{n_rows:,} observations of 20 tokens", ("page", "size", "opened, median", "range"), rows)
    ratio = timings["report"].median / timings["picture"].median
    spread = spread_of_ratio(timings, "report", "picture")
    print(f"\nTime of the report / the page with the curve alone: {ratio:.2f} ({spread})")
    print(f"Reading the run and writing the page: {seconds_to_write:.2f} s\n{machine()}")
    numbers = {
        "n_rows": n_rows,
        "seconds": timings["report"].median,
        "seconds_picture": timings["picture"].median,
        "bytes": n_bytes["report"],
        "seconds_to_write": seconds_to_write,
    }
    targets = [
        Target("seconds until the page is there", timings["report"].median, high=MAX_SECONDS),
        Target("bytes of the page", n_bytes["report"], high=MAX_BYTES),
    ]
    return finish(numbers, targets, options.json)


def make_run(folder: Path, n_rows: int) -> Path:
    """Score a file of `n_rows` rows of 20 numbers, each size twice, which the report can read again."""
    file = folder / "rows.npy"
    values = me.models.PPCA(n_features=20, n_components=3).sample(n_rows, seed=1)
    np.save(file, values)
    model = me.models.PPCA(n_features=20, n_components=3).fit(values[: min(n_rows, 2_000)])
    model.save(folder / "model")
    run = RunOptions(out=folder / "run")
    score(str(folder / "model"), str(file), "every-size:2", options=RowOptions(), run=run)
    return folder / "run"


def write_picture(run: Path, target: Path) -> None:
    """Write a page with the picture of the curve alone."""
    (reported,) = read_runs([run])
    assert reported.estimate is not None
    picture = svg(reported.estimate.curve.picture()[0], "the curve")
    target.write_text(f"<!doctype html><title>curve</title>{picture}", encoding="utf-8")


def time_openings(chromium: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Time both pages in turn, from the navigation to the end of the page, or to the picture."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)

        def opening(kind: str) -> Any:
            def run() -> None:
                context = browser.new_context()
                page = context.new_page()
                page.goto((folder / f"{kind}.html").as_uri())
                page.wait_for_selector(READY[kind], state="attached")
                context.close()

            return run

        timings = interleaved({kind: opening(kind) for kind in READY}, rounds)
        browser.close()
    return timings


if __name__ == "__main__":
    raise SystemExit(main())
