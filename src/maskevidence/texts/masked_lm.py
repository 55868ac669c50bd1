"""Masked language models: any Hugging Face transformer, or any network from ids to logits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import MASS, Conditionals
from maskevidence.core.model_page import model_page
from maskevidence.core.show.parts import Page
from maskevidence.core.show.shown import HasPage
from maskevidence.core.support.devices import sent
from maskevidence.core.support.files import replacing_files
from maskevidence.core.support.progress import quiet
from maskevidence.core.tokens import Tokens
from maskevidence.texts.call_sizes import CallSizes
from maskevidence.texts.encoding import EncodedTexts, Encoding, encode_texts
from maskevidence.texts.masked_head import Places
from maskevidence.texts.network_calls import NetworkAdapter, limit_of
from maskevidence.texts.pieces import special_ids
from maskevidence.texts.text_options import Long


class _Call(NamedTuple):
    """One call of the network, on rows cut to the longest of them."""

    shown: Int64[Tensor, "b L"]  # the ids that the network sees, to the left
    ids: Int64[Tensor, "b L"]
    targets: Int64[Tensor, " n"]  # the hidden ids, row by row
    places: Places  # in the call, of the hidden tokens
    context: Bool[Tensor, "b L"]
    lengths: Int64[Tensor, " b"]
    row: Int64[Tensor, " n"]  # in the batch, of each hidden token
    column: Int64[Tensor, " n"]


FLOAT32_ON_GPU = (
    "computed in float32; --dtype tf32 (dtype=) takes the GPU's faster units for products, --dtype bfloat16 "
    "halves the memory of the weights, too, and a note then says how they round"
)
TF32_ON_GPU = "computed in float32 with products in TF32, as was asked for (docs/devices.md)"
FLOAT32_ON_CPU = (
    "computed in float32; this processor multiplies in bfloat16, in which large models take about half the "
    "time: --dtype bfloat16 (dtype=), and a note then says how it rounds"
)
_MANY_WEIGHTS = 10**6  # from which bfloat16 pays on a processor that has it
_OF_LOADING = ("is_local", "local_files_only")  # how a tokenizer was loaded, which is no part of it


class MaskedLM(HasPage, nn.Module):
    """A masked language model: log p(token | visible tokens), with hidden tokens replaced by [MASK].

    Create a model with `from_pretrained` or `from_callable`; the constructor takes a transformers model in
    memory. In general no joint density stands behind such conditionals, so the sum over sizes is a lower
    bound.

    All hidden tokens are replaced by the mask token. The vocabulary head is computed at masked positions
    only, a few at a time, and a call holds up to `batch_tokens` tokens of texts of similar length: memory is
    bounded for any data. Log-softmax is computed in float32 at least.

    Args:
        model: a transformers model with a masked-LM head, or a function as `from_callable` takes it.
        tokenizer: its tokenizer; needed to encode texts and to know the mask token.
        mask_token_id: the id of the mask token, if there is no tokenizer.
        batch_tokens: tokens in one call, padding included; by default 1,024 on a CPU and 16,384 elsewhere. A
            longer text has a call to itself. On a CPU, estimates in memory find a faster size by a short
            trial unless it is given; scores then differ by rounding.
        bfloat16: compute under bfloat16 autocast; the weights do not change.

    Attributes:
        base_measure: the probability mass of tokens; see `MaskedModel`.
        max_tokens: the longest text that the model reads, special tokens included; None if there is no limit.
        notes: what a user should know about the model, one sentence each.

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
        if not callable(model) or not (tokenizer is None or callable(tokenizer)):
            wrong = model if not callable(model) else tokenizer
            raise InputError(
                f"<{type(wrong).__name__}> is no network and no tokenizer; give those of transformers"
            )
        self.batch_tokens = batch_tokens
        token_id = mask_token_id if mask_token_id is not None else getattr(tokenizer, "mask_token_id", None)
        if token_id is None:
            raise InputError(
                f"the tokenizer of {type(model).__name__} has no mask token; give a masked language model "
                "(BERT, RoBERTa, ...), or mask_token_id"
            )
        self.conditionals: Conditionals = "learned"
        self.base_measure = MASS
        self.network = model
        self.tokenizer = tokenizer
        self.mask_token_id = int(token_id)
        # a buffer, because it changes the numbers: the fingerprint of a model covers its buffers
        self.register_buffer("in_bfloat16", torch.tensor(bfloat16))
        self.in_tf32 = False  # whether products on a GPU are in TF32
        self._adapter = NetworkAdapter(model, tokenizer, self.mask_token_id)
        self.max_tokens = self._adapter.max_tokens
        self.notes = self._adapter.notes

    def page(self) -> Page:
        """A page that describes the model."""
        return model_page(self, {"network": type(self.network).__name__})

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
        dtype: str | None = None,
        device_map: str | None = None,
        mask_id: int | None = None,
        diffusion: str | None = None,
        attn_implementation: str | None = None,
        model_class: str | None = None,
    ) -> "MaskedLM":
        """Load a masked language model from a folder or from the Hugging Face hub, ready for scoring.

        Args:
            name_or_path: a folder that `save_pretrained` wrote, or OWNER/NAME on the hub.
            tokenizer: a tokenizer, or where to load it from; by default the same place.
            device: by default "cuda" or "mps" if available, otherwise "cpu".
            bfloat16: compute under bfloat16 autocast.
            batch_tokens: tokens in one call, padding included.
            revision: branch, tag or commit on the hub.
            trust_remote_code: whether code that comes with the model may run.
            dtype: of the weights, such as "bfloat16", or "auto" for that of the checkpoint; by default
                float32, and that of the checkpoint for a diffusion language model. "tf32" stands for weights
                in float32 and products in TF32, on a GPU.
            device_map: "auto" spreads the weights over all devices by accelerate, in place of `device`.
            mask_id: the id of the mask token, if neither tokenizer nor configuration says.
            diffusion: "llada", "dream", "mdlm", "sedd" or "bd3lm" for a diffusion language model of one of
                these families that its configuration does not tell; see `Diffusion`.
            attn_implementation: "eager", "sdpa" or another attention of transformers.
            model_class: MODULE:CLASS of an installed package, for a class outside transformers with a
                `from_pretrained` of its own.

        Raises:
            InputError: no such model, one without a masked-LM head, incomplete weights, no mask token, a
                tokenizer with another vocabulary, no network and no cached copy, or an unknown device.
            MissingExtraError: transformers is not installed.

        Example:
            >>> MaskedLM.from_pretrained("no/such/folder")
            Traceback (most recent call last):
            ...
            maskevidence.core.errors.InputError: there is no folder 'no/such/folder'; give a folder that \
save_pretrained wrote, or OWNER/NAME on the hub
        """
        from maskevidence.core.support.devices import choose_device, multiplies_in_bfloat16
        from maskevidence.texts.loading import Reading, load_masked_lm

        chosen_device, in_tf32 = choose_device(device), dtype == "tf32"
        if in_tf32 and chosen_device.type != "cuda":
            raise InputError(
                f"TF32 is of NVIDIA's GPUs, and the device is {chosen_device}; give --device cuda (device=), "
                "or leave --dtype tf32 out"
            )
        reading = Reading(
            revision,
            trust_remote_code,
            "float32" if in_tf32 else dtype,
            device_map,
            mask_id,
            diffusion,
            attn_implementation,
            model_class,
        )
        network, tokenizer, mask, notes = load_masked_lm(str(name_or_path), tokenizer, reading)
        network = network.eval() if device_map is not None else network.to(chosen_device).eval()
        model = cls(network, tokenizer, mask_token_id=mask, bfloat16=bfloat16, batch_tokens=batch_tokens)
        model.notes = (*notes, *model.notes)
        model.in_tf32 = in_tf32
        weights = list(network.parameters())
        if not bfloat16 and weights and weights[0].dtype == torch.float32:
            large = sum(weight.numel() for weight in weights) >= _MANY_WEIGHTS
            if model.device.type == "cuda":
                exact = not in_tf32 and torch.get_float32_matmul_precision() == "highest"
                model.notes += (FLOAT32_ON_GPU if exact else TF32_ON_GPU,)
            elif model.device.type == "cpu" and large and multiplies_in_bfloat16():
                model.notes += (FLOAT32_ON_CPU,)
        return model

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
        """Wrap any network from ids to logits, for models outside transformers.

        It is called on rows of equal length, without padding.

        Args:
            fn: maps ids (B, L), with `mask_token_id` where tokens are hidden, to logits (B, L, V). A
                `torch.nn.Module` becomes a part of this one.
            mask_token_id: any whole number that `fn` understands as a hidden token.
            tokenizer: a transformers tokenizer, needed to encode texts.
            conditionals: "exact" if the softmax of the logits is a conditional of one joint density.
            max_tokens: the longest row that `fn` takes.
            batch_tokens: tokens in one call.

        Example:
            >>> import maskevidence as me
            >>> uniform = MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)
            >>> tokens = Tokens(*(torch.tensor(x) for x in ([[0, 1]], [[True, True]], [[False, False]], [7])))
            >>> round(me.estimate_evidence(uniform, tokens, me.Exhaustive()).log_evidence, 4)  # 2 log(1/4)
            -2.7726
        """
        model = cls(fn, tokenizer, mask_token_id=mask_token_id, batch_tokens=batch_tokens)
        model.conditionals = conditionals
        model.max_tokens = limit_of(max_tokens)
        return model

    @property
    def batch_tokens(self) -> int | None:
        """Tokens per call, padding included; None if the model chooses."""
        return self._sizes.asked

    @batch_tokens.setter
    def batch_tokens(self, batch_tokens: int | None) -> None:
        self._sizes = CallSizes(batch_tokens)

    @property
    def call_note(self) -> str | None:
        """The result of the trial of `timed_batches`, one sentence; None without a trial."""
        return self._sizes.note

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def encoding(self) -> Encoding:
        """How the model reads texts: its length limit, and the token that ends a segment."""
        return Encoding(max_tokens=self.max_tokens, separator_id=self._adapter.separator_id)

    def encode(
        self,
        texts: Sequence[str],
        *,
        second: Sequence[str] | None = None,
        context: Sequence[str] | None = None,
        pair: bool = False,
        ids: Sequence[int] | None = None,
        long: Long = "error",
        block_size: int | None = None,
        allow_unknown: bool = False,
    ) -> EncodedTexts:
        """Encode texts as tokens, with the special tokens as context.

        Args:
            texts: the texts; each is one observation.
            second: second texts of pairs, scored as well, as in sentence-pair tasks.
            context: texts that stand before `texts` and are conditioned on, never scored. As in the
                lm-evaluation-harness, both are one text, with a blank between them where there is none; the
                blank, and a token across the border, are scored.
            pair: frame a context and its text as the two of a pair, with the separator ([SEP]) between them.
            ids: whole numbers that masks are keyed by; by default 0, 1, ...
            long: what happens to a text longer than the model's positions: "error", "split" into
                observations of nearly equal length, or "truncate".
            block_size: pack all texts, one after the other, into blocks of `block_size` tokens, special
                tokens included; each block is one observation.
            allow_unknown: encode texts although more than 20 % of their letters are unknown, or residues are
                small letters.

        Returns:
            The tokens, the words they belong to, and notes on what was split, truncated, left out or unknown.

        Raises:
            InputError: an empty text, one that is too long, options that do not fit together, more than
                20 % of unknown letters, or proteins in small letters.

        Warns:
            UnknownTokensWarning: more than 5 % of the letters are unknown to the tokenizer.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            got = "one string" if isinstance(texts, str) else f"{type(texts).__name__} of other things"
            raise InputError(
                f"the texts are {got}; give a list of strings, or token ids as Tokens(values, maskable, "
                "context, ids), with special tokens such as [CLS] as context"
            )
        if self.tokenizer is None:
            raise InputError("there is no tokenizer to encode texts with; give one, or tokens")
        options = replace(
            self.encoding,
            second=second,
            context=context,
            context_pair=pair,
            ids=ids,
            long=long,
            block_size=block_size,
            allow_unknown=allow_unknown,
        )
        return encode_texts(self.tokenizer, texts, options)

    def tokens(self, texts: Sequence[str], **options: Any) -> Tokens:
        """Encode texts as tokens; see `encode` for the options."""
        return self.encode(texts, **options).tokens

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """A note if special tokens, such as [CLS], are scored."""
        if tokens.values.ndim != 2:
            return ()
        stray = tokens.maskable & torch.isin(
            tokens.values, torch.tensor(sorted(special_ids(self.tokenizer))).to(tokens.values)
        )
        if not bool(stray.any()):
            return ()
        first = self.tokenizer.convert_ids_to_tokens(int(tokens.values[stray][0]))
        return (
            f"{int(stray.sum()):,} of the {int(tokens.maskable.sum()):,} tokens that are scored are special "
            f"tokens such as {first}; give them as context, as `tokens(texts)` does",
        )

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Split rows into calls of at most `batch_tokens` tokens, longest rows first.

        Args:
            n_present: shape (n_pairs,); the number of tokens of each row, context included.

        Yields:
            The positions (0..n_pairs-1) of the rows of each call.
        """
        return self._sizes.fixed(n_present, self.device, pads=self._adapter.pads)

    def timed_batches(
        self, n_present: Int64[np.ndarray, " n_pairs"]
    ) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Split rows into calls like `batches`, of a size that a trial among the first calls found
        fastest.
        """
        return self._sizes.timed(n_present, self.device, pads=self._adapter.pads)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); 0 where not masked. Differentiable."""
        return self._conditionals(tokens, masked, masked.device)

    def launched(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Start the computation on the model's device for tokens in CPU memory, without waiting for it."""
        return self._conditionals(tokens, masked, self.device)

    def _conditionals(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], device: torch.device
    ) -> Float[Tensor, "B D"]:
        log_probs, cells = [], []
        for call in self._calls(tokens, masked):
            with self._precision():
                inputs = self._adapter.inputs(call.shown, call.context, call.lengths)
                log_probs.append(self._adapter.log_probs(inputs, call.targets, call.places).to(device))
            cells.append((call.row, call.column))
        if not log_probs:
            return torch.zeros(masked.shape, device=device)
        values = torch.cat(log_probs)
        row, column = (sent(torch.cat(part), device) for part in zip(*cells, strict=True))
        return values.new_zeros(masked.shape).index_put((row, column), values)

    def log_distributions(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "n V"]:
        """log p(v | x_visible) of every vocabulary token v at every masked position, nats, shape (n, V).

        The masked places are listed row by row. The values of the masked tokens are not read. The result
        takes n·V numbers of memory.

        Example:
            >>> uniform = MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)
            >>> tokens = Tokens(*(torch.tensor(x) for x in ([[0, 1]], [[True, True]], [[False, False]], [7])))
            >>> uniform.log_distributions(tokens, torch.tensor([[True, False]])).exp()
            tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
        """
        return self._distributions(tokens, masked, unmasked=False)

    def unmasked_log_distributions(self, tokens: Tokens, places: Bool[Tensor, "B D"]) -> Float[Tensor, "n V"]:
        """log p(v | x) of every token v at some positions with nothing hidden, row by row, nats, shape (n,
        V).

        The model sees the token that it predicts, so that this is no conditional probability: sums of it have
        the kind `pseudo`.

        Example:
            >>> copies = MaskedLM.from_callable(
            ...     lambda ids: torch.nn.functional.one_hot(ids, 4).float(), mask_token_id=3)
            >>> tokens = Tokens(*(torch.tensor(x) for x in ([[0, 1]], [[True, True]], [[False, False]], [7])))
            >>> copies.unmasked_log_distributions(tokens, torch.tensor([[False, True]])).argmax().item()
            1
        """
        return self._distributions(tokens, places, unmasked=True)

    def _distributions(
        self, tokens: Tokens, places: Bool[Tensor, "B D"], *, unmasked: bool
    ) -> Float[Tensor, "n V"]:
        log_probs, cells = [], []
        width = getattr(getattr(self.network, "config", None), "hidden_size", None)
        for call in self._calls(tokens, places, width):
            with self._precision():
                seen = call.ids if unmasked else call.shown
                inputs = self._adapter.inputs(seen, call.context, call.lengths)
                log_probs.append(self._adapter.log_distributions(inputs, call.places))
            cells.append(call.row * tokens.width + call.column)
        return torch.cat(log_probs).to(places.device)[torch.argsort(torch.cat(cells))]

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Compute in the chosen precision, and restore torch's own afterwards."""
        before = torch.get_float32_matmul_precision()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bool(self.in_bfloat16)):
            if self.in_tf32:
                torch.set_float32_matmul_precision("high")
            try:
                yield
            finally:
                if self.in_tf32:
                    torch.set_float32_matmul_precision(before)

    def _calls(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], width: int | None = None
    ) -> Iterator[_Call]:
        """Group the rows that have a hidden token into calls of the network, by length."""
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
        order = torch.argsort(~present, dim=1, stable=True)[:, :longest]  # the present tokens, to the left
        ids, hidden, context = (x.gather(1, order) for x in (tokens.values, masked, tokens.context))
        parts = self._sizes.fixed(n_present.cpu().numpy(), self.device, pads=self._adapter.pads, width=width)
        for part in parts:
            rows = torch.from_numpy(part).to(order.device)
            width = int(n_present[part[0]])
            at, to = torch.nonzero(hidden[rows, :width], as_tuple=True)
            if len(at) == 0:
                continue
            cells = rows[at], order[rows[at], to]
            here = ids[rows, :width]
            shown = here.masked_fill(hidden[rows, :width], self.mask_token_id)
            columns = (shown, here, here[at, to], at, to, context[rows, :width], n_present[rows])
            shown, here, targets, at, to, roles, lengths = (sent(x, self.device) for x in columns)
            yield _Call(shown, here, targets, (at, to), roles, lengths, *cells)

    def hidden_log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, "B L"],
        hidden: Bool[Tensor, "B L"],
        network: nn.Module | None = None,
    ) -> Float[Tensor, " n"]:
        """log p of the hidden tokens of a prepared batch, row by row; for training loops.

        Args:
            inputs: the arguments of the transformer: ids with the hidden ones replaced, attention mask, ...
            targets: shape (B, L); the ids, read at hidden positions.
            hidden: shape (B, L); the tokens to predict.
            network: this model's transformer wrapped for distributed training, to call instead of the
                transformer itself.

        Returns:
            Shape (n,), nats; differentiable.

        Example:
            >>> uniform = MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 4), mask_token_id=4)
            >>> hidden, targets = torch.tensor([[True, False]]), torch.tensor([[0, 1]])
            >>> uniform.hidden_log_probs({"input_ids": torch.tensor([[4, 1]])}, targets, hidden)
            tensor([-1.3863])
        """
        return self._adapter.batch_log_probs(inputs, targets[hidden], hidden, network)

    def save(self, folder: str | Path) -> None:
        """Save a transformers model and its tokenizer in a folder for `from_pretrained`."""
        if not hasattr(self.network, "save_pretrained"):
            raise InputError("this network cannot save itself; save its weights yourself")
        with quiet(), replacing_files(Path(folder)) as new:
            self.network.save_pretrained(str(new))
        self.save_tokenizer(folder)

    def save_tokenizer(self, folder: str | Path) -> None:
        """Save only the tokenizer in a folder."""
        if self.tokenizer is None:
            return
        for name in _OF_LOADING:
            getattr(self.tokenizer, "init_kwargs", {}).pop(name, None)
        with quiet(), replacing_files(Path(folder)) as new:
            self.tokenizer.save_pretrained(str(new))

    def fingerprint_settings(self) -> dict[str, Any]:
        """The settings, besides weights and buffers, that determine the numbers, as JSON values."""
        tf32 = {"tf32": True} if self.in_tf32 else {}
        return {"mask_token_id": self.mask_token_id, **tf32, **self._adapter.settings()}
