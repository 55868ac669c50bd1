"""Several threads of a process: one network is called at a time, and a fit depends on its seed alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import maskevidence as me
from image_models import random_images, small_vit_mae
from text_models import SENTENCES, small_bert, small_tokenizer


def in_threads(call: Callable[[int], object], n: int = 4) -> list[object]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(call, range(n)))


def masked_lm() -> tuple[me.MaskedModel, me.Tokens]:
    tokenizer = small_tokenizer()
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer, batch_tokens=16)
    return model, model.tokens(SENTENCES)


def masked_image() -> tuple[me.MaskedModel, me.Tokens]:
    model = me.models.MaskedImage(small_vit_mae(), pixel_mean=[0.4], pixel_std=[0.3]).eval()
    tokens = model.tokens(random_images(20))
    model.calibrate(tokens)
    return model, tokens


@pytest.mark.parametrize("make", [masked_lm, masked_image])
def test_one_model_gives_the_same_answers_in_four_threads(make: Callable[[], tuple]) -> None:
    """The hooks, or the mask ratio, of a call are those of the network; without a lock most calls failed."""
    model, tokens = make()
    alone = me.estimate_evidence(model, tokens, "random-size:8").per_observation
    for found in in_threads(lambda _: me.estimate_evidence(model, tokens, "random-size:8").per_observation):
        np.testing.assert_allclose(found, alone, rtol=1e-5)


def test_fits_in_threads_end_as_alone_and_leave_the_random_state() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))

    def trained(seed: int) -> torch.Tensor:
        model = me.models.MaskedNetwork(3, 8, 1, seed=seed, dropout=0.5).fit(x, epochs=3, seed=seed)
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    alone, before = [trained(seed) for seed in range(4)], torch.get_rng_state()
    for found, expected in zip(in_threads(trained), alone, strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), before)
