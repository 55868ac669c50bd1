"""Nothing mixes devices: every model and use of it on a pretended device, with data on the processor."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from image_models import random_images, small_vit_mae
from learned_conditionals import Learned
from learned_conditionals import rows as some_rows
from maskevidence.core.model import fingerprint
from maskevidence.runs.prepared import recorded
from pretend_device import MixedDevices, Pretended, pretended_device
from text_models import SENTENCES, small_bert, small_tokenizer
from uses_of_models import MODELS, USES, NotHad, numbers, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:the importance weights"),
    pytest.mark.usefixtures("unchecked"),  # for speed: the calls are those of other tests
]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    with pretended_device(monkeypatch) as device:
        yield device


@pytest.mark.parametrize(
    "call",
    [
        lambda on, off: on + off,
        lambda on, off: off @ on.T,
        lambda on, off: torch.where(on > 0, off, 0.0),
        lambda on, off: torch.cat([on, off]),
        lambda on, off: off[on > 0],
        lambda on, off: on.numpy(),
        lambda on, off: np.asarray(on),
        lambda on, off: torch.randn(2, device=on.device, generator=torch.Generator()),
        lambda on, off: torch.nn.Linear(2, 2).to(on.device)(off),
        lambda on, off: torch.nn.Linear(2, 2)(on),
    ],
)
def test_the_pretended_device_refuses_a_mix(device: torch.device, call: Callable[..., Any]) -> None:
    on, off = torch.ones(2, 2).to(device), torch.ones(2, 2)
    with pytest.raises(MixedDevices):
        call(on, off)


@pytest.mark.parametrize("name", MODELS)
def test_data_follow_a_model_to_its_device(device: torch.device, name: str) -> None:
    here, there = MODELS[name](torch.float64).eval(), MODELS[name](torch.float64).to(device).eval()
    assert all(isinstance(value, Pretended) for value in there.state_dict().values())
    for use in USES:
        try:
            found = list(numbers(USES[use](there, rows())))
        except NotHad:
            continue
        if use in ("every size", "sample", "impute", "moments"):
            wanted = list(numbers(USES[use](here, rows())))
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=use)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_of_one_device_and_a_model_of_the_other(device: torch.device, name: str) -> None:
    here, there = MODELS[name](torch.float32).eval(), MODELS[name](torch.float32).to(device).eval()
    tokens = me.Tokens.from_array(rows(holes=True))
    for use in ("every size", "orderings", "score_masks", "train by random sizes"):
        for model in (here, there):
            found = list(numbers(USES[use](model, tokens.to(device))))
            wanted = list(numbers(USES[use](model, tokens)))
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=use)  # in float32


class Independent(torch.nn.Module):
    """A model as a user would write it."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return torch.where(masked, -0.5 * (tokens.values - self.mean).square(), 0.0)


def test_data_follow_a_model_of_the_users_own(device: torch.device) -> None:
    model = Independent().to(device)
    estimate = me.estimate_evidence(model, rows(), me.EverySize(1))
    assert estimate.log_evidence == me.estimate_evidence(Independent(), rows(), me.EverySize(1)).log_evidence
    me.fit(model, rows(), me.RandomSize(1, 1), epochs=1)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_torch_for_gpus_asks_for_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a build for GPUs as with one for processors, of which this one is made to look like the other."""

    def no_driver() -> None:
        raise RuntimeError("Found no NVIDIA driver on your system")

    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch._C, "_accelerator_getDeviceIndex", no_driver)
    with pretended_device(monkeypatch) as device:
        me.fit(Independent().to(device), rows(), me.RandomSize(1, 1), epochs=1)  # by Adam
        (batch,) = torch.utils.data.DataLoader(torch.ones(2, 3), batch_size=2, pin_memory=True)
        assert batch.to(device).device == device


@pytest.mark.parametrize(
    "design",
    [
        me.Exhaustive(order_mixture=True, blocks=2),
        me.Orderings(4, bound="importance"),
        me.Policy("right-to-left"),
        me.Policy("order", order=(3, 1, 0, 2)),
        me.Policy("margin"),
        me.Policy("entropy", blocks=2, tokens_per_step=2),
    ],
)
def test_orders_of_learned_conditionals(device: torch.device, design: me.MaskDesign) -> None:
    here, there, tokens = Learned(4, 3), Learned(4, 3).to(device), some_rows(5, 4, 3)
    found, wanted = (me.estimate_evidence(model, tokens, design) for model in (there, here))
    assert found.per_observation == pytest.approx(wanted.per_observation, abs=1e-12)
    if isinstance(design, me.Policy):
        assert me.decode(there, tokens, design).values.device == device


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("ahead", [False, True])
def test_masked_language_models(
    device: torch.device, whole_words: bool, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ahead:
        monkeypatch.setattr("maskevidence.core.scores.ask.computes_ahead", lambda _: True)
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    tokenizer = small_tokenizer()
    estimates = []
    for place in ("cpu", device):
        model: Any = me.models.MaskedLM(small_bert(tokenizer).to(place), tokenizer)
        encoded = model.encode(SENTENCES)
        design = me.LeaveOneOut() if whole_words else me.RandomSize(4)
        model = me.models.WholeWords(model, encoded) if whole_words else model
        estimates.append(me.estimate_evidence(model, encoded.tokens, design).log_evidence)
    assert estimates[1] == pytest.approx(estimates[0], rel=1e-6)


def test_masked_image_models(device: torch.device) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    estimates = []
    for place in ("cpu", device):
        model = me.models.MaskedImage(small_vit_mae(), pixel_mean=[0.4], pixel_std=[0.3]).to(place)
        tokens = model.tokens(random_images())
        model.calibrate(tokens, "gaussian")
        estimates.append(me.estimate_evidence(model, tokens, me.RandomSize(4)).log_evidence)
    assert estimates[1] == pytest.approx(estimates[0], rel=1e-6)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")  # no memory to pin for a pretended device
@pytest.mark.parametrize("kind", ["masked-lm", "vit-mae"])
def test_transformers_train_where_they_are_asked_to(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The whole Trainer on the device; the model, with what belongs to it, is there afterwards and scores."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    from maskevidence.huggingface.recipe import Recipe
    from maskevidence.huggingface.training import TrainerOptions, train_masked_lm
    from paper.vit_mae import train_vit_mae

    for name in ("set_device", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, lambda _argument: None)
    recipe = Recipe(steps=2, batch_size=2, warmup=0)
    estimates = []
    for place in ("cpu", "cuda"):
        tokenizer = small_tokenizer()
        torch.manual_seed(0)
        model: Any
        if kind == "masked-lm":
            model = me.models.MaskedLM(small_bert(tokenizer), tokenizer)
            tokens = model.tokens(SENTENCES)
            trained = train_masked_lm(model, tokens, recipe=recipe, options=TrainerOptions(device=place))
        else:
            model = me.models.MaskedImage(small_vit_mae(), pixel_mean=[0.4], pixel_std=[0.3])
            tokens = model.tokens(random_images())
            trained = train_vit_mae(model, tokens, recipe=recipe, device=place)
            model.calibrate(tokens, "gaussian")
        assert trained.devices == ({"cuda": "cuda:0"}.get(place, place),)
        assert [name for name, value in model.state_dict().items() if value.device.type != place] == []
        estimates.append(me.estimate_evidence(model, tokens, me.RandomSize(2)).log_evidence)
    assert estimates[1] == pytest.approx(estimates[0], rel=1e-5)


def test_products_are_in_tf32_where_they_were_asked_to(device: torch.device) -> None:
    """Only in the model's own calls; the run names it, and another precision is another model."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    tokenizer, seen, estimates = small_tokenizer(), list[set[str]](), list[float]()
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer).to(device)
    embeddings = model.network.get_input_embeddings()
    embeddings.register_forward_hook(lambda *_: seen[-1].add(torch.get_float32_matmul_precision()))
    named = []
    for in_tf32 in (False, True):
        model.in_tf32 = in_tf32
        seen.append(set())
        estimates.append(me.estimate_evidence(model, model.tokens(SENTENCES), me.RandomSize(4)).log_evidence)
        assert torch.get_float32_matmul_precision() == "highest"
        named.append((recorded(model)["dtype"], fingerprint(model)))
    assert seen == [{"highest"}, {"high"}]
    assert estimates[0] == estimates[1]  # the pretended device rounds nothing
    assert [dtype for dtype, _ in named] == ["float32", "tf32"]
    assert named[0][1] != named[1][1]
    with pytest.raises(ZeroDivisionError), model._precision():
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == "highest"
