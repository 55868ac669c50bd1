"""transformers' Trainer with the evidence as its loss."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.integrations.huggingface.base_trainer import BaseTrainer
from maskevidence.integrations.huggingface.collator import NOT_SCORED, WEIGHT
from maskevidence.models.text.masked_lm import MaskedLM


class EvidenceTrainer(BaseTrainer):
    """`transformers.Trainer` for the batches of a `MaskSizeCollator`: the loss is the weighted sum of scores.

        loss = -(1/B) Σ_i weight_i · S_i    nats per text, the mean over the texts of a batch

    The vocabulary head is computed at the hidden positions only. Everything else is the Trainer's:
    optimizers, schedules, accumulation, mixed precision, checkpoints, several devices and machines. The
    mean is over the texts of each process, and gradients are averaged over processes: with equal batches,
    as the Trainer makes them, the result is that of one process with the whole batch. Gradients are in nats
    per text: multiply the usual `max_grad_norm` by the number of tokens of a text.

    Args:
        As for the Trainer; `data_collator` is a `MaskSizeCollator`, and `args.remove_unused_columns` must be
        False if texts have an "id".

    Raises:
        InputError: a different collator.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        tokenizer = getattr(self.data_collator, "tokenizer", None)
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise InputError(
                f"data_collator is {type(self.data_collator).__name__}; give a MaskSizeCollator, whose "
                "batches have the weights of the loss"
            )
        self._masked_lm = MaskedLM(self.model, tokenizer)

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Minus the weighted scores, mean over the texts of the batch, nats per text."""
        given = dict(inputs)
        if WEIGHT not in given or "labels" not in given:
            raise InputError(f"the batch has no {WEIGHT!r}; make batches with a MaskSizeCollator")
        labels, weight = given.pop("labels"), given.pop(WEIGHT)
        loss = evidence_loss(self._masked_lm, given, labels, weight, model)
        return (loss, {"loss": loss}) if return_outputs else loss


def evidence_loss(
    masked_lm: MaskedLM, inputs: Mapping[str, Tensor], labels: Tensor, weight: Tensor, network: Any = None
) -> Tensor:
    """-(1/B) Σ_i weight_i · S_i of a batch of a `MaskSizeCollator`, nats per text; for your own loops.

    Args:
        masked_lm: the model.
        inputs: the arguments of its transformer: input_ids, attention_mask, ...
        labels: shape (B, L); the ids of the hidden tokens, -100 elsewhere.
        weight: shape (B,).
        network: the transformer in a wrapper of distributed training, if it is wrapped.
    """
    hidden = labels != NOT_SCORED
    log_probs = masked_lm.hidden_log_probs(inputs, labels, hidden, network)
    row = hidden.nonzero()[:, 0]
    total = torch.zeros_like(weight, dtype=log_probs.dtype).index_add(0, row, log_probs)
    return -(weight.to(total.dtype) * total / hidden.sum(1)).mean()
