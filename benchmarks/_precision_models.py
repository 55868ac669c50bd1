"""Models and rows for precision.py: those with a known truth, networks that are trained here, and texts."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits

import _reactions
import maskevidence as me
from _timing import random_bert

SMALLEST_SCALE, LEVELS, HIDDEN = 0.1, 16, 128
FEW_ROWS = 100  # of the runs that tell the coverage
LONG_RUN = 8192  # masks of each of these rows from which the truth of a network is taken
UNTRAINED = 10  # steps; after fewer, the truth is taken from a short run
LONGEST, BERT_TOKENS = 128, 62  # of a reaction and of a text


class Subject(NamedTuple):
    """A model and what it scores.

    Attributes:
        model: the model.
        rows: its data.
        truth: shape (100,); the log evidence of the first rows, in closed form or from a long run; None for
            texts.
        wanted: how many times smaller the squared half-width has to be than before.
    """

    model: Any
    rows: Any
    truth: np.ndarray | None
    wanted: float


class MaskedNetwork(torch.nn.Module):
    """A network that predicts a normal density of every hidden value, or the probabilities of its levels."""

    conditionals = "learned"

    def __init__(self, n_features: int, n_levels: int | None) -> None:
        super().__init__()
        sizes = (2 * n_features, HIDDEN, HIDDEN)
        layers = [layer for a, b in pairwise(sizes) for layer in (torch.nn.Linear(a, b), torch.nn.GELU())]
        self.n_levels = n_levels
        self.network = torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN, n_features * (n_levels or 2)))

    def log_p(self, x: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        answer = self.network(torch.cat([x * visible, visible], 1)).reshape(*x.shape, -1)
        if self.n_levels is None:
            scale = SMALLEST_SCALE + torch.nn.functional.softplus(answer[..., 1])
            return torch.distributions.Normal(answer[..., 0], scale).log_prob(x)
        level = (x * (self.n_levels - 1)).round().long()
        return answer.log_softmax(2).gather(2, level[..., None])[..., 0]

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        visible = tokens.visible(masked).float()
        return torch.where(masked, self.log_p(tokens.values.float(), visible), 0.0)


def trained(table: np.ndarray, steps: int, n_levels: int | None = None) -> MaskedNetwork:
    """A network trained on a table with random sizes."""
    torch.manual_seed(0)
    x = torch.from_numpy(table).float()
    network = MaskedNetwork(x.shape[1], n_levels)
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (128,))]
        size = torch.randint(1, x.shape[1] + 1, (128, 1))
        masked = torch.rand(batch.shape).argsort(1).argsort(1) < size
        log_p = network.log_p(batch, (~masked).float())
        loss = -((log_p * masked).sum(1) / size[:, 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


def ppca(n_features: int, n_components: int, n_rows: int, wanted: float) -> Subject:
    loadings = torch.from_numpy(np.random.default_rng(0).normal(size=(n_features, n_components)))
    model = me.models.PPCA.from_parameters(loadings, 0.2)
    rows = np.array(model.sample(n_rows, seed=1))
    return Subject(model, rows, model.score_samples(rows[:FEW_ROWS]), wanted)


def network(
    table: np.ndarray, n_rows: int, steps: int, wanted: float, kept: Path | None, n_levels: int | None = None
) -> Subject:
    """A network, and the long run that its truth comes from.

    Both are read from the file `kept` if it exists, and written there otherwise.
    """
    rows = table[:n_rows]
    if kept is not None and kept.exists():
        model = MaskedNetwork(table.shape[1], n_levels).eval()
        content = torch.load(kept, weights_only=True)
        model.load_state_dict(content["network"])
        truth = content["truth"].numpy()
    else:
        model = trained(table, steps, n_levels)
        few, design = rows[:FEW_ROWS], me.RandomSize(64 if steps < UNTRAINED else LONG_RUN)
        long = me.estimate_evidence(model, few, design, seed=10**6, batch_size=8192, check=False)
        truth = long.per_observation
        if kept is not None:
            torch.save({"network": model.state_dict(), "truth": torch.from_numpy(truth)}, kept)
    return Subject(model, rows, truth, wanted)


def digits(n_rows: int, steps: int, kept: Path | None) -> Subject:
    """Digits in 16 levels, of pixels that are not constant among the scored rows."""
    table = np.minimum(load_digits().data, LEVELS - 1) / (LEVELS - 1)
    return network(table[:, table[:n_rows].std(0) > 0], n_rows, steps, 2.5, kept, LEVELS)


def standardised(table: np.ndarray) -> np.ndarray:
    return (table - table.mean(0)) / table.std(0)


def digits_in_deviations(n_rows: int, steps: int, kept: Path | None) -> Subject:
    """Digits in standard deviations of each pixel: a few unlikely values hold most of the variance."""
    table = load_digits().data
    return network(standardised(table[:, table[:n_rows].std(0) > 0]), n_rows, steps, 1.5, kept)


def breast_cancer(n_rows: int, steps: int, kept: Path | None) -> Subject:
    return network(standardised(load_breast_cancer().data), n_rows, steps, 2.0, kept)


def train_text(
    network: Any, batch: Callable[[torch.Generator], torch.Tensor], mask_id: int, steps: int
) -> None:
    """Train with AdamW at 2e-3, a warm-up and a linear decay, 32 texts per step, and rates up to 0.6."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / 50, 1 - i / steps))
    network.train()
    for _ in range(steps):
        ids = batch(generator)
        hidden = torch.rand(ids.shape, generator=generator) < 0.6 * torch.rand(
            len(ids), 1, generator=generator
        )
        hidden[:, [0, -1]] = False
        labels = torch.where(hidden, ids, -100)
        loss = network(input_ids=ids.masked_fill(hidden, mask_id), labels=labels).loss
        if not bool(hidden.any()):
            continue
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def trained_bert(steps: int, n_texts: int, share: float) -> tuple[me.models.MaskedLM, me.Tokens]:
    """A BERT with 2,048 word pieces trained on a share of the text, and blocks of the rest of it."""
    from pydoc_data.topics import topics

    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    lines = [line for topic in topics.values() for line in topic.splitlines() if line.strip()]
    n_training = round(len(lines) * share)
    training, held_out = lines[:n_training], lines[n_training:]
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(training, vocab_size=2048, show_progress=False)
    tokenizer = BertTokenizerFast(vocab=pieces.get_vocab(), do_lower_case=True)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    network = random_bert(len(tokenizer), 128, 2, 2, max_position_embeddings=64, **without_dropout)
    model = me.models.MaskedLM(network, tokenizer)
    blocks = model.tokens(training, block_size=BERT_TOKENS + 2).values

    def batch(generator: torch.Generator) -> torch.Tensor:
        return blocks[torch.randint(len(blocks), (32,), generator=generator)]

    train_text(network, batch, tokenizer.mask_token_id, steps)
    tokens = model.tokens(held_out, block_size=BERT_TOKENS + 2)[:n_texts]
    return me.models.MaskedLM(network.eval(), tokenizer), tokens


def small_bert(n_texts: int, steps: int, _kept: Path | None) -> Subject:
    model, tokens = trained_bert(min(steps, 1000), n_texts=n_texts, share=0.7)
    return Subject(model, tokens, None, 4.0)


def reactions(n_texts: int, _steps: int, _kept: Path | None) -> Subject | None:
    """The ALBERT of `rxnmapper` and reactions of up to 128 tokens; None if either is not there."""
    found = _reactions.reactions(n_texts, LONGEST) if "MASKEVIDENCE_DATA" in os.environ else None
    return None if found is None else Subject(*found, None, 4.0)


# name -> what makes it from the numbers of rows and of training steps, and the file that keeps a network
SUBJECTS: dict[str, Callable[[int, int, Path | None], Subject | None]] = {
    "PPCA, D = 200": lambda n, *_: ppca(200, 5, n, 3.0),
    "PPCA, D = 512": lambda n, *_: ppca(512, 2, n, 3.0),
    "network, digits in 16 levels": digits,
    "network, digits in standard deviations": digits_in_deviations,
    "network, breast cancer": breast_cancer,
    "small BERT": small_bert,
    "ALBERT, reactions": reactions,
}
TEXTS = ("small BERT", "ALBERT, reactions")
