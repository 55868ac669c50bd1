"""Masked language models: the fast path equals the plain computation, for all architectures and batches."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from architectures import ARCHITECTURES, MASK, N_IDS, network, some_tokens
from maskevidence.core.support import devices
from maskevidence.core.tokens import Tokens
from maskevidence.texts import masked_lm
from maskevidence.texts.masked_head import log_softmax, target_log_probs
from maskevidence.texts.masked_lm import FLOAT32_ON_CPU, FLOAT32_ON_GPU, TF32_ON_GPU, MaskedLM
from refusals import one_line
from text_models import small_bert, small_tokenizer

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")


def some_masks(tokens: Tokens, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    masked = tokens.maskable & (torch.rand(tokens.maskable.shape, generator=generator) < 0.3)
    masked[:, 1] = True
    return masked


def plain_way(
    model: Any, tokens: Tokens, masked: torch.Tensor, mask_id: int = MASK, **inputs: Any
) -> torch.Tensor:
    """Clone, mask, full logits, log_softmax: one text at a time, without padding."""
    result = torch.zeros(masked.shape)
    for row in range(len(tokens)):
        n = int((tokens.maskable | tokens.context)[row].sum())
        labels, hidden = tokens.values[row, :n], masked[row, :n]
        input_ids = labels.clone()
        input_ids[hidden] = mask_id
        own = {name: value[row : row + 1, :n] for name, value in inputs.items()}
        with torch.no_grad():
            logits = model(input_ids=input_ids[None], **own).logits[0]
        log_probs = torch.log_softmax(logits.float(), dim=-1).gather(-1, labels[:, None])[:, 0]
        result[row, :n] = torch.where(hidden, log_probs, 0.0)
    return result


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_equal_to_the_plain_computation_for_every_architecture(architecture: str) -> None:
    plain = network(architecture)
    fast = MaskedLM(network(architecture), mask_token_id=MASK)
    lengths = [1, 7, 12, 12, 25, 3, 18, 25] * 4
    tokens = some_tokens(lengths)
    masked = some_masks(tokens)
    if architecture == "BigBird":  # the plain model falls back to it for short texts
        plain.base_model.set_attention_type("original_full")
    expected = plain_way(plain, tokens, masked)
    with torch.no_grad():
        for batch in (1, 32):
            for start in range(0, len(tokens), batch):
                part = slice(start, start + batch)
                found = fast.log_conditionals(tokens[part], masked[part])
                torch.testing.assert_close(found, expected[part], atol=1e-4, rtol=0)
        equal_lengths = some_tokens([20] * 32, seed=1)
        masked = some_masks(equal_lengths, seed=1)
        found = fast.log_conditionals(equal_lengths, masked)
    torch.testing.assert_close(found, plain_way(plain, equal_lengths, masked), atol=1e-4, rtol=0)
    assert expected.std() > 0.5  # the answers do differ between tokens
    assert fast.fingerprint_settings()["architecture"] == type(plain).__name__
    json.dumps(fast.fingerprint_settings())
    assert fast._adapter.head is not None, "no architecture here needs full logits"


def test_padding_is_used_only_if_it_does_not_change_the_answers() -> None:
    padded = {
        name: MaskedLM(network(name), mask_token_id=MASK)._adapter.pads
        for name in ("Bert", "ConvBert", "FNet")
    }
    assert padded == {"Bert": True, "ConvBert": False, "FNet": False}
    lengths = np.array([3, 9, 3, 9, 5])
    calls = [
        lengths[part].tolist() for part in MaskedLM(network("FNet"), mask_token_id=MASK).batches(lengths)
    ]
    assert calls == [[9, 9], [5], [3, 3]]


class FullLogitsOnly(torch.nn.Module):
    """A model that changes the logits after its head, so that the head alone does not give them."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config = inner, inner.config

    def get_output_embeddings(self) -> Any:
        return self.inner.get_output_embeddings()

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        out = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        out.logits = 2.0 * out.logits.tanh()
        return out


def test_a_trial_whose_logits_are_the_same_everywhere_shortens_nothing() -> None:
    model = network("Bert")
    with torch.no_grad():
        model.cls.predictions.transform.dense.bias[3] = 1e30
    fast = MaskedLM(model, mask_token_id=MASK)
    assert fast.notes == (
        "BertForMaskedLM: in a trial, its logits are the same at every place; check its weights",
    )
    tokens = some_tokens([4, 9, 9])
    masked = some_masks(tokens)
    with torch.no_grad():
        found = fast.log_conditionals(tokens, masked)
    torch.testing.assert_close(found, plain_way(model, tokens, masked), atol=1e-4, rtol=0)


def test_a_word_without_probability_does_not_hide_a_wrong_cut() -> None:
    """A logit of -1e30 would make the tolerance of the trial too large to see anything."""
    plain, never = network("Bert"), network("Bert")
    with torch.no_grad():
        never.cls.predictions.bias[3] = -1e30
    heads = [MaskedLM(model, mask_token_id=MASK)._adapter.head for model in (plain, never)]
    cuts = [head.cut for head in heads if head is not None]
    names = [
        next(name for name, module in model.named_modules() if cut is not None and module is cut.module)
        for model, cut in zip((plain, never), cuts, strict=True)
    ]
    assert names[0] == names[1]


def test_special_tokens_that_are_scored_are_noted() -> None:
    """As where the ids of a tokenizer are given as a table, with [CLS] and [SEP]."""
    tokenizer = small_tokenizer()
    model = MaskedLM(small_bert(tokenizer), tokenizer)
    ids = [tokenizer(text)["input_ids"] for text in ("a cat and a dog", "the sun is on it")]
    table = Tokens.from_array(ids, dtype=torch.int64)
    note = "4 of the 14 tokens that are scored are special tokens such as [CLS]; give them as context"
    assert me.estimate_evidence(model, table, me.LeaveOneOut()).notes[0].startswith(note)
    right = model.tokens(["a cat and a dog", "the sun is on it"])
    assert not any("special" in note for note in me.estimate_evidence(model, right, me.LeaveOneOut()).notes)


def test_gradients_equal_those_of_the_plain_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "maskevidence.texts.network_calls._HEAD_BYTES", {"cpu": 4 * N_IDS * 3}
    )  # three at a time
    model = network("Bert").double()
    fast = MaskedLM(model, mask_token_id=MASK)
    tokens = some_tokens([4, 9, 6])
    masked = some_masks(tokens)
    me.score_masks(fast, tokens, masked).sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate([6, 11, 8]):
        hidden = masked[row, :length]
        labels = tokens.values[row, :length]
        logits = model(input_ids=torch.where(hidden, MASK, labels)[None]).logits[0]
        total = total + torch.log_softmax(logits, -1)[hidden, labels[hidden]].mean()
    total.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.abs().max() > 0:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("architecture", ["Bert", pytest.param("ConvBert", marks=pytest.mark.slow)])
def test_numbers_do_not_depend_on_budget_order_or_run(architecture: str) -> None:
    tokens = some_tokens([int(n) for n in np.random.default_rng(0).integers(1, 30, size=12)])
    scores = []
    for budget in (1, 64, 10_000):
        model = MaskedLM(network(architecture), mask_token_id=MASK, batch_tokens=budget)
        estimate = me.estimate_evidence(model, tokens, me.RandomSize(4), seed=3)
        again = me.estimate_evidence(model, tokens, me.RandomSize(4), seed=3)
        np.testing.assert_array_equal(estimate.scores.score, again.scores.score)
        scores.append(estimate.scores.score)
    shuffled = me.estimate_evidence(model, tokens[torch.randperm(12)], me.RandomSize(4), seed=3)
    for other in [*scores[1:], shuffled.scores.score]:
        np.testing.assert_allclose(other, scores[0], atol=1e-4, rtol=0)


class Tabular:
    """The conditionals of a joint over strings of three letters; id -1 stands for a hidden letter."""

    def __init__(self, n_letters: int = 3, length: int = 4, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        joint = rng.dirichlet(np.full(n_letters**length, 0.3)).reshape((n_letters,) * length)
        self.log_joint = torch.from_numpy(np.log(joint + 1e-6) - np.log((joint + 1e-6).sum()))

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        rows = []
        for row in ids.tolist():
            index = tuple(slice(None) if i < 0 else slice(i, i + 1) for i in row)
            block = self.log_joint[index]
            marginals = []
            for place in range(len(row)):
                others = [axis for axis in range(len(row)) if axis != place]
                known = torch.logsumexp(block, dim=others)
                full = torch.full((self.log_joint.shape[place],), -50.0, dtype=torch.float64)
                marginals.append(
                    known if row[place] < 0 else full.index_put((torch.tensor(row[place]),), known[0])
                )
            rows.append(torch.stack(marginals))
        return torch.stack(rows)


def test_known_conditionals_give_the_exact_evidence() -> None:
    table = Tabular()
    model = MaskedLM.from_callable(table, mask_token_id=-1, conditionals="exact")
    values = torch.cartesian_prod(*[torch.arange(3)] * 4)
    every = torch.ones(values.shape, dtype=torch.bool)
    tokens = Tokens(values, every, ~every, torch.arange(len(values)))
    estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
    assert estimate.kind == "exact"
    np.testing.assert_allclose(estimate.per_observation, table.log_joint.flatten().numpy(), atol=1e-6)
    sampled = me.estimate_evidence(model, tokens, me.RandomSize(8))
    assert sampled.kind == "unbiased"
    assert abs(sampled.log_evidence - estimate.log_evidence) < 5 * sampled.mask_se


@pytest.mark.parametrize(("architecture", "n_calls"), [("Bert", 1), ("Albert", 2)])
def test_the_end_of_the_last_layer_sees_hidden_positions_only(architecture: str, n_calls: int) -> None:
    model = MaskedLM(network(architecture), mask_token_id=MASK)
    name = {
        "Bert": "encoder.layer.1.intermediate",
        "Albert": "encoder.albert_layer_groups.0.albert_layers.0.ffn",
    }
    shapes: list[tuple[int, ...]] = []
    model.network.base_model.get_submodule(name[architecture]).register_forward_pre_hook(
        lambda _m, given: shapes.append(tuple(given[0].shape))
    )
    tokens = some_tokens([20] * 4)
    masked = some_masks(tokens)
    model.log_conditionals(tokens, masked)
    assert len(shapes) == n_calls  # ALBERT's layers share their modules
    assert shapes[-1] == (1, int(masked.sum()), 32)
    assert shapes[:-1] == [(4, 22, 32)] * (n_calls - 1)


def test_memory_of_a_call_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskevidence.texts.network_calls._HEAD_BYTES", {"cpu": 4 * N_IDS * 10})
    model = MaskedLM(network("Bert"), mask_token_id=MASK, batch_tokens=100)
    seen: list[tuple[int, ...]] = []
    model.network.get_output_embeddings().register_forward_hook(
        lambda _m, _a, out: seen.append(tuple(out.shape))
    )
    sizes: list[int] = []
    model.network.base_model.register_forward_pre_hook(
        lambda _m, given, _k: sizes.append(given[0].numel()), with_kwargs=True
    )
    me.estimate_evidence(model, some_tokens([30, 40, 2, 5, 9, 17]), me.RandomSize(8))
    assert max(shape[0] * shape[1] for shape in seen) <= 10
    assert max(sizes) <= 100


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_log_probabilities_of_half_precision_logits_are_computed_in_single(dtype: torch.dtype) -> None:
    """A normaliser in half precision would be wrong by 0.03 nats a token."""
    logits = (3 * torch.randn(50, 5_000, generator=torch.Generator().manual_seed(0))).to(dtype)
    targets = torch.arange(50)
    exact = torch.log_softmax(logits.double(), 1)
    found = target_log_probs(logits, targets), log_softmax(logits)
    for answer, expected in zip(found, (exact[targets, targets], exact), strict=True):
        assert answer.dtype == torch.float32
        torch.testing.assert_close(answer.double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("architecture", ["Bert", "ConvBert", "full logits", "function"])
def test_distributions_agree_with_conditionals_and_the_full_logits(architecture: str) -> None:
    plain = network("Bert" if architecture in ("full logits", "function") else architecture)
    if architecture == "full logits":
        plain = FullLogitsOnly(plain)
    if architecture == "function":
        model = MaskedLM.from_callable(lambda ids: plain(input_ids=ids).logits, mask_token_id=MASK)
    else:
        model = MaskedLM(plain, mask_token_id=MASK, batch_tokens=40)
        assert any("full logits" in note for note in model.notes) == (architecture == "full logits")
    tokens = some_tokens([4, 19, 9, 4])
    masked = some_masks(tokens)
    with torch.no_grad():
        listed = model.log_distributions(tokens, masked)
        answer = model.log_conditionals(tokens, masked)[masked]
        hidden = Tokens(torch.where(masked, 8, tokens.values), tokens.maskable, tokens.context, tokens.ids)
        unread = model.log_distributions(hidden, masked)
    assert listed.shape == (int(masked.sum()), N_IDS)
    torch.testing.assert_close(listed.exp().sum(1), torch.ones(len(listed)), atol=1e-5, rtol=0)
    torch.testing.assert_close(listed.gather(1, tokens.values[masked][:, None])[:, 0], answer)
    torch.testing.assert_close(unread, listed)
    torch.testing.assert_close(answer, plain_way(plain, tokens, masked)[masked], atol=1e-4, rtol=0)


@pytest.mark.parametrize("architecture", ["Bert", "BigBird", "Esm"])
def test_the_referee_finds_no_fault(architecture: str) -> None:
    model = MaskedLM(network(architecture), mask_token_id=MASK)
    lengths = np.random.default_rng(0).integers(1, 25, size=20)
    report = me.check_model(model, some_tokens([int(n) for n in lengths]))
    assert report.ok, report


def test_float32_on_a_gpu_names_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = small_tokenizer()
    MaskedLM(small_bert(tokenizer), tokenizer).save(tmp_path / "model")

    def load(**options: Any) -> MaskedLM:
        return MaskedLM.from_pretrained(tmp_path / "model", device="cpu", **options)

    eager = load(attn_implementation="eager")
    assert eager.network.config._attn_implementation == "eager"
    with pytest.raises(me.InputError, match='"no_such"` is not supported'):
        load(attn_implementation="no_such")
    assert FLOAT32_ON_GPU not in eager.notes
    with pytest.raises(me.InputError, match="TF32 is of NVIDIA's GPUs, and the device is cpu; give"):
        load(dtype="tf32")
    monkeypatch.setattr(MaskedLM, "device", torch.device("cuda"))
    assert FLOAT32_ON_GPU in load().notes
    assert FLOAT32_ON_GPU not in load(bfloat16=True).notes + load(dtype="bfloat16").notes
    monkeypatch.setattr(devices, "choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.nn.Module, "to", lambda network, _: network)
    in_tf32 = load(dtype="tf32")
    assert in_tf32.in_tf32
    assert next(in_tf32.network.parameters()).dtype == torch.float32
    assert TF32_ON_GPU in in_tf32.notes


def test_float32_names_bfloat16_where_the_processor_and_the_model_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = small_tokenizer()
    MaskedLM(small_bert(tokenizer), tokenizer).save(tmp_path / "model")
    monkeypatch.setattr(devices, "_CPU", tmp_path / "cpuinfo")

    def noted(flags: str, many: int = 1, **options: Any) -> bool:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : fpu {flags} sse\n")
        devices.multiplies_in_bfloat16.cache_clear()
        monkeypatch.setattr(masked_lm, "_MANY_WEIGHTS", many)
        loaded = MaskedLM.from_pretrained(tmp_path / "model", device="cpu", **options)
        return FLOAT32_ON_CPU in loaded.notes

    assert noted("avx512_bf16")
    assert noted("amx_bf16 amx_tile")
    assert not noted("avx512f avx512_bf16x")
    assert not noted("avx512_bf16", many=10**6)
    assert not noted("avx512_bf16", dtype="bfloat16")
    assert not noted("avx512_bf16", bfloat16=True)
    (tmp_path / "cpuinfo").unlink()
    devices.multiplies_in_bfloat16.cache_clear()
    assert not devices.multiplies_in_bfloat16()
    devices.multiplies_in_bfloat16.cache_clear()


def few_heads(folder: Path, heads: int) -> MaskedLM:
    network("Bert").save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": heads}))
    return MaskedLM.from_pretrained(folder)


def hiding_bias() -> MaskedLM:
    """In float32, 1e30 plus any logit is 1e30, so that every shortened head would pass the trial."""
    model = network("Bert")
    with torch.no_grad():
        model.cls.predictions.bias[3] = 1e30
    return MaskedLM(model, mask_token_id=MASK)


def scored(data: object, answer: Callable[[torch.Tensor], torch.Tensor] | None = None) -> object:
    model = (
        MaskedLM(network("Bert"), mask_token_id=MASK)
        if answer is None
        else MaskedLM.from_callable(answer, mask_token_id=0)
    )
    return me.estimate_evidence(model, data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: MaskedLM(network("Bert")), "no mask token"),
        (lambda _: MaskedLM(network("Bert"), mask_token_id=N_IDS), "mask token has id 96"),
        (lambda _: MaskedLM(network("Bert"), mask_token_id=MASK, batch_tokens=0), "batch_tokens=0"),
        (lambda _: hiding_bias(), r"the logits of BertForMaskedLM reach 1e\+30, .* damaged"),
        (lambda _: scored(some_tokens([70])), "has 72 tokens, the model reads 66"),
        (lambda _: scored(Tokens.from_array([[0.5, 1.5]])), "whole numbers"),
        (lambda _: scored(np.array([[5, 6]])), "give a list of str"),
        (lambda _: scored(some_tokens([8]), lambda ids: torch.zeros(*ids.shape, 10)), "no logit among 10"),
        (lambda _: scored(some_tokens([8]), lambda ids: torch.zeros(4)), "logits of shape"),
        (lambda _: MaskedLM(network("Bert"), mask_token_id=MASK).encode(["a"]), "no tokenizer"),
        (
            lambda _: MaskedLM(network("Bert"), mask_token_id=MASK).encode("a"),
            "give a list of str",
        ),
        (lambda folder: MaskedLM.from_pretrained(folder / "none"), "no folder"),
        (lambda folder: MaskedLM.from_pretrained(folder), "no config.json"),
        (lambda folder: MaskedLM.from_pretrained(folder, device="gpu"), "device 'gpu'"),
        (lambda folder: few_heads(folder, 0), "has num_attention_heads=0; give a model of 1 head or"),
    ],
)
def test_invalid_input_is_one_clear_line(
    unchecked: None, call: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    one_line(lambda: call(tmp_path), match=message)
