"""The report in a browser: text is readable, nothing overflows, nothing is requested and nothing runs."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from maskevidence.core.show.draw import COLOURS
from report_runs import HOSTILE, command, write_table, write_texts
from text_models import save_bert

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]

# The contrast of every visible text (WCAG 2), and whether the text is large.
CONTRASTS = """
() => {
  const parse = (text) => {
    const levels = text.match(/[\\d.]+/g).map(Number);
    return { rgb: levels.slice(0, 3), alpha: levels.length > 3 ? levels[3] : 1 };
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
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hidden = element.closest("script, noscript");
    if (!walker.currentNode.data.trim() || hidden || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color).rgb;
    const [low, high] = [luminance(colour), luminance(background(element))].sort((a, b) => a - b);
    const large = parseFloat(style.fontSize) >= 24;
    texts.push({ text: walker.currentNode.data.trim(), ratio: (high + 0.05) / (low + 0.05), large });
  }
  return texts;
}
"""


@dataclass
class Opened:
    """A page in the browser, with the messages of its console and its requests."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


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
    """Open a report; in the end its console must be empty, and it must have requested nothing but itself."""
    opened: list[tuple[Path, Opened]] = []

    def open_report(file: Path, *, scheme: str = "light", width: int = 1280) -> Opened:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        report = Opened(context.new_page())
        report.page.on("console", lambda message: report.messages.append(message.text))
        report.page.on("pageerror", lambda error: report.messages.append(str(error)))
        report.page.on("request", lambda request: report.requests.append(request.url))
        report.page.set_default_timeout(60_000)
        report.page.goto(file.as_uri())
        opened.append((file, report))
        return report

    yield open_report
    for file, report in opened:
        report.page.context.close()
        assert report.messages == []
        assert [url for url in report.requests if not url.startswith("data:")] == [file.as_uri()]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on one run of numbers, two compared runs, hostile texts, and pixels."""
    folder = tmp_path_factory.mktemp("reports")
    table = write_table(folder / "table.csv")
    for k in (1, 2):
        command("score", f"ppca:{k}", table, "--design", "every-size:2", "--out", folder / f"ppca-{k}")
    texts = write_texts(folder / "texts.jsonl", HOSTILE)
    words = ("--design", "leave-one-out:per-token", "--out", folder / "texts")
    command("score", save_bert(folder / "bert"), texts, "--allow-unknown", *words)
    command(
        "score", "ppca:3", "digits", "--limit", 100, "--design", "leave-one-out", "--out", folder / "digits"
    )
    runs = {
        "one": ["ppca-2"],
        "two": ["ppca-1", "ppca-2"],
        "texts": ["texts"],
        "digits": ["digits"],
    }
    for name, of in runs.items():
        command("report", *(folder / run for run in of), "--out", folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in runs}


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("two", "light"), ("two", "dark"), ("texts", "light"), ("texts", "dark"), ("digits", "dark")],
)
def test_all_text_has_the_contrast_of_wcag_aa(
    show: Open, reports: dict[str, Path], name: str, scheme: str
) -> None:
    page = show(reports[name], scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    texts = page.evaluate(CONTRASTS)
    assert len(texts) > 60
    faint = [text for text in texts if text["ratio"] < (3.0 if text["large"] else 4.5)]
    assert faint == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)")
    assert (sum(paper) < 100) == (scheme == "dark")
    assert all(contrast(_rgb(colour), paper) >= 3.0 for colour in COLOURS)


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def contrast(one: list[float], other: list[float]) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""

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
    cut_off = page.locator("svg text").evaluate_all(
        "(all) => all.filter((text) => {"
        "  const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();"
        "  return inner.left < outer.left - 1 || inner.right > outer.right + 1"
        "    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;"
        "}).map((text) => text.textContent)"
    )
    assert cut_off == []
    assert page.locator(".picture svg").first.bounding_box()["width"] > 500  # its box scrolls
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((x) => !x.closest('.scroll, svg')"
        "  && x.getBoundingClientRect().right > 391).map((x) => x.outerHTML.slice(0, 80))"
    )
    assert wide == []


def test_images_and_plots_have_text_alternatives(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["digits"]).page
    assert page.locator("img").count() == 10
    assert all(
        alt.startswith("Image ")
        for alt in page.locator("img").evaluate_all("(images) => images.map((image) => image.alt)")
    )
    labels = page.locator(".images svg[role=img]").evaluate_all("(all) => all.map((svg) => svg.ariaLabel)")
    assert len(labels) == 10
    assert all("log-probability" in label for label in labels)
    assert page.locator("#curves").count() == 0  # of one size, which is no curve
    unnamed = page.locator("summary, [tabindex]").evaluate_all(
        "(all) => all.filter((x) => !x.ariaLabel && !x.textContent.trim()).length"
    )
    assert unnamed == 0
    levels = page.locator("h1, h2, h3, h4").evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    picture = show(reports["one"]).page.locator("#curves svg[role=img]").first.get_attribute("aria-label")
    assert "Score by mask size. Score, nats per hidden token." in picture


def test_texts_are_shown_and_never_executed(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["texts"]).page
    shown = page.locator("p.text").all_inner_texts()
    assert len(shown) == len(HOSTILE)
    for text in HOSTILE[:3] + HOSTILE[4:]:
        assert text in shown
    assert "right-to-left U+202E override U+2066isolateU+2069 and U+200Fmark" in shown
    assert page.title() != "taken over"
    assert page.locator("main script, main style, p.text img").count() == 0
    assert page.locator("#made h2").is_visible()
    assert page.locator(".chips li").count() > 50


def test_an_injected_script_does_not_run(show: Open, reports: dict[str, Path], tmp_path: Path) -> None:
    """The content security policy of the page lets no script run."""
    content = reports["texts"].read_text()
    changed = tmp_path / "changed.html"
    changed.write_text(content.replace("<main>", "<main><script>document.title = 'taken over'</script>"))
    opened = show(changed)
    assert opened.page.title() != "taken over"
    assert any("Content Security Policy" in message for message in opened.messages)
    opened.messages.clear()


def test_the_printed_page_is_light_and_complete(show: Open, reports: dict[str, Path]) -> None:
    page = show(reports["two"], scheme="dark").page
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    assert len(document) > 20_000
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert page.locator("#curves svg").first.is_visible()
    assert not page.locator("nav").is_visible()
    size = "(words) => parseFloat(getComputedStyle(document.querySelector(words)).fontSize)"
    assert page.evaluate(size, "h1") > page.evaluate(size, "#numbers h2") > page.evaluate(size, "#curves h2")
