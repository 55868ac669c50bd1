"""What the frequencies of tokens alone predict: the least that a masked language model should beat."""

import torch

from maskevidence.tokens import Tokens


def frequency_score(train: Tokens, other: Tokens, vocabulary_size: int) -> float:
    """Mean log-probability of a token by its frequency in other texts, nats per token.

    One is added to the count of each token of the vocabulary. This is the score at every mask size of the
    best model that ignores the context.

    Args:
        train: the texts whose maskable tokens are counted.
        other: the texts whose maskable tokens are predicted.
        vocabulary_size: number of tokens of the vocabulary.

    Example:
        >>> train = Tokens.from_array(torch.tensor([[0, 0, 1]]))
        >>> round(frequency_score(train, Tokens.from_array(torch.tensor([[0]])), 3), 4)  # log(3/6)
        -0.6931
    """
    counts = torch.bincount(train.values[train.maskable].long(), minlength=vocabulary_size) + 1.0
    log_p = torch.log(counts / counts.sum())
    return float(log_p[other.values[other.maskable].long()].mean())
