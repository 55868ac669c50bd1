"""A small network whose conditionals have no joint density, and enumeration of its token orders."""

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from maskevidence.core.tokens import Tokens


class Learned(torch.nn.Module):
    """Random conditionals of D tokens with V values each, by one hidden layer in float64."""

    conditionals = "learned"
    base_measure = "probability mass"

    def __init__(self, n_tokens: int, n_values: int, seed: int = 0, scale: float = 1.5) -> None:
        super().__init__()
        self.n_values = n_values
        generator = torch.Generator().manual_seed(seed)

        def weights(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.first = torch.nn.Parameter(scale * weights(n_tokens * (n_values + 1), 16))
        self.second = torch.nn.Parameter(scale / 4 * weights(16, n_tokens * n_values))

    def _log_probs(self, tokens: Tokens, masked: Tensor) -> Tensor:
        shown = tokens.values.masked_fill(~tokens.visible(masked), self.n_values)
        one_hot = torch.nn.functional.one_hot(shown, self.n_values + 1).double().flatten(1)
        logits = torch.tanh(one_hot @ self.first) @ self.second
        return logits.reshape(*masked.shape, self.n_values).log_softmax(-1)

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        log_probs = self._log_probs(tokens, masked)
        return torch.where(masked, log_probs.gather(-1, tokens.values[:, :, None])[..., 0], 0.0)

    def log_distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return self._log_probs(tokens, masked)[masked]


def rows(n: int, n_tokens: int, n_values: int, seed: int = 0) -> Tokens:
    """Random rows of whole numbers; all tokens are maskable."""
    values = torch.from_numpy(np.random.default_rng(seed).integers(n_values, size=(n, n_tokens)))
    every = torch.ones(n, n_tokens, dtype=torch.bool)
    return Tokens(values, every, ~every, torch.arange(n) * 3 + 1)


def every_row(n_tokens: int, n_values: int) -> Tokens:
    """Every possible row of whole numbers."""
    values = torch.tensor(list(itertools.product(range(n_values), repeat=n_tokens)))
    every = torch.ones(values.shape, dtype=torch.bool)
    return Tokens(values, every, ~every, torch.arange(len(values)))


def log_prob_of_order(model: torch.nn.Module, tokens: Tokens, order: tuple[int, ...]) -> np.ndarray:
    """log p_σ by the chain rule, token by token, shape (B,); absent tokens are skipped."""
    hidden, total = tokens.maskable.clone(), np.zeros(len(tokens))
    for token in order:
        with torch.no_grad():
            answer = model.log_conditionals(tokens, hidden)
        total += answer[:, token].numpy()
        hidden[:, token] = False
    return total


def log_mixture_by_enumeration(model: torch.nn.Module, tokens: Tokens) -> np.ndarray:
    """log E_σ p_σ(x) by enumeration of each row's token orders, shape (B,)."""
    mixtures = []
    for row in range(len(tokens)):
        one = tokens[row : row + 1]
        places = torch.nonzero(one.maskable[0]).flatten().tolist()
        logs = [log_prob_of_order(model, one, order)[0] for order in itertools.permutations(places)]
        mixtures.append(np.logaddexp.reduce(logs) - math.log(len(logs)))
    return np.array(mixtures)
