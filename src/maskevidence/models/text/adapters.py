"""What a masked language model reads with: a transformer of Hugging Face, or a function from ids to logits.

Both adapters have the same attributes and methods, so that `MaskedLM` needs no case distinction:

    max_tokens      the longest row it reads, special tokens included; None if there is no limit
    pads            whether rows of different lengths may share a call
    separator_id    the token that ends a segment, if the network numbers segments; otherwise None
    notes           what a user should know about the network, one sentence each
    inputs          what the network is called with
    log_probs       log p of the hidden tokens of one call, in bounded memory
    batch_log_probs the same in a training loop, in one call of the network
    log_distributions log p of the whole vocabulary at the hidden places of one call
    settings        what decides the numbers besides the weights
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.models.pretrained import config_settings
from maskevidence.models.text.masked_head import (
    PROBE_LENGTH,
    Captured,
    find_cut,
    find_head,
    input_taken_from,
    log_probs_in_pieces,
    log_softmax,
    only_after,
    only_positions,
    padding_is_ignored,
    probe_inputs,
    target_log_probs,
    trial_tells,
)

# A vocabulary is often padded to a multiple of 64 or 128: this many embeddings may have no token.
_SPARE_EMBEDDINGS = 256
_UNLIMITED = 10**9  # tokenizers without a limit say 10^30
_HEAD_BYTES = {"cpu": 2**24}  # of float32 logits at a time: what stays near the cache
_HEAD_BYTES_ELSEWHERE = 2**28


class FunctionAdapter:
    """Any function from ids (B, L) to logits (B, L, V), called on rows of equal length without padding."""

    max_tokens: int | None = None
    pads = False
    separator_id: int | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.max_tokens = getattr(function, "max_tokens", None)

    def inputs(
        self, shown: Int64[Tensor, "b L"], context: Bool[Tensor, "b L"], lengths: Int64[Tensor, " b"]
    ) -> dict[str, Tensor]:
        """The ids alone; see `TransformerAdapter.inputs`."""
        return {"input_ids": shown}

    def log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, " n"],
        hidden: Bool[Tensor, "b L"],
        network: nn.Module | None = None,
    ) -> Float[Tensor, " n"]:
        """See `TransformerAdapter`; `network` is not used."""
        logits = self._logits(inputs["input_ids"])
        if len(targets) and int(targets.max()) >= logits.shape[-1]:
            raise InputError(
                f"token id {int(targets.max())} has no logit among {logits.shape[-1]}; return one for each id"
            )
        return target_log_probs(logits[hidden], targets)

    def _logits(self, ids: Int64[Tensor, "b L"]) -> Float[Tensor, "b L V"]:
        logits = self.function(ids)
        for name in ("logits", "sequence_logits"):  # of a transformers model, of ESM-C's own package
            logits = getattr(logits, name, logits)
        if not isinstance(logits, Tensor) or logits.shape[:-1] != ids.shape:
            answer = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"the network answered ids of shape {tuple(ids.shape)} with {answer}; "
                "it must return logits of shape (B, L, V)"
            )
        return logits

    batch_log_probs = log_probs

    def log_distributions(
        self, inputs: Mapping[str, Tensor], hidden: Bool[Tensor, "b L"]
    ) -> Float[Tensor, "n V"]:
        """See `TransformerAdapter`."""
        return log_softmax(self._logits(inputs["input_ids"])[hidden])

    def settings(self) -> dict[str, Any]:
        """Those that the function tells."""
        settings = getattr(self.function, "settings", None)
        return settings() if callable(settings) else {}


class TransformerAdapter:
    """A transformers model with a masked-LM head.

    The head, and what else follows the last attention, is computed at the hidden positions only. A trial on a
    few tokens finds these parts and whether padding leaves the answers unchanged.

    Raises:
        InputError: a tokenizer or mask token that does not fit the embeddings.
    """

    def __init__(self, model: Any, tokenizer: Any, mask_token_id: int) -> None:
        _check_vocabulary(model, tokenizer, mask_token_id)
        self.model = model
        self.max_tokens = _longest_text(model, tokenizer)
        self.separator_id: int | None = None
        self._takes = frozenset(inspect.signature(model.forward).parameters)
        if "token_type_ids" in self._takes and tokenizer is not None:
            self.separator_id = tokenizer.sep_token_id
        self._last_segment = max(0, getattr(model.config, "type_vocab_size", 1) - 1)
        candidates = (getattr(tokenizer, "pad_token_id", None), getattr(model.config, "pad_token_id", None))
        self._pad_token_id = int(next((pad for pad in candidates if pad is not None), 0))
        self._n_ids = model.get_input_embeddings().weight.shape[0]
        notes = []
        if getattr(model.config, "attention_type", None) == "block_sparse":
            model.base_model.set_attention_type("original_full")
            notes.append(
                "full attention is used, because the results of block-sparse attention depend on padding"
            )
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        limit = PROBE_LENGTH if self.max_tokens is None else self.max_tokens
        length = min(PROBE_LENGTH, max(1, limit * 2 // 3))
        ids = probe_inputs(self._n_ids, self._pad_token_id, length).to(next(model.parameters()).device)
        tells = trial_tells(model, ids)
        self.head = find_head(model, ids) if tells else None
        self.cut = None if self.head is None else find_cut(model, self.head, ids)
        masks = tells and "attention_mask" in self._takes
        self.pads = masks and padding_is_ignored(model, ids, self._pad_token_id)
        for module, training in modes:
            module.training = training
        name = type(model).__name__
        if not tells:
            notes.append(f"{name}: in a trial, its logits are the same at every place; check its weights")
        elif self.head is None:
            notes.append(f"{name}: no separate head was found, so full logits are computed")
        if tells and not self.pads:
            notes.append(f"{name}: padding changes its answers, so texts of equal length share calls")
        self.notes = tuple(notes)

    def inputs(
        self, shown: Int64[Tensor, "b L"], context: Bool[Tensor, "b L"], lengths: Int64[Tensor, " b"]
    ) -> dict[str, Tensor]:
        """What the transformer is called with.

        Args:
            shown: the ids, with the mask token at hidden positions; anything beyond a row's length.
            context: which tokens are context, special tokens among them.
            lengths: the number of tokens of each row.
        """
        present = torch.arange(shown.shape[1], device=shown.device) < lengths[:, None]
        inputs = {"input_ids": torch.where(present, shown, self._pad_token_id)}
        if "attention_mask" in self._takes:
            inputs["attention_mask"] = present.long()
        if self.separator_id is not None:
            ends = ((shown == self.separator_id) & context).long()
            inputs["token_type_ids"] = (ends.cumsum(1) - ends).clamp(max=self._last_segment)
        return inputs

    def log_probs(
        self, inputs: Mapping[str, Tensor], targets: Int64[Tensor, " n"], hidden: Bool[Tensor, "b L"]
    ) -> Float[Tensor, " n"]:
        """log p of the hidden tokens of one call, row by row, nats, shape (n,).

        The head is called on a few positions at a time, which bounds the memory of the logits.
        """
        if self.head is None:
            return target_log_probs(self.model(**inputs).logits[hidden], targets)
        captured, states = self._states(self.head, inputs, hidden)
        budget = _HEAD_BYTES.get(hidden.device.type, _HEAD_BYTES_ELSEWHERE)
        rows = max(1, budget // (4 * self._n_ids))
        return log_probs_in_pieces(self.head, captured, states, targets, rows)

    def _states(
        self, head: nn.Module, inputs: Mapping[str, Tensor], hidden: Bool[Tensor, "b L"]
    ) -> tuple[Captured, Float[Tensor, "n H"]]:
        """What the head is called with, and its hidden states at the hidden positions, row by row."""
        alone = nullcontext() if self.cut is None else only_after(self.cut, hidden)
        with alone, input_taken_from(head) as captured:
            self.model(**inputs)
        assert captured.hidden is not None
        everywhere = captured.hidden.shape[:2] == hidden.shape
        return captured, captured.hidden[hidden] if everywhere else captured.hidden[0]

    def log_distributions(
        self, inputs: Mapping[str, Tensor], hidden: Bool[Tensor, "b L"]
    ) -> Float[Tensor, "n V"]:
        """log p of every token of the vocabulary at the hidden places of one call, row by row, nats."""
        if self.head is None:
            return log_softmax(self.model(**inputs).logits[hidden])
        captured, states = self._states(self.head, inputs, hidden)
        return log_softmax(self.head(states[None], *captured.rest, **captured.keywords)[0])

    def batch_log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, " n"],
        hidden: Bool[Tensor, "B L"],
        network: nn.Module | None = None,
    ) -> Float[Tensor, " n"]:
        """The same in one call of the model, or of `network`: the model wrapped for distributed training."""
        call = self.model if network is None else network
        if self.head is None or isinstance(call, nn.DataParallel):  # each replica sees a part of the batch
            return target_log_probs(call(**inputs).logits[hidden], targets)
        with only_positions(self.head, hidden):
            return target_log_probs(call(**inputs).logits[0], targets)

    def settings(self) -> dict[str, Any]:
        """The architecture and its configuration."""
        return config_settings(self.model)


def _check_vocabulary(model: Any, tokenizer: Any, mask_token_id: int) -> None:
    """Raise unless every token has an embedding and all but a few embeddings have a token."""
    n_embeddings = model.get_input_embeddings().weight.shape[0]
    if mask_token_id >= n_embeddings:
        raise InputError(
            f"the mask token has id {mask_token_id}, the model {n_embeddings} embeddings; "
            "give the model's own tokenizer"
        )
    if tokenizer is not None and not 0 <= n_embeddings - len(tokenizer) <= _SPARE_EMBEDDINGS:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens, the model {n_embeddings:,} embeddings; "
            "give the model's own tokenizer"
        )


def _longest_text(model: Any, tokenizer: Any) -> int | None:
    """The model's number of positions for tokens, special tokens included; None if there is no limit."""
    limits = []
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its relatives number positions from padding_idx + 1
            used = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - used)
    stated = getattr(model.config, "max_position_embeddings", None)
    if not limits and isinstance(stated, int) and stated > 0:
        limits.append(stated)
    of_tokenizer = getattr(tokenizer, "model_max_length", None)
    if isinstance(of_tokenizer, int) and of_tokenizer < _UNLIMITED:
        limits.append(of_tokenizer)
    return min(limits, default=None)
