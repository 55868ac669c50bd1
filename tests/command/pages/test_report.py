"""The report: what it says about runs, how it reads observations again, and what it refuses."""

import json
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from image_models import random_images, saved, small_vit_mae, smooth_images, write_images
from maskevidence.command.pages.figures import figures_of_curves
from maskevidence.command.pages.page import render, write_report
from maskevidence.command.pages.page_layout import Figure
from maskevidence.command.pages.reported_runs import (
    Contents,
    ImageContent,
    ReportedRun,
    RowContent,
    TextContent,
    read_back,
    read_runs,
)
from maskevidence.command.pages.shown_observations import _cells, _remarks, card, find_extremes
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.sizes import EverySize
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.show import parts
from maskevidence.core.show.pictures import Lines
from maskevidence.core.show.words import typeset
from maskevidence.core.table import Table
from maskevidence.runs import RunDirectory
from maskevidence.runs.blocks import list_parts
from maskevidence.tables.table_files import read_table
from report_runs import HOSTILE, command, text_of, write_table, write_texts
from text_models import save_bert

pytestmark = pytest.mark.usefixtures("every_block_saved")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of numbers; those of every size are saved in many parts."""
    root = tmp_path_factory.mktemp("runs")
    table = write_table(root / "table.csv")
    for k in (1, 2):
        command("score", f"ppca:{k}", table, "--design", "every-size:2", "--out", root / f"ppca-{k}")
    command("score", "ppca:1", table, "--design", "leave-one-out", "--out", root / "alone")
    return root


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of texts."""
    root = tmp_path_factory.mktemp("texts")
    model, file = save_bert(root / "bert"), write_texts(root / "texts.jsonl", HOSTILE)
    words = ("--design", "leave-one-out:per-token")
    command("score", model, file, "--allow-unknown", *words, "--out", root / "tokens")
    sizes = ("--allow-unknown", "--design", "random-size:4", "--out")
    command("score", model, file, "--limit", 3, *sizes, root / "random")
    (root / "pairs.csv").write_text("q,a,p\nwho sings?,the cat,in the sun\nis it rain?,the dog,here\n")
    command("score", model, root / "pairs.csv", "--text", "q,a", *words, "--out", root / "pairs")
    context = ("--text", "a", "--context-field", "p")
    command("score", model, root / "pairs.csv", *context, *words, "--out", root / "context")
    command("score", model, file, "--block-size", 20, *sizes, root / "blocks")
    long = write_texts(root / "long.jsonl", ["the rain " * 40, "a cat"])
    command("score", model, long, "--long", "split", "--design", "random-size:4", "--out", root / "split")
    return root


def only(path: Path) -> ReportedRun:
    (reported,) = read_runs([path])
    return reported


def read_back_of(reported: ReportedRun) -> Contents | str:
    assert reported.estimate is not None
    return read_back(reported.manifest, reported.estimate.ids)


def test_the_page_has_the_runs_numbers(folder: Path) -> None:
    result = json.loads((folder / "ppca-2" / "estimate.json").read_text())
    shown = text_of(render([only(folder / "ppca-2")]))
    low, high = result["interval_95"]
    for value in (
        result["log_evidence"],
        result["mask_se"],
        result["closed_form_se"],
        result["closed_form"],
        low,
        high,
    ):
        assert typeset(value, 2) in shown
    assert "kind unbiased: random masks of all sizes" in shown
    assert f"{result['n_observations']} " in shown
    assert result["command"] in unescape(shown)
    assert f"torch {result['versions']['torch']}" in shown
    assert "2 masks per size" in shown
    assert "12 rows, 20 % held out and scored" in shown


def test_the_table_has_the_curves_numbers(folder: Path) -> None:
    reported = only(folder / "ppca-2")
    assert reported.estimate is not None
    shown = text_of(render([reported]))
    curve = reported.estimate.curve
    columns = zip(curve.size, curve.score, curve.mask_se, curve.data_se, strict=True)
    for size, score, *errors in columns:
        of_errors = " ".join(typeset(error, 4) if error else "0" for error in errors)
        n_masks = 12 * min(2, math.comb(5, int(size)))
        assert f"{typeset(score, 4)} {of_errors} {n_masks}" in shown


def test_the_picture_has_the_curves_numbers(folder: Path) -> None:
    reported = only(folder / "ppca-2")
    assert reported.estimate is not None
    (line,) = picture_of(figures_of_curves([reported], None)[0]).lines
    curve = reported.estimate.curve
    np.testing.assert_array_equal(line.y, curve.score)
    assert line.x.tolist() == [1, 2, 3, 4, 5]
    (masks,) = (band for band in line.bands if band.name == "masks")
    np.testing.assert_array_equal((masks.low, masks.high), curve.band(0.95))


def picture_of(figure: Figure) -> Lines:
    assert isinstance(figure.picture, Lines)
    return figure.picture


def test_nothing_runs_and_nothing_is_requested(folder: Path) -> None:
    html = render([only(folder / "ppca-2")])
    match = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert match is not None
    assert match[1].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in html
    assert not re.search(r"\b(src|href)=[\"']?(https?:)?//", html)
    assert not re.search(r"\son\w+=", html)


def test_all_ids_of_a_page_differ_and_are_there(folder: Path) -> None:
    html = render(read_runs([folder / "ppca-1", folder / "ppca-2"]))
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', html)) <= set(ids)


def test_a_run_has_one_colour_in_all_curves(folder: Path) -> None:
    """The best run comes first in a comparison, but keeps its number."""
    both = read_runs([folder / "ppca-1", folder / "ppca-2"])
    comparison = me.compare({run.name: run.estimate for run in both})  # type: ignore[arg-type]
    curves, differences = map(picture_of, figures_of_curves(both, comparison))
    assert [(line.label, line.number) for line in curves.lines] == [("ppca-1", 0), ("ppca-2", 1)]
    assert [(line.label, line.number) for line in differences.lines] == [("ppca-2 minus ppca-1", 0)]


def test_runs_on_the_same_rows_are_compared(folder: Path) -> None:
    both = read_runs([folder / "ppca-1", folder / "ppca-2"])
    estimates = {reported.name: reported.estimate for reported in both}
    expected = me.compare(estimates)  # type: ignore[arg-type]
    shown = text_of(render(both))
    (behind,) = expected.behind
    assert f"{typeset(behind.difference, 2)} ± {typeset(behind.standard_error or 0.0, 2)}" in shown
    assert f"it is better than {expected.names[1]}" in shown
    assert f"{expected.names[0]} minus {expected.names[1]}" in shown


def test_an_unfinished_run_is_shown_as_far_as_it_is_scored(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "part"
    shutil.copytree(folder / "ppca-2", copy)
    parts = list_parts(RunDirectory(copy).scores)
    assert len(parts) == 12
    for part in parts[5:]:
        part.path.unlink()
    reported, whole = only(copy), only(folder / "ppca-2")
    assert reported.estimate is not None
    assert whole.estimate is not None
    assert (reported.n_done, reported.n_blocks, reported.finished) == (5, 12, False)
    np.testing.assert_array_equal(reported.estimate.per_observation, whole.estimate.per_observation[:5])
    shown = text_of(render([reported]))
    assert "not finished: 5 of its 12 blocks" in shown
    assert "of the 5 rows that are done" in shown
    assert "nats per row, in closed form" in shown
    shown = text_of(render([whole, only(folder / "ppca-1"), reported]))
    assert "part is not finished and is left out of the comparison" in shown
    for part in parts[:5]:
        part.path.unlink()
    assert only(copy).estimate is None
    shown = text_of(render([only(copy)]))
    assert "no scores of whole rows yet" in shown
    assert "How it was made" in shown


def test_an_observation_with_missing_masks_does_not_count(folder: Path, tmp_path: Path) -> None:
    """More masks are asked for, and some are still missing: half the masks would give another estimate."""
    copy = tmp_path / "more"
    shutil.copytree(folder / "ppca-2", copy)
    more = ("--design", "every-size:3")
    command("score", "ppca:2", folder / "table.csv", *more, "--out", copy)
    added = [part for part in list_parts(RunDirectory(copy).scores) if part.piece.first_repeat == 2]
    for part in added[4:]:
        part.path.unlink()
    reported = only(copy)
    assert reported.estimate is not None
    assert reported.estimate.n_observations == 4
    assert reported.n_done == 4


def test_one_observation_and_no_errors(tmp_path: Path) -> None:
    me.models.PPCA(n_features=3, n_components=1).save(tmp_path / "model")
    (tmp_path / "one.csv").write_text("a,b,c\n1,2,3\n")
    words = ("--design", "every-size:1", "--out", tmp_path / "one")
    command("score", tmp_path / "model", tmp_path / "one.csv", *words)
    shown = text_of(render([only(tmp_path / "one")]))
    assert "one row: the numbers say nothing about others" in shown
    assert shown.count("not known") >= 2
    assert "mask_se is not known: every-size with 1 masks per size leaves out" in shown
    assert "All, hardest first" in shown
    assert "among 1 row." in shown


@pytest.mark.parametrize("options", [(), ("--limit", 30), ("--test-fraction", "0.5", "--seed", 3)], ids=str)
def test_rows_are_read_again(folder: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    table = folder / "table.csv"
    command("score", "ppca:1", table, *options, "--design", "every-size:1", "--out", tmp_path / "a")
    reported = only(tmp_path / "a")
    contents = read_back_of(reported)
    assert not isinstance(contents, str), contents
    assert reported.estimate is not None
    values = read_table(table).values
    for key in reported.estimate.ids.tolist():
        row = contents(key)
        assert isinstance(row, RowContent)
        np.testing.assert_array_equal(row.values, values[key])


def test_images_are_read_again_with_every_option(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    write_images(tmp_path / "images", random_images(24, 6))
    (tmp_path / "images" / "24.png").write_text("no image")
    options = ("--resize", "4x4", "--skip-bad", "--binarise", "stochastic", "--limit", 20)
    words = ("--seed", 3, "--design", "every-size:1", "--out", tmp_path / "a")
    command("score", "ppca:1", tmp_path / "images", *options, *words)
    reported = only(tmp_path / "a")
    assert reported.manifest.data.options == {
        "limit": 20,
        "resize": "4x4",
        "skip_bad": True,
        "binarise": "stochastic",
    }
    contents = read_back_of(reported)
    assert not isinstance(contents, str), contents
    assert reported.estimate is not None
    assert all(contents(key) is not None for key in reported.estimate.ids.tolist())


def test_changed_or_deleted_data_are_not_shown(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    shutil.copy(folder / "table.csv", table)
    command("score", "ppca:1", table, "--out", tmp_path / "a")
    assert "column 0" in text_of(render([only(tmp_path / "a")]))
    table.write_text(table.read_text().replace("0.1", "0.2"))
    shown = text_of(render([only(tmp_path / "a")]))
    assert "does not hold what was scored" in shown
    assert "column 0" not in shown
    table.unlink()
    shown = text_of(render([only(tmp_path / "a")]))
    assert "cannot be read any more" in shown
    assert "Row " in shown


def test_pixels_become_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from maskevidence.data import digits

    command("score", "ppca:2", "digits", "--limit", 60, "--design", "leave-one-out", "--out", tmp_path / "a")
    reported = only(tmp_path / "a")
    contents = read_back_of(reported)
    assert not isinstance(contents, str)
    assert reported.estimate is not None
    key = int(reported.estimate.ids[3])
    picture = contents(key)
    assert isinstance(picture, ImageContent)
    expected = digits().values[key].reshape(8, 8) * 255 / 16
    kept = np.zeros((8, 8), dtype=bool)
    assert picture.place is not None
    kept[tuple(picture.place.T)] = True
    np.testing.assert_allclose(picture.pixels[:, :, 0][kept], expected[kept], atol=0.51)
    hardest, _, shades = find_extremes(reported, 2)
    assert shades is not None
    assert '<svg viewBox="0 0 8 8"' in card(hardest[0], shades)


def test_patches_are_shaded_on_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    pixels = smooth_images(8)
    write_images(tmp_path / "images", pixels)
    model = saved(small_vit_mae(), tmp_path / "model")
    command("score", model, tmp_path / "images", "--design", "leave-one-out", "--out", tmp_path / "a")
    reported = only(tmp_path / "a")
    assert reported.estimate is not None
    assert reported.estimate.n_observations < 8  # the variances were fitted to some
    hardest, _, shades = find_extremes(reported, 2)
    assert shades is not None
    assert _remarks(reported, has_scores=True, coloured=True) == []
    scores = reported.estimate.scores
    contents = read_back_of(reported)
    assert not isinstance(contents, str)
    for shown in hardest:
        picture = contents(shown.id)
        assert isinstance(picture, ImageContent)
        np.testing.assert_array_equal(picture.pixels, pixels[shown.id])
        drawn = {
            (int(x), int(y)): int(step)
            for step, outline in re.findall(r'shade-(\d)" d="([^"]*)"', card(shown, shades))
            for x, y in re.findall(r"M(\d+) (\d+)h2v2h-2z", outline)
        }
        steps = [shades.step(score) for score in scores.score[scores.id == shown.id].tolist()]
        corners = [(2 * (j % 4), 2 * (j // 4)) for j in range(16)]
        assert drawn == {corner: step for corner, step in zip(corners, steps, strict=True) if step}


def test_observations_are_ranked_by_nats_per_token(texts: Path) -> None:
    reported = only(texts / "tokens")
    assert reported.estimate is not None
    hardest, easiest, _ = find_extremes(reported, 2)
    scores = reported.estimate.scores
    mean = {key: scores.score[scores.id == key].mean() for key in np.unique(scores.id).tolist()}
    ranked = sorted(mean, key=lambda key: mean[key])
    assert [shown.id for shown in hardest] == ranked[:2]
    assert [shown.id for shown in easiest] == ranked[-2:][::-1]
    assert hardest[0].per_token == pytest.approx(mean[ranked[0]])


def test_tokens_have_their_scores(texts: Path) -> None:
    reported = only(texts / "tokens")
    assert reported.estimate is not None
    hardest, _, shades = find_extremes(reported, 3)
    assert len(hardest) == len(HOSTILE)
    for shown in hardest:
        scores = reported.estimate.scores
        assert isinstance(shown.content, TextContent)
        assert shown.content.text == HOSTILE[shown.id]
        assert shown.tokens is not None
        assert shown.scores is not None
        np.testing.assert_array_equal(shown.scores, scores.score[scores.id == shown.id])
        chips = [f"{token} {typeset(score)}" for token, score in zip(shown.tokens, shown.scores, strict=True)]
        assert " ".join(chips) in unescape(text_of(card(shown, shades)))


def test_pairs_and_prompts(texts: Path) -> None:
    pair = read_back_of(only(texts / "pairs"))
    assert not isinstance(pair, str)
    assert pair(0) == TextContent("who sings?\nthe cat")
    prompt = read_back_of(only(texts / "context"))
    assert not isinstance(prompt, str)
    assert prompt(1) == TextContent("the dog", "here")
    shown = text_of(render([only(texts / "context")]))
    assert "Prompt, always visible and not scored" in shown


def test_texts_without_token_scores(texts: Path, tmp_path: Path) -> None:
    shown = text_of(render([only(texts / "random")]))
    assert "Tokens have scores of their own only with --design leave-one-out:per-token" in shown
    assert "among 3 texts" in shown
    copy = tmp_path / "copy"
    shutil.copytree(texts / "tokens", copy)
    (copy / "tokens.csv").unlink()
    assert "Run its command again with --design leave-one-out:per-token" in text_of(render([only(copy)]))


def test_tokens_of_another_run_are_not_used(texts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(texts / "tokens", copy)
    lines = (copy / "tokens.csv").read_text().splitlines()
    lines[1] = re.sub(r"[^,]*$", "-0.125", lines[1])
    (copy / "tokens.csv").write_text("\n".join(lines) + "\n")
    assert "The run keeps no tokens" in text_of(render([only(copy)]))


@pytest.mark.parametrize(
    ("name", "words"), [("blocks", "are blocks of running text"), ("split", "are parts of 2 texts")]
)
def test_observations_that_are_not_rows_of_the_data(texts: Path, name: str, words: str) -> None:
    assert words in text_of(render([only(texts / name)]))


def test_text_is_never_markup(texts: Path) -> None:
    html = render([only(texts / "tokens")])
    assert "<script" not in html
    assert 'onerror="' not in html
    assert "</main><style>" not in html
    assert "\u202e" not in html
    assert "U+202E" in html


def test_names_are_never_markup(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "<img src=x onerror=alert(1)>"
    table = replace(read_table(folder / "table.csv"), notes=("<b>note</b>",))
    model = me.models.PPCA(n_features=5, n_components=2).fit(table)
    name = "</title><script>alert(1)</script>\u202e"
    me.save_run(me.estimate_evidence(model, table), copy, name=name, data=table, model=model)
    target = tmp_path / "report.html"
    undecoded = tmp_path / os.fsdecode(b"not UTF-8 \xff")
    shutil.copytree(folder / "ppca-1", undecoded)
    write_report(read_runs([copy, undecoded]), target)
    html = target.read_text()
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert "<b>note" not in html
    assert "U+DCFF" in html


@pytest.mark.slow
def test_ten_thousand_observations_stay_small(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_report([only(many_observations(tmp_path / "many"))], target)
    assert target.stat().st_size < 3e5


def many_observations(folder: Path, n_rows: int = 10_000, n_tokens: int = 20) -> Path:
    """A run with the recorded of many observations."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(n_rows), 2 * n_tokens)
    draw = np.tile(np.repeat(np.arange(2), n_tokens), n_rows)
    size = np.tile(np.arange(1, n_tokens + 1), 2 * n_rows)
    score = -1.5 - 0.02 * size + 0.3 * rng.normal(size=len(ids))
    table = ScoreTable(ids, draw, size, np.full(len(ids), n_tokens), score)
    design = EverySize(masks_per_size=2)
    estimate = summarize_scores(table, HowScored(design, MaskKey(0, "own"), "exact"), 400)
    data = Table(
        "rows.csv", rng.normal(size=(n_rows, n_tokens)), tuple(map(str, range(n_tokens))), np.arange(n_rows)
    )
    me.save_run(estimate, folder, name="gaussian", data=data)
    return folder


def test_the_command(run: CommandLine, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    result = run("report", folder / "ppca-1", folder / "ppca-2", "--out", target, "--observations", 0)
    assert result.code == 0, result.err
    assert str(target) in result.out
    html = target.read_text()
    assert html.startswith("<!doctype html>")
    assert "Hardest" not in text_of(html)


def test_the_missing_extra_is_named(
    run: CommandLine, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = run("report", folder / "ppca-1", "--out", tmp_path / "r.html").error
    assert "pip install '.[plots]'" in message


def test_runs_are_named_by_the_ends_of_their_paths(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(folder / "ppca-1", tmp_path / name / "same")
    names = [reported.name for reported in read_runs([tmp_path / "a" / "same", tmp_path / "b" / "same"])]
    assert names == ["a/same", "b/same"]
    twice = read_runs([folder / "ppca-1", folder / "ppca-1"])
    assert [reported.name for reported in twice] == ["ppca-1", "ppca-1 (2)"]


def test_categories_of_a_row_are_shown_as_words() -> None:
    row = RowContent(("colour", "size", "shape"), np.array([1.0, 2.5, np.nan]), {"colour": ("blue", "red")})
    assert _cells(row, [-1.0, -2.0]) == [
        ("colour", "red", -1.0),
        ("size", "2.5", -2.0),
        ("shape", "missing", None),
    ]


def test_one_hidden_token_draws_no_curve(folder: Path) -> None:
    assert "Score by mask size" not in render([only(folder / "alone")])
    assert "Score by mask size" in render([only(folder / "ppca-1")])


def test_a_table_without_a_title_is_a_region_that_shows_that_it_scrolls() -> None:
    grid = parts.Table(["column", "nats"], [["age", "0.2"]], words=(0,))
    page = parts.Page("", "One pair", parts=[grid], about="Information")
    assert 'class="scroll" role="region" tabindex="0" aria-label="column, nats">' in render(page)
