"""The report as a browser shows it: drawn, usable by keys, readable, and without a word to the network."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from maskevidence.report.plots import COLOURS
from report_runs import HOSTILE, command, save_bert, write_table, write_texts

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; apt-get install chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]

# Every text that is seen, with the least contrast it may have (WCAG 2, AA) and the one it has.
CONTRASTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const luminance = (rgb) => {
    const linear = rgb.map((level) => level / 255)
      .map((s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.alpha === 1) return colour.rgb;
      if (colour.alpha > 0) throw new Error(`half-transparent background of ${at.className}`);
    }
    throw new Error("no background at all");
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hovered = element.closest("script, noscript, .hoverlayer");
    if (!walker.currentNode.data.trim() || hovered || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color).rgb;
    const [low, high] = [luminance(colour), luminance(background(element))].sort((a, b) => a - b);
    const large = parseFloat(style.fontSize) >= 24;
    found.push({ text: walker.currentNode.data.trim(), ratio: (high + 0.05) / (low + 0.05), large });
  }
  return found;
}
"""


@dataclass
class Opened:
    """A page in the browser, with all that it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=120_000
        )
        yield launched
        launched.close()


Open = Callable[..., Opened]


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Open a report; afterwards no message may be in its console, and no request have left the file."""
    opened: list[tuple[Path, Opened]] = []

    def open_report(file: Path, *, scheme: str = "light", width: int = 1280) -> Opened:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        made = Opened(context.new_page())
        made.page.on("console", lambda message: made.said.append(message.text))
        made.page.on("pageerror", lambda error: made.said.append(str(error)))
        made.page.on("request", lambda request: made.requested.append(request.url))
        made.page.set_default_timeout(60_000)
        made.page.goto(file.as_uri())
        opened.append((file, made))
        return made

    yield open_report
    for file, made in opened:
        made.page.context.close()
        assert made.said == []
        assert [url for url in made.requested if not url.startswith("data:")] == [file.as_uri()]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of one run of numbers, of two that are compared, of texts that mean harm, and of pixels."""
    folder = tmp_path_factory.mktemp("reports")
    table = write_table(folder / "table.csv")
    for k in (1, 2):
        command("score", f"ppca:{k}", table, "--masks-per-size", 2, "--out", folder / f"ppca-{k}")
    command("score", "ppca:1", table, "--design", "leave-one-out", "--out", folder / "one-size")
    texts = write_texts(folder / "texts.jsonl", HOSTILE)
    words = ("--design", "leave-one-out", "--per-token", "--out", folder / "texts")
    command("score", save_bert(folder / "bert"), texts, *words)
    command(
        "score", "ppca:3", "digits", "--limit", 100, "--design", "leave-one-out", "--out", folder / "digits"
    )
    runs = {
        "one": ["ppca-2"],
        "two": ["ppca-1", "ppca-2"],
        "one-size": ["one-size"],
        "texts": ["texts"],
        "digits": ["digits"],
    }
    for name, of in runs.items():
        command("report", *(folder / run for run in of), "--out", folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in runs}


def lines(page: Any, plot: str = "curves") -> int:
    """How many curves are drawn."""
    return page.locator(f"#plot-{plot} .scatterlayer path.js-line[d*=L]").count()


def bands(page: Any, plot: str = "curves") -> int:
    return page.locator(f"#plot-{plot} .scatterlayer path.js-fill[d*=L]").count()


def test_curves_are_drawn_and_toggles_work(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["two"]).page
    plot = page.locator("#plot-curves")
    assert plot.locator(".points path").count() == 10  # two curves of five sizes
    assert bands(page) == 4  # masks and observations of each
    plot.get_by_role("checkbox", name="masks").uncheck()
    assert bands(page) == 2
    plot.get_by_role("checkbox", name="ppca-1").uncheck()
    assert bands(page) == 1
    assert plot.locator(".points path").count() == 5
    plot.get_by_role("checkbox", name="ppca-1").check()
    plot.get_by_role("checkbox", name="masks").check()
    assert bands(page) == 4
    assert page.locator("#plot-differences .points path").count() == 5


def test_the_axis_can_be_sizes_or_shares_and_zooms(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["one"]).page
    plot = page.locator("#plot-curves")
    ticks = plot.locator(".xaxislayer-above .xtick, .xtick")
    assert "mask size M" in plot.locator(".xtitle").text_content()
    assert "5" in ticks.all_text_contents()
    plot.get_by_role("radio", name="share hidden").check()
    assert plot.locator(".xtitle").text_content() == "hidden tokens (%)"
    assert "100" in ticks.all_text_contents()
    get_range = "document.querySelector('#plot-curves .drawing').layout.xaxis.range"
    low, high = page.evaluate(get_range)
    plot.get_by_role("button", name="In").click()
    closer = page.evaluate(get_range)
    assert low < closer[0] < closer[1] < high
    plot.get_by_role("button", name="All").click()
    assert page.evaluate(get_range) == pytest.approx([low, high])


def test_hovering_names_the_values(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["two"]).page
    drawing = page.locator("#plot-curves .drawing")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
    page.wait_for_selector("#plot-curves .hoverlayer .legend text")
    shown = page.locator("#plot-curves .hoverlayer").text_content()
    assert "ppca-1" in shown
    assert "ppca-2" in shown


def test_everything_can_be_done_with_keys(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["two"]).page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(({tagName, className, textContent, type}) => "
                "[tagName, String(className), type || '', textContent.trim().slice(0, 40)])"
                "(document.activeElement)"
            )
        )
        if reached[-1][1] == "chart":
            break
    assert reached[0][3] == "Skip to the numbers"
    kinds = [(tag, kind) for tag, _, kind, _ in reached]
    assert kinds.count(("INPUT", "checkbox")) == 4
    assert kinds.count(("BUTTON", "button")) == 3
    assert reached[-1][1] == "chart", reached
    readout = page.locator("#plot-curves .readout")
    page.keyboard.press("ArrowRight")
    first = readout.inner_text()
    assert first.startswith("20.0 % hidden: ppca-1 ")
    assert "ppca-2" in first
    page.keyboard.press("End")
    assert readout.inner_text().startswith("100.0 % hidden")
    page.keyboard.press("+")
    zoomed = page.evaluate("document.querySelector('#plot-curves .drawing').layout.xaxis.range")
    assert zoomed[1] - zoomed[0] < 3


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("two", "light"), ("two", "dark"), ("texts", "light"), ("texts", "dark"), ("digits", "dark")],
)
def test_all_has_the_contrast_of_aa(show: Open, reports: dict[str, Path], name: str, scheme: str) -> None:
    page = show(reports[name], scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    found = page.evaluate(CONTRASTS)
    assert len(found) > 60
    faint = [text for text in found if text["ratio"] < (3.0 if text["large"] else 4.5)]
    assert faint == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)")
    assert (sum(paper) < 100) == (scheme == "dark")
    assert all(contrast(_rgb(colour), paper) >= 3.0 for colour in COLOURS)


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def contrast(one: list[float], other: list[float]) -> float:
    """Of two colours, as WCAG 2 defines it."""

    def luminance(rgb: list[float]) -> float:
        linear = [s / 12.92 if (s := v / 255) <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for v in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["two", "texts", "digits"])
def test_nothing_overflows_on_a_phone(show: Open, reports: dict[str, Path], name: str) -> None:
    page = show(reports[name], width=390).page
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cut_off = page.evaluate(
        "[...document.querySelectorAll('.drawing text')].filter((text) => {"
        "  const inner = text.getBoundingClientRect();"
        "  const outer = text.closest('.drawing').getBoundingClientRect();"
        "  return inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1"
        "    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1);"
        "}).map((text) => text.textContent)"
    )
    assert cut_off == []


def test_what_is_not_text_has_words_for_it(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["digits"]).page
    assert page.locator("img").count() == 10
    assert all(
        alt.startswith("Observation ")
        for alt in page.locator("img").evaluate_all("(images) => images.map((image) => image.alt)")
    )
    labels = page.locator("svg[role=img]").evaluate_all("(all) => all.map((svg) => svg.ariaLabel)")
    assert len(labels) == 10
    assert all("log-probability" in label for label in labels)
    chart = page.locator(".chart").get_attribute("aria-label")
    assert "Score by mask size, score, nats per hidden token." in chart
    assert "one point" in chart
    unnamed = page.locator("input, button, summary, [tabindex]").evaluate_all(
        "(all) => all.filter((x) => ![x, ...(x.labels || [])].some("
        "  (named) => named.ariaLabel || named.textContent.trim())).length"
    )
    assert unnamed == 0
    levels = page.locator("h1, h2, h3, h4").evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_texts_are_shown_and_never_run(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["texts"]).page
    shown = page.locator("p.text").all_inner_texts()
    assert len(shown) == len(HOSTILE)
    for text in HOSTILE[:3] + HOSTILE[4:]:
        assert text in shown
    assert "right-to-left U+202E override U+2066isolateU+2069 and U+200Fmark" in shown
    assert page.title() != "taken over"
    assert page.locator("main script, main style, p.text img").count() == 0
    assert page.locator("h2#made-title").is_visible()
    assert page.locator("p.text .token").count() > 50


def test_a_script_that_got_in_would_not_run(show: Open, reports: dict[str, Path], tmp_path: Path) -> None:
    """The page's own policy names the scripts that may run."""
    content = reports["texts"].read_text()
    changed = tmp_path / "changed.html"
    changed.write_text(content.replace("<main>", "<main><script>document.title = 'taken over'</script>"))
    opened = show(changed)
    assert opened.page.title() != "taken over"
    assert any("Content Security Policy" in message for message in opened.said)
    opened.said.clear()


def test_the_printed_page_is_light_and_whole(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["two"], scheme="dark").page
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    assert len(document) > 20_000
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert not page.get_by_role("button").first.is_visible()
    assert page.locator("#plot-curves .runs").inner_text().split() == ["Runs", "ppca-1", "ppca-2"]
    assert page.locator("#plot-curves .drawing svg").first.is_visible()


def test_one_mask_size_is_a_point_with_bars(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["one-size"]).page
    assert "only one mask size, and therefore one point and no curve" in page.inner_text("#plot-curves")
    assert page.locator("#plot-curves .errorbars path").count() == 1
    assert lines(page) == 0
