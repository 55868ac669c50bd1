"""Classification of sentences with a masked language model: fine-tuned, or probed with frozen weights."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from _text_sets import Sentences
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.core.tokens import Tokens

BATCH, EPOCHS, LEARNING_RATE = 32, 3, 5e-4


class Classifier(nn.Module):
    """A linear layer on the mean of the last states of a BERT.

    Args:
        model: the masked language model, whose encoder is copied.
    """

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(model.network.base_model)
        self.head = nn.Linear(self.encoder.config.hidden_size, 2)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B 2"]:
        return self.head(self.states(tokens))

    def states(self, tokens: Tokens) -> Float[Tensor, "B width"]:
        """The mean of the last states of all tokens, special ones included."""
        present = tokens.maskable | tokens.context
        longest = int(present.sum(1).max())
        present = present[:, :longest]
        found = self.encoder(tokens.values[:, :longest], attention_mask=present.long()).last_hidden_state
        return (found * present[:, :, None]).sum(1) / present.sum(1, keepdim=True)


def fine_tuned_accuracy(
    model: MaskedLM, train: Sentences, test: Sentences, *, epochs: int = EPOCHS, seed: int = 0
) -> float:
    """The share of test sentences that are classified right after all weights were trained.

    AdamW, batches of 32, a learning rate that falls linearly to 0.

    Args:
        model: the masked language model; it is left as it is.
        train: the sentences to train on.
        test: the sentences to classify.
        epochs: how often the training sentences are seen.
        seed: of the new layer and of the order.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        classifier = Classifier(model).train()
    n_steps = epochs * -(-len(train.labels) // BATCH)
    optimizer = torch.optim.AdamW(classifier.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, n_steps)
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(train.labels))
        for part in _batches(order):
            batch = train.part(part)
            loss = nn.functional.cross_entropy(classifier(batch.tokens), torch.from_numpy(batch.labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    classifier.eval()
    chosen = np.concatenate([_no_grad(classifier, test.part(part).tokens).argmax(1) for part in _all(test)])
    return float((chosen == test.labels).mean())


def probed_accuracy(model: MaskedLM, train: Sentences, test: Sentences) -> float:
    """The share that logistic regression on the mean of the last states gets right, weights as they are."""
    classifier = Classifier(model).eval()

    def states(sentences: Sentences) -> Float64[np.ndarray, "N width"]:
        parts = (sentences.part(rows).tokens for rows in _all(sentences))
        return np.concatenate([_no_grad(classifier.states, part) for part in parts]).astype(np.float64)

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    return float(probe.fit(states(train), train.labels).score(states(test), test.labels))


def _no_grad(function: Any, tokens: Tokens) -> np.ndarray:
    with torch.no_grad():
        return function(tokens).numpy()


def _all(sentences: Sentences) -> Iterator[np.ndarray]:
    return _batches(np.arange(len(sentences.labels)))


def _batches(order: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(order), BATCH):
        yield order[first : first + BATCH]
