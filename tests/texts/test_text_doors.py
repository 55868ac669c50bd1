"""Checkpoints and texts as people have them, on the command line."""

import csv
import json
from pathlib import Path

import pytest

from command_line import CommandLine
from text_models import save_bert

ALONE = ("--design", "leave-one-out")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_bert(tmp_path / "model")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("the dog sleeps\n")
    return tmp_path / "text.txt"


def test_an_adapter_is_refused_with_both_ways_out(run: CommandLine, model: Path, text: Path) -> None:
    settings = model / "adapter_config.json"
    settings.write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "a-lab/a-bert"}))
    beside = run("score", model, text, *ALONE)
    alone = model.with_name("alone")
    alone.mkdir()
    settings.rename(alone / settings.name)
    for said in (beside, run("score", alone, text, *ALONE)):
        assert said.code == 2
        for words in ("holds an adapter of peft", "('a-lab/a-bert') without it", "merge_and_unload"):
            assert words in said.error
    assert run("score", model, text, *ALONE).code == 0


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "_orig_mod.module."])
def test_the_prefix_of_a_wrapper_is_named(run: CommandLine, model: Path, text: Path, prefix: str) -> None:
    from safetensors.torch import load_file, save_file

    file = model / "model.safetensors"
    weights = {f"{prefix}{name}": value for name, value in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    said = run("score", model, text, *ALONE)
    assert said.code == 2
    assert f"begin with '{prefix}'" in said.error
    assert f"take '{prefix}' off each name" in said.error


def test_empty_rows_are_skipped_if_asked_for(run: CommandLine, model: Path, tmp_path: Path) -> None:
    rows, full = tmp_path / "rows.csv", tmp_path / "full.csv"
    rows.write_text("good,bad\nthe dog,a dog\n ,rain\nthe sun,\nthe roof,a cat\n")
    full.write_text("good,bad\nthe dog,a dog\nthe roof,a cat\n")
    pairs = ("--text", "good", "--against", "bad", *ALONE)
    refused = run("score", model, rows, *pairs)
    assert refused.code == 2
    assert "empty text in column 'good', line 3; leave it out (--skip-empty)" in refused.error
    numbers, named = [], []
    for file, words in ((rows, ("--skip-empty",)), (full, ())):
        out = tmp_path / file.stem
        said = run("score", model, file, *pairs, *words, "--out", out)
        assert said.code == 0, said.error
        assert ("2 of 4 texts are empty and were skipped" in said.out) == bool(words)
        table = list(csv.reader((out / "pairs.csv").read_text().splitlines()))
        named.append([row[0] for row in table[1:]])
        numbers.append([row[1:] for row in table])
    assert numbers[0] == numbers[1]
    assert named == [["line 2", "line 5"], ["0", "1"]]  # not numbers that are those of other rows
    lines = tmp_path / "lines.txt"
    lines.write_text("the dog\n\nrain\n")
    assert "line 2 is empty; leave such rows out (--skip-empty)" in run("score", model, lines, *ALONE).error
    said = run("score", model, lines, *ALONE, "--skip-empty", "--out", tmp_path / "run")
    assert "2 texts" in said.out
    report = run("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert report.code == 0
    assert "have changed" not in report.out  # they are read again without the empty line


def test_upper_makes_small_letters_capital(run: CommandLine, tmp_path: Path) -> None:
    file, family = tmp_path / "one.fasta", tmp_path / "family"
    letters = "ACDEFGHIKLMNPQRSTVWY"
    file.write_text("".join(f">p{k}\n{letters[k:]}{letters[:k].lower()}\n" for k in range(20)))
    train = ("train", "masked-lm", file, "--out", family, "--steps", "1")
    refused = run(*train)
    assert refused.code == 2
    assert "small letters (a, c, d," in refused.error
    assert "--upper" in refused.error
    assert run(*train, "--upper").code == 0
    vocabulary = json.loads((family / "tokenizer.json").read_text())["model"]["vocab"]
    assert {word for word in vocabulary if len(word) == 1} == set(letters)
    refused = run("score", family, file, *ALONE)
    assert refused.code == 2
    assert "first in row 1 ('p1'): the tokenizer does not know small letters" in refused.error
    said = run("score", family, file, *ALONE, "--upper")
    assert said.code == 0
    assert "small letters were made capital ones (190)" in said.out
