"""MaskSizeCollator: what it hides, its weights, and the resulting loss, against enumeration."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import maskevidence as me
from maskevidence.huggingface.collator import WEIGHT, MaskSizeCollator
from maskevidence.huggingface.trainer import evidence_loss
from text_models import SENTENCES, small_bert, small_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return small_tokenizer()


def collated(tokenizer: Any, texts: list[str], **options: Any) -> dict[str, torch.Tensor]:
    features = [dict(tokenizer(text), id=i) for i, text in enumerate(texts)]
    return MaskSizeCollator(tokenizer, **options)(features)


def sizes(batch: dict[str, torch.Tensor]) -> list[int]:
    return (batch["labels"] != -100).sum(1).tolist()


def test_random_sizes_hide_every_size_evenly_and_no_special_token(tokenizer: Any) -> None:
    text = "the rain falls on the roof"  # six tokens
    counts = np.bincount(sizes(collated(tokenizer, [text] * 600)), minlength=7)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 100).max() < 5  # consecutive ids: even; independent sizes would vary by 9
    batch = collated(tokenizer, SENTENCES)
    hidden = batch["labels"] != -100
    special = torch.isin(batch["labels"], torch.tensor(tokenizer.all_special_ids))
    assert not (hidden & special).any()
    assert (batch["input_ids"][hidden] == tokenizer.mask_token_id).all()
    plain = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    torch.testing.assert_close(batch["input_ids"][~hidden], plain["input_ids"][~hidden])
    torch.testing.assert_close(batch["labels"][hidden], plain["input_ids"][hidden])
    torch.testing.assert_close(batch["attention_mask"], plain["attention_mask"])
    assert batch[WEIGHT].tolist() == (plain["attention_mask"].sum(1) - 2).tolist()


def test_each_token_is_hidden_as_often_as_any_other(tokenizer: Any) -> None:
    batch = collated(tokenizer, ["the rain falls on the roof"] * 4000, seed=5)
    share = (batch["labels"] != -100).float().mean(0)[1:-1]
    expected = 3.5 / 6
    assert (np.abs(share.numpy() - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 4000)).all()


def test_a_fixed_rate_and_the_papers_sweep(tokenizer: Any) -> None:
    text = " ".join(["rain"] * 20)
    assert set(sizes(collated(tokenizer, [text] * 9, mlm_probability=0.15))) == {3}
    assert set(sizes(collated(tokenizer, [text] * 9, mlm_probability=1.0))) == {20}
    sweep = me.Rates(tuple(i / 100 for i in range(1, 100)))
    batch = collated(tokenizer, [text] * 990, design=sweep)
    expected = np.bincount(np.maximum(1, np.floor(0.2 * np.arange(1, 100) + 1e-9)).astype(int)) * 10
    assert np.abs(np.bincount(sizes(batch)) - expected).max() <= 3
    assert batch[WEIGHT].tolist() == pytest.approx([20.0] * 990)  # D over 99 rates, times 99


def test_corruption_by_the_names_of_transformers(tokenizer: Any) -> None:
    text = " ".join(["rain"] * 50)
    batch = collated(
        tokenizer, [text] * 400, mlm_probability=0.5, mask_replace_prob=0.8, random_replace_prob=0.1
    )
    hidden = batch["labels"] != -100
    shown = batch["input_ids"][hidden]
    rain = tokenizer.convert_tokens_to_ids("rain")
    n = len(shown)
    assert n == 400 * 25
    masked, same = (shown == tokenizer.mask_token_id).sum().item(), (shown == rain).sum().item()
    at_random = 0.1 / len(tokenizer)
    for count, share in ((masked, 0.8 + at_random), (same, 0.1 + at_random)):
        assert abs(count - n * share) < 4 * np.sqrt(n * share * (1 - share))
    assert len(shown.unique()) == len(tokenizer)
    assert (
        batch["input_ids"][~hidden]
        == tokenizer(text, return_tensors="pt")["input_ids"].repeat(400, 1)[~hidden]
    ).all()


def test_masks_belong_to_the_id_and_not_to_the_batch(tokenizer: Any) -> None:
    collator = MaskSizeCollator(tokenizer, seed=3)
    features = [dict(tokenizer(text), id=10 + i) for i, text in enumerate(SENTENCES)]
    together = collator(features)
    for i, feature in enumerate(features):
        alone = collator([feature])
        width = alone["labels"].shape[1]
        torch.testing.assert_close(alone["labels"][0], together["labels"][i, :width])
    other = MaskSizeCollator(tokenizer, seed=4)(features)
    assert not torch.equal(other["labels"], together["labels"])
    renumbered = collator([feature | {"id": feature["id"] + 100} for feature in features])
    assert not torch.equal(renumbered["labels"], together["labels"])


def test_without_ids_masks_follow_torchs_random_state(tokenizer: Any) -> None:
    collator = MaskSizeCollator(tokenizer)
    ids = [tokenizer(text)["input_ids"] for text in SENTENCES]
    with torch.random.fork_rng():
        drawn = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            drawn.append(collator(ids)["labels"])  # ids alone are features too
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    padded = collator([torch.tensor(ids[0]), torch.tensor(ids[1])])
    assert padded["attention_mask"].sum(1).tolist() == [len(ids[0]), len(ids[1])]
    wide = MaskSizeCollator(tokenizer, pad_to_multiple_of=16)(ids)
    assert wide["labels"].shape[1] % 16 == 0


def test_ranks_with_equal_seeds_draw_different_masks(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ids; a single process and the first of several draw the same masks."""
    features = [dict(tokenizer("the rain falls on the roof"))] * 50
    drawn = []
    for rank in (None, "0", "1", "2"):
        if rank is not None:
            monkeypatch.setenv("RANK", rank)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            drawn.append(MaskSizeCollator(tokenizer)(features)["labels"] != -100)
    assert torch.equal(drawn[0], drawn[1])
    for other in drawn[2:]:
        assert (drawn[0] != other).any(1).sum() > 35
        assert np.abs(np.bincount(other.sum(1), minlength=7)[1:] - 50 / 6).max() < 4  # still spread evenly
    assert not torch.equal(drawn[2], drawn[3])


def test_an_id_gets_new_masks_in_each_epoch(tokenizer: Any) -> None:
    features = [dict(tokenizer("the rain falls on the roof"), id=i) for i in range(600)]
    collator = MaskSizeCollator(tokenizer, seed=3)
    drawn = []
    for epoch in range(3):
        collator.set_epoch(epoch)
        hidden = collator(features)["labels"] != -100
        drawn.append(hidden)
        assert np.abs(np.bincount(hidden.sum(1), minlength=7)[1:] - 100).max() < 5
        # A text's mask depends on its id and the epoch, not on the batch.
        assert torch.equal(collator(features[7:9])["labels"] != -100, hidden[7:9])
    fresh = MaskSizeCollator(tokenizer, seed=3)(features)["labels"] != -100
    assert torch.equal(drawn[0], fresh)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert (drawn[a] != drawn[b]).any(1).float().mean() > 0.8
    counts = np.zeros(7)
    for epoch in range(300):  # the sizes of one text are uniform over the epochs
        collator.set_epoch(epoch)
        counts[sizes(collator(features[5:6]))] += 1
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 0.001
    with pytest.raises(me.InputError, match="epoch=-1"):
        collator.set_epoch(-1)


def test_workers_see_the_epoch(tokenizer: Any) -> None:
    features = [dict(tokenizer("the rain falls on the roof"), id=i) for i in range(8)]
    collator = MaskSizeCollator(tokenizer)
    loader = torch.utils.data.DataLoader(
        features,  # type: ignore[arg-type]
        batch_size=4,
        collate_fn=collator,
        num_workers=1,
        persistent_workers=True,
    )
    for epoch in range(3):
        collator.set_epoch(epoch)
        found = torch.cat([batch["labels"] for batch in loader])
        assert torch.equal(found, collator(features)["labels"])


def test_an_unknown_word_can_be_hidden_and_a_special_tokens_mask_is_kept(tokenizer: Any) -> None:
    unknown = collated(tokenizer, ["ж"], mlm_probability=1.0)
    assert unknown["labels"][0].tolist() == [-100, tokenizer.unk_token_id, -100]
    feature = dict(tokenizer("rain falls")) | {"special_tokens_mask": [1, 1, 0, 1]}
    batch = MaskSizeCollator(tokenizer, mlm_probability=1.0)([feature])
    assert batch["labels"][0].tolist()[:2] == [-100, -100]
    assert batch[WEIGHT].tolist() == [1.0]
    for side in ("right", "left"):  # padded before, or here
        own = small_tokenizer()
        own.padding_side = side
        flags = {"return_special_tokens_mask": True}
        padded = [dict(own(text, padding="max_length", max_length=16, **flags)) for text in SENTENCES]
        plain = [dict(own(text, **flags)) for text in SENTENCES]
        for features in (padded, plain):
            found = MaskSizeCollator(own, mlm_probability=1.0)(features)
            assert sizes(found) == [len(own.tokenize(text)) for text in SENTENCES]


def loss_of(model: me.models.MaskedLM, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    inputs = dict(batch)
    labels, weight = inputs.pop("labels"), inputs.pop(WEIGHT)
    return evidence_loss(model, inputs, labels, weight)


TEXTS = ["rain", "a cat sings", "the rain falls on the roof", "who is it ?"]  # of 1, 3, 6 and 4 tokens


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> me.models.MaskedLM:
    """A model that has learnt a few texts, so that the visible tokens matter."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    network = small_bert(tokenizer, **sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    learnt = me.models.MaskedLM(network.double(), tokenizer)
    optimizer = torch.optim.Adam(learnt.parameters(), lr=0.02)
    for step in range(150):
        optimizer.zero_grad()
        loss_of(learnt, collated(tokenizer, TEXTS, seed=step)).backward()
        optimizer.step()
    return learnt


def test_the_loss_is_the_weighted_score_of_full_logits(tokenizer: Any, model: me.models.MaskedLM) -> None:
    batch = collated(tokenizer, SENTENCES)
    labels, weight = batch["labels"], batch[WEIGHT].double()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    log_probs = torch.log_softmax(model.network(**inputs).logits, -1)
    picked = log_probs.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]
    hidden = labels != -100
    score = (picked * hidden).sum(1) / hidden.sum(1)
    slow = -(weight * score).mean()
    fast = loss_of(model, batch)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=0)
    replicated = evidence_loss(model, inputs, labels, weight, torch.nn.DataParallel(model.network))
    torch.testing.assert_close(replicated, slow, rtol=1e-12, atol=0)
    own = model.network(**batch).loss  # as a plain Trainer calls it: the weight is passed over
    torch.testing.assert_close(own, -picked[hidden].mean(), rtol=1e-9, atol=0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    for a, b in zip(
        torch.autograd.grad(fast, parameters), torch.autograd.grad(slow, parameters), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_random_sizes_are_unbiased_for_the_evidence_and_its_gradient(
    tokenizer: Any, model: me.models.MaskedLM
) -> None:
    """100 batches of each text 20 times, against every mask: loss, and gradient in three directions."""
    z = z_scores(tokenizer, model, None, 100)
    assert (np.abs(z) < 3.3).all(), z
    biased = z_scores(tokenizer, model, me.FixedRate(0.3, 1), 50)
    assert np.abs(biased).max() > 5, biased  # one rate is another objective, and the test can see it


def z_scores(tokenizer: Any, model: me.models.MaskedLM, design: Any, n_batches: int) -> np.ndarray:
    parameters = [p for p in model.parameters() if p.requires_grad]
    generator = torch.Generator().manual_seed(7)
    directions = [
        [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters] for _ in range(3)
    ]

    def measured(loss: torch.Tensor) -> list[float]:
        gradient = torch.autograd.grad(loss, parameters)
        along = [
            sum((g * d).sum() for g, d in zip(gradient, direction, strict=True)) for direction in directions
        ]
        return [loss.item(), *(value.item() for value in along)]

    truth = measured(me.MaskedObjective(me.Exhaustive())(model, model.tokens(TEXTS)))
    collator = MaskSizeCollator(tokenizer, design)
    features = [dict(tokenizer(text)) for text in TEXTS] * 20
    with torch.random.fork_rng():
        torch.manual_seed(11)
        found = np.array([measured(loss_of(model, collator(features))) for _ in range(n_batches)])
    return stats.ttest_1samp(found, truth).statistic


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mlm_probability": 0.0}, "mask rate 0;"),
        ({"mlm_probability": 1.5}, "mask rate 1.5"),
        ({"mlm_probability": 0.15, "design": me.RandomSize(1, 1)}, "give one of them"),
        ({"mask_replace_prob": 0.8, "random_replace_prob": 0.3}, "their sum is 1.1"),
        ({"mask_replace_prob": -0.1}, "mask_replace_prob is -0.1"),
    ],
)
def test_options_that_cannot_be_used(tokenizer: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        MaskSizeCollator(tokenizer, **options)


def test_what_cannot_be_collated(tokenizer: Any) -> None:
    maskless = small_tokenizer()
    maskless.mask_token = None
    with pytest.raises(me.InputError, match="BertTokenizer has no mask token"):
        MaskSizeCollator(maskless)
    with pytest.raises(me.InputError, match="text 1 of the batch has no token to hide"):
        MaskSizeCollator(tokenizer)([tokenizer("rain"), tokenizer("")])
    padless = small_tokenizer()
    padless.pad_token = None
    for name, column in (("text", "rain"), ("id", "p3"), ("words", ["rain"]), ("more", None)):
        with pytest.raises(me.InputError, match=f"the column '{name}' holds .*, not numbers; leave it out"):
            MaskSizeCollator(tokenizer)([dict(tokenizer("rain")), dict(tokenizer("rain")) | {name: column}])
    for ids, message in (((0, None), "1 of 2 texts have an 'id'"), ((0, 1.5), "id=1.5; give a whole number")):
        rows = [dict(tokenizer("rain")) | ({} if one is None else {"id": one}) for one in ids]
        with pytest.raises(me.InputError, match=message):
            MaskSizeCollator(tokenizer)(rows)
    with pytest.raises(me.InputError, match="no padding token"):
        MaskSizeCollator(padless)([tokenizer("rain"), tokenizer("rain falls")])
