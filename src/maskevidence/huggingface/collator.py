"""Training batches with one mask per text, and weights that make the loss an estimate of the evidence."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64

from maskevidence import FixedRate, MaskDesign, MaskKey, RandomSize
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import drawn_masks
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits, kronecker, scaled
from maskevidence.huggingface.processes import rank
from maskevidence.huggingface.recipe import ID
from maskevidence.texts.pieces import special_ids

WEIGHT = "mask_weight"
NOT_SCORED = -100
_WHICH_MASK, _WHICH_TOKEN, _REPLACE, _EPOCH, _RANK = -1, -2, -3, -4, -5  # stream keys that no draw uses
_FULL = float(2**64)

Features = Sequence[Any]


class MaskSizeCollator:
    """Turn texts into a training batch with one mask per text; replaces transformers' collator.

        loss = -(1/B) Σ_i weight_i · S_i,    S_i = (1/M_i) Σ_{j masked} log p(x_ij | x_i,visible)

    With uniformly random sizes, weight_i = D_i, and the loss is an unbiased estimate of minus the mean
    any-order log evidence at any parameters (Eq. 2); so is its gradient. `EvidenceTrainer` computes it. The
    mean over the hidden tokens of a batch, which models compute by themselves, is another objective: it
    multiplies the weight of a size M by M.

    If a design has several masks per text, each text gets one of them, drawn uniformly, and its weight is
    multiplied by their number: with `Rates` of the paper's 99 rates, each text gets one rate.

    Args:
        tokenizer: a tokenizer of transformers with a mask token.
        design: how masks are drawn; by default `RandomSize`, sizes uniform on 1..D.
        mlm_probability: a mask rate, short for the design `FixedRate`. Exactly max(1, ⌊rate·D⌋) tokens are
            hidden (transformers hides each token with this probability).
        mask_replace_prob: share of the hidden tokens that become the mask token; by default all (0.8 in
            transformers), since a token that stays visible is not predicted from the others.
        random_replace_prob: share of the hidden tokens that become a random token (0.1 in transformers).
        pad_to_multiple_of: pad texts to a length that is a multiple of this number.
        seed: seed of the masks, if features have an "id".

    A feature is what the tokenizer returns for a text, or its ids alone. Special tokens are never hidden:
    those that "special_tokens_mask" marks, or those of the tokenizer ([UNK] can be hidden). If features have
    an "id", a whole number, the mask is a function of the seed, the epoch and the id alone: number the texts
    in the order of training, and neither the number of processes nor an interruption changes the masks, and
    the sizes are spread evenly over a batch. `EvidenceTrainer` sets the epoch; in your own loop, call
    `set_epoch` before each epoch, as for a DistributedSampler, since otherwise the masks repeat. Without ids
    the numbers come from torch's random state and the rank of the process, so that processes with equal
    seeds draw different masks.

    Returns batches with input_ids, attention_mask, labels (-100 where nothing is predicted) and mask_weight
    of shape (B,), and any other entries that the tokenizer makes.

    Raises:
        InputError: no mask token, a rate or share outside its range, or a text without a token to hide.

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), On Masked Pre-training and the Marginal Likelihood,
        supplement.

    Example:
        >>> from transformers import BertTokenizerFast
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "falls"]
        >>> tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
        >>> batch = MaskSizeCollator(tokenizer)([tokenizer("rain falls"), tokenizer("rain")])
        >>> batch["mask_weight"].tolist(), batch["labels"][1].tolist()
        ([2.0, 1.0], [-100, 5, -100, -100])
    """

    def __init__(
        self,
        tokenizer: Any,
        design: MaskDesign | None = None,
        *,
        mlm_probability: float | None = None,
        mask_replace_prob: float = 1.0,
        random_replace_prob: float = 0.0,
        pad_to_multiple_of: int | None = None,
        seed: int = 0,
    ) -> None:
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise InputError(
                f"{type(tokenizer).__name__} has no mask token; give the tokenizer of a masked language "
                "model (BERT, RoBERTa, ...), or set its mask_token"
            )
        if design is not None and mlm_probability is not None:
            raise InputError("a design and mlm_probability were given; give one of them")
        for name, share in (
            ("mask_replace_prob", mask_replace_prob),
            ("random_replace_prob", random_replace_prob),
            ("their sum", mask_replace_prob + random_replace_prob),
        ):
            if not 0.0 <= share <= 1.0 + 1e-12:
                raise InputError(f"{name} is {share:g}; give shares of the hidden tokens in [0, 1]")
        if design is None:
            design = RandomSize(1, 1) if mlm_probability is None else FixedRate(mlm_probability, 1)
        self.tokenizer = tokenizer
        self.design = design
        self.mask_replace_prob = mask_replace_prob
        self.random_replace_prob = random_replace_prob
        self.pad_to_multiple_of = pad_to_multiple_of
        self.seed = seed
        self._epoch = _shared_number(0)
        self._special = special_ids(tokenizer)

    @property
    def key(self) -> MaskKey:
        """The seed of the current epoch's masks."""
        epoch = int(self._epoch)
        return MaskKey(self.seed if epoch == 0 else int(keyed_bits(self.seed, _EPOCH, epoch)))

    def set_epoch(self, epoch: int) -> None:
        """Switch texts with an "id" to the masks of another epoch, also in workers that already run.

        Example:
            >>> from transformers import BertTokenizerFast
            >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain"]
            >>> tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
            >>> collator = MaskSizeCollator(tokenizer)
            >>> for epoch in range(3):
            ...     collator.set_epoch(epoch)
            ...     batch = collator([dict(tokenizer("rain " * 9), id=i) for i in range(4)])
            ...     (batch["labels"] != NOT_SCORED).sum(1).tolist()
            [6, 4, 2, 9]
            [2, 9, 7, 5]
            [4, 2, 9, 7]
        """
        self._epoch.fill_(whole_number("epoch", epoch, 0))

    def at_epoch(self, epoch: int) -> "MaskSizeCollator":
        """Copy the collator, with an epoch of its own."""
        other = copy.copy(self)
        other._epoch = _shared_number(epoch)
        return other

    def __call__(self, features: Features) -> dict[str, torch.Tensor]:
        """Build a batch, as the class describes."""
        rows = [dict(f) if isinstance(f, Mapping) else {"input_ids": _ids_of(f)} for f in features]
        for each in rows:
            _check_numbers(each)
        numbers = [row.pop(ID, None) for row in rows]
        special = [row.pop("special_tokens_mask", None) for row in rows]
        batch = dict(self._padded(rows))
        ids, present = batch["input_ids"].numpy(), batch["attention_mask"].numpy().astype(np.bool_)
        maskable = present & ~self._special_tokens(ids, special)
        if not maskable.any(1).all():
            row = int(np.flatnonzero(~maskable.any(1))[0])
            raise InputError(
                f"text {row if numbers[row] is None else int(numbers[row])} of the batch has no token to "
                "hide; leave such texts out"
            )
        number = _numbers(numbers)
        key = self.key
        masked, weight = one_mask_each(self.design, key, number, maskable)
        hidden = torch.from_numpy(masked)
        batch["labels"] = batch["input_ids"].masked_fill(~hidden, NOT_SCORED)
        batch["input_ids"] = torch.from_numpy(self._replaced(ids, masked, number, key))
        batch[WEIGHT] = torch.from_numpy(weight).float()
        return batch

    def _padded(self, rows: list[dict[str, Any]]) -> Mapping[str, torch.Tensor]:
        """Convert rows to padded tensors; rows of equal lengths are stacked without the tokenizer."""
        lengths = {len(row["input_ids"]) for row in rows}
        if len(lengths) == 1 and not (self.pad_to_multiple_of and lengths.pop() % self.pad_to_multiple_of):
            batch = {name: torch.as_tensor(np.array([row[name] for row in rows])) for name in rows[0]}
            batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
            return batch
        if self.tokenizer.pad_token_id is None:
            raise InputError(
                "the tokenizer has no padding token for texts of different lengths; set its pad_token"
            )
        return self.tokenizer.pad(
            [{name: np.asarray(values).tolist() for name, values in row.items()} for row in rows],
            pad_to_multiple_of=self.pad_to_multiple_of,
            return_attention_mask=True,
            return_tensors="pt",
            verbose=False,
        )

    def _special_tokens(self, ids: Int64[np.ndarray, "B L"], given: list[Any]) -> Bool[np.ndarray, "B L"]:
        special = np.isin(ids, list(self._special))
        width = ids.shape[1]
        for row, flags in enumerate(given):
            if flags is not None:
                start = width - len(flags) if self.tokenizer.padding_side == "left" else 0
                special[row, start : start + len(flags)] = np.asarray(flags, dtype=np.bool_)
        return special

    def _replaced(
        self,
        ids: Int64[np.ndarray, "B L"],
        masked: Bool[np.ndarray, "B L"],
        number: Int64[np.ndarray, " B"],
        key: MaskKey,
    ) -> Int64[np.ndarray, "B L"]:
        """Replace hidden ids by the mask token or by random tokens, or leave them."""
        shown = np.where(masked, self.tokenizer.mask_token_id, ids)
        if self.mask_replace_prob == 1.0:
            return shown
        column = np.arange(ids.shape[1])
        u = keyed_bits(key.seed, number[:, None], _REPLACE, column) / _FULL
        bits = keyed_bits(key.seed, number[:, None], _WHICH_TOKEN, column)
        words = scaled(bits.ravel(), np.full(bits.size, len(self.tokenizer))).reshape(ids.shape)
        random = u < self.mask_replace_prob + self.random_replace_prob
        replaced = np.where(u < self.mask_replace_prob, shown, np.where(random, words, ids))
        return np.where(masked, replaced, ids)


def one_mask_each(
    design: MaskDesign, key: MaskKey, ids: Int64[np.ndarray, " B"], maskable: Bool[np.ndarray, "B L"]
) -> tuple[Bool[np.ndarray, "B L"], np.ndarray]:
    """Draw one of a design's masks for each observation; multiply its weight by the number of masks.

    The expectation of weight · score over the draw is the design's sum Σ_k weight_k · score_k.

    Args:
        ids: shape (B,); the numbers that masks are keyed by. Consecutive numbers get evenly spread sizes.

    Returns:
        Masks of shape (B, L) and weights of shape (B,), float64.

    Example:
        >>> import maskevidence as me
        >>> design = me.Rates((0.25, 0.75))
        >>> masked, weight = one_mask_each(design, MaskKey(0), np.arange(4), np.ones((4, 8), dtype=np.bool_))
        >>> sorted(masked.sum(1).tolist()), weight.tolist()
        ([2, 2, 6, 6], [8.0, 8.0, 8.0, 8.0])
    """
    design = design.in_training()
    counts = design.n_draws(maskable.sum(1))
    index = np.zeros_like(counts)
    if (counts > 1).any():
        offset = np.broadcast_to(keyed_bits(key.seed, _WHICH_MASK), ids.shape)
        index = scaled(kronecker(offset, ids, np.zeros_like(ids)), counts)
    masks = drawn_masks(design, key, ids, maskable, (np.arange(len(ids)), index))
    return masks.masked(), masks.weight * counts


def _shared_number(value: int) -> torch.Tensor:
    """A number in shared memory, so that the workers of a DataLoader see it change."""
    return torch.tensor(value).share_memory_()  # type: ignore[no-untyped-call]


def _check_numbers(row: Mapping[str, Any]) -> None:
    """Refuse columns that a batch cannot hold, such as the original text."""
    for name, values in row.items():
        value = values[0] if isinstance(values, list | tuple) and values else values
        if value is None or isinstance(value, str | Mapping):
            raise InputError(
                f"the column {name!r} holds {type(value).__name__}, not numbers; leave it out "
                "(dataset.remove_columns), or set remove_unused_columns=True"
            )


def _ids_of(feature: Any) -> Any:
    return feature.tolist() if isinstance(feature, torch.Tensor) else feature


def _numbers(given: list[Any]) -> Int64[np.ndarray, " B"]:
    """The texts' numbers; without any, consecutive numbers from a random start that differs by rank."""
    known = [whole_number(ID, number) for number in given if number is not None]
    if len(known) == len(given):
        return np.array(known, dtype=np.int64)
    if known:
        raise InputError(f"{len(known)} of {len(given)} texts have an {ID!r}; number all of them, or none")
    start = int(torch.randint(2**62, ()))
    if rank() > 0:
        start = int(keyed_bits(start, _RANK, rank())) >> 2
    return np.arange(start, start + len(given), dtype=np.int64)
