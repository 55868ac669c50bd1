"""A correct model of short strings, by enumeration of joint probabilities, and rows drawn from it."""

import numpy as np
import torch
from torch import Tensor

from maskevidence.core.tokens import Tokens

LENGTH, N_VALUES = 6, 3


class Strings(torch.nn.Module):
    """A Markov chain that mostly moves up by one value; every conditional is a ratio of sums."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        states = torch.cartesian_prod(*[torch.arange(N_VALUES)] * LENGTH)
        step = torch.tensor([0.1, 0.8, 0.1], dtype=torch.float64).log()
        start = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
        moves = (states[:, 1:] - states[:, :-1]) % N_VALUES
        self.register_buffer("states", states)
        self.register_buffer("log_joint", start[states[:, 0]] + step[moves].sum(1))

    def log_sum(self, values: Tensor, visible: Tensor) -> Tensor:
        """The log of the total probability of strings that match the visible tokens, shape (B,)."""
        differ = ((self.states != values[:, None, :]) & visible[:, None, :]).any(2)
        return torch.logsumexp(torch.where(differ, -torch.inf, self.log_joint), 1)

    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        """log p(x_j = v | visible), shape (B, D, V)."""
        visible = tokens.visible(masked)
        differ = ((self.states != tokens.values[:, None, :]) & visible[:, None, :]).any(2)
        log_p = torch.where(differ, -torch.inf, self.log_joint)
        is_value = torch.nn.functional.one_hot(self.states, N_VALUES).double()
        joint = torch.log(torch.einsum("bs,sdv->bdv", torch.exp(log_p), is_value))
        return joint - torch.logsumexp(joint, 2, keepdim=True)

    def at_own(self, log_p: Tensor, tokens: Tokens, masked: Tensor) -> Tensor:
        """Pick the tokens' own values from distributions; 0 where not masked."""
        own = log_p.gather(2, tokens.values[:, :, None].clamp(0, N_VALUES - 1))[:, :, 0]
        legal = (tokens.values >= 0) & (tokens.values < N_VALUES)
        return torch.where(masked, torch.where(legal, own, -torch.inf), 0.0)

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return self.at_own(self.distributions(tokens, masked), tokens, masked)

    def log_evidence(self, tokens: Tokens) -> Tensor:
        both = self.log_sum(tokens.values, tokens.maskable | tokens.context)
        return both - self.log_sum(tokens.values, tokens.context)


def strings(n: int = 40, seed: int = 0) -> Tokens:
    """Rows drawn from the chain; in some, the last two tokens are absent or the first is context."""
    rng = np.random.default_rng(seed)
    values = np.empty((n, LENGTH), dtype=np.int64)
    values[:, 0] = rng.choice(N_VALUES, size=n, p=[0.5, 0.3, 0.2])
    for column in range(1, LENGTH):
        values[:, column] = (values[:, column - 1] + rng.choice(3, size=n, p=[0.1, 0.8, 0.1])) % N_VALUES
    maskable = np.ones((n, LENGTH), dtype=bool)
    context = np.zeros((n, LENGTH), dtype=bool)
    maskable[::4, -2:] = False
    context[1::4, 0], maskable[1::4, 0] = True, False
    return Tokens(*map(torch.from_numpy, (values, maskable, context, np.arange(n))))
