"""Training a ViT-MAE: positions, sizes and masks, resuming, and the command."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from image_models import random_images, smooth_images
from maskevidence.core.errors import InputError, NumericalError
from maskevidence.huggingface.recipe import Recipe
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.reconstruction import ReconstructionLoss
from paper.vit_mae import PatchMaskCollator, new_vit_mae, random_vit_mae, sin_cos_positions, train_vit_mae

SHORT = Recipe(steps=8, batch_size=4, learning_rate=1e-3, warmup=2)


def small(**options: Any) -> MaskedImage:
    return new_vit_mae(image_size=8, patch_size=2, channels=1, **options)


def tiny() -> MaskedImage:
    """A model whose steps take a few milliseconds."""
    from transformers import ViTMAEConfig

    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    of_decoder = {f"decoder_{name}": value for name, value in shape.items()}
    config = ViTMAEConfig(image_size=8, patch_size=2, num_channels=1, **shape, **of_decoder)
    return MaskedImage(random_vit_mae(config), pixel_mean=[0.45], pixel_std=[0.1]).eval()


# the model before training


def test_positions_and_tokens_are_spread() -> None:
    network = small().network.model
    for positions in (network.vit.embeddings.position_embeddings, network.decoder.decoder_pos_embed):
        of_patches = positions[0, 1:]
        assert not positions[0, 0].any()
        assert of_patches.std().item() > 0.3
        assert torch.cdist(of_patches, of_patches).fill_diagonal_(9.0).min().item() > 0.5  # all differ
        assert not positions.requires_grad
    for token in (network.vit.embeddings.cls_token, network.decoder.mask_token):
        assert token.std().item() == pytest.approx(0.02, rel=0.25)
        assert token.requires_grad


def test_positions_are_sines_and_cosines_of_column_and_row() -> None:
    positions = sin_cos_positions(3, 8).double()
    for row in range(3):
        for column in range(3):
            frequency = np.array([1.0, 0.01])
            direct = [f(place * frequency) for place in (column, row) for f in (np.sin, np.cos)]
            np.testing.assert_allclose(positions[3 * row + column], np.concatenate(direct), atol=1e-7)
    with pytest.raises(InputError, match="a multiple of 4"):
        sin_cos_positions(3, 6)


def test_weights_depend_on_the_seed_and_leave_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    same, again, other = (small(seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(same[name], again[name]) for name in same)
    assert any(not torch.equal(same[name], other[name]) for name in same)


# batches


def features(ids: range, model: MaskedImage) -> list[dict[str, Any]]:
    tokens = model.tokens(random_images(len(ids)))
    return [{"input_ids": tokens.values[i].numpy(), "id": number} for i, number in enumerate(ids)]


def test_a_batch_shares_its_size_and_not_its_masks() -> None:
    model = small(pixel_mean=[0.4], pixel_std=[0.3])
    collator = PatchMaskCollator(model, batch_size=6, seed=3)
    batch = collator(features(range(12, 18), model))
    expected = (torch.from_numpy(random_images(6)).permute(0, 3, 1, 2) / 255 - 0.4) / 0.3
    torch.testing.assert_close(batch["pixel_values"], expected)
    assert batch["hidden"].sum(1).tolist() == [collator.size_of_step(2)] * 6
    assert len({tuple(row.tolist()) for row in batch["hidden"]}) > 1
    # Another process, which has a part of the batch, gets the same masks for it.
    part = collator(features(range(12, 18), model)[3:])
    assert torch.equal(part["hidden"], batch["hidden"][3:])


def test_sizes_are_those_of_the_design_and_even_over_the_steps() -> None:
    model = small()
    sizes = [PatchMaskCollator(model, batch_size=4).size_of_step(step) for step in range(320)]
    assert np.abs(np.bincount(sizes, minlength=17)[1:] - 20).max() <= 3
    fixed = PatchMaskCollator(model, me.FixedRate(0.75, 1), batch_size=4)
    assert {fixed.size_of_step(step) for step in range(20)} == {12}


# training


@pytest.mark.slow
def test_training_beats_the_mean_image_and_the_curve_falls() -> None:
    images = smooth_images(400)
    model = tiny()
    tokens = model.tokens(images)
    held_out = model.tokens(smooth_images(100, seed=1))
    recipe = Recipe(steps=150, batch_size=32, learning_rate=2e-3, warmup=20, weight_decay=0.05)
    trained = train_vit_mae(model, tokens, recipe=recipe)
    assert trained.resumed_from is None
    assert trained.history[-1]["step"] == 150
    assert not model.training
    design = me.EverySize(1)
    loss = -me.estimate_evidence(ReconstructionLoss(model), held_out, design).curve.score
    mean_image = ((smooth_images(100, seed=1) - images.mean(0)) / 255 / 0.1) ** 2
    assert loss.mean() < 0.5 * mean_image.mean()
    assert loss[:4].mean() < loss[-4:].mean() / 2
    model.calibrate(model.tokens(smooth_images(100, seed=2)))
    estimate = me.estimate_evidence(model, held_out, design)
    assert estimate.kind == "lower_bound"
    assert estimate.curve.score[:4].mean() > estimate.curve.score[-4:].mean() + 1


def test_the_loss_of_a_step_is_the_loss_of_the_network() -> None:
    """Recompute the loss of a single step from the untrained weights, the order and the masks."""
    images = random_images(4)
    model, fresh = tiny(), tiny()
    trained = train_vit_mae(model, model.tokens(images), recipe=Recipe(steps=1, batch_size=4, warmup=0))
    collator = PatchMaskCollator(fresh, batch_size=4)
    size = collator.size_of_step(0)
    from maskevidence.huggingface.recipe import TrainingOrder

    order = TrainingOrder(fresh.tokens(images), 4, seed=0)
    batch = collator([order[i] for i in range(4)])
    tokens = fresh.tokens(images)[torch.from_numpy(order.order)]
    with torch.no_grad():
        losses = fresh.reconstruction_losses(tokens, batch["hidden"])
    assert batch["hidden"].sum().item() == 4 * size
    assert trained.history[0]["loss"] == pytest.approx(losses.sum().item() / (4 * size), rel=1e-4)


class _Stop(RuntimeError):
    pass


@pytest.mark.slow
def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import TrainerCallback

    class Interrupt(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
            if state.global_step == 6:
                raise _Stop

    # Logs at 2, 4 and 6, a checkpoint at 4, and an interruption at 6, before its log.
    monkeypatch.setattr("maskevidence.huggingface.training.LOG_EVERY", 3)
    images = random_images(10)
    whole, parts = tiny(), tiny()
    history = train_vit_mae(whole, whole.tokens(images), recipe=SHORT).history
    assert [entry["step"] for entry in history] == [2, 4, 6, 8]
    with pytest.raises(_Stop):
        train_vit_mae(
            parts,
            parts.tokens(images),
            recipe=SHORT,
            out=tmp_path,
            checkpoint_every=4,
            callbacks=[lambda _: Interrupt()],
        )
    again = tiny()
    trained = train_vit_mae(again, again.tokens(images), recipe=SHORT, out=tmp_path, checkpoint_every=4)
    assert trained.resumed_from == 4
    assert trained.history == history
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value, rtol=1e-5, atol=1e-6, msg=name)


def test_old_variances_are_dropped_and_bad_training_is_refused() -> None:
    model = tiny()
    tokens = model.tokens(random_images(6))
    model.calibrate(tokens)
    train_vit_mae(model, tokens, recipe=Recipe(steps=1, batch_size=4, warmup=0))
    assert model.density is None
    with torch.no_grad():
        model.network.model.decoder.decoder_pred.bias.fill_(float("nan"))
    with pytest.raises(NumericalError, match="the loss is nan"):
        train_vit_mae(model, tokens, recipe=Recipe(steps=1, batch_size=4, warmup=0))
    function = MaskedImage.from_callable(lambda x, _: x, image_size=8, patch_size=2, channels=1)
    with pytest.raises(InputError, match="only a ViT-MAE can be trained"):
        train_vit_mae(function, tokens)


# the command
