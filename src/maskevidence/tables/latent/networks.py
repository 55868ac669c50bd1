"""Encoder and decoder networks: default perceptrons, and checks of a user's networks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import how_to_wrap
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.devices import seeded

SecondOutput = Literal["log_scale", "log_variance"]  # the encoder's second output


def perceptron(sizes: Sequence[int], generator: torch.Generator, dtype: torch.dtype) -> nn.Sequential:
    """Linear layers with tanh in between, Glorot-uniform weights and zero biases.

    Example:
        >>> perceptron((3, 4, 2), torch.Generator(), torch.float32)(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        with seeded(0):  # Linear draws weights; they are replaced below
            linear = nn.Linear(n_in, n_out, dtype=dtype)
        nn.init.xavier_uniform_(linear.weight, generator=generator)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def perceptrons(
    n_features: int, n_components: int, hidden: Sequence[int], seed: int, dtype: torch.dtype
) -> tuple[nn.Sequential, nn.Sequential]:
    """The default encoder, from D to 2 K numbers (mean and log scale), and decoder, from K to D."""
    generator = torch.Generator().manual_seed(whole_number("seed", seed))
    encoder = perceptron((n_features, *hidden, 2 * n_components), generator, dtype)
    decoder = perceptron((n_components, *reversed(hidden), n_features), generator, dtype)
    return encoder, decoder


def width_of(encoder: nn.Module) -> int:
    """The number of features an encoder takes, read from its first linear layer."""
    for module in encoder.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
    raise InputError(
        f"how many features the encoder {type(encoder).__name__} takes cannot be seen from its layers; "
        "give n_features"
    )


def encoded(
    encoder: nn.Module, x: Float[Tensor, "B D"], spread: SecondOutput = "log_scale"
) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]]:
    """Mean and log scale of q(z | x); the encoder returns two tensors, or one of twice the width."""
    answer = encoder(x)
    halved = 0.5 if spread == "log_variance" else 1.0
    if isinstance(answer, Tensor) and answer.shape[:-1] == x.shape[:1] and answer.shape[-1] % 2 == 0:
        mean, log_spread = answer.chunk(2, dim=-1)
        return mean, halved * log_spread
    if isinstance(answer, tuple) and len(answer) == 2:
        mean, log_spread = answer
        if mean.shape == log_spread.shape and mean.ndim == 2 and len(mean) == len(x):
            return mean, halved * log_spread
    got = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
    raise InputError(
        f"the encoder turned {tuple(x.shape)} into {got}; it has to return mean and log scale, two tensors "
        f"of shape ({len(x)}, K) or one of shape ({len(x)}, 2 K)"
    )


def one_network_alone(network: nn.Module | None) -> InputError:
    """The error for a single network; for a whole VAE, it says how to pass the two parts.

    Example:
        >>> print(one_network_alone(nn.ModuleDict({"encoder": nn.Linear(3, 2), "decoder": nn.Linear(1, 3)})))
        ModuleDict is a whole VAE; wrap it: me.models.VAE(model.encoder, model.decoder)
    """
    if network is not None and {"encoder", "decoder"} <= dict(network.named_children()).keys():
        return InputError(f"{type(network).__name__} is a whole VAE; wrap it: {how_to_wrap(network)}")
    return InputError("one network alone was given; give an encoder and a decoder, or neither")


def check_logits(decoder: nn.Module) -> None:
    """Refuse a decoder that ends in a sigmoid, because a Bernoulli likelihood takes logits."""
    if isinstance([decoder, *decoder.modules()][-1], nn.Sigmoid):
        raise InputError(
            "the decoder ends with a sigmoid, but likelihood='bernoulli' takes logits; leave its last layer "
            "out, as in decoder[:-1] of a Sequential"
        )


def check_pair(encoder: nn.Module, decoder: nn.Module, n_features: int, like: Tensor) -> int:
    """Call both networks once; return K, the number of latent dimensions."""
    training = encoder.training, decoder.training
    encoder.eval(), decoder.eval()  # batch norm must not learn from a blank row
    try:
        with torch.no_grad():
            blank = torch.zeros(1, n_features, dtype=like.dtype, device=like.device)
            try:
                mean, _ = encoded(encoder, blank)
            except RuntimeError as error:
                raise InputError(
                    f"the encoder cannot take rows of {n_features} features ({_one_line(error)}); make its "
                    "input fit, or give another n_features"
                ) from error
            try:
                decoded = decoder(mean)
            except RuntimeError as error:
                raise InputError(
                    f"the encoder gives {mean.shape[1]} latent dimensions, which the decoder cannot take "
                    f"({_one_line(error)}); the encoder's last layer needs twice as many outputs as the "
                    "decoder has inputs"
                ) from error
    finally:
        encoder.train(training[0]), decoder.train(training[1])
    if not isinstance(decoded, Tensor) or decoded.shape != (1, n_features):
        got = tuple(decoded.shape) if isinstance(decoded, Tensor) else type(decoded).__name__
        raise InputError(
            f"the decoder turned shape {tuple(mean.shape)} into {got}; it has to return one number for each "
            f"of the {n_features} features, shape (1, {n_features})"
        )
    return mean.shape[1]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
