"""maskevidence score --against: pairs of sentences, as in BLiMP."""

import csv
import itertools
import json
import math
import random
from pathlib import Path

import pytest
import torch
from scipy import stats

from command_line import CommandLine
from maskevidence.runs import read_run
from text_models import save_bert, small_bert, small_tokenizer

GOOD = ["the cat sleeps", "a dog and a cat", "the rain falls on the roof", "unbelievable dogs", "it is rain"]
BAD = [
    "the cat sleep",
    "a dog and a cat",
    "the rain falls on the roof in",
    "unbelievable dog",
    "it is a rain",
]
COLUMNS = ("--text", "sentence_good", "--against", "sentence_bad")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("model"))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.csv"
    rows = zip(GOOD, BAD, strict=True)
    lines = [f"{good},{bad},p{number}\n" for number, (good, bad) in enumerate(rows)]
    file.write_text("sentence_good,sentence_bad,pairID\n" + "".join(lines))
    return file


@pytest.mark.slow  # as quick: test_equal_texts_are_ties_whatever_their_order
def test_equal_sentences_are_ties_in_bfloat16_too(run: CommandLine, tmp_path: Path) -> None:
    """Batches differ between the columns, and with them the rounding of the same sentence."""
    tokenizer, rng = small_tokenizer(), random.Random(1)
    network = small_bert(tokenizer)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    words = ["the", "a", "and", "rain", "dog", "cat", "sun", "roof", "on", "in", "is", "it"]
    texts = [" ".join(rng.choices(words, k=rng.randint(3, 20))) for _ in range(60)]
    others = [" ".join(rng.choices(words, k=rng.randint(3, 20))) for _ in range(30)]
    pairs = zip(texts, (others[k // 2] if k % 2 else text for k, text in enumerate(texts)), strict=True)
    (tmp_path / "pairs.csv").write_text(
        "sentence_good,sentence_bad\n" + "".join(f"{a},{b}\n" for a, b in pairs)
    )
    command = ("score", tmp_path / "model", tmp_path / "pairs.csv", *COLUMNS, "--design", "leave-one-out")
    for options in ((), ("--bf16",)):
        found = json.loads(
            run(*command, "--out", tmp_path / "run", "--overwrite", "--json", "-", *options).out
        )
        called = [row["more_probable"] for row in found["pairs"]]
        assert set(called[::2]) == {"tie"}
        assert called[1::2].count("tie") <= 2


def test_pairs_are_the_difference_of_their_texts(
    run: CommandLine, model: Path, pairs: Path, tmp_path: Path
) -> None:
    lines = [
        json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in zip(GOOD, BAD, strict=True)
    ]
    (tmp_path / "blimp.jsonl").write_text("\n".join(lines) + "\n")
    design = ("--design", "leave-one-out", "--json", "-")
    found = json.loads(run("score", model, tmp_path / "blimp.jsonl", *COLUMNS, *design).out)
    single = [
        run("score", model, pairs, "--text", column, *design, "--out", tmp_path / column).out
        for column in ("sentence_good", "sentence_bad")
    ]
    assert found["log_evidence"] == pytest.approx([json.loads(out)["log_evidence"] for out in single])
    values = [
        [
            float(row["log_evidence"])
            for row in csv.DictReader((tmp_path / column / "observations.csv").read_text().splitlines())
        ]
        for column in ("sentence_good", "sentence_bad")
    ]
    wanted = [good - bad for good, bad in zip(*values, strict=True)]
    assert [pair["difference"] for pair in found["pairs"]] == pytest.approx(wanted, abs=1e-5)
    assert (found["ties"], found["equal"], found["kind"]) == (1, 1, "pseudo")
    higher = sum(value > 1e-3 for value in wanted)
    assert found["accuracy"] == (higher + 0.5) / 5


def test_the_batch_size_changes_no_call(run: CommandLine, model: Path, pairs: Path) -> None:
    base = None
    for words in ((), ("--batch-tokens", 5), ("--batch-tokens", 64)):
        found = json.loads(run("score", model, pairs, *COLUMNS, *words, "--json", "-").out)
        base = found if base is None else base
        for pair, wanted in zip(found["pairs"], base["pairs"], strict=True):
            assert pair["difference"] == pytest.approx(wanted["difference"], abs=1e-5)
            assert pair["mask_se"] == pytest.approx(wanted["mask_se"], abs=1e-5)
            assert pair["more_probable"] == wanted["more_probable"]
        assert (found["accuracy"], found["ties"]) == (base["accuracy"], base["ties"])
    assert base["pairs"][1]["more_probable"] == "tie"


def test_a_folder_holds_the_pairs_and_a_run_for_each_column(
    run: CommandLine, model: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["score", model, pairs, *COLUMNS, "--id-column", "pairID", "--out", out]
    shown = run(*command).out
    for words in (
        "sentence_good is more probable than sentence_bad in",
        "a tie counts half",
        "lower bound",
        "design random-size, own masks",
        "sentence_good minus sentence_bad, nats per pair",
    ):
        assert words in " ".join(shown.split())
    rows = list(csv.DictReader((out / "pairs.csv").read_text().splitlines()))
    assert [row["pair"] for row in rows] == ["p0", "p1", "p2", "p3", "p4"]
    content = json.loads((out / "pairs.json").read_text())
    assert [float(row["difference"]) for row in rows] == [pair["difference"] for pair in content["pairs"]]
    again = run(*command, "--json", "-")
    assert json.loads(again.out)["pairs"] == content["pairs"]
    more = run(*command, "--design", "random-size:24", "--json", "-")
    assert json.loads(more.out)["design"]["draws"] == 24
    assert json.loads(run(*command, "--json", "-").out)["design"]["draws"] == 24
    assert "another run" in run(*command, "--seed", 1).error
    assert "files that belong to no run" in run("score", model, pairs, *COLUMNS[:2], "--out", out).error


def test_two_sets_of_texts_under_one_model(
    run: CommandLine, model: Path, pairs: Path, tmp_path: Path
) -> None:
    """Real and shuffled sentences: pairs by the id column, or two samples, and never by row unasked."""
    named, unnamed = [], []
    for column, seed in (("sentence_good", 0), ("sentence_bad", 1)):
        command = ("score", model, pairs, "--text", column, "--seed", seed, "--design", "random-size:16")
        assert run(*command, "--out", tmp_path / column).code == 0
        assert run(*command, "--id-column", "pairID", "--out", tmp_path / f"{column}-named").code == 0
        unnamed.append(tmp_path / column)
        named.append(tmp_path / f"{column}-named")
    error = run("compare", *unnamed).error
    assert "score both with --id-column" in error
    assert "or compare their means with --unpaired" in error
    found = json.loads(run("compare", *named, "--json", "-").out)
    assert [pair["pair"] for pair in found["pairs"]] == ["p0", "p1", "p2", "p3", "p4"]
    estimates = [json.loads((folder / "estimate.json").read_text()) for folder in unnamed]
    apart = json.loads(run("compare", *unnamed, "--unpaired", "--json", "-").out)
    difference = estimates[0]["log_evidence"] - estimates[1]["log_evidence"]
    assert apart["difference"] == pytest.approx(difference) == pytest.approx(found["difference"])
    variances = [each[name] ** 2 for each in estimates for name in ("mask_se", "data_se")]
    assert apart["standard_error"] == pytest.approx(sum(variances) ** 0.5)
    # The spread of 5 texts, own masks included, has 4 degrees of freedom; the rest has those of the masks.
    totals = [sum(variances[2 * k : 2 * k + 2]) for k in (0, 1)]
    spreads = [read_run(folder).estimate.per_observation.var(ddof=1) / 5 for folder in unnamed]
    of_rows = list(map(min, totals, spreads))
    rest = [(total - v) ** 2 / e["mask_df"] for total, v, e in zip(totals, of_rows, estimates, strict=True)]
    lost = sum(v**2 / 4 for v in of_rows) + sum(rest)
    df = sum(variances) ** 2 / lost
    half = stats.t.ppf(0.975, df) * apart["standard_error"]
    tails = [read_run(folder).estimate.tails for folder in unnamed]  # rare masks move both ends
    moved = [math.log(20) * (tails[0][k] + tails[1][1 - k]) for k in (0, 1)]
    assert apart["interval_95"] == pytest.approx([difference - half - moved[0], difference + half + moved[1]])
    assert "unpaired" in run("compare", *unnamed, "--unpaired").out
    assert "--unpaired is for two runs of one model" in run("compare", named[0], named[0], "--unpaired").error


def test_groups_of_pairs_have_their_own_shares(run: CommandLine, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    rows = [f"{good},{bad},{group}\n" for good, bad in zip(GOOD, BAD, strict=True) for group in ("a", "b")]
    rows += [f"{good},{good},same\n" for good in GOOD]
    file.write_text("sentence_good,sentence_bad,phenomenon\n" + "".join(rows))
    words = ("score", model, file, *COLUMNS, "--design", "leave-one-out", "--by", "phenomenon")
    result = run(*words, "--out", tmp_path / "run", "--json", tmp_path / "a.json")
    assert result.code == 0, result.err
    groups = {each["group"]: each for each in json.loads((tmp_path / "a.json").read_text())["groups"]}
    assert [each["n_pairs"] for each in groups.values()] == [len(GOOD)] * 3
    assert groups["a"]["accuracy"] == groups["b"]["accuracy"]
    assert (groups["same"]["accuracy"], groups["same"]["ties"]) == (0.5, len(GOOD))
    low, high = groups["same"]["interval_95"]
    assert low < 0.5 < high
    assert "phenomenon" not in (tmp_path / "run" / "text" / "run.json").read_text().split('"command"')[0]
    table = list(csv.DictReader((tmp_path / "run" / "pairs.csv").read_text().splitlines()))
    assert (table[0]["first"], table[0]["second"], table[0]["group"]) == (GOOD[0], BAD[0], "a")
    bars = [line.split()[0] for line in result.out.splitlines() if "●" in line]
    assert bars == ["a", "b", "same"]
    assert "--against" in run("score", model, file, "--text", "sentence_good", "--by", "phenomenon").error


def test_a_report_of_pairs_is_their_page(run: CommandLine, model: Path, pairs: Path, tmp_path: Path) -> None:
    words = ("score", model, pairs, *COLUMNS, "--design", "leave-one-out", "--by", "pairID")
    printed = run(*words, "--out", tmp_path / "out").out
    report = run("report", tmp_path / "out", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "A report about a folder of pairs of texts" in report.out, report.err
    assert not (tmp_path / "out" / "text" / "curve.png").exists(), "one mask size is no curve"
    headline = next(line for line in printed.splitlines() if "is more probable than" in line)
    for words in (headline.strip(), "p3", GOOD[2], "maskevidence score", "by sign"):
        assert words in page, words
    assert "give it alone" in run("report", tmp_path / "out", tmp_path / "out" / "text").error


def test_more_masks_decide_ties_by_default(run: CommandLine, tmp_path: Path) -> None:
    tokenizer, model = small_tokenizer(), tmp_path / "model"
    network = small_bert(tokenizer)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(4)
    network.save_pretrained(model)
    tokenizer.save_pretrained(model)
    pairs, words = tmp_path / "near.csv", ["the", "cat", "and", "a", "dog", "sleep", "on", "it"]
    swapped = [" ".join([*words[k:], *words[:k]]) for k in range(len(words))]
    lines = (f"{a},{b}\n" for a, b in itertools.pairwise(swapped))
    pairs.write_text("sentence_good,sentence_bad\n" + "".join(lines))
    words = ("score", model, pairs, *COLUMNS, "--out", tmp_path / "run")
    few = json.loads(run("score", model, pairs, *COLUMNS, "--design", "random-size:8", "--json", "-").out)
    assert few["ties"] > few["equal"], "the default must have ties to decide"
    result = run(*words, "--json", tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["design"]["draws"] > 8
    assert found["ties"] < few["ties"]
    n = few["ties"] - few["equal"]
    assert f"instead of {few['design']['draws']}, with which {n} of 7 pairs were ties" in " ".join(
        result.out.split()
    )
    again = json.loads(run(*words, "--json", "-").out)
    assert (again["design"], again["accuracy"]) == (found["design"], found["accuracy"])
