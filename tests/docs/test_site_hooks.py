"""The site's hook: the reference has every public name, the main ones first, and the gallery its code."""

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import maskevidence as me

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook, with an empty latex2mathml, which only the environment of the site has."""
    converter = types.ModuleType("latex2mathml.converter")
    converter.convert = str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "latex2mathml", types.ModuleType("latex2mathml"))
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", converter)
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "site_hooks", raising=False)
    import site_hooks

    return site_hooks


def shown(hooks: Any, page: str) -> list[str]:
    """The headings of the names that a page's text asks for."""
    text = hooks.on_page_markdown((ROOT / "docs" / page).read_text(), None, None, None)
    return re.findall(r"^      heading: (\S+)$", text, re.M)


def test_the_reference_has_every_public_name_and_the_main_ones_first(hooks: Any) -> None:
    text = hooks.on_page_markdown((ROOT / "docs" / "reference" / "python.md").read_text(), None, None, None)
    listed = re.findall(r"^- \[`me\.(\w+)`\]\(names/(\w+)\.md\): (.*)$", text, re.M)
    assert all(name == page and len(said) > 10 for name, page, said in listed)
    names = [name for name, _, _ in listed]
    assert len(names) == len(set(names))
    assert "**To fill missing values (holes, NaN)**" in text
    public = {name for name in me.__all__ if not isinstance(getattr(me, name), types.ModuleType)}
    assert public - {"__version__"} == set(names) - {"errors", "model"}  # modules that have no page
    assert names[0] == "estimate_evidence"
    main = ("estimate_evidence", "select", "impute", "wrong_cells", "CheckReport")
    places = [names.index(name) for name in main]
    assert places == sorted(places)


def test_other_packages_have_theirs(hooks: Any) -> None:
    assert "MaskedImputer" in shown(hooks, "reference/integrations.md")
    assert "me.models.PPCA" in shown(hooks, "reference/models.md")


def test_the_gallery_has_its_scripts(hooks: Any) -> None:
    text = hooks.on_page_markdown((ROOT / "docs" / "gallery.md").read_text(), None, None, None)
    assert "<!-- example" not in text
    assert 'me.impute("kernel-gaussian", holes)' in text


def test_words_of_users_are_tags_of_pages_that_exist(hooks: Any) -> None:
    assert [name for name in hooks.SEARCHED if not (ROOT / "docs" / name).exists()] == []
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="proteins.md"), meta={})
    hooks.on_page_markdown("# Proteins\n", page, None, None)
    assert "ESM2" in page.meta["tags"]


def test_the_search_takes_the_tags_before_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from site_search import Search

    docs = [
        {"location": "a/#part", "title": "Missing values", "text": "missing values " * 9},
        {"location": "b/", "title": "Tables", "text": "<p>holes</p>", "tags": ["missing values", "NaN"]},
        {"location": "c/", "title": "Typos", "text": "nothing"},
    ]
    fields = {"title": {"boost": 1e3}, "text": {"boost": 1.0}, "tags": {"boost": 1e6}}
    index = tmp_path / "search_index.json"
    index.write_text(json.dumps({"config": {"separator": r"[\s,]+", "fields": fields}, "docs": docs}))
    assert Search(index).ranked("missing values")[:2] == ["b/", "a/#part"]
    assert Search(index).ranked("typo") == ["c/"]  # a word matches what it begins
    assert Search(index).ranked("elephants") == []
