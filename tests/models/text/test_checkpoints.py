"""Checkpoints that no `AutoModelForMaskedLM` loads, and tokenizers from a vocab.txt and a pattern."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.models.text.vocabulary import letter_tokenizer, pattern_tokenizer, read_vocabulary

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
        (("--pattern", "C", "--mask-token", "X"), "has no word 'X'"),
        (("--pattern", "C"), "--allow-unknown"),
    ):
        assert message in run("score", albert, texts, *words).error


def test_a_mask_token_is_named(run: CommandLine, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    words = ["-", "[UNK]", "<", ">", "*", *"ACGT"]
    BertForMaskedLM(BertConfig(vocab_size=len(words), **shape())).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    (tmp_path / "a.fa").write_text(">a\nACGT\nTTA\n>b\nGATTACA\n")
    command = (tmp_path, tmp_path / "a.fa", "--pattern", ".")
    assert (
        "no word for hidden tokens ([MASK] or <mask>); name it with --mask-token"
        in run("score", *command).error
    )
    assert scored(run, *command, "--mask-token", "*") < 0
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


def copied(bert: Path, folder: Path, content: Any, name: str) -> Path:
    """A copy of the model with other weights."""
    from safetensors.torch import save_file

    for file in bert.iterdir():
        if file.suffix != ".safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    if name.endswith(".safetensors"):
        save_file(content, folder / name)
    else:
        torch.save(content, folder / name)
    return folder


def test_weights_with_a_prefix(run: CommandLine, bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    texts, state = bert / "a.fa", load_file(bert / "model.safetensors")
    renamed = {f"model.{name}": one for name, one in state.items()}
    folders = {}
    for name, content in {
        "model.safetensors": renamed,
        "pytorch_model.bin": renamed,
        "last.ckpt": {"state_dict": renamed | {"loss.weight": torch.zeros(2)}, "epoch": 3},
    }.items():
        place = tmp_path / name.replace(".", "-")
        place.mkdir()
        folders[name] = copied(bert, place, content, name)
    expected = scored(run, bert, texts)
    for name, folder in folders.items():
        assert scored(run, folder, texts, "--state-prefix", "model.") == pytest.approx(expected, abs=1e-6), (
            name
        )
    both = (folders["last.ckpt"], texts, "--model-class", "BertForMaskedLM", "--state-prefix", "model.")
    assert scored(run, *both) == pytest.approx(expected, abs=1e-6)
    ckpt = folders["last.ckpt"]

    def error(prefix: str = "model.") -> str:
        return run("score", ckpt, texts, "--state-prefix", prefix).error

    assert "begins with 'net.'" in error("net.")
    assert "lacks" in error("model.bert.")
    (ckpt / "last.ckpt").write_bytes(pickle.dumps(Path("code")))
    assert "cannot be read without running code" in error()
    (ckpt / "last.ckpt").unlink()
    assert "has no file of weights" in error()


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
    assert scored(run, bert, texts, "--model-class", "BertForMaskedLM") == pytest.approx(expected, abs=1e-6)
    uniform = scored(run, bert, texts, "--model-class", "own_network:Uniform")
    assert uniform == pytest.approx(-7 * torch.tensor(9.0).log().item(), abs=1e-5)
    for name, message in (
        ("BertForMaskedLMs", "transformers has no class"),
        ("own_network:None_", "cannot be imported"),
        ("no_module:A", "cannot be imported"),
        ("own_network:Nothing", "has no from_pretrained"),
    ):
        assert message in run("score", bert, texts, "--model-class", name).error
    prefixed = ("--model-class", "own_network:Uniform", "--state-prefix", "a")
    assert "needs a class of transformers" in run("score", bert, texts, *prefixed).error
    sys.modules.pop("own_network")
