"""Masked image models: transformers' own loss, no leaks, evidence of Gaussian images, invalid input."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from image_models import random_images, saved, small_vit_mae
from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.tokens import Tokens
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.patches import random_masks
from maskevidence.images.pixel_density import PixelDensity
from oracles import condition

D, K = 16, 4  # patches of an image of 8×8, pixels of a patch


def model_of(network: Any = None, **options: Any) -> MaskedImage:
    settings: dict[str, Any] = {"pixel_mean": [0.4], "pixel_std": [0.3]}
    return MaskedImage(network or small_vit_mae(), **(settings | options)).eval()


def calibrated(density: str = "gaussian", network: Any = None, **options: Any) -> MaskedImage:
    model = model_of(network)
    model.calibrate(model.tokens(random_images(8, seed=9)), density, **options)
    return model


def any_sizes(tokens: Tokens, seed: int = 0) -> Tensor:
    """Masks of all sizes, 1 and D among them."""
    generator = np.random.default_rng(seed)
    size = generator.integers(1, D + 1, len(tokens))
    size[:2] = 1, D
    rank = generator.permuted(np.tile(np.arange(D), (len(tokens), 1)), axis=1)
    return torch.from_numpy(rank < size[:, None])


def overwritten(tokens: Tokens, where: Tensor, seed: int = 0) -> Tokens:
    """The same images with different levels in some patches."""
    other = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, tokens.values.shape))
    values = torch.where(where[..., None], other.to(tokens.values.dtype), tokens.values)
    return Tokens(values, tokens.maskable, tokens.context, tokens.ids)


# the network's own quantity


@pytest.mark.parametrize("norm_pix_loss", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [1, 5, 12, D])
def test_the_reconstruction_loss_is_that_of_transformers(
    channels: int, size: int, norm_pix_loss: bool
) -> None:
    network = small_vit_mae(num_channels=channels, norm_pix_loss=norm_pix_loss)
    model = model_of(network, pixel_mean=[0.4] * channels, pixel_std=[0.2, 0.3, 0.25][:channels])
    images = random_images(5, channels=channels)
    tokens = model.tokens(images)
    masked = random_masks(tokens, size, seed=1)
    found = model.reconstruction_losses(tokens, masked)
    assert bool((found[~masked] == 0).all())

    std = torch.tensor([0.2, 0.3, 0.25][:channels])[:, None, None]
    pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - 0.4) / std
    network.config.mask_ratio = (size - 0.5) / D
    with torch.no_grad():
        theirs = network(pixel_values=pixels, noise=masked + torch.rand(5, D) / 2)
    assert torch.equal(theirs.mask.bool(), masked)
    assert (found.sum() / masked.sum()).item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    # patch by patch: order and channels, not only their mean
    target = network.patchify(pixels)
    if norm_pix_loss:
        target = (target - target.mean(-1, keepdim=True)) / (target.var(-1, keepdim=True) + 1e-6).sqrt()
    direct = (theirs.logits - target).square().mean(-1)
    torch.testing.assert_close(found[masked].float(), direct[masked], rtol=1e-5, atol=1e-5)


def test_reconstructed_images_hold_predictions_at_hidden_patches() -> None:
    model = model_of()
    images = random_images(3)
    tokens = model.tokens(images)
    masked = random_masks(tokens, 6, seed=2)
    with torch.no_grad():
        made = model.reconstruct(tokens, masked)
        noise = masked.float()
        model.network.model.config.mask_ratio = 1 - (D - 6 + 0.5) / D
        pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - 0.4) / 0.3
        logits = model.network.model(pixel_values=pixels, noise=noise).logits
    assert torch.equal(made[~masked], tokens.values[~masked].float())
    torch.testing.assert_close(made[masked], (logits[masked] * 0.3 + 0.4) * 255, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("side", [1, 3, 7, 11, 14])
def test_the_model_hides_the_requested_number_at_every_size(side: int) -> None:
    """mask_ratio = 1 - (D - M + ½) / D: no rounding of its product with D is off by one."""
    network = small_vit_mae(image_size=side, patch_size=1, hidden_size=8, decoder_hidden_size=8)
    model = model_of(network)
    tokens = model.tokens(random_images(side**2, size=side))
    before = network.config.mask_ratio
    masked = torch.tril(torch.ones(side**2, side**2)).bool()  # sizes 1..D; the call checks the model's mask
    with torch.no_grad():
        assert bool(torch.isfinite(model.reconstruction_losses(tokens, masked)).all())
    assert network.config.mask_ratio == before


def test_the_encoder_sees_visible_patches_only_and_a_network_that_ignores_the_mask_is_an_error() -> None:
    model = calibrated()
    seen: list[int] = []  # class token and visible patches; M = D: the class token only
    layer = model.network.model.vit.layers[0]
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    tokens = model.tokens(random_images(D))
    model.log_conditionals(tokens, torch.tril(torch.ones(D, D)).bool())
    assert sorted(seen) == list(range(1, D + 1))
    embeddings = model.network.model.vit.embeddings
    original = embeddings.random_masking
    embeddings.random_masking = lambda sequence, _noise: original(sequence, None)
    with pytest.raises(NumericalError, match="handles masks differently"):
        model.log_conditionals(tokens, random_masks(tokens, 8, seed=0))


# the protocol


def densities() -> list[MaskedImage]:
    normalised = small_vit_mae(norm_pix_loss=True)
    return [
        calibrated(),
        calibrated("discretised"),
        calibrated(network=normalised),
        calibrated(network=normalised, patch_statistics="visible"),
        calibrated("discretised", network=normalised, patch_statistics="visible"),
    ]


@pytest.mark.parametrize("case", range(5))
def test_protocol(case: int) -> None:
    model = densities()[case]
    assert isinstance(model, me.MaskedModel)
    assert model.conditionals == ("transformed" if case == 2 else "learned")
    tokens = model.tokens(random_images(20))
    masked = any_sizes(tokens)
    with torch.no_grad():
        answer = model.log_conditionals(tokens, masked)
        assert answer.shape == masked.shape
        assert bool((answer[~masked] == 0).all())
        assert bool((torch.isfinite(answer) & (answer != 0))[masked].all())
        assert not model.log_conditionals(tokens, torch.zeros_like(masked)).any()
        # other hidden values do not matter
        for j in (0, 7, D - 1):
            others = masked.clone()
            others[:, j] = False
            changed = model.log_conditionals(overwritten(tokens, others, seed=j), masked)
            torch.testing.assert_close(changed[:, j], answer[:, j], rtol=0, atol=1e-4)
        # visible ones do
        changed = model.log_conditionals(overwritten(tokens, ~masked), masked)
        assert ((changed - answer).abs() > 1e-3)[masked & (~masked).any(1, keepdim=True)].float().mean() > 0.7
        # neither order nor batch do
        order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
        shuffled = model.log_conditionals(tokens[order], masked[order])
        torch.testing.assert_close(shuffled, answer[order], rtol=0, atol=1e-4)
        model.batch_tokens = 1
        torch.testing.assert_close(model.log_conditionals(tokens, masked), answer, rtol=0, atol=1e-4)


def leak(model: MaskedImage) -> float:
    """The largest change of a prediction, in levels, when only hidden pixels are overwritten."""
    tokens = model.tokens(random_images(6))
    masked = any_sizes(tokens)
    with torch.no_grad():
        before = model.reconstruct(tokens, masked)[masked]
        after = model.reconstruct(overwritten(tokens, masked), masked)[masked]
    return float((before - after).abs().max())


class Leaky(MaskedImage):
    """A model that cheats: predictions are brought back with the hidden patch's own mean and variance."""

    def _targets(self, call: Any, patch_statistics: Any, density: Any) -> Any:
        levels, outputs = call.levels[call.scored], call.outputs[call.scored]
        variance, mean = torch.var_mean(self._in_model_units(levels), dim=1, keepdim=True)
        return levels, self._in_levels(outputs * (variance + 1e-6).sqrt() + mean)


def test_predictions_do_not_look_at_hidden_pixels() -> None:
    normalised = small_vit_mae(norm_pix_loss=True)
    assert leak(calibrated()) < 1e-2
    assert leak(calibrated(network=normalised, patch_statistics="visible")) < 1e-2
    leaky = Leaky(normalised, pixel_mean=[0.4], pixel_std=[0.3])
    leaky.calibrate(leaky.tokens(random_images(8, seed=9)), patch_statistics="visible")
    assert leak(leaky) > 10  # the test detects a leak


def test_statistics_of_visible_patches_by_hand() -> None:
    """Prediction · √(mean of the visible variances) + mean of the visible means, computed by hand."""
    network = small_vit_mae(norm_pix_loss=True)
    model = calibrated(network=network, patch_statistics="visible")
    images = random_images(2)
    tokens = model.tokens(images)
    masked = random_masks(tokens, 10, seed=3)
    masked[1] = True
    with torch.no_grad():
        made = model.reconstruct(tokens, masked)
        outputs = {int(c.rows[0]): c.outputs[0] for c in model._calls(tokens, masked)}
    density = model.density
    assert density is not None
    calibration = (model.tokens(random_images(8, seed=9)).values.double() / 255 - 0.4) / 0.3
    assert density.patch_mean == pytest.approx(calibration.mean().item(), rel=1e-5)
    assert density.patch_variance == pytest.approx(calibration.var(2).mean().item(), rel=1e-5)
    for i in range(2):
        patches = (tokens.values[i].double() / 255 - 0.4) / 0.3
        seen = patches[~masked[i]]
        mean = seen.mean() if len(seen) else torch.tensor(density.patch_mean)
        variance = seen.var(1).mean() if len(seen) else torch.tensor(density.patch_variance)
        expected = (outputs[i] * (variance + 1e-6).sqrt() + mean) * 0.3 * 255 + 0.4 * 255
        torch.testing.assert_close(made[i][masked[i]], expected[masked[i]].float(), rtol=1e-4, atol=1e-2)


def test_absent_patches_are_hidden_and_context_is_visible() -> None:
    model = calibrated()
    tokens = model.tokens(random_images(4))
    maskable = torch.ones(4, D, dtype=torch.bool)
    maskable[:, :5] = False
    context = torch.zeros_like(maskable)
    context[:, :2] = True
    roles = Tokens(tokens.values, maskable, context, tokens.ids)
    masked = torch.zeros_like(maskable)
    masked[:, 8:12] = True
    absent = ~(maskable | context)
    with torch.no_grad():
        answer = model.log_conditionals(roles, masked)
        for where, same in ((absent, True), (context, False)):
            other = overwritten(roles, where)
            changed = (model.log_conditionals(other, masked) - answer)[masked].abs()
            assert bool((changed < 1e-4).all()) == same
        # the network does not distinguish absent from masked patches: both are hidden, 3 + 4 of them
        both = model.log_conditionals(tokens, masked | absent)
    torch.testing.assert_close(answer[masked], both[masked], rtol=0, atol=1e-4)


def test_an_estimate_does_not_depend_on_batch_or_order() -> None:
    model = calibrated()
    images = random_images(30)
    tokens = model.tokens(images)
    for design in (me.Rates((0.05, 0.95), 2), me.RandomSize(4)):
        whole = me.estimate_evidence(model, tokens, design, seed=3)
        assert whole.kind == ("pseudo" if design.name == "rates" else "lower_bound")
        order = np.random.default_rng(0).permutation(30)
        model.batch_tokens = 40
        shuffled = me.estimate_evidence(model, model.tokens(images[order], order), design, seed=3)
        model.batch_tokens = None
        assert shuffled.log_evidence == pytest.approx(whole.log_evidence, abs=1e-4)
        np.testing.assert_allclose(shuffled.per_observation, whole.per_observation, atol=1e-3)


def test_gradients_equal_those_of_one_image_at_a_time() -> None:
    model = calibrated(network=small_vit_mae()).double()
    tokens = model.tokens(random_images(6))
    masked = any_sizes(tokens)
    parameters = [p for p in model.parameters() if p.requires_grad]
    together = torch.autograd.grad(model.log_conditionals(tokens, masked).sum(), parameters)
    alone = [torch.zeros_like(p) for p in parameters]
    for row in range(6):
        score = model.log_conditionals(tokens[row : row + 1], masked[row : row + 1]).sum()
        for total, part in zip(alone, torch.autograd.grad(score, parameters), strict=True):
            total += part
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


# the evidence


def gaussian_model(
    predict: Callable[[Tensor, Tensor], Tensor], size: int, patch: int, density: PixelDensity | None = None
) -> MaskedImage:
    """Predictions of images that are levels themselves, in float64."""

    def of_images(images: Tensor, hidden: Tensor) -> Tensor:
        grid = images[:, 0].unfold(1, patch, patch).unfold(2, patch, patch)
        return predict(grid.reshape(len(images), -1, patch * patch), hidden)

    made = MaskedImage.from_callable(
        of_images, image_size=size, patch_size=patch, channels=1, density=density
    )
    return made.double()


def real_tokens(values: np.ndarray) -> Tokens:
    maskable = torch.ones(values.shape[:2], dtype=torch.bool)
    return Tokens(torch.from_numpy(values), maskable, ~maskable, torch.arange(len(values)))


def test_independent_pixels_make_the_area_the_evidence() -> None:
    """Covariance (aI + b11ᵀ) over 9 patches, identity over pixels: v is known and equal for all patches."""
    n_patches, a, b = 9, 2.0, 3.0
    rng = np.random.default_rng(0)
    covariance = a * np.eye(n_patches) + b
    x = np.einsum("ij,njk->nik", np.linalg.cholesky(covariance), rng.normal(size=(400, n_patches, K)))

    def conditional_mean(patches: Tensor, hidden: Tensor) -> Tensor:
        seen = torch.where(hidden[..., None], 0.0, patches).sum(1, keepdim=True)
        n = (~hidden).sum(1)[:, None, None]
        return (b / (a + b * n) * seen).expand_as(patches)

    sizes = tuple(range(1, n_patches + 1))
    exact = tuple(a + a * b / (a + b * (n_patches - m)) for m in sizes)
    density = PixelDensity("gaussian", sizes, exact, n_patches)
    model = gaussian_model(conditional_mean, 6, 2, density)
    tokens = real_tokens(x)
    log_determinant = np.linalg.slogdet(covariance)[1]
    distance = np.einsum("nik,ij,njk->n", x, np.linalg.inv(covariance), x)
    closed = -0.5 * (K * (n_patches * math.log(2 * math.pi) + log_determinant) + distance)
    estimate = me.estimate_evidence(model, tokens, me.EverySize(4), seed=1)
    assert estimate.mask_se is not None
    assert abs(estimate.log_evidence - closed.mean()) < 3 * estimate.mask_se
    assert estimate.mask_se < 0.05 * abs(closed.mean())
    # many repetitions: unbiased, and no wider than the estimate says
    short = [
        me.estimate_evidence(model, tokens[:20], me.EverySize(1), seed=s).log_evidence for s in range(40)
    ]
    z = (np.mean(short) - closed[:20].mean()) / (np.std(short, ddof=1) / math.sqrt(40))
    assert abs(z) < 3
    # calibration finds these variances: the standard error of v is v·√(2 / number of pixels) at least
    fitted = model.calibrate(tokens, "gaussian")
    np.testing.assert_allclose(fitted.variances, exact, rtol=0.12)


def test_dependent_pixels_put_the_area_below_the_evidence() -> None:
    """The conditional mean is exact, but the pixels of a patch depend on each other given visible patches."""
    n_patches, n_pixels = 4, 4 * K
    rng = np.random.default_rng(1)
    root = rng.normal(size=(n_pixels, 6))
    covariance = root @ root.T / 6 + 0.3 * np.eye(n_pixels)
    x = (rng.normal(size=(300, n_pixels)) @ np.linalg.cholesky(covariance).T).reshape(300, n_patches, K)

    def conditional_mean(patches: Tensor, hidden: Tensor) -> Tensor:
        rows = []
        for patch, unseen in zip(patches.numpy(), hidden.numpy(), strict=True):
            visible = np.repeat(~unseen, K)
            rows.append(condition(np.zeros(n_pixels), covariance, patch.ravel(), visible)[0])
        return torch.from_numpy(np.stack(rows).reshape(patches.shape))

    model = gaussian_model(conditional_mean, 4, 2)
    tokens = real_tokens(x)
    model.calibrate(tokens[:150])
    flat = x[150:].reshape(150, -1)
    distance = np.einsum("ni,ij,nj->n", flat, np.linalg.inv(covariance), flat)
    closed = -0.5 * (n_pixels * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1] + distance)
    estimate = me.estimate_evidence(model, tokens[150:], me.EverySize(4))
    assert estimate.kind == "lower_bound"
    assert estimate.mask_se is not None
    difference = estimate.per_observation - closed
    se = math.hypot(estimate.mask_se, difference.std(ddof=1) / math.sqrt(150))
    assert difference.mean() + 4 * se < 0


def test_discretised_probabilities_of_a_hidden_level_sum_to_one() -> None:
    """The probabilities of a hidden level sum to 1 over the 256 levels."""
    density = PixelDensity("discretised", (1, 2), (30.0**2, 60.0**2), n_patches=4)

    def halves(images: Tensor, hidden: Tensor) -> Tensor:
        seen = torch.where(hidden[..., None], 0.0, images.permute(0, 2, 3, 1).reshape(len(images), -1, 1))
        n = (~hidden).sum(1)[:, None, None]
        return torch.where(n > 0, seen.sum(1, keepdim=True) / n.clamp(min=1), 100.0).expand(-1, 4, 1)

    model = MaskedImage.from_callable(halves, image_size=2, patch_size=1, channels=1, density=density)
    levels = torch.arange(256)
    values = torch.stack([levels, levels * 0 + 90, levels * 0 + 110, levels * 0 + 95], 1)[..., None]
    tokens = Tokens(
        values.to(torch.uint8),
        torch.ones(256, 4, dtype=torch.bool),
        torch.zeros(256, 4, dtype=torch.bool),
        torch.arange(256),
    )
    for hidden in ([0], [0, 2], [0, 1, 2, 3]):
        masked = torch.zeros(256, 4, dtype=torch.bool)
        masked[:, hidden] = True
        log_p = model.log_conditionals(tokens, masked)[:, 0]
        assert log_p.exp().sum().item() == pytest.approx(1.0, abs=1e-6)


# calibration


def test_calibration_gives_the_mean_squared_error_by_size_and_depends_on_the_seed() -> None:
    model = model_of()
    tokens = model.tokens(random_images(12))
    density = model.calibrate(tokens, seed=5)
    assert density.sizes == tuple(range(1, D + 1))
    again = model.calibrate(tokens[torch.arange(11, -1, -1)], seed=5)
    np.testing.assert_allclose(again.variances, density.variances, rtol=1e-6)
    assert model.calibrate(tokens, seed=6).variances != density.variances
    # the Gaussian variance is the reconstruction loss, in other units: with as many images as there are masks
    masked = random_masks(tokens, D, seed=0)
    with torch.no_grad():
        loss = model.reconstruction_losses(tokens, masked).mean().item()
    assert density.variances[-1] == pytest.approx(loss * (0.3 * 255) ** 2, rel=1e-5)


# invalid input


def test_a_saved_model_and_other_preprocessing(tmp_path: Path) -> None:
    model = calibrated("discretised")
    model.save(tmp_path / "m")
    again = MaskedImage.from_pretrained(tmp_path / "m", device="cpu")
    assert again.density == model.density
    assert not again.notes
    tokens = model.tokens(random_images(5))
    masked = any_sizes(tokens)
    answers = [each.log_conditionals(tokens, masked).detach() for each in (again, model)]
    torch.testing.assert_close(*answers, rtol=0, atol=1e-4)
    file = tmp_path / "m" / "preprocessor_config.json"
    file.write_text('{"do_normalize": false, "rescale_factor": 0.0078431372549}')  # 2 / 255
    assert MaskedImage.from_pretrained(tmp_path / "m", device="cpu").pixel_std.item() == pytest.approx(0.5)
    file.unlink()
    bare = MaskedImage.from_pretrained(tmp_path / "m", device="cpu")
    assert bare.pixel_mean.item() == 0.5
    assert "there is no preprocessor_config.json" in bare.notes[0]


# invalid input


def normalised() -> MaskedImage:
    return model_of(small_vit_mae(norm_pix_loss=True))


def asked(model: MaskedImage) -> tuple[Tokens, Tensor]:
    tokens = model.tokens(random_images(4))
    return tokens, random_masks(tokens, 2, 0)


def from_folder(prepare: Callable[[Path], object]) -> Callable[[Path], object]:
    def load(folder: Path) -> MaskedImage:
        prepare(folder)
        return MaskedImage.from_pretrained(folder)

    return load


def weightless(folder: Path) -> None:
    (saved(small_vit_mae(), folder) / "model.safetensors").unlink()


def broken(folder: Path) -> None:
    (saved(small_vit_mae(), folder) / "pixel_density.json").write_text("{")


def classifier(folder: Path) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    ViTForImageClassification(ViTConfig(image_size=8, patch_size=2, **small)).save_pretrained(folder)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: model_of().log_conditionals(*asked(model_of())), "calibrate it on held-out images"),
        (
            lambda _: model_of().calibrate(asked(model_of())[0], patch_statistics="visible"),
            "leave patch_stati",
        ),
        (lambda _: normalised().calibrate(asked(model_of())[0], "discretised"), "have no levels"),
        (lambda _: normalised().reconstruct(*asked(model_of())), "are not pixels"),
        (lambda _: model_of().calibrate(asked(model_of())[0][:0]), "no images to calibrate on"),
        (lambda _: model_of().calibrate(asked(model_of())[0], sizes=[0, 3]), "sizes in 1..D"),
        (lambda _: model_of().tokens(random_images(2, size=10)), "have 10×10 pixels, the model reads 8×8"),
        (
            lambda _: model_of().tokens(random_images(2, channels=3)),
            "in colour .3 channels., the model reads",
        ),
        (lambda _: model_of(density=PixelDensity("gaussian", (1,), (1.0,), 9)), "with 9 patches"),
        (lambda _: model_of(pixel_std=[0.0]), "give numbers above 0"),
        (lambda _: model_of(pixel_mean=[0.1, 0.2]), "2 numbers for the mean of 1 channels"),
        (lambda _: model_of(batch_tokens=0), "batch_tokens=0"),
        (
            lambda _: me.estimate_evidence(calibrated(), Tokens.from_array(np.zeros((3, D)))),
            "give patches of shape",
        ),
        (lambda _: MaskedImage(small_vit_mae().vit), "has no decoder that predicts patches"),
        (from_folder(classifier), "is a vit model, which has no decoder that predicts patches"),
        (
            from_folder(small_vit_mae().vit.save_pretrained),
            "lack .* those of ViTMAEForPreTraining, such as decod",
        ),
        (from_folder(weightless), "has no weights"),
        (from_folder(broken), "pixel_density.json' cannot be read"),
        (from_folder(lambda _: None), "has no config.json"),
        (lambda folder: MaskedImage.from_pretrained(folder / "none"), "there is no folder"),
    ],
)
def test_invalid_input_is_refused(call: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        call(tmp_path)
