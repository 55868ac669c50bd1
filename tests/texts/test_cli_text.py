"""maskevidence score on texts: designs, options, files, and bad input."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.runs import read_run
from text_models import SENTENCES, small_bert, small_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small masked language model as transformers saves it."""
    folder = tmp_path_factory.mktemp("model")
    save(small_bert(small_tokenizer()), folder)
    return folder


def save(network: Any, folder: Path, *, with_tokenizer: bool = True) -> Path:
    network.save_pretrained(folder)
    if with_tokenizer:
        small_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "texts.txt"
    file.write_text("\n".join(SENTENCES) + "\n")
    return file


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "table.csv"
    file.write_text('prompt,answer,label\n"who, or what?",a dog,1\nwho sings?,the rain,0\nand?,the cat,0\n')
    return file


def test_texts_are_scored_with_random_sizes_by_default(
    run: CommandLine, model: Path, texts: Path, tmp_path: Path
) -> None:
    words = ("--design", "random-size:16", "--out", tmp_path / "a", "--json", tmp_path / "a.json")
    result = run("score", model, texts, *words)
    assert result.code == 0, result.err
    for words in ("lower bound", "bits of code per byte", "perplexity bound", "5 texts"):
        assert words in result.out
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["design"]["name"] == "random-size"
    assert written["mask_se"] > 0
    assert written["n_bytes"] == sum(map(len, SENTENCES))
    assert written["perplexity_bound"] > 1
    assert {"run.json", "estimate.json", "curve.csv", "curve.png"} <= {
        p.name for p in (tmp_path / "a").iterdir()
    }
    points = list(csv.DictReader((tmp_path / "a" / "curve.csv").read_text().splitlines()))
    assert len(points) > 3
    assert all(point["size"] == "" for point in points)  # D varies: a curve by rate
    again = run("score", model, texts, "--json", "-", "--design", "random-size:16", "--batch-tokens", 7)
    assert json.loads(again.out)["log_evidence"] == pytest.approx(written["log_evidence"], abs=1e-4)


@pytest.mark.parametrize(
    ("design", "kind"),
    [
        ("every-size", "lower_bound"),
        ("orderings", "lower_bound"),
        ("exhaustive", "lower_bound"),
        ("leave-one-out", "pseudo"),
        ("fixed-rate:0.15", "pseudo"),
        ("rates:0.1-0.9-0.2", "pseudo"),
    ],
)
def test_every_design(run: CommandLine, model: Path, table: Path, design: str, kind: str) -> None:
    result = run("score", model, table, "--text", "answer", "--design", design, "--json", "-")
    assert result.code == 0, result.err
    written = json.loads(result.out)
    assert written["kind"] == kind
    name, other = ("perplexity_bound", "pseudo_perplexity")[:: -1 if kind == "pseudo" else 1]
    assert written[name] > 1, "a pseudo-perplexity bounds nothing"
    assert other not in written


def test_each_token_of_leave_one_out(run: CommandLine, model: Path, texts: Path, tmp_path: Path) -> None:
    command = ["score", model, texts, "--design", "leave-one-out:per-token", "--limit", 4]
    plain = json.loads(run(*command, "--json", "-").out)
    shown = run(*command).out
    assert "pseudo-perplexity" in shown
    assert not re.search(r" -\d+\.\d{4}", shown), "the sign for minus is one"
    assert [entry["token"] for entry in plain["tokens"]][:3] == ["the", "rain", "falls"]
    total = sum(entry["log_prob"] for entry in plain["tokens"])
    assert total == pytest.approx(plain["log_evidence"] * 4)
    words = json.loads(run(*command, "--whole-words", "--out", tmp_path / "w", "--json", "-").out)
    assert len(words["tokens"]) == len(plain["tokens"])
    assert words["log_evidence"] != plain["log_evidence"]
    rows = list(csv.DictReader((tmp_path / "w" / "tokens.csv").read_text().splitlines()))
    assert [float(row["log_prob"]) for row in rows] == [entry["log_prob"] for entry in words["tokens"]]
    assert (
        "another run" in run(*command, "--out", tmp_path / "w").error
    )  # without --whole-words it is another
    plain_run = ("score", model, texts, "--design", "leave-one-out", "--limit", 4, "--out", tmp_path / "w")
    assert run(*plain_run, "--overwrite").code == 0
    assert not (tmp_path / "w" / "tokens.csv").exists()  # it belonged to the overwritten run


def test_pairs_prompts_blocks_and_long_texts(
    run: CommandLine, model: Path, table: Path, texts: Path, tmp_path: Path
) -> None:
    def scored(*words: object) -> dict[str, Any]:
        result = run("score", *words, "--json", "-")
        assert result.code == 0, result.err
        return json.loads(result.out)

    answers = scored(model, table, "--text", "answer")
    pairs = scored(model, table, "--text", "prompt,answer")
    prompted = scored(model, table, "--text", "answer", "--context-field", "prompt")
    assert pairs["n_tokens"] > answers["n_tokens"] == prompted["n_tokens"]
    paired = scored(model, table, "--text", "answer", "--context-field", "prompt", "--pair")
    assert "names one column twice" in run("score", model, table, "--text", "answer,answer").error
    assert paired["n_tokens"] == prompted["n_tokens"]
    assert len({each["log_evidence"] for each in (answers, prompted, paired)}) == 3
    assert any("one text with a blank between them" in note for note in prompted["notes"])
    assert "framed as a pair" in " ".join(paired["notes"])
    blocks = scored(model, texts, "--block-size", 9)
    assert blocks["n_tokens"] == 7 * blocks["n_observations"]
    assert scored(model, texts, "--block-size", 9, "--limit", 2)["n_observations"] == 2
    short = save(small_bert(small_tokenizer(), max_position_embeddings=9), tmp_path / "short")
    assert "choose --long split" in run("score", short, texts).error
    assert "were split" in scored(short, texts, "--long", "split")["notes"][0]
    assert "were truncated" in scored(short, texts, "--long", "truncate")["notes"][0]
    assert "bfloat16" in scored(model, texts, "--bf16", "--device", "cpu")["notes"][0]


def test_models_that_cannot_be_used(run: CommandLine, model: Path, texts: Path, tmp_path: Path) -> None:
    from transformers import BertModel, GPT2Config, GPT2LMHeadModel

    tokenizer = small_tokenizer()
    bert = small_bert(tokenizer)
    gpt = GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=1)
    )
    save(gpt, tmp_path / "gpt2")
    save(BertModel(bert.config), tmp_path / "headless")
    weightless = save(bert, tmp_path / "weightless")
    (weightless / "model.safetensors").unlink()
    save(small_bert(tokenizer, vocab_size=20), tmp_path / "larger")
    save(small_bert(tokenizer, vocab_size=2000), tmp_path / "smaller")
    save(bert, tmp_path / "untold", with_tokenizer=False)
    maskless = save(bert, tmp_path / "maskless")
    settings = json.loads((maskless / "tokenizer_config.json").read_text())
    (maskless / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": None}))
    broken = save(bert, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"nothing of the kind")
    remote = save(bert, tmp_path / "remote")
    config = json.loads((remote / "config.json").read_text())
    config |= {"model_type": "of-their-own", "auto_map": {"AutoConfig": "a.B", "AutoModelForMaskedLM": "a.C"}}
    (remote / "config.json").write_text(json.dumps(config))
    save(bert, tmp_path / "trained" / "checkpoint-5")
    typeless = save(bert, tmp_path / "typeless")
    config = json.loads((typeless / "config.json").read_text())
    (typeless / "config.json").write_text(
        json.dumps({key: config[key] for key in config if key != "model_type"})
    )
    asked = {
        "trained": "checkpoint-5': give that",
        "typeless": 'add it, such as "model_type": "bert"',
        "gpt2": "is a gpt2 model, which has no masked-LM head",
        "headless": "lack",
        "weightless": "has no weights",
        "larger": "tokens, the model 20 embeddings",
        "smaller": "tokens, the model 2,000 embeddings",
        "untold": "has no tokenizer",
        "maskless": "has no mask token",
        "broken": "cannot be loaded",
        "remote": "--trust-remote-code",
    }
    for folder, message in asked.items():
        assert message in run("score", tmp_path / folder, texts).error, folder
    assert run("score", tmp_path / "untold", texts, "--tokenizer", model).code == 0


TWO_COMMANDS = """
import sys
from maskevidence.command.app import main
given = sys.argv[1:]
for words in (given[:2], given[2:]):
    sys.argv = ["maskevidence", "score", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""
UNKNOWN = ("no-body/no-model", "texts.txt", "no-body/no-model", "hub:no-body/no-texts:test")
WORDS_OF_HUB = ("HF_HOME", "HF_ENDPOINT", "folder")


@pytest.mark.parametrize(("offline", "why"), [(True, "HF_HUB_OFFLINE is set"), (False, "does not answer")])
def test_without_network_and_cache_it_fails_at_once(
    run: CommandLine, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: bool, why: str
) -> None:
    """The hub is asked once, whether it answers, and never where that is switched off."""
    import huggingface_hub

    from maskevidence.core.support import hub

    asked = []
    session = huggingface_hub.get_session
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: asked.append(1) or session())
    constants = {"HF_HUB_OFFLINE": offline, "ENDPOINT": "http://127.0.0.1:9", "HF_HUB_CACHE": str(tmp_path)}
    for name, value in constants.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    hub.hub_reachable.cache_clear()
    monkeypatch.chdir(texts.parent)
    for words in (UNKNOWN[:2], UNKNOWN[2:]):
        error = run("score", *words).error
        assert all(part in error for part in (why, *WORDS_OF_HUB))
    assert len(asked) == (not offline)
    hub.hub_reachable.cache_clear()


@pytest.mark.slow
def test_without_network_and_cache_a_process_fails_at_once(texts: Path, tmp_path: Path) -> None:
    """The variables are read when the libraries are imported."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    nobody = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    for variables, why in ((offline, "HF_HUB_OFFLINE is set"), (nobody, "does not answer")):
        done = subprocess.run(
            [sys.executable, "-c", TWO_COMMANDS, *UNKNOWN],
            env={**os.environ, **variables},
            cwd=texts.parent,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout.split() == ["2", "2"], done.stderr
        assert len(done.stderr.splitlines()) == 2, done.stderr
        for line in done.stderr.splitlines():
            assert all(part in line for part in (why, *WORDS_OF_HUB))


def test_a_text_of_one_token_works(run: CommandLine, model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("sun\nrain")
    result = run("score", model, tmp_path / "one.csv")
    assert result.code == 0, result.err
    assert "1 token," in result.out
    assert "the first row of 'one.csv' was taken for the header: 'sun'" in " ".join(result.out.split())


@pytest.mark.parametrize(
    "options", [("--dtype", "bfloat16"), pytest.param(("--bf16",), marks=pytest.mark.slow)]
)
def test_half_precision_says_how_far_its_own_masks_moved(
    run: CommandLine, model: Path, texts: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    words = ("score", model, texts, "--device", "cpu", "--design", "random-size:4", "--seed", 3)
    out = tmp_path / "half"
    assert run(*words, *options, "--out", out).code == 0
    notes = json.loads((out / "estimate.json").read_text())["notes"]
    (note,) = [note for note in notes if "from those in float32" in note]
    exact = me.models.MaskedLM.from_pretrained(model, device="cpu")
    scores = me.estimate_evidence(
        exact, exact.tokens(SENTENCES), read_run(out).manifest.mask_design(), seed=3, check=False
    ).scores
    own = read_run(out).estimate.scores
    moved = (own.score - scores.score)[own.id == 0]
    assert len(moved) == 4
    assert f"of 4 masks of this run from those in float32 by {moved.mean():+.1g} ± " in note
    assert f"{abs(moved).max():.1g} at most" in note
    assert 0 < abs(moved).max() < 0.05
    before = (out / "estimate.json").read_bytes()
    assert run(*words, *options, "--out", out).code == 0
    assert (out / "estimate.json").read_bytes() == before
    shards = [tmp_path / name for name in "12"]
    for shard in shards:
        assert run(*words, *options, "--shard", f"{shard.name}/2", "--out", shard).code == 0
    assert run("summarize", *shards, "--out", tmp_path / "whole").code == 0
    assert json.loads((tmp_path / "whole" / "estimate.json").read_text())["notes"] == notes
