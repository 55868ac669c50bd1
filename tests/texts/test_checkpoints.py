"""Checkpoints that no `AutoModelForMaskedLM` loads, and tokenizers from a vocab.txt and a pattern."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.texts.vocabulary import letter_tokenizer, pattern_tokenizer, read_vocabulary

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "c", "C", "Cl", "(", ")", "=", "O", "1", ">>"]
PATTERN = r"Cl?|[()=Oc1]|>>"
REACTIONS = ["CC(=O)Cl>>c1", "c1c(Cl)c1>>C", "COC>>CO"]


def shape(**others: Any) -> dict[str, Any]:
    return {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    } | others


@pytest.fixture(scope="module")
def albert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ALBERT of reactions, with a vocab.txt that AutoTokenizer does not read, and texts."""
    from transformers import AlbertConfig, AlbertForMaskedLM

    folder = tmp_path_factory.mktemp("albert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AlbertForMaskedLM(AlbertConfig(vocab_size=14, embedding_size=8, **shape())).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "reactions.txt").write_text("\n".join(REACTIONS) + "\n")
    return folder


def scored(run: CommandLine, *words: object) -> float:
    result = run("score", *words, "--design", "leave-one-out", "--json", "-")
    assert result.code == 0, result.err
    return json.loads(result.out)["log_evidence"]


def test_a_pattern_reads_a_vocabulary(run: CommandLine, albert: Path) -> None:
    texts = albert / "reactions.txt"
    assert "give --pattern" in run("score", albert, texts).error
    tokenizer = pattern_tokenizer(read_vocabulary(albert / "vocab.txt"), PATTERN)
    assert tokenizer.convert_ids_to_tokens(tokenizer(REACTIONS[0])["input_ids"])[1:-1] == [
        *("C", "C", "(", "=", "O", ")", "Cl", ">>", "c", "1")
    ]
    model = me.models.MaskedLM.from_pretrained(albert, tokenizer=tokenizer, device="cpu")
    expected = me.estimate_evidence(model, model.tokens(REACTIONS), me.LeaveOneOut()).log_evidence
    for words in ((), ("--tokenizer", albert / "vocab.txt")):
        assert scored(run, albert, texts, "--pattern", PATTERN, *words) == pytest.approx(expected, abs=1e-6)
    for words, message in (
        (("--pattern", "(C"), "is no regular expression"),
        (("--pattern", "C", "--tokenizer", albert / "none"), "needs a vocab.txt"),
        (("--pattern", "C"), "--allow-unknown"),
    ):
        assert message in run("score", albert, texts, *words).error


def test_a_vocabulary_without_a_mask_is_refused() -> None:
    with pytest.raises(InputError, match=r"no word for hidden tokens; call it \[MASK\] or <mask> there"):
        pattern_tokenizer(["-", "[UNK]", *"ACGT"], ".")
    with pytest.raises(InputError, match=r"no word for unknown tokens; call it \[UNK\] or <unk> there"):
        pattern_tokenizer(["-", "[MASK]", *"ACGT"], ".")
    tokenizer = letter_tokenizer(["GA TT", "ACA"])
    assert tokenizer.get_vocab().keys() - {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} == set("ACGT")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("bert")
    tokenizer = letter_tokenizer(["ACGT"])
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **shape())).save_pretrained(folder)
    (folder / "a.fa").write_text(">a\nACGTTTA\n>b\nGATTACA\n")
    return folder


OWN = '''
import torch
from types import SimpleNamespace

class Uniform(torch.nn.Module):
    """Equal probabilities for nine tokens."""

    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def forward(self, ids):
        return SimpleNamespace(sequence_logits=torch.zeros(*ids.shape, 9))

class Nothing:
    pass
'''


def test_classes_of_models(
    run: CommandLine, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_network.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = bert / "a.fa"
    expected = scored(run, bert, texts)
    assert scored(run, bert, texts, "--model-class", "transformers:BertForMaskedLM") == pytest.approx(
        expected, abs=1e-6
    )
    uniform = scored(run, bert, texts, "--model-class", "own_network:Uniform")
    assert uniform == pytest.approx(-7 * torch.tensor(9.0).log().item(), abs=1e-5)
    bare = tmp_path / "bare"
    shutil.copytree(bert, bare)
    settings = json.loads((bare / "tokenizer_config.json").read_text())
    (bare / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": None}))
    named = (bare, texts, "--model-class", "own_network:Uniform", "--diffusion", "llada", "--mask-id", 4)
    assert scored(run, *named) == pytest.approx(uniform, abs=1e-5)
    for name, message in (
        ("BertForMaskedLM", "give MODULE:CLASS of an installed package"),
        ("own_network:None_", "cannot be imported"),
        ("no_module:A", "cannot be imported"),
        ("own_network:Nothing", "has no from_pretrained"),
    ):
        assert message in run("score", bert, texts, "--model-class", name).error
    dtype = ("--model-class", "own_network:Uniform", "--dtype", "bfloat16")
    assert (
        "leave --dtype, device_map and --attn-implementation out" in run("score", bert, texts, *dtype).error
    )
    sys.modules.pop("own_network")
