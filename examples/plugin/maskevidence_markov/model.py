"""A Markov chain that predicts hidden symbols from all visible ones, and a mask design for it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot, pad

from maskevidence import LeaveOneOut, Tokens
from maskevidence.core.masks.design import Summation


def encoded(lines: list[str]) -> tuple[Tokens, list[str]]:
    symbols, longest = sorted(set("".join(lines))), max(map(len, lines))
    rows = [[*map(symbols.index, line), *[torch.nan] * (longest - len(line))] for line in lines]
    return Tokens.from_array(rows), symbols


class MarkovChain(nn.Module):
    conditionals, base_measure = "exact", "probability mass"

    def __init__(self, rows: Tokens, n_symbols: int) -> None:
        super().__init__()
        x = pad(rows.values.masked_fill(~rows.maskable, -1).long(), (1, 0), value=n_symbols)
        pairs = (x[:, :-1] * n_symbols + x[:, 1:])[x[:, 1:] >= 0]
        counts = torch.bincount(pairs, minlength=n_symbols * (n_symbols + 1)).reshape(-1, n_symbols)
        self.step = nn.Buffer(normalize(1 + counts.double(), p=1))  # the last row is that of the first symbol

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        """log p of each hidden symbol, by messages from both sides; 0 elsewhere."""
        values = tokens.values.long().clamp(0, self.step.shape[1] - 1)
        known = torch.where(tokens.visible(masked)[..., None], one_hot(values, self.step.shape[1]), 1.0)
        behind = torch.ones_like(known, dtype=torch.double)
        for t in reversed(range(values.shape[1] - 1)):
            behind[:, t] = normalize((behind[:, t + 1] * known[:, t + 1]) @ self.step[:-1].T, p=1)
        ahead, answers = self.step[-1].expand(len(values), -1), []
        for t in range(values.shape[1]):
            answers.append(normalize(ahead * behind[:, t], p=1).gather(1, values[:, [t]]).log()[:, 0])
            ahead = normalize(ahead * known[:, t], p=1) @ self.step[:-1]
        return torch.where(masked, torch.stack(answers, 1), 0.0)


@dataclass(frozen=True)
class OddEven(LeaveOneOut):
    name: ClassVar[str] = "odd-even"
    purpose: ClassVar[str] = "Equal to the sum of each half given the other, which is not the log evidence."

    def n_draws(self, n_tokens: Any) -> Any:
        return n_tokens.clip(max=2)

    def plan(self, key: Any, ids: Any, n_tokens: Any, index: Any, position: Any = None) -> Any:
        return index, (n_tokens + 1 - index) // 2

    def masked(self, key: Any, ids: Any, draw: Any, size: Any, maskable: Any) -> Any:
        return maskable & ((maskable.cumsum(1) - 1) % 2 == draw[:, None])

    def summation(self, n_tokens: Any, draw: Any, size: Any) -> Summation:
        return Summation(size.astype(float), stratum=0 * draw, replicate=0 * draw)
