"""Diffusion language models: each family's convention, from its paper, against a plain loop."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import maskevidence as me
from diffusion_networks import LENGTH, MASK, N_IDS, NETWORKS, Bd3lm, random_network
from maskevidence.core.errors import InputError
from maskevidence.core.tokens import Tokens
from maskevidence.texts.diffusion import DIFFUSIONS, DiffusionNetwork, recognised_diffusion
from maskevidence.texts.masked_lm import MaskedLM


def tokens_of(n_rows: int = 4, length: int = 7, seed: int = 0) -> tuple[Tokens, Tensor]:
    """Rows whose first two tokens are context, and masks of several sizes."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, MASK, (n_rows, length), generator=generator)
    context = torch.arange(length).expand(n_rows, length) < 2
    masked = (torch.rand(n_rows, length, generator=generator) < 0.5) & ~context
    masked[:, -1] = True
    return Tokens(values, ~context, context, torch.arange(n_rows)), masked


def log_softmax_without_mask(logits: Tensor) -> Tensor:
    kept = logits[torch.arange(N_IDS) != MASK]
    return torch.where(torch.arange(N_IDS) == MASK, -torch.inf, logits - kept.exp().sum().log())


def by_hand(family: str, network: Any, row: Tensor, place: int) -> Tensor:
    """log p of every value at one place, by the family's paper."""
    ids = row[None]
    if family == "llada":
        return torch.log_softmax(network(ids).logits[0, place], -1)
    if family == "dream":  # the place before predicts
        return torch.log_softmax(network(ids).logits[0, place - 1], -1)
    if family == "mdlm":  # no probability for the mask token; the time is zero
        return log_softmax_without_mask(network(ids, torch.zeros(1)).logits[0, place])
    if family == "sedd":
        share = float((row == MASK).float().mean())
        return log_softmax_without_mask(network(ids, torch.tensor([-math.log(1 - share)]))[0, place])
    filled = torch.full((LENGTH,), MASK)
    filled[: len(row)] = row
    return log_softmax_without_mask(network(torch.cat([filled, filled])[None], torch.zeros(1))[0][0, place])


def shown_of(tokens: Tokens, masked: Tensor) -> Tensor:
    return tokens.values.masked_fill(masked, MASK)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_conditionals_are_those_of_the_paper(name: str) -> None:
    family, make = NETWORKS[name]
    network = random_network(make)
    model = MaskedLM(DiffusionNetwork(network, DIFFUSIONS[family], MASK), mask_token_id=MASK)
    tokens, masked = tokens_of()
    found = model.log_conditionals(tokens, masked)
    tables = iter(model.log_distributions(tokens, masked))
    for row, place in torch.nonzero(masked).tolist():
        with torch.no_grad():
            expected = by_hand(family, network, shown_of(tokens, masked)[row], place)
        torch.testing.assert_close(found[row, place], expected[tokens.values[row, place]], atol=1e-5, rtol=0)
        torch.testing.assert_close(next(tables), expected, atol=1e-5, rtol=0)


def test_the_clean_copy_never_shows_a_hidden_value() -> None:
    """Answers in later blocks do not change with hidden values in earlier ones."""
    network = random_network(Bd3lm)
    model = MaskedLM(DiffusionNetwork(network, DIFFUSIONS["bd3lm"], MASK), mask_token_id=MASK)
    tokens, masked = tokens_of(2, 9)
    masked[:, 3] = True
    other = tokens.values.clone()
    other[:, 3] = (other[:, 3] + 1) % MASK
    changed = Tokens(other, tokens.maskable, tokens.context, tokens.ids)
    one, two = (model.log_conditionals(some, masked) for some in (tokens, changed))
    torch.testing.assert_close(one[:, 4:], two[:, 4:])


class Counting(nn.Module):
    """Rows count upwards; at each place it tells the value of the next one, from any visible token."""

    def forward(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1])
        first = (ids != MASK).int().argmax(1, keepdim=True)
        start = ids.gather(1, first) - first
        return torch.zeros(*ids.shape, N_IDS).scatter(-1, ((start + place + 1) % MASK)[..., None], 6.0)


def test_a_missing_shift_is_found_by_the_checks() -> None:
    start = torch.arange(80) % MASK
    values = (start[:, None] + torch.arange(16)) % MASK
    context = torch.arange(16).expand(80, 16) < 1
    tokens = Tokens(values, ~context, context, torch.arange(80))
    statuses = {
        name: me.check_model(
            MaskedLM(DiffusionNetwork(Counting(), DIFFUSIONS[name], MASK), mask_token_id=MASK), tokens
        )["offset"].status
        for name in ("dream", "llada")
    }
    assert statuses == {"dream": "passed", "llada": "failed"}


class WithoutMask(nn.Module):
    """Tells the row from its first token; the mask token's logit, never trained, stands at 0 (MDLM)."""

    def forward(self, ids: Tensor, timesteps: Tensor) -> Tensor:
        logits = 6.0 * torch.nn.functional.one_hot(ids[:, :1], N_IDS) - 3.0
        logits[..., MASK] = 0.0
        return logits.expand(-1, ids.shape[1], -1)


@pytest.mark.parametrize(("name", "status"), [("mdlm", "passed"), ("llada", "failed")])
def test_a_mask_logit_that_is_kept_is_found_by_the_checks(name: str, status: str) -> None:
    values = (torch.arange(40) % MASK)[:, None].expand(40, 8)
    context = torch.arange(8).expand(40, 8) < 1
    tokens = Tokens(values, ~context, context, torch.arange(40))
    network = WithoutMask() if name == "mdlm" else lambda ids: WithoutMask()(ids, torch.zeros(1))
    model = MaskedLM(DiffusionNetwork(network, DIFFUSIONS[name], MASK), mask_token_id=MASK)
    report = me.check_model(model, tokens)
    assert report["mask token"].status == status, report
    assert ("nats too low" in report["mask token"].found) == (status == "failed")


@pytest.mark.parametrize(
    ("model_type", "name", "family"),
    [
        ("llada", "GSAI-ML/LLaDA-8B-Base", "llada"),
        ("Dream", "Dream-org/Dream-v0-Instruct-7B", "dream"),
        ("mdlm", "kuleshov-group/mdlm-owt", "mdlm"),
        ("bd3lm", "kuleshov-group/bd3lm-owt-block_size4", "bd3lm"),
        ("bert", "google-bert/bert-base-uncased", None),
    ],
)
def test_known_names_are_recognised(model_type: str, name: str, family: str | None) -> None:
    found = recognised_diffusion(model_type, name)
    assert (None if found is None else found.name) == family


@pytest.mark.parametrize(
    "name", ["inclusionAI/LLaDA2.1-mini", "google/diffusiongemma-2b", "x/llada-2.1-flash"]
)
def test_what_hides_no_tokens_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be scored: it"):
        MaskedLM.from_pretrained(name)


_CODE = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

class OwnConfig(PretrainedConfig):
    model_type = "Dream"
    def __init__(self, vocab_size=84, **more):
        self.vocab_size = vocab_size
        super().__init__(**more)

class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, 8)
        self.out = nn.Linear(8, config.vocab_size)
        self.post_init()
    def forward(self, input_ids):
        return MaskedLMOutput(logits=self.out(torch.tanh(self.embed(input_ids))))
"""


def test_a_model_with_its_own_code_and_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for its code, read as Dream by the type in its configuration, in the checkpoint's own dtype."""
    import importlib.util

    from text_models import small_tokenizer

    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "dream"
    folder.mkdir()
    (tmp_path / "own_code.py").write_text(_CODE)
    spec = importlib.util.spec_from_file_location("own_code", tmp_path / "own_code.py")
    assert spec is not None
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_code", code)
    spec.loader.exec_module(code)
    tokenizer = small_tokenizer()
    code.OwnConfig.register_for_auto_class()
    code.OwnModel.register_for_auto_class("AutoModel")
    own = code.OwnModel(code.OwnConfig(vocab_size=len(tokenizer))).to(torch.bfloat16)
    own.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with pytest.raises(InputError, match="comes with its own code, which is not run unless you allow it"):
        MaskedLM.from_pretrained(folder, device="cpu")
    model = MaskedLM.from_pretrained(folder, device="cpu", trust_remote_code=True)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.mask_token_id == tokenizer.mask_token_id
    ids = torch.tensor([[5, 6, 7]])
    tokens = Tokens(ids, ids > 0, ids < 0, torch.tensor([0]))
    masked = torch.tensor([[False, True, False]])
    shown = ids.masked_fill(masked, model.mask_token_id)
    expected = torch.log_softmax(own(shown).logits[0, 0].float(), -1)[6]
    torch.testing.assert_close(model.log_conditionals(tokens, masked)[0, 1], expected)
    single = MaskedLM.from_pretrained(
        folder, device="cpu", trust_remote_code=True, dtype="float32", mask_id=4
    )
    assert {parameter.dtype for parameter in single.parameters()} == {torch.float32}


def test_weights_that_accelerate_has_spread_give_the_same_answers(tmp_path: Path) -> None:
    from text_models import SENTENCES, small_bert, small_tokenizer

    tokenizer = small_tokenizer()
    MaskedLM(small_bert(tokenizer), tokenizer).save(tmp_path / "model")
    plain = MaskedLM.from_pretrained(tmp_path / "model", device="cpu")
    spread = MaskedLM.from_pretrained(tmp_path / "model", device_map="auto")
    tokens = plain.tokens(SENTENCES[:2])
    found = spread.log_conditionals(tokens.to(spread.device), tokens.maskable.to(spread.device)).cpu()
    torch.testing.assert_close(found, plain.log_conditionals(tokens, tokens.maskable))
