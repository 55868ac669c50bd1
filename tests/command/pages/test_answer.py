"""What the report says first, and how it lists runs and observations."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.command.pages.figures import figures_of_curves, y_window
from maskevidence.command.pages.page import provenance, render
from maskevidence.command.pages.page_layout import Figure, side_by_side
from maskevidence.command.pages.reported_runs import ReportedRun, read_runs
from maskevidence.command.pages.shown_observations import find_extremes, outliers, spread_of
from maskevidence.core.comparing.comparison import answer
from maskevidence.core.evidence.curve import curve_lines
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.show.pictures import Histogram
from maskevidence.core.show.words import typeset
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
    said, words = answer(comparison, "row")
    first = text_of(section(page, "numbers"))
    assert first.startswith(f"{said} {words} run verdict log evidence behind best wins")
    assert first.index("behind best") < first.index("The log evidence is log p(x)")
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
        estimates[name] = summarize_scores(
            table, HowScored(me.Exhaustive(), MaskKey(0), "exact", me.model.DENSITY), 1
        )
    said, of_masks = answer(me.compare(estimates), "image")
    assert re.fullmatch(headline, said)
    assert re.search(words, of_masks)


def test_every_run_has_its_number_with_both_errors(runs: list[ReportedRun], page: str) -> None:
    first = section(page, "numbers")
    (folded,) = re.findall(r"<details>.*?</details>", first, flags=re.DOTALL)
    rows = [
        [text_of(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in folded.split("<tr>")[1:]
    ]
    assert rows[0] == ["", *(run.name for run in runs)]
    by_name = {name: cells for name, *cells in rows}
    for place, run in enumerate(runs):
        each = run.estimate
        assert each is not None
        assert typeset(each.log_evidence, 2) in by_name["by masks"][place]
        for name, error in (("mask error", each.mask_se), ("data error", each.closed_form_se)):
            assert by_name[name][place].startswith(f"± {typeset(error or 0.0, 2)}")
    assert text_of(page).count("Bars and bands are 95 % intervals; ± is one standard error.") == 1


def test_one_table_says_what_differs_and_one_what_does_not(runs: list[ReportedRun], page: str) -> None:
    differ, common = side_by_side({run.name: provenance(run) for run in runs})
    assert differ.columns == ["", "ppca-1", "ppca-2", "ppca-3"]
    assert ["Model", "ppca:1", "ppca:2", "ppca:3"] in differ.rows
    assert {"Seed", "Data", "Versions"} <= {name for name, _ in common.rows}
    made = section(page, "made")
    assert made.count("<table") == 2
    assert "ppca-1 ppca-2 ppca-3" in text_of(made)


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
    other = dataclasses.replace(estimate)
    vars(other)["curve"] = wide
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
    words, figure = spread_of(renamed(run, names), "row")
    assert re.match(r"\d+ rows? lies? far below the others: row of the test \(−", str(words))
    assert isinstance(figure, Figure)
    assert isinstance(figure.picture, Histogram)
    assert len(figure.picture.values) == 200
    assert "row of the test" in [name for _, name in figure.picture.named]
    page = render([run])
    assert "far below the others: 149 (−" in text_of(page)
    assert "far below" not in render([run], observations=0)


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
    open_part = text_of(re.sub(r"<details>.*?</details>", "", section(two, "numbers"), flags=re.DOTALL))
    assert "defines no single p(x): the number is a lower bound on the log evidence of a text" in open_part
    assert "has the highest lower bound on the log evidence" in open_part
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
    shown = re.findall(r"<strong>(.*?)</strong>", page)
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
    hardest, _, _ = find_extremes(run, 3)
    assert [shown.id for shown in hardest] == np.argsort(exact)[:3].tolist()
    scores = hardest[0].scores
    assert scores is not None
    assert np.argmin(scores) == 3

    (tmp_path / "model" / "config.json").unlink()  # without its model, the page names the row alone
    shown = text_of(section(render(read_runs([tmp_path / "run"])), "observations"))
    assert f"149 ({typeset(exact[149], 1)})" in shown


def test_a_replicate_for_each_draw_is_no_number_of_the_page(runs: list[ReportedRun]) -> None:
    """Runs to a target error have 2^20 replicates: as many as there are draws."""
    design = {"name": "random-size", "draws": 8, "replicates": 2**20}
    manifest = runs[0].manifest.model_copy(update={"design": design})
    made = provenance(dataclasses.replace(runs[0], manifest=manifest))
    assert made["Design"].startswith("random-size (draws 8);")
