"""Networks, tokenizers and texts as people have them, each number beside that of a plain loop."""

import copy
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import maskevidence as me
from forked import exit_code, fork
from maskevidence.core.errors import UnknownTokensWarning
from maskevidence.texts.encoding import Encoding, encode_texts
from maskevidence.texts.vocabulary import pattern_tokenizer
from maskevidence.texts.whole_words import NO_BLANKS, WholeWords, notes_on_words
from protein_models import esm_tokenizer
from text_models import SENTENCES, small_bert, small_tokenizer

SECOND = SENTENCES[::-1]
Wrap = Callable[[nn.Module], nn.Module]


def by_plain_loop(network: Any, tokenizer: Any, texts: list[str], second: list[str] | None = None) -> float:
    """Mean over texts of Σ_j log p(x_j | all others), with the tokenizer's own call, one token at a time."""
    total = 0.0
    for row, text in enumerate(texts):
        given = (text,) if second is None else (text, second[row])
        encoded = tokenizer(*given, return_tensors="pt", return_special_tokens_mask=True)
        special = encoded.pop("special_tokens_mask")[0]
        for place in torch.nonzero(special == 0).flatten().tolist():
            ids = encoded["input_ids"].clone()
            target, ids[0, place] = int(ids[0, place]), tokenizer.mask_token_id
            with torch.no_grad():
                logits = network(**{**encoded, "input_ids": ids}).logits[0, place]
            total += float(torch.log_softmax(logits.float(), -1)[target])
    return total / len(texts)


class Low(nn.Module):
    """A linear layer with a low-rank update beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        n, m = layer.weight.shape
        generator = torch.Generator().manual_seed(n)
        self.layer = layer
        self.a = nn.Parameter(torch.randn(4, m, generator=generator) / 4)
        self.b = nn.Parameter(torch.randn(n, 4, generator=generator) / 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + x @ self.a.T @ self.b.T

    def merged(self) -> nn.Linear:
        with torch.no_grad():
            self.layer.weight += self.b @ self.a
        return self.layer


class PassesOn(nn.Module):
    """A wrapper that passes everything on, as those of peft do: signature, attributes and methods."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.base_model = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base_model"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.base_model(*args, **kwargs)


def with_updates(network: nn.Module, *, merge: bool) -> nn.Module:
    network = copy.deepcopy(network)
    for layer in network.bert.encoder.layer:
        low = Low(layer.output.dense)
        layer.output.dense = low.merged() if merge else low
    return network


WRAPPERS: dict[str, Wrap] = {
    "bare": lambda network: network,
    "compiled": lambda network: torch.compile(network, backend="eager"),
    "unmerged": lambda network: PassesOn(PassesOn(with_updates(network, merge=False))),
    "merged": lambda network: with_updates(network, merge=True),
    "compiled updates": lambda network: torch.compile(
        PassesOn(with_updates(network, merge=False)), backend="eager"
    ),
}


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(wrap, id=name, marks=[pytest.mark.slow] * name.startswith("compiled"))
        for name, wrap in WRAPPERS.items()
    ],
)
def test_wrapped_networks_have_the_numbers_of_a_plain_loop(wrap: Wrap) -> None:
    """In a process of its own: torch.compile starts threads, after which no test of the process may fork."""
    assert exit_code(fork(partial(_compare_with_a_plain_loop, wrap))) == 0


def _compare_with_a_plain_loop(wrap: Wrap) -> None:
    tokenizer = small_tokenizer()
    network = wrap(small_bert(tokenizer))
    model = me.models.MaskedLM(network, tokenizer)
    assert not any("padding changes" in note for note in model.notes)
    inner = getattr(network, "_orig_mod", network)  # each length of a text would be compiled again
    for second in (None, SECOND) if inner is network else (SECOND,):
        found = me.estimate_evidence(model, model.tokens(SENTENCES, second=second), me.LeaveOneOut())
        assert found.log_evidence == pytest.approx(by_plain_loop(inner, tokenizer, SENTENCES, second), 1e-5)


def test_updates_count_whether_merged_or_not() -> None:
    tokenizer = small_tokenizer()
    numbers = {
        name: by_plain_loop(WRAPPERS[name](small_bert(tokenizer)), tokenizer, SENTENCES, SECOND)
        for name in ("bare", "unmerged", "merged")
    }
    assert numbers["unmerged"] == pytest.approx(numbers["merged"], 1e-5)
    assert abs(numbers["bare"] - numbers["merged"]) > 0.01


def test_bfloat16_is_near_a_plain_loop_in_bfloat16() -> None:
    tokenizer = small_tokenizer()
    network = small_bert(tokenizer)
    model = me.models.MaskedLM(network, tokenizer, bfloat16=True)
    found = me.estimate_evidence(model, model.tokens(SENTENCES, second=SECOND), me.LeaveOneOut())
    with torch.autocast("cpu", torch.bfloat16):
        expected = by_plain_loop(network, tokenizer, SENTENCES, SECOND)
    assert found.log_evidence == pytest.approx(expected, 0.005)
    assert expected != pytest.approx(by_plain_loop(network, tokenizer, SENTENCES, SECOND), 1e-5)
    assert bool(model.state_dict()["in_bfloat16"])  # recorded with the weights


def test_a_length_without_limit_is_none() -> None:
    tokenizer = small_tokenizer()
    for stated, limit in ((1e30, 64), (10**30, 64), (32.0, 32), (32, 32)):
        tokenizer.model_max_length = stated
        assert me.models.MaskedLM(small_bert(tokenizer), tokenizer).max_tokens == limit
    free = me.models.MaskedLM.from_callable(lambda ids: ids, mask_token_id=4, max_tokens=10**30)
    assert free.max_tokens is None


ENDS = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ"


@pytest.mark.parametrize("n", [10, 50, 200])
def test_small_letters_of_a_protein_are_counted_and_refused(n: int, tmp_path: Path) -> None:
    tokenizer = esm_tokenizer(tmp_path)
    protein = f"{ENDS}{'a' * n}{ENDS}"
    what = rf"{n} of {66 + n} letters \({n / (66 + n):.2%}\) are <unk>, first in row 0 \('P1'\)"
    with pytest.raises(me.InputError, match=f"{what}: .* small letters; .*--upper"):
        encode_texts(tokenizer, [protein], Encoding(names=["P1"]))
    with pytest.warns(UnknownTokensWarning, match=what):
        encode_texts(tokenizer, [protein], Encoding(names=["P1"], allow_unknown=True))
    capital = encode_texts(tokenizer, [protein.upper()])
    assert int(capital.tokens.n_tokens) == 66 + n


def six_mers(folder: Path) -> Any:
    """A tokenizer of 6-mers, as the Nucleotide Transformer has: unknown letters in a row are one token."""
    import itertools

    from transformers import EsmTokenizer

    words = ["".join(word) for word in itertools.product("ACGT", repeat=2)]
    words = [first + second * 2 for first in words for second in words]
    (folder / "vocab.txt").write_text("\n".join(["<cls>", "<pad>", "<eos>", "<unk>", *words, "<mask>"]))
    return EsmTokenizer(str(folder / "vocab.txt"))


def smiles(_folder: Path) -> Any:
    """A tokenizer of SMILES: a regular expression, and whole words."""
    return pattern_tokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "C", "Cl", "c", "1", "(", ")", "=", "O"],
        r"Cl?|\[[^]]*\]|.",
    )


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.UnknownTokensWarning")
@pytest.mark.parametrize(
    ("make", "text", "unknown"),
    [
        (esm_tokenizer, ENDS + "acdef" + ENDS, 5),
        (six_mers, "ACGTGT" * 9 + "acgtgtacgtgtac" + "ACGTGT", 14),
        (smiles, "CC(=O)Cl" * 3 + "[Si@@](C)", 6),
    ],
)
def test_the_share_of_unknown_letters_is_that_of_the_text(
    make: Callable[[Path], Any], text: str, unknown: int, tmp_path: Path
) -> None:
    note = encode_texts(make(tmp_path), [text], Encoding(allow_unknown=True)).notes[0]
    assert note.startswith(f"{unknown} of {len(text)} ")
    assert f"({unknown / len(text):.2%}) are" in note
    assert ("--upper" in note) == (make is not smiles)


def metaspace() -> Any:
    """A unigram tokenizer whose pre-tokens are what stands between blanks, as XLM-RoBERTa has."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("<mask>", 0.0), ("\u2581", -2.0)]
    words = [(word, -3.0) for word in ["我们", "今天", "去", "北京", "看", "长城", "▁the", "▁dog", "s"]]
    cut = Tokenizer(models.Unigram([*special, *words], unk_id=3))
    cut.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    cut.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    named = {"cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=cut, unk_token="<unk>", mask_token="<mask>", bos_token="<s>", **named
    )


def test_words_without_blanks_are_tokens() -> None:
    tokenizer = metaspace()
    texts = ["我们今天去北京看长城", "今天我们去北京"]
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer)
    encoded = model.encode(texts)
    whole = WholeWords(model, encoded)
    found = me.estimate_evidence(whole, encoded.tokens, me.LeaveOneOut()).log_evidence
    assert found == pytest.approx(by_plain_loop(model.network, tokenizer, texts), 1e-5)
    assert notes_on_words(encoded, texts) == [NO_BLANKS]
    mixed = model.encode(["the dogs 北京s"])
    assert mixed.words is not None
    assert mixed.words[0, mixed.tokens.maskable[0]].tolist() == [0, 1, 1, 2, 3, 4]  # the blank stands apart
    alone = model.encode(["dogs", "the dogs"])
    assert notes_on_words(alone, ["dogs", "the dogs"]) == [
        "1 of 2 observations are one word: their whole text is hidden at once"
    ]


def cased(*, lower: bool) -> me.models.MaskedLM:
    from transformers import BertTokenizerFast

    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the a dog cat runs sat . The A DOG Cat"
    vocabulary = {word: number for number, word in enumerate(words.split())}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=lower)
    network = small_bert(tokenizer)
    with torch.no_grad():  # the tokens of the texts are far more probable where capitals are lost
        network.cls.predictions.bias[5:] += 3.0 if lower else -3.0
    return me.models.MaskedLM(network, tokenizer)


def test_tokens_that_lose_text_have_no_order_per_byte() -> None:
    texts = ["The DOG runs", "A Cat sat", "The Cat runs", "the DOG sat"] * 8
    estimates = {}
    for name, model in (("uncased", cased(lower=True)), ("cased", cased(lower=False))):
        encoded = model.encode(texts)
        lost = [note for note in encoded.notes if "do not spell" in note]
        assert len(lost) == (name == "uncased")
        assert not lost or "capital letters are lost in 32 of 32" in lost[0]
        estimates[name] = me.estimate_evidence(model, encoded.tokens, me.LeaveOneOut())
    found = me.compare(estimates, per_byte=True)
    assert found.names[0] == "uncased"
    assert found.behind[0].excludes_zero
    assert found.behind[0].verdict == "proves nothing"
    assert "capital letters" in found.behind[0].notes[-1]
    same = me.compare({"one": estimates["uncased"], "two": estimates["uncased"]}, per_byte=True)
    assert not any("no order" in note for note in same.all_notes())


def test_what_tokens_lose_of_a_text() -> None:
    tokenizer = small_tokenizer()
    for text, lost in (
        ("the dog sleeps", None),
        ("The dog", "capital letters"),
        ("a café", "letters or accents"),
        ("the dog, it sleeps", None),
        ("the dog , it sleeps", "blanks"),
        ("the  dog", "blanks"),
    ):
        notes = [note for note in encode_texts(tokenizer, [text]).notes if "do not spell" in note]
        assert notes == [] if lost is None else f"{lost} are lost in 1 of 1" in notes[0], text
    assert math.isfinite(encode_texts(smiles(Path()), ["CC(=O)Cl"]).tokens.values.sum().item())
    assert encode_texts(smiles(Path()), ["CC(=O)Cl"]).notes == ()  # without blanks none is lost
