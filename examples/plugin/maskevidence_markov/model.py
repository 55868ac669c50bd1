"""A Markov chain that predicts hidden symbols from all visible ones, and a mask design for it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from maskevidence import LeaveOneOut, Tokens
from maskevidence.core.masks.design import Summation


def encoded(lines: list[str]) -> tuple[Tokens, list[str]]:
    symbols, x = sorted(set("".join(lines))), np.full((len(lines), max(map(len, lines))), np.nan)
    for row, line in zip(x, lines, strict=True):
        row[: len(line)] = [symbols.index(symbol) for symbol in line]
    return Tokens.from_array(x), symbols


class MarkovChain(nn.Module):
    conditionals, base_measure = "exact", "probability mass"
    start: Tensor
    step: Tensor

    def __init__(self, rows: Tokens, n_symbols: int) -> None:
        super().__init__()
        x = rows.values.masked_fill(~rows.maskable, -1).long()
        pairs = (x[:, :-1] * n_symbols + x[:, 1:])[x[:, 1:] >= 0]
        start = 1 + torch.bincount(x[:, 0], minlength=n_symbols).double()
        step = 1 + torch.bincount(pairs, minlength=n_symbols**2).double().reshape(n_symbols, n_symbols)
        self.register_buffer("start", start / start.sum())
        self.register_buffer("step", step / step.sum(1, keepdim=True))

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        """log p of each hidden symbol, by messages from both sides; 0 elsewhere."""
        values = tokens.values.long().clamp(0, len(self.start) - 1)
        known = nn.functional.one_hot(values, len(self.start)).double()
        known = torch.where(tokens.visible(masked)[..., None], known, 1.0)
        behind = torch.ones_like(known)
        for t in reversed(range(values.shape[1] - 1)):
            behind[:, t] = nn.functional.normalize((behind[:, t + 1] * known[:, t + 1]) @ self.step.T, p=1)
        ahead, answers = self.start.expand(len(values), -1), []
        for t in range(values.shape[1]):
            p = nn.functional.normalize(ahead * behind[:, t], p=1)
            answers.append(p.gather(1, values[:, t : t + 1]).log()[:, 0])
            ahead = nn.functional.normalize(ahead * known[:, t], p=1) @ self.step
        return torch.where(masked, torch.stack(answers, 1), 0.0)


@dataclass(frozen=True)
class OddEven(LeaveOneOut):
    name: ClassVar[str] = "odd-even"
    purpose: ClassVar[str] = "Equal to the sum of each half given the other, which is not the log evidence."

    def n_draws(self, n_tokens: Any) -> Any:
        return np.minimum(n_tokens, 2)

    def plan(self, key: Any, ids: Any, n_tokens: Any, index: Any, position: Any = None) -> Any:
        return index, (n_tokens + 1 - index) // 2

    def masked(self, key: Any, ids: Any, draw: Any, size: Any, maskable: Any) -> Any:
        return maskable & ((maskable.cumsum(1) - 1) % 2 == draw[:, None])

    def summation(self, n_tokens: Any, draw: Any, size: Any) -> Summation:
        return Summation(size.astype(float), stratum=0 * draw, replicate=0 * draw)
