"""What a notebook shows: one line, and HTML that is well formed, escaped and small."""

import dataclasses
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from learned_conditionals import Learned, rows

NAMES = [
    "estimate",
    "curve",
    "comparison",
    "difference",
    "imputation",
    "history",
    "model",
    "report",
]
SCRIPT = "<script>alert(1)</script>"


def elements(markup: str) -> ElementTree.Element:
    """The markup as XML: every element is closed, and no attribute is broken."""
    return ElementTree.fromstring(markup)


class Words(HTMLParser):
    """The text of HTML, and the names of its elements."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.names: list[str] = []
        self.feed(markup)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "report"])
def test_the_repr_is_one_short_line(shown: dict[str, Any], name: str) -> None:
    line = repr(shown[name])
    assert "\n" not in line
    assert len(line) < 250
    assert line.startswith(f"{type(shown[name]).__name__}(")


@pytest.mark.parametrize("name", NAMES)
def test_the_html_is_well_formed_and_small(shown: dict[str, Any], name: str) -> None:
    markup = shown[name]._repr_html_()
    root = elements(markup)
    assert root.tag == "div"
    assert len(markup) < 20_000
    assert "nan" not in Words(markup).text.split()
    assert "style>" not in markup
    assert not any("color:" in (part.get("style") or "") for part in root.iter())


def test_an_estimate_says_both_errors_and_what_it_is(shown: dict[str, Any]) -> None:
    estimate = shown["estimate"]
    text = Words(estimate._repr_html_()).text.replace("\N{MINUS SIGN}", "-")
    assert f"Log evidence {estimate.log_evidence:.2f}" in text
    assert f"± {estimate.mask_se:.2f}" in text
    assert f"± {estimate.data_se:.2f}" in text
    assert "95 % interval" in text
    assert "without bias" in text
    assert Words(estimate._repr_html_()).names.count("svg") == 1
    assert f"mask_se {estimate.mask_se:.2f}, data_se {estimate.data_se:.2f}, unbiased" in repr(estimate)


def test_an_error_that_is_not_known_is_said() -> None:
    model = me.models.PPCA(n_features=3, n_components=1)
    estimate = me.estimate_evidence(model, model.sample(1), me.FixedRate(0.4, masks_per_size=1))
    assert estimate.mask_se is None
    assert "mask_se not known, data_se not known, pseudo, 1 observation" in repr(estimate)
    text = Words(estimate._repr_html_()).text
    assert text.count("not known") >= 3
    assert "Pseudo log evidence" in text


def test_bounds_over_orders_are_told() -> None:
    model, x = Learned(3, 2), rows(6, 3, 2)
    estimate = me.estimate_evidence(model, x, me.Orderings(8, bound="importance"))
    assert estimate.bracket is not None
    text = Words(estimate._repr_html_()).text
    assert "Lower bound on the log evidence" in text
    assert "upper bound" in text
    assert "mixture over orders" in text


def test_a_comparison_gives_the_answer_first(shown: dict[str, Any]) -> None:
    comparison = shown["comparison"]
    text = Words(comparison._repr_html_()).text
    best, *rest = comparison.names
    assert text.strip().startswith(f"{best} has the highest log evidence")
    assert all(name in text for name in rest)
    for one in comparison.behind:
        told = {"better": "behind", "not told apart": "not told apart"}[one.verdict]
        assert told in text
        assert f"({told})" in repr(comparison)


def test_filled_values_are_bold_with_their_errors(shown: dict[str, Any]) -> None:
    filled = shown["imputation"]
    root = elements(filled._repr_html_())
    bold = [cell for cell in root.iter("td") if cell.find("strong") is not None]
    assert bold
    assert all("±" in "".join(cell.itertext()) for cell in bold)
    n = int((filled.variance > 0).sum())
    assert f"{n} values of 150 × 6 filled" in "".join(root.itertext())
    complete = me.Imputation(np.ones((2, 2)), np.zeros((2, 2)))
    assert "0 values of 2 × 2 filled" in complete._repr_html_()


def test_names_and_notes_are_escaped(shown: dict[str, Any]) -> None:
    estimate = dataclasses.replace(shown["estimate"], notes=(SCRIPT,))
    comparison = me.compare({SCRIPT: estimate, "a\u202eb": shown["comparison"].estimates["ppca:1"]})
    model = me.models.PPCA(n_features=2, n_components=1)
    model.columns = [SCRIPT, 'b"&']
    finding = me.Finding("leak", "failed", SCRIPT, look_at=SCRIPT)
    for one in (estimate, comparison, comparison.behind[0], model, me.CheckReport("M", (finding,), 1, 0)):
        markup = one._repr_html_()
        elements(markup)
        assert "<script" not in markup
        assert "&lt;script" in markup
        assert "\u202e" not in markup
