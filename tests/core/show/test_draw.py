"""Pictures: what is in them, and what stays out of a page that holds several."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from maskevidence.core.show.draw import COLOURS, draw, image, plot, svg
from maskevidence.core.show.parts import Picture, Value, ValueRows
from maskevidence.core.show.pictures import Band, ColourGrid, Histogram, Line, Lines, Strip, Strips

HOSTILE = ("\ud800 half", "$a_1$", "_hidden", '<script>"alert(1)"</script>', "a\u202eb")


def line(label: str, n_points: int, number: int = 0) -> Line:
    x = np.linspace(1.0, 40.0, n_points)
    y = -np.log(x)
    masks = Band("masks", y - 0.1, y + 0.1, "95 % interval, masks")
    return Line(
        label, x, y, [Band("data", y - 0.3, y + 0.3, "95 % interval, data", wide=True), masks], number
    )


def lines(*labels: str, n_points: int = 40) -> Lines:
    drawn = [line(label, n_points, number) for number, label in enumerate(labels)]
    return Lines(drawn, "mask size M", "score (nats)", top=("mask rate (%)", 2.5))


def values(*labels: str) -> ValueRows:
    rows = [Value(label, 0.0, (-1.0, 2.0), (-0.1, 0.1), "group") for label in labels]
    return ValueRows(rows, "nats", zero=True)


PICTURES: dict[str, Picture] = {
    "lines": lines(*HOSTILE),
    "few points": lines(*HOSTILE, n_points=3),
    "values": values(*HOSTILE),
    "histogram": Histogram(np.array([0.0, 1.0, 1.5]), HOSTILE[1], zero=True),
    "grid": ColourGrid(
        np.array([[0.5, -1.0]]), [HOSTILE[0]], list(HOSTILE[1:3]), "correlation", "factor", "column"
    ),
    "strips": Strips(
        [Strip(name, np.array([0.0, 1.0]), np.array([0.5, 0.1]), -1.0, 2.0) for name in HOSTILE],
        *("column", "spread", "filled values", "observed values"),
    ),
    "no strips": Strips([], "column", "spread", "filled values", "observed values"),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_any_name_can_be_drawn(name: str, kind: str) -> None:
    assert len(image(PICTURES[name], HOSTILE[0] + HOSTILE[1], kind)) > 1000


@pytest.mark.parametrize("name", PICTURES)
def test_an_svg_is_well_formed_takes_the_colour_of_the_page_and_runs_nothing(name: str) -> None:
    text = svg(PICTURES[name], HOSTILE[3])
    root = ElementTree.fromstring(text)
    assert root.attrib["fill"] == "currentColor"
    assert root.attrib["aria-label"] == HOSTILE[3]
    names = {element.tag for element in root.iter()}
    assert names <= {"svg", "defs", "g", "path", "text", "use", "clipPath", "rect", "image"}
    assert "#000000" not in text


def test_labels_are_shown_as_they_are() -> None:
    root = ElementTree.fromstring(svg(lines(*HOSTILE), ""))
    words = " ".join("".join(text.itertext()) for text in root.iter("text"))
    for name in ("U+D800 half", "$a_1$", "_hidden", '<script>"alert(1)"</script>', "aU+202Eb"):
        assert name in words


def test_the_numbers_of_an_axis_are_not_rounded() -> None:
    x = np.array([0.0, 1.0])
    words = svg(Lines([Line("a", x, x / 4)], "x", "y"), "")
    assert ">0.25<" in words


def test_ids_of_two_pictures_differ() -> None:
    first, second = (svg(lines("a", "b"), "", key) for key in ("curve-1", "curve-2"))
    ids = [set(re.findall(r'id="([^"]*)"', text)) for text in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, found in zip((first, second), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', text)) <= found
    assert svg(lines("a", "b"), "", "curve-1") == first


def test_the_colour_follows_the_number() -> None:
    def colours(picture: Lines) -> list[str]:
        axes = Figure().subplots()
        draw(picture, axes)
        return [drawn.get_color() for drawn in axes.lines]

    assert colours(lines("a", "b")) == list(COLOURS[:2])
    assert colours(Lines([line("b", 40, 1)], "x", "y")) == [COLOURS[1]]


@pytest.mark.parametrize(("n_points", "is_a_band"), [(6, False), (7, True)])
def test_few_points_have_bars(n_points: int, is_a_band: bool) -> None:
    axes = Figure().subplots()
    draw(lines("a", n_points=n_points), axes)
    kinds = {type(collection).__name__ for collection in axes.collections}
    assert kinds == ({"FillBetweenPolyCollection"} if is_a_band else {"LineCollection"})


def test_the_names_of_outliers_do_not_overlap() -> None:
    """Two long names, one far below and one far above, which would meet in the middle."""
    values = np.array([*np.linspace(-0.1, 0.1, 50), -1.0, 1.0])
    named = [(-1.0, "tr|A0A0Q5ADI8|A0A0Q5ADI8_9MICO sequence"), (1.0, "tr|A0A090VCV5|A0A090VCV5_9FLAO")]
    figure = Figure(figsize=(3, 3))
    axes = figure.subplots()
    draw(Histogram(values, "nats", named=named), axes)
    figure.draw_without_rendering()
    first, second = (text.get_window_extent() for text in axes.texts)
    assert not first.overlaps(second)


def test_the_names_of_outliers_stand_above_the_bars() -> None:
    values = np.array([*np.linspace(-0.1, 0.1, 50), -1.0, -0.98, -0.97, 1.0, 0.99])
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    draw(Histogram(values, "nats", named=[(-1.0, "row 7"), (1.0, "row 11")]), axes)
    figure.draw_without_rendering()
    counts, edges = axes.patches[0].get_data()[:2]
    for text in axes.texts:
        (low, bottom), (high, _) = axes.transData.inverted().transform(text.get_window_extent().get_points())
        assert bottom > max(counts[(edges[1:] > low) & (edges[:-1] < high)])


def test_a_grid_without_numbers_below_its_centre_shows_half_of_the_colours_and_turns_long_names() -> None:
    values = np.array([[0.0, 0.4], [np.nan, 0.2]])
    axes = plot(ColourGrid(values, ["a", "b"], ["short", "a longer name"], "nats", reach=0.4), "")
    bar = axes.figure.axes[1]
    assert bar.get_ylim() == pytest.approx((0.0, 0.4))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {90.0}
    (ground,) = axes.patches  # cells without a number do not take the colour of the page, which may be dark
    assert ground.get_facecolor() != axes.get_facecolor()
    axes = plot(ColourGrid(-values, ["a", "b"], ["x", "y"], "nats", reach=0.4), "")
    assert axes.figure.axes[1].get_ylim() == pytest.approx((-0.4, 0.4))
    axes = plot(ColourGrid(values, ["a", "b"], ["x", "y"], "nats of one; blank: of none", reach=0.4), "")
    assert axes.figure.axes[1].get_ylabel() == "nats of one\nblank: of none"
    axes = plot(ColourGrid(-values, ["a", "b"], ["x", "y"], "nats", reach=0.4), "")
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}
