"""The pages of a look and of wrong cells in a browser: they sort, filter, fit a phone, request nothing."""

import shutil
from pathlib import Path

import numpy as np
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


def test_the_wrong_cells_of_words_fit_a_phone(tmp_path: Path) -> None:
    """The cells of a row stand below each other: a table of six columns is wider than the page."""
    rng, city = np.random.default_rng(0), np.random.default_rng(1).integers(4, size=300)
    names = np.array(["birmingham", "montgomery", "huntsville", "gadsden"])
    frame = pd.DataFrame({"city of the hospital": names[city], "state of the city": names[::-1][city]})
    frame["measure_of_the_hospital"] = names[rng.integers(4, size=300)]
    frame.iloc[:5, 0] = [f"{name}x street in the north" for name in names[city[:5]]]
    write_report(me.wrong_cells("mixture-transition", frame).page(), tmp_path / "cells.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=120_000
        )
        shown = browser.new_page(viewport={"width": 390, "height": 800})
        shown.goto((tmp_path / "cells.html").as_uri())
        tables = shown.locator(".scroll").all()
        assert len(tables) >= 2
        assert all(table.evaluate("each => each.scrollWidth <= each.clientWidth") for table in tables)
        browser.close()
