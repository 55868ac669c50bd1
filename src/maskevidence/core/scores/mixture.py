"""The probability of a chain of conditionals, averaged over all orders."""

import math

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer

from maskevidence.core.errors import InputError
from maskevidence.core.masks.sizes import MAX_TOKENS_EXHAUSTIVE, Exhaustive


def order_mixture(
    log_conditionals: Float64[np.ndarray, "*batch n_subsets n"],
) -> Float64[np.ndarray, "*batch n_subsets"]:
    """log E_σ p_σ(x_S | the rest) of every subset S of n tokens, exactly, over all orders σ of S.

    For the order σ, p_σ is the chain rule: the product of the conditional of each token given all that are
    visible when its turn comes. The mean over all n! orders follows from the conditionals of 2^n masks,

        f(∅) = 1,    f(S) = (1/|S|) Σ_{j ∈ S} p(x_j | all that is not in S) · f(S \\ j),

    since the token of S that becomes visible first is uniform in S, and what follows depends on the set of
    visible tokens alone, not on their order. The conditionals of one joint density give its evidence,
    whatever the order; learned conditionals give the evidence of the mixture over orders, which the area
    under the curve bounds from below (Jensen's inequality).

    Args:
        log_conditionals: shape (..., 2^n, n), nats; entry (S, j) is log p(x_j | all that is not in S), where
            bit i of the row number S says whether token i is hidden. Entries with j not in S are not read.

    Returns:
        Shape (..., 2^n), nats; entry S is log f(S), 0 for the empty set; the last entry is of all tokens.

    Raises:
        InputError: the shape is not (..., 2^n, n) with 1 <= n <= 20.

    Example:
        >>> independent = np.log(np.broadcast_to([0.5, 0.25], (4, 2)))
        >>> [round(float(p), 4) for p in np.exp(order_mixture(independent))]
        [1.0, 0.5, 0.25, 0.125]
        >>> disagreeing = np.log([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5], [0.1, 0.3]])
        >>> round(float(np.exp(order_mixture(disagreeing)[-1])), 4)  # (0.1 · 0.5 + 0.3 · 0.5) / 2
        0.1
    """
    n_subsets, n = log_conditionals.shape[-2:]
    if not 1 <= n <= MAX_TOKENS_EXHAUSTIVE or n_subsets != 2**n:
        raise InputError(
            f"the log-conditionals have shape {log_conditionals.shape}; give (..., 2^n, n) for n tokens, "
            f"n from 1 to {MAX_TOKENS_EXHAUSTIVE}"
        )
    log_mixture = np.zeros(log_conditionals.shape[:-1])
    subsets, bits = np.arange(n_subsets), 1 << np.arange(n)
    sizes = np.bitwise_count(subsets)
    for size in range(1, n + 1):
        some = subsets[sizes == size]
        hidden, smaller = (some[:, None] & bits) != 0, some[:, None] & ~bits
        log_mixture[..., some] = _one_token_more(
            log_mixture[..., smaller], hidden, log_conditionals[..., some, :]
        )
    return log_mixture


def _one_token_more(
    log_smaller: Float64[np.ndarray, "*batch m n"],
    hidden: Bool[np.ndarray, "m n"],
    log_conditionals: Float64[np.ndarray, "*batch m n"],
) -> Float64[np.ndarray, "*batch m"]:
    """log f of m subsets from log f of the same subsets without token j; non-hidden entries are ignored.

    Example:
        >>> _one_token_more(np.zeros((1, 2)), np.ones((1, 2), dtype=np.bool_), np.log([[0.5, 0.25]])).round(4)
        array([-0.9808])
    """
    terms = np.where(hidden, log_conditionals, -math.inf) + log_smaller
    largest = terms.max(-1, keepdims=True)
    return largest[..., 0] + np.log(np.exp(terms - largest).sum(-1)) - np.log(hidden.sum(-1))


class MixtureRecord:
    """Computes the order mixture of every scored mask while the masks are scored.

    It holds one number for each mask. Masks come in any order that has each mask after all smaller ones of
    its observation.

    Args:
        design: the design that enumerates the masks.
        maskable: shape (B, D); the tokens of the observations.
        n_masks: how many masks will be scored.

    Attributes:
        of_masks: shape (n_masks,); log E_σ p_σ of the scored tokens of each mask, nats.
    """

    def __init__(self, design: Exhaustive, maskable: Bool[np.ndarray, "B D"], n_masks: int) -> None:
        self.of_masks = np.zeros(n_masks)
        self._design = design
        self._n_tokens = maskable.sum(1)
        self._columns = np.argsort(~maskable, axis=1, kind="stable")
        size = design.block_size(self._n_tokens)
        n_blocks = -(-self._n_tokens // size)
        self._width = int(size.max())
        ends = np.cumsum(n_blocks << size)
        self._start = ends - (n_blocks << size)
        self._log_mixture = np.zeros(ends[-1])

    def add(
        self,
        part: slice | Int64[np.ndarray, " m"],
        row: Integer[np.ndarray, " m"],
        draw: Integer[np.ndarray, " m"],
        log_conditionals: Float64[np.ndarray, "m D"],
    ) -> None:
        """Add the log-conditionals of some masks."""
        n_tokens = self._n_tokens[row]
        block, subset, _ = self._design.subset(n_tokens, draw)
        number = (block * self._design.block_size(n_tokens))[:, None] + np.arange(self._width)
        number = np.minimum(number, log_conditionals.shape[1] - 1)
        columns = np.take_along_axis(self._columns[row], number, axis=1)
        bits = 1 << np.arange(self._width)
        hidden = (subset[:, None] & bits) != 0
        smaller = np.where(hidden, draw[:, None] & ~bits, draw[:, None]) + self._start[row][:, None]
        log_smaller, own = self._log_mixture[smaller], np.take_along_axis(log_conditionals, columns, axis=1)
        log_mixture = _one_token_more(log_smaller, hidden, own)
        self._log_mixture[self._start[row] + draw] = self.of_masks[part] = log_mixture
