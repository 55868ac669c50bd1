"""What the report says first, and how it lists runs and observations."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.comparing.comparison import answer
from maskevidence.evidence.curve import curve_lines
from maskevidence.evidence.result import summarize_scores
from maskevidence.masks.design import MaskKey
from maskevidence.report.figures import figures_of_curves, forest, rank, y_window
from maskevidence.report.observations import (
    MAX_ROWS,
    all_observations,
    find_extremes,
    outliers,
    spread_of,
)
from maskevidence.report.page import made_rows, render
from maskevidence.report.reading import ReportedRun, read_runs
from maskevidence.show.words import typeset
from report_runs import command, text_of, write_table, write_texts
from text_models import save_bert


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[ReportedRun]:
    """PPCA with 1, 2 and 3 components on a table with two latent variables."""
    root = tmp_path_factory.mktemp("runs")
    table = write_table(root / "table.csv", n_rows=200)
    for k in (1, 2, 3):
        command("score", f"ppca:{k}", table, "--design", "every-size:4", "--out", root / f"ppca-{k}")
    return read_runs([root / f"ppca-{k}" for k in (1, 2, 3)])


@pytest.fixture(scope="module")
def page(runs: list[ReportedRun]) -> str:
    return render(runs)


def renamed(run: ReportedRun, names: tuple[str, ...]) -> ReportedRun:
    """The run with other names of its observations."""
    assert run.estimate is not None
    return dataclasses.replace(run, estimate=dataclasses.replace(run.estimate, labels=names))


def section(html: str, name: str) -> str:
    return html[html.index(f'<section id="{name}"') :].split("</section>")[0]


def test_the_answer_comes_first(runs: list[ReportedRun], page: str) -> None:
    comparison = me.compare({run.name: run.estimate for run in runs})  # type: ignore[arg-type]
    found = answer(comparison, "row")
    first = text_of(section(page, "numbers"))
    assert first.startswith(f"{found.headline} {found.words} Behind the best run")
    assert first.index("Behind the best run") < first.index("The log evidence is log p(x)")
    assert comparison.names[-1] == "ppca-1"
    assert comparison.behind[-1].told_apart


@pytest.mark.parametrize(
    ("shifts", "headline", "words"),
    [
        (
            (0.0, 3.0, 5.0),
            "c .*; it is better than both others",
            r"(1\.9|2\.0)\d+ ± 0\.0\d+ nats per image ahead of b, simultaneous 95 % interval 1.*\.",
        ),
        (
            (0.0, 5.0, 5.01),
            "[bc] has the highest log evidence; [bc] cannot be told apart from it",
            r"0\.0\d+ ± 0\.\d+ .* of [bc], 95 % interval −.* It is better than the other model\.",
        ),
        (
            (5.0, 5.0, 5.01),
            "[abc] has the highest log evidence; [abc] and [abc] cannot be told apart from it",
            r"ahead of [abc], simultaneous 95 % interval −0\.\d+ to 0\.\d+\.$",
        ),
    ],
)
def test_what_it_says(shifts: tuple[float, ...], headline: str, words: str) -> None:
    rng = np.random.default_rng(0)
    model = me.models.PPCA(n_features=3, n_components=1)
    estimate = me.estimate_evidence(model, model.sample(400), me.Exhaustive())
    estimates = {}
    for name, shift in zip("abc", shifts, strict=True):
        noise = rng.normal(0, 0.5, len(estimate.ids))
        scores = estimate.scores
        score = scores.score + np.repeat(noise + shift, len(scores.score) // len(noise)) / 3
        table = type(scores)(scores.id, scores.draw, scores.size, scores.n_tokens, score, scores.n_bytes)
        estimates[name] = summarize_scores(table, me.Exhaustive(), MaskKey(0), "exact", 1, me.model.DENSITY)
    found = answer(me.compare(estimates), "image")
    assert re.fullmatch(headline, found.headline), found
    assert re.search(words, found.words), found


def test_every_run_is_ranked_with_both_errors(runs: list[ReportedRun], page: str) -> None:
    ranking = rank(runs)
    assert ranking.comparison is not None
    behind, numbers = forest(runs, ranking, 2, "row")
    estimates = ranking.comparison.estimates
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in numbers.table.split("<tr>")[2:]]
    assert [name for name, *_ in rows] == list(ranking.comparison.names)
    for name, *cells in rows:
        each = estimates[name]
        assert cells[0] == typeset(each.log_evidence, 2)
        assert cells[1:] == [f"± {typeset(error, 2)}" for error in (each.mask_se, each.data_se) if error]
    assert behind.svg.count('id="behind-value-') == 3
    assert "best run, nats per row: ppca-" in behind.svg
    assert page.count("Bars and bands are 95 % intervals; ± is one standard error.") == 1
    assert forest(runs[:1], rank(runs[:1]), 2, "row") == []
    assert rank(runs[:1]).refusal is not None


def test_one_table_says_how_the_runs_were_made(runs: list[ReportedRun], page: str) -> None:
    rows = {row.name: row.values for row in made_rows(runs)}
    assert rows["Model"] == ["ppca:1", "ppca:2", "ppca:3"]
    assert len(rows["Seed"]) == len(rows["Data"]) == len(rows["Versions"]) == 1
    made = section(page, "made")
    assert made.count("<table") == 1
    assert [text_of(cell) for cell in re.findall(r'<th scope="col">(.*?)</th>', made)] == [
        run.name for run in runs
    ]


def test_a_wide_band_does_not_press_the_curves_flat(runs: list[ReportedRun]) -> None:
    """As in a report on many models, one of which has an outlying observation."""
    estimate = runs[0].estimate
    assert estimate is not None
    curve = estimate.curve
    assert y_window(curve_lines({"a": curve}).lines) is None
    wide = dataclasses.replace(curve, data_se=np.where(curve.size == 2, 100.0, curve.data_se))
    window = y_window(curve_lines({"a": curve, "b": wide}).lines)
    assert window is not None
    assert window[0] < curve.score.min() < curve.score.max() < window[1]
    assert window[1] - window[0] < 10
    other = dataclasses.replace(estimate, drawn_curve=lambda: wide)
    (figure,) = figures_of_curves([runs[0], dataclasses.replace(runs[1], estimate=other)], None)
    assert "bands go on beyond the picture" in figure.notes[0]


def test_outliers_are_those_that_lie_far_from_the_others() -> None:
    values = np.random.default_rng(0).normal(size=500).clip(-3, 3)
    assert outliers(values) == ([], [])
    values[[3, 7, 9]] = -8.0, -12.0, 9.0
    assert outliers(values) == ([7, 3], [9])
    assert outliers(np.full(9, 2.0)) == ([], [])


def test_outliers_are_named_in_the_histogram(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.csv", n_rows=200)
    lines = table.read_text().splitlines()
    lines[150] = ",".join(["9.0", "-9.0"] * 2 + ["9.0"])
    table.write_text("\n".join(lines) + "\n")
    me.models.PPCA(5, 2).fit(np.loadtxt(lines[1:100], delimiter=",")).save(tmp_path / "model")
    command("score", tmp_path / "model", table, "--design", "every-size:2", "--out", tmp_path / "run")
    (run,) = read_runs([tmp_path / "run"])
    names = tuple("row of the test" if row == 149 else str(row) for row in range(200))
    spread = spread_of(renamed(run, names), "row")
    assert spread is not None
    assert re.match(r"\d+ rows? lies? far below the others: row of the test \(−", spread.words)
    counts = re.findall(r"<td[^>]*>(\d+)</td>", spread.figure.table)
    assert sum(map(int, counts)) == 200
    assert ">row of the test</text>" in spread.figure.svg  # the farthest one always has its name
    page = render([run])
    assert "far below the others: 149 (−" in text_of(page)
    assert "far below" not in render([run], observations=0)


def test_the_list_of_observations_has_the_numbers_of_the_best_two(runs: list[ReportedRun]) -> None:
    ranking = rank(runs)
    assert ranking.comparison is not None
    by_name = {run.name: run for run in runs}
    best, second = (by_name[name] for name in ranking.comparison.names[:2])
    assert best.estimate is not None
    names = ["x\u202ey" if name == "3" else name for name in best.estimate.names]
    listed = all_observations(renamed(best, tuple(names)), [run for run in runs if run is not best], ranking)
    assert listed.columns == ["observation", best.name, second.name, f"{best.name} minus {second.name}"]
    assert second.estimate is not None
    assert len(listed.rows) == len(best.estimate.ids) <= MAX_ROWS
    values = dict(zip(best.estimate.ids.tolist(), best.values, strict=True))
    for name, first, other, difference in listed.rows:
        if name != "xU+202Ey":
            assert first == pytest.approx(values[int(str(name))], abs=0.006)
        assert difference == pytest.approx(first - other, abs=0.011)  # type: ignore[operator]
    assert [row[1] for row in listed.rows] == sorted(row[1] for row in listed.rows)  # type: ignore[type-var]


def test_a_page_calls_its_numbers_by_their_names(tmp_path: Path) -> None:
    """A leave-one-out score is not a log evidence, and a BERT does not define p(x)."""
    table, texts = write_table(tmp_path / "table.csv"), tmp_path / "texts.jsonl"
    command("score", "ppca:1", table, "--design", "leave-one-out", "--out", tmp_path / "alone")
    save_bert(tmp_path / "bert")
    write_texts(
        texts, ["the dog sings in the sun", "a cat and a dog", "the rain falls on the roof", "who sings"]
    )
    for seed in (0, 1):
        words = ("--design", "random-size:8", "--seed", seed, "--out", tmp_path / f"bert-{seed}")
        command("score", tmp_path / "bert", texts, *words)
    alone = text_of(render(read_runs([tmp_path / "alone"])))
    assert "The number is not log p(x)" in alone
    assert "is log p(x):" not in alone
    assert "kind pseudo: not all mask sizes are covered: this is" in alone
    assert "the target is transformed" not in alone
    assert "under a curve is the" not in alone
    two = render(read_runs([tmp_path / "bert-0", tmp_path / "bert-1"]))
    open_part = text_of(section(two, "numbers").split('<details class="all-cards"')[0])
    assert "defines no single p(x): the number is a lower bound on the log evidence of a text" in open_part
    assert "lower bound on the log evidence (nats per text)" in open_part
    assert "2.7 times" not in open_part
    assert "The area under a curve is the lower bound on the log evidence." in text_of(two)


def test_observations_are_called_by_their_names_everywhere(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.csv", n_rows=40)
    head, *lines = table.read_text().splitlines()
    named = [f"name,{head}", *(f"P{row:04d},{line}" for row, line in enumerate(lines))]
    table.write_text("\n".join(named) + "\n")
    command(
        "score", "ppca:1", table, "--id-column", "name", "--design", "every-size:2", "--out", tmp_path / "run"
    )
    (run,) = read_runs([tmp_path / "run"])
    assert run.estimate is not None
    page = section(render([run]), "observations")
    shown = re.findall(r'<span class="observation-name">(.*?)</span>', page)
    assert shown
    assert set(shown) <= set(run.estimate.names)
    assert all(name.startswith("P00") for name in shown)


def test_closed_forms_come_first_and_rank_the_outliers(tmp_path: Path) -> None:
    """One cell of one row is wrong by far; masks alone would rank the others by their own error."""
    table = write_table(tmp_path / "table.csv", n_rows=200)
    model = me.models.PPCA(5, 2).fit(np.loadtxt(table, delimiter=",", skiprows=1))
    model.save(tmp_path / "model")
    lines = table.read_text().splitlines()
    lines[150] = ",".join([*lines[150].split(",")[:3], "-40.0", lines[150].split(",")[4]])
    table.write_text("\n".join(lines) + "\n")
    command("score", tmp_path / "model", table, "--design", "every-size:2", "--out", tmp_path / "run")
    (run,) = read_runs([tmp_path / "run"])
    assert run.estimate is not None
    exact = model.score_samples(np.loadtxt(table, delimiter=",", skiprows=1))
    np.testing.assert_allclose(run.values, exact, atol=1e-9)
    assert np.abs(run.estimate.per_observation - exact).max() > 0.1
    page = render([run])
    numbers = text_of(section(page, "numbers"))
    assert f"Log evidence {typeset(exact.mean(), 2)} nats per row, in closed form" in numbers
    assert f"by masks {typeset(run.estimate.log_evidence, 2)} nats per row mask error ± " in numbers
    shown = text_of(section(page, "observations"))
    assert f"149 ({typeset(exact[149], 1)}: column 3 = −40)" in shown
    listed = all_observations(run, [], None)
    assert listed.rows[0][:2] == ["149", pytest.approx(exact[149], abs=0.006)]
    assert [row[1] for row in listed.rows] == pytest.approx(np.sort(exact), abs=0.006)
    extremes = find_extremes(run, 3)
    assert [shown.id for shown in extremes.hardest] == np.argsort(exact)[:3].tolist()
    worst = {name: score for name, _, score in extremes.hardest[0].cells or []}
    assert min(worst, key=lambda name: worst[name] or 0.0) == "column 3"

    (tmp_path / "model" / "config.json").unlink()  # without its model, the page names the row alone
    shown = text_of(section(render(read_runs([tmp_path / "run"])), "observations"))
    assert f"149 ({typeset(exact[149], 1)})" in shown
