"""Masked language models: any transformer of Hugging Face, or any network from ids to logits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.model import Conditionals
from maskevidence.models.text.encoding import EncodedTexts, encode_texts
from maskevidence.models.text.masked_head import (
    PROBE_LENGTH,
    find_head,
    input_taken_from,
    log_probs_in_pieces,
    only_positions,
    padding_is_ignored,
    probe_inputs,
    target_log_probs,
)
from maskevidence.support.choices import Long
from maskevidence.support.progress import quiet
from maskevidence.tokens import Tokens

_BATCH_TOKENS = {"cpu": 1024}  # the fastest of 512 to 8192 at two to twelve layers
_BATCH_TOKENS_ELSEWHERE = 2**14
_HEAD_BYTES = {"cpu": 2**24}  # of float32 logits at a time: what stays near the cache
_HEAD_BYTES_ELSEWHERE = 2**28


class MaskedLM(nn.Module):
    """The conditionals of a masked language model, log p(token | visible tokens): hidden tokens are [MASK].

    Build it by `from_pretrained` or `from_callable`; the constructor takes a transformers model in memory.
    No joint density stands behind such conditionals in general, so that the sum over sizes is a lower bound.

    Hidden tokens are replaced by the mask token, all of them. The vocabulary head is computed at masked
    positions only, a piece at a time, and calls hold up to `batch_tokens` tokens of texts of similar length:
    memory is bounded whatever the data. Log-softmax is in float32 at least.

    Args:
        model: a transformers model with a masked-LM head.
        tokenizer: its tokenizer; needed to encode texts and to know the mask token.
        mask_token_id: where there is no tokenizer.
        batch_tokens: how many tokens, padding included, go into one call; by default 1,024 on a CPU and
            16,384 elsewhere. A longer text makes a call of its own.
        bfloat16: compute under bfloat16 autocast; weights stay as they are.

    Attributes:
        max_tokens: the longest text that it reads, special tokens included; None where there is no limit.
        notes: what a user should know about it, one sentence each.

    Raises:
        InputError: no mask token, or a tokenizer that does not fit the embeddings.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        mask_token_id: int | None = None,
        batch_tokens: int | None = None,
        bfloat16: bool = False,
    ) -> None:
        super().__init__()
        self.conditionals: Conditionals = "learned"
        self.network = model
        self.tokenizer = tokenizer
        # a buffer, since it changes the numbers: what is saved of the weights tells two models apart
        self.register_buffer("in_bfloat16", torch.tensor(bfloat16))
        self.batch_tokens = _checked_budget(batch_tokens)
        self.max_tokens: int | None = None
        self.notes: tuple[str, ...] = ()
        self._head: list[nn.Module] = []  # in a list, so that it is no second owner of the parameters
        self._takes: frozenset[str] = frozenset()
        self._padded = False
        self._separator_id: int | None = None
        self._last_segment = 1
        given = mask_token_id if mask_token_id is not None else getattr(tokenizer, "mask_token_id", None)
        if given is None:
            raise InputError(
                f"the tokenizer of {_name_of(model)} has no mask token; give a masked language model "
                "(BERT, RoBERTa, ...), or mask_token_id"
            )
        self.mask_token_id = int(given)
        if hasattr(model, "get_output_embeddings"):
            self._prepare_transformer(model)

    def _prepare_transformer(self, model: Any) -> None:
        """Find out by a trial how the model takes padding, and what its head is."""
        from maskevidence.models.pretrained import check_vocabulary, longest_text, model_inputs

        check_vocabulary(model, self.tokenizer, self.mask_token_id)
        self.max_tokens = longest_text(model, self.tokenizer)
        self._takes = model_inputs(model)
        if "token_type_ids" in self._takes and self.tokenizer is not None:
            self._separator_id = self.tokenizer.sep_token_id
            self._last_segment = max(0, getattr(model.config, "type_vocab_size", 1) - 1)
        notes = []
        if getattr(model.config, "attention_type", None) == "block_sparse":
            model.base_model.set_attention_type("original_full")
            notes.append("full attention in place of block-sparse, whose answers depend on the padding")
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        n_ids = model.get_input_embeddings().weight.shape[0]
        pad = self._pad_token_id
        limit = PROBE_LENGTH if self.max_tokens is None else self.max_tokens
        ids = probe_inputs(n_ids, pad, min(PROBE_LENGTH, max(1, limit * 2 // 3))).to(self.device)
        head = find_head(model, ids)
        self._head = [] if head is None else [head]
        self._padded = "attention_mask" in self._takes and padding_is_ignored(model, ids, pad)
        for module, training in modes:
            module.training = training
        if head is None:
            notes.append(f"{_name_of(model)}: no separate head was found, so full logits are computed")
        if not self._padded:
            notes.append(
                f"{_name_of(model)}: padding changes its answers, so texts of equal length share calls"
            )
        self.notes = tuple(notes)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        tokenizer: Any = None,
        device: str | torch.device | None = None,
        bfloat16: bool = False,
        batch_tokens: int | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> "MaskedLM":
        """Load a masked language model from a folder or from the Hugging Face hub, ready for scoring.

        Args:
            name_or_path: a folder that `save_pretrained` wrote, or OWNER/NAME on the hub.
            tokenizer: a tokenizer, or where to load it from; by default the same place.
            device: by default "cuda" or "mps" where there is one, else "cpu".
            bfloat16: compute under bfloat16 autocast.
            batch_tokens: how many tokens, padding included, go into one call.
            revision: branch, tag or commit on the hub.
            trust_remote_code: let code that comes with the model run.

        Raises:
            InputError: no model there or none with a masked-LM head, weights that lack a part of it, no mask
                token, a tokenizer of another vocabulary, no network and no cache, an unknown device.
            MissingExtraError: transformers is not installed.

        Example:
            >>> MaskedLM.from_pretrained("no/such/folder")
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: there is no folder 'no/such/folder'; give a folder that \
save_pretrained wrote, or OWNER/NAME on the hub
        """
        from maskevidence.models.pretrained import choose_device, load_masked_lm

        chosen = choose_device(device)
        model, found = load_masked_lm(
            str(name_or_path), tokenizer, revision=revision, trust_remote_code=trust_remote_code
        )
        return cls(model.to(chosen).eval(), found, bfloat16=bfloat16, batch_tokens=batch_tokens)

    @classmethod
    def from_callable(
        cls,
        fn: Callable[[Int64[Tensor, "B L"]], Float[Tensor, "B L V"]],
        *,
        mask_token_id: int,
        tokenizer: Any = None,
        conditionals: Conditionals = "learned",
        max_tokens: int | None = None,
        batch_tokens: int | None = None,
    ) -> "MaskedLM":
        """Any network from ids to logits, for models outside transformers.

        It is called on rows of equal length, without padding.

        Args:
            fn: maps ids (B, L), with `mask_token_id` where tokens are hidden, to logits (B, L, V). Where it
                is a `torch.nn.Module` it becomes a part of this one.
            mask_token_id: any whole number that `fn` takes for a hidden token.
            tokenizer: a transformers tokenizer, where texts are to be encoded.
            conditionals: "exact" where the softmax of the logits is a conditional of one joint density.
            max_tokens: the longest row that `fn` takes.
            batch_tokens: how many tokens go into one call.

        Example:
            >>> import maskevidence as me
            >>> uniform = MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)
            >>> tokens = Tokens(*(torch.tensor(x) for x in ([[0, 1]], [[True, True]], [[False, False]], [7])))
            >>> round(me.estimate_evidence(uniform, tokens, me.Exhaustive()).log_evidence, 4)  # 2 log(1/4)
            -2.7726
        """
        made = cls(fn, tokenizer, mask_token_id=mask_token_id, batch_tokens=batch_tokens)
        made.conditionals = conditionals
        made.max_tokens = max_tokens
        return made

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def _pad_token_id(self) -> int:
        of_tokenizer = getattr(self.tokenizer, "pad_token_id", None)
        of_config = getattr(getattr(self.network, "config", None), "pad_token_id", None)
        return int(next((pad for pad in (of_tokenizer, of_config) if pad is not None), 0))

    def encode(
        self,
        texts: Sequence[str],
        *,
        second: Sequence[str] | None = None,
        context: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        long: Long = "error",
        block_size: int | None = None,
    ) -> EncodedTexts:
        """Texts as tokens, with the special tokens as context.

        Args:
            texts: one observation each.
            second: second texts of pairs, scored too, as in sentence-pair tasks.
            context: texts that stand before `texts` and are conditioned on, never scored.
            ids: whole numbers that masks are keyed by; by default 0, 1, ...
            long: what happens to a text longer than the model's positions: "error", "split" into
                observations of nearly equal length, or "truncate".
            block_size: pack all texts one after the other into blocks of so many tokens, special tokens
                included, each an observation.

        Returns:
            The tokens, the words they belong to, and notes on what was split, cut or left out.

        Raises:
            InputError: an empty text, one that is too long, or options that do not go together.
        """
        if self.tokenizer is None:
            raise InputError("there is no tokenizer to encode texts with; give one, or tokens")
        return encode_texts(
            self.tokenizer,
            texts,
            second=second,
            context=context,
            ids=ids,
            max_tokens=self.max_tokens,
            long=long,
            block_size=block_size,
            separator_id=self._separator_id,
        )

    def tokens(self, texts: Sequence[str], **options: Any) -> Tokens:
        """Texts as tokens; options as in `encode`."""
        return self.encode(texts, **options).tokens

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Split rows of these lengths into calls of at most `batch_tokens` tokens, longest first.

        Args:
            n_present: shape (n_pairs,); tokens of each row, context included.

        Yields:
            The positions (0..n_pairs-1) of the rows of each call.
        """
        order = np.argsort(-n_present, kind="stable")
        lengths = n_present[order]
        budget = self.batch_tokens or _BATCH_TOKENS.get(self.device.type, _BATCH_TOKENS_ELSEWHERE)
        start = 0
        while start < len(order):
            end = start + max(1, budget // max(1, int(lengths[start])))
            if not self._padded:  # no further than the rows of this length
                end = min(end, int(np.searchsorted(-lengths, -lengths[start], side="right")))
            yield order[start:end]
            start = end

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); 0 where not masked. Differentiable."""
        if tokens.values.ndim != 2 or tokens.values.is_floating_point():
            raise InputError(
                f"the tokens have shape {tuple(tokens.values.shape)} and dtype {tokens.values.dtype}; "
                "give token ids, whole numbers of shape (B, D)"
            )
        present = tokens.maskable | tokens.context
        n_present = present.sum(1)
        longest = int(n_present.max())
        if self.max_tokens is not None and longest > self.max_tokens:
            which = int(tokens.ids[int(n_present.argmax())])
            raise InputError(
                f"observation {which} has {longest} tokens, the model reads {self.max_tokens}; "
                "split or truncate it"
            )
        place = torch.argsort(~present, dim=1, stable=True)[:, :longest]  # the present tokens, to the left
        ids, hidden, context = (
            x.gather(1, place).to(self.device) for x in (tokens.values, masked, tokens.context)
        )
        found, row, column = [], [], []
        for part in self.batches(n_present.cpu().numpy()):
            rows = torch.from_numpy(part).to(self.device)
            width = int(n_present[part[0]])
            lengths = n_present.to(self.device)[rows]
            log_probs = self._log_probs(
                ids[rows, :width], hidden[rows, :width], context[rows, :width], lengths
            )
            at, to = torch.nonzero(hidden[rows, :width], as_tuple=True)
            found.append(log_probs)
            row.append(rows[at])
            column.append(to)
        values = torch.cat(found)
        compact = values.new_zeros(ids.shape).index_put((torch.cat(row), torch.cat(column)), values)
        compact = compact.to(place.device)
        return compact.new_zeros(masked.shape).scatter(1, place, compact)

    def _log_probs(
        self,
        ids: Int64[Tensor, "b L"],
        hidden: Bool[Tensor, "b L"],
        context: Bool[Tensor, "b L"],
        lengths: Int64[Tensor, " b"],
    ) -> Float[Tensor, " n"]:
        """log p of the hidden tokens of one call, row by row, nats."""
        targets = ids[hidden]
        shown = ids.masked_fill(hidden, self.mask_token_id)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bool(self.in_bfloat16)):
            if not self._takes:  # any network: rows of one length, no padding
                return self._any_network(shown, hidden, targets)
            present = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
            inputs = {"input_ids": torch.where(present, shown, self._pad_token_id)}
            if "attention_mask" in self._takes:
                inputs["attention_mask"] = present.long()
            if "token_type_ids" in self._takes and self._separator_id is not None:
                ends = ((ids == self._separator_id) & context).long()
                inputs["token_type_ids"] = (ends.cumsum(1) - ends).clamp(max=self._last_segment)
            if not self._head:
                return target_log_probs(self.network(**inputs).logits[hidden], targets)
            head = self._head[0]
            with input_taken_from(head) as captured:
                self.network(**inputs)
            assert captured.hidden is not None
            rows = self._rows_of_head()
            return log_probs_in_pieces(head, captured, captured.hidden[hidden], targets, rows)

    def hidden_log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, "B L"],
        hidden: Bool[Tensor, "B L"],
        network: nn.Module | None = None,
    ) -> Float[Tensor, " n"]:
        """log p of the hidden tokens of one batch that is prepared already, row by row: for training loops.

        Args:
            inputs: what the transformer is called with: ids with the hidden ones replaced, attention mask,
                ...
            targets: shape (B, L); the ids, read where they are hidden.
            hidden: shape (B, L); what to predict.
            network: this model's transformer in a wrapper (of distributed training), which is called in place
                of it.

        Returns:
            Shape (n,), nats; differentiable.

        Example:
            >>> uniform = MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)
            >>> hidden, targets = torch.tensor([[True, False]]), torch.tensor([[0, 1]])
            >>> uniform.hidden_log_probs({"input_ids": torch.tensor([[4, 1]])}, targets, hidden)
            tensor([-1.3863])
        """
        chosen = targets[hidden]
        if not self._takes:
            return self._any_network(inputs["input_ids"], hidden, chosen)
        call = self.network if network is None else network
        if not self._head or isinstance(call, nn.DataParallel):  # whose replicas see a part of the batch each
            return target_log_probs(call(**inputs).logits[hidden], chosen)
        with only_positions(self._head[0], hidden):
            return target_log_probs(call(**inputs).logits[0], chosen)

    def _any_network(
        self, shown: Int64[Tensor, "b L"], hidden: Bool[Tensor, "b L"], targets: Int64[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        logits = self.network(shown)
        if not isinstance(logits, Tensor) or logits.shape[:-1] != shown.shape:
            given = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"the network answered ids of shape {tuple(shown.shape)} with {given}; "
                "it must return logits of shape (B, L, V)"
            )
        if len(targets) and int(targets.max()) >= logits.shape[-1]:
            raise InputError(
                f"token id {int(targets.max())} has no logit among {logits.shape[-1]}; return one for each id"
            )
        return target_log_probs(logits[hidden], targets)

    def _rows_of_head(self) -> int:
        """How many positions the head takes at a time, so that their logits fit the budget."""
        n_ids = self.network.get_input_embeddings().weight.shape[0]
        return max(1, _HEAD_BYTES.get(self.device.type, _HEAD_BYTES_ELSEWHERE) // (4 * n_ids))

    def save(self, folder: str | Path) -> None:
        """Write a transformers model and its tokenizer into a folder that `from_pretrained` reads."""
        if not hasattr(self.network, "save_pretrained"):
            raise InputError("this network does not know how to save itself; save its weights yourself")
        with quiet():
            self.network.save_pretrained(str(folder))
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(str(folder))


def _checked_budget(batch_tokens: int | None) -> int | None:
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"batch_tokens={batch_tokens}; give a whole number of 1 or more")
    return batch_tokens


def _name_of(model: Any) -> str:
    return type(model).__name__
