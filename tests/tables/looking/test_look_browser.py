"""The page of a look in a browser: it sorts, filters, fits a phone, and requests nothing."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import maskevidence as me
from maskevidence.command.pages.page import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of nine columns with a script as the name of one."""
    x = me.models.PPCA(n_features=9, n_components=2, seed=1).sample(100, seed=0).round(2)
    frame = pd.DataFrame(x, columns=[*"abcdefgh", "<script>alert(1)</script>"])
    path = tmp_path_factory.mktemp("look") / "index.html"
    write_report(me.look(frame, model="gaussian").page(), path)
    return path


def test_it_sorts_filters_and_fits_a_phone(page: Path) -> None:
    said, asked = list[str](), list[str]()
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=120_000
        )
        shown = browser.new_page(viewport={"width": 390, "height": 800})
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(page.as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") == 390
        fits = "each => each.scrollWidth <= each.clientWidth"
        assert all(table.evaluate(fits) for table in shown.locator(".scroll").all())
        assert shown.locator(".hint").first.is_visible() != shown.locator(".picture").first.evaluate(fits)
        columns = shown.locator("table.sortable").first
        names = columns.locator("tbody th")
        assert names.first.inner_text() == "a"
        columns.locator("thead button").first.click()
        columns.locator("thead button").first.click()
        assert names.first.inner_text() == "h"
        shown.locator("input[type=search]").first.fill("script")
        assert columns.locator("tbody tr:visible").count() == 1
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
