"""maskevidence score with order mixtures, importance bounds and decoding policies; report and compare."""

import json
import shutil
from pathlib import Path

import pytest

import maskevidence as me
from command_line import CommandLine
from report_runs import command

BERT, TEXTS, TABLE = "models/bert", "data/texts.jsonl", "data/table.csv"  # in the folder `world`
DESIGNS = {
    "mixture": "exhaustive:order-mixture,blocks=3",
    "bound": "orderings:4,bound=importance",
    "confidence": "policy:confidence",
    "blocks": "policy:entropy,blocks=4,tokens-per-step=2",
    "threshold": "policy:confidence,threshold=0.02",
}


@pytest.fixture(autouse=True)
def in_the_world(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)


@pytest.fixture(scope="module")
def runs(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each design on the same texts."""
    folder = tmp_path_factory.mktemp("runs")
    for name, design in DESIGNS.items():
        command(
            "score", world / BERT, world / TEXTS, "--limit", 4, "--out", folder / name, "--design", design
        )
    return {name: folder / name for name in DESIGNS}


def read(folder: Path) -> dict:
    return json.loads((folder / "estimate.json").read_text())


def test_runs_hold_what_python_gives_and_resume(
    run: CommandLine, world: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    model = me.models.MaskedLM.from_pretrained(BERT)
    texts = [json.loads(line)["text"] for line in Path(TEXTS).read_text().splitlines()][:4]
    kinds = dict(zip(DESIGNS, ("mixture", "lower_bound", *["policy"] * 3), strict=True))
    for name, design in DESIGNS.items():
        expected, found = me.estimate_evidence(model, texts, design), read(runs[name])
        assert found["log_evidence"] == pytest.approx(expected.log_evidence, abs=1e-4)
        assert found["kind"] == expected.kind == kinds[name]
        assert found["design"] == expected.design
        assert found["n_masks"] == expected.n_masks
        parts = sorted((runs[name] / "scores").iterdir())
        assert len(parts) >= 1
        before = {file: file.read_bytes() for file in (runs[name] / "estimate.json", *parts)}
        for file in before:
            file.unlink()
        again = run(
            "score", world / BERT, world / TEXTS, "--limit", 4, "--out", runs[name], "--design", DESIGNS[name]
        )
        assert again.code == 0, again.err
        assert {file: file.read_bytes() for file in before} == before
    assert read(runs["mixture"])["bracket"]["area"] <= read(runs["mixture"])["log_evidence"]
    assert read(runs["threshold"])["n_masks"] < read(runs["confidence"])["n_masks"]
    assert read(runs["bound"])["bracket"]["n_orders"] == 4
    assert read(runs["bound"])["order_spread"]["within"] > 0
    longer = "orderings:8,bound=importance"
    out = shutil.copytree(runs["bound"], tmp_path / "bound")
    more = run("score", world / BERT, world / TEXTS, "--limit", 4, "--out", out, "--design", longer)
    assert more.code == 0, more.err
    assert "lower bound" in more.out
    assert read(out)["bracket"]["n_orders"] == 8
    assert len(list((out / "scores").iterdir())) == 2


def test_the_report_shows_them_side_by_side_and_compare_refuses(
    run: CommandLine, runs: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert run("report", *runs.values(), "--out", page).code == 0
    text = page.read_text()
    for name in ("area", "lower bound", "design"):
        row = text[text.index(f">{name}</th>") :].split("</tr>")[0]
        assert row.count("<td") == len(runs)
    assert "Log evidence of the order mixture" in text
    assert "Log-probability of the decoding policy" in text
    for other in ("blocks", "threshold"):
        refused = run("compare", runs["confidence"], runs[other]).error
        assert "these are different quantities" in refused


def test_an_order_is_read_from_a_file(run: CommandLine, tmp_path: Path) -> None:
    file, out = tmp_path / "order.txt", tmp_path / "run"
    file.write_text("4 3 2\n1 0\n")
    result = run("score", "gaussian", TABLE, "--design", f"policy:order={file}", "--out", out)
    assert result.code == 0, result.err
    assert read(out)["design"]["order"] == [4, 3, 2, 1, 0]
    assert read(out)["kind"] == "exact"
    assert read(out)["log_evidence"] == pytest.approx(read(out)["closed_form"])
    for content, message in (
        ("0 1 x", "'x', which is not a place"),
        ("", "is empty"),
        ("0 0", "exactly once"),
    ):
        file.write_text(content)
        assert message in run("score", "gaussian", TABLE, "--design", f"policy:order={file}").error
    file.write_text("1 0 2")
    refused = run("score", "gaussian", TABLE, "--design", f"policy:order={file}", "--out", tmp_path / "b")
    assert "lists 3 places, an observation has 5 tokens" in refused.error
    assert not (tmp_path / "b").exists()
