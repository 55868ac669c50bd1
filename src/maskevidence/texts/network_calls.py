"""How a masked language model calls its network: of transformers, of a diffusion family, or a function."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.pretrained import config_settings
from maskevidence.core.support.devices import alone_with
from maskevidence.texts.diffusion import DiffusionNetwork, arguments_of
from maskevidence.texts.masked_head import (
    PROBE_LENGTH,
    Head,
    Places,
    find_head,
    log_softmax,
    logits_of,
    only_positions,
    padding_is_ignored,
    places_of_hidden,
    target_log_probs,
    trial_inputs,
    trial_tells,
)

# A vocabulary is often padded to a multiple of 64 or 128: this many embeddings may have no token.
_SPARE_EMBEDDINGS = 256
_UNLIMITED = 10**9  # tokenizers without a limit say 10^30, and some models do
_HEAD_BYTES = {"cpu": 2**24}  # of float32 logits at a time: what stays near the cache
_HEAD_BYTES_ELSEWHERE = 2**28


@contextmanager
def evaluating(network: Any) -> Iterator[None]:
    """Put a network and its parts into evaluation mode while the context is open."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class NetworkAdapter:
    """Calls a transformers model with a masked-LM head, a diffusion model, or a function of ids.

    The head, and what else follows the last attention, is computed at hidden places only. A trial on a few
    tokens finds these parts and whether padding leaves the answers unchanged. A function gives logits
    of shape (B, L, V), and is called on rows of equal length.

    Attributes:
        max_tokens: the longest row it reads, special tokens included; None if there is no limit.
        pads: whether rows of different lengths may share a call.
        head: the vocabulary head at hidden places; None if full logits are computed.
        separator_id: the token that ends a segment, if the network numbers segments; otherwise None.
        notes: what a user should know about the network, one sentence each.

    Raises:
        InputError: a tokenizer or mask token that does not fit the embeddings.
    """

    def __init__(self, network: Any, tokenizer: Any, mask_token_id: int) -> None:
        self.network = network
        self.max_tokens: int | None = limit_of(getattr(network, "max_tokens", None))
        self.pads = False
        self.head: Head | None = None
        self.separator_id: int | None = None
        self.notes: tuple[str, ...] = ()
        self._takes: frozenset[str] = frozenset()
        self._pad_token_id = self._n_values = self._last_segment = 0
        if isinstance(network, DiffusionNetwork):
            self._pad_token_id = network.pad_token_id
            with_masks = network.diffusion.time == "sigma"  # whose noise is that of the masked share
            self._examine(max(1, mask_token_id), mask_token_id if with_masks else None)
        elif hasattr(network, "get_output_embeddings"):
            _check_vocabulary(network, tokenizer, mask_token_id)
            self.max_tokens = _longest_text(network, tokenizer)
            config = self.network.config
            pads = (getattr(tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None))
            self._pad_token_id = int(next((pad for pad in pads if pad is not None), 0))
            self._last_segment = max(0, getattr(config, "type_vocab_size", 1) - 1)
            if getattr(config, "attention_type", None) == "block_sparse":
                self.network.base_model.set_attention_type("original_full")
                self.notes = (
                    "full attention is used, because the results of block-sparse attention depend on padding",
                )
            self._examine(self.network.get_input_embeddings().weight.shape[0])
            if "token_type_ids" in self._takes and tokenizer is not None:
                self.separator_id = tokenizer.sep_token_id

    def _examine(self, n_ids: int, mask_token_id: int | None = None) -> None:
        """Try the network on a few tokens, some of them masked if there is a mask token."""
        network = self.network
        self._takes = arguments_of(network)
        limit = PROBE_LENGTH if self.max_tokens is None else self.max_tokens
        ids, hidden = trial_inputs(n_ids, self._pad_token_id, min(PROBE_LENGTH, max(1, limit * 2 // 3)))
        if mask_token_id is not None:
            ids = ids.masked_fill(hidden, mask_token_id)
        device = next((parameter.device for parameter in network.parameters()), ids.device)
        ids, hidden = ids.to(device), hidden.to(device)
        name = type(getattr(network, "network", network)).__name__
        with alone_with(network), evaluating(network), torch.no_grad():
            logits = logits_of(network(input_ids=ids))[hidden]
            self._n_values = logits.shape[1]
            tells = trial_tells(name, logits)
            self.head = find_head(network, ids, hidden, logits) if tells else None
            masks = tells and "attention_mask" in self._takes and getattr(network, "may_pad", True)
            self.pads = masks and padding_is_ignored(network, ids, hidden, self._pad_token_id)
        if not tells:
            self.notes += (f"{name}: in a trial, its logits are the same at every place; check its weights",)
        elif self.head is None:
            self.notes += (f"{name}: no separate head was found, so full logits are computed",)
        if tells and not self.pads:
            self.notes += (f"{name}: padding changes its answers, so texts of equal length share calls",)

    def inputs(
        self, shown: Int64[Tensor, "b L"], context: Bool[Tensor, "b L"], lengths: Int64[Tensor, " b"]
    ) -> dict[str, Tensor]:
        """What the network is called with.

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
        self, inputs: Mapping[str, Tensor], targets: Int64[Tensor, " n"], hidden: Places
    ) -> Float[Tensor, " n"]:
        """log p of the hidden tokens of one call, row by row, nats, shape (n,).

        The head is called on a few positions at a time, which bounds the memory of the logits.
        """
        if self.head is None:
            return target_log_probs(self._full_logits(self.network, inputs, targets)[hidden], targets)
        budget = _HEAD_BYTES.get(targets.device.type, _HEAD_BYTES_ELSEWHERE)
        return self.head.log_probs(inputs, targets, hidden, max(1, budget // (4 * self._n_values)))

    def log_distributions(self, inputs: Mapping[str, Tensor], hidden: Places) -> Float[Tensor, "n V"]:
        """log p of every token of the vocabulary at the hidden places of one call, row by row, nats."""
        if self.head is None:
            return log_softmax(self._full_logits(self.network, inputs)[hidden])
        return self.head.log_distributions(inputs, hidden)

    def batch_log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, " n"],
        hidden: Bool[Tensor, "B L"],
        network: nn.Module | None = None,
    ) -> Float[Tensor, " n"]:
        """log p of a training batch's hidden tokens, from one call of the model or its wrapper `network`."""
        call = self.network if network is None else network
        if self.head is None or isinstance(call, nn.DataParallel):  # each replica sees a part of the batch
            return target_log_probs(self._full_logits(call, inputs, targets)[hidden], targets)
        if isinstance(self.network, DiffusionNetwork):
            return self.log_probs(inputs, targets, places_of_hidden(hidden))
        with alone_with(self.network), only_positions(self.head.module, hidden):
            return target_log_probs(call(**inputs).logits[0], targets)

    def _full_logits(
        self, network: Callable[..., Any], inputs: Mapping[str, Tensor], targets: Tensor | None = None
    ) -> Float[Tensor, "b L V"]:
        ids = inputs["input_ids"]
        logits = logits_of(network(ids, **{name: inputs[name] for name in inputs if name != "input_ids"}))
        if not isinstance(logits, Tensor) or logits.shape[:-1] != ids.shape:
            answer = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"the network answered ids of shape {tuple(ids.shape)} with {answer}; "
                "it must return logits of shape (B, L, V)"
            )
        if targets is not None and len(targets) and int(targets.max()) >= logits.shape[-1]:
            raise InputError(
                f"token id {int(targets.max())} has no logit among {logits.shape[-1]}; return one for each id"
            )
        return logits

    def settings(self) -> dict[str, Any]:
        """The settings besides the weights that determine the numbers: the network's or its configuration."""
        settings = getattr(self.network, "settings", None)
        if callable(settings):
            return settings()
        return config_settings(self.network) if self._takes else {}


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
    stated = [] if limits else [getattr(model.config, "max_position_embeddings", None)]
    known = map(limit_of, [*limits, *stated, getattr(tokenizer, "model_max_length", None)])
    return min((limit for limit in known if limit is not None), default=None)


def limit_of(stated: Any) -> int | None:
    """A length as a whole number; None if it is none, such as the 1e30 of tokenizers without a limit.

    Example:
        >>> limit_of(512), limit_of(512.0), limit_of(1e30), limit_of(10**30), limit_of(None)
        (512, 512, None, None, None)
    """
    return int(stated) if isinstance(stated, int | float) and 0 < stated < _UNLIMITED else None
