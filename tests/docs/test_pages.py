"""The pages: every link leads somewhere, every page has its place in the site, and every picture is there."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

import maskevidence as me

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md"))
    if page.name != "CLAUDE.md"
)
FENCED = re.compile(r"^(```+).*?^\1", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "``", FENCED.sub("", text))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, by the rule that GitHub and the site share."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return frozenset(found)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere; those to other sites are not followed."""
    wrong = []
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_has_one_place_in_the_site() -> None:
    def files(part: object) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [file for each in (part.values() if isinstance(part, dict) else part) for file in files(each)]

    text = re.sub(r"!(!python|ENV)\S*", "", (ROOT / "mkdocs.yml").read_text())
    listed = files(yaml.safe_load(text)["nav"])
    written = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    written += [f"tutorials/{path.stem}.md" for path in (ROOT / "docs" / "tutorials").glob("*.ipynb")]
    assert sorted(listed) == sorted(written), "list every page of docs/ in the nav of mkdocs.yml"


def test_names_by_job_are_public_and_the_main_ones_come_first() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    by_job = page[page.index("## Names by job") : page.index("## Each name")]
    named = re.findall(r"`(\w+)`", by_job.replace("(`esm2`)", ""))
    assert set(named) <= set(vars(me)) | set(dir(me))
    main = ["estimate_evidence", "select", "impute", "wrong_cells"]
    assert [name for name in named if name in main][:4] == main
    for word in ("missing values", "typos", "esm2", "Bayes factor", "perplexity"):
        assert word in by_job
