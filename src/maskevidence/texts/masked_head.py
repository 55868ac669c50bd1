"""The vocabulary head and the end of the last layer at masked positions only, for any architecture.

The head is the outermost part of the network that turns hidden states into logits: it ends in the output
embeddings and may begin with a dense layer. A forward pre-hook takes the hidden states away from it and ends
the network's own call, which computes no logits; the head is then called on a few masked positions at a time.
What follows the last attention, such as the dense layers of the last block, treats each position by itself,
too: a forward hook keeps only masked positions from there on. A trial on a few tokens finds both and checks
that they give the network's own logits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.support.devices import alone_with

PROBE_LENGTH = 8
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
_TELLING = 4  # times the tolerance by which logits must differ between places, or a trial tells nothing
_LARGEST_LOGIT = 1e5  # beyond it, float32 rounds differences of 0.01 nats away
_LEAST = -100.0  # nats; what is less probable has no probability
_CALLS_TRIED = 20  # as many calls of modules follow the last attention, or fewer
_NOT_ALONE = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)

Places = tuple[Int64[Tensor, " n"], Int64[Tensor, " n"]]


class Cut(NamedTuple):
    """A call of a module after which each position is processed independently.

    A module that several layers share is called several times: `call` says which call is meant, from 0.
    """

    module: nn.Module
    call: int


class _HeadReached(Exception):
    """Stops the network's call when it reaches the head."""


class Captured:
    """The arguments of a head's call: hidden states (B, L, H), other arguments, and the autocast state."""

    hidden: Tensor | None = None
    rest: tuple[Any, ...] = ()
    keywords: dict[str, Any]
    precision: torch.autocast


@contextmanager
def input_taken_from(head: nn.Module) -> Iterator[Captured]:
    """Stop the network's call at the head, and capture the head's arguments."""
    captured = Captured()

    def take(_module: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        captured.hidden, captured.rest, captured.keywords = args[0], args[1:], keywords
        device = args[0].device.type
        captured.precision = torch.autocast(
            device, torch.get_autocast_dtype(device), enabled=torch.is_autocast_enabled(device)
        )
        raise _HeadReached

    handle = head.register_forward_pre_hook(take, with_kwargs=True)
    try:
        yield captured
    except _HeadReached:
        pass
    finally:
        handle.remove()


@contextmanager
def only_after(cut: Cut, shape: torch.Size, places: Places) -> Iterator[list[Cut]]:
    """After a given call, keep only some positions, as one row (1, n, H), while the context is open.

    A network that pads its input by itself (Longformer) works on all positions.

    Yields:
        A list that holds the cut once it is made.
    """
    calls: Counter[Cut] = Counter()
    made: list[Cut] = []

    def keep(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        calls[cut] += 1
        first, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        if calls[cut] != cut.call + 1 or first.shape[:2] != shape:
            return None
        made.append(cut)
        return first[places][None] if rest is None else (first[places][None], *rest)

    handle = cut.module.register_forward_hook(keep)
    try:
        yield made
    finally:
        handle.remove()


@contextmanager
def only_positions(head: nn.Module, hidden: Bool[Tensor, "B L"]) -> Iterator[None]:
    """Pass only hidden positions to the head, as one row (1, n, H), while the context is open.

    The model's own call then returns their logits, so that a wrapper around the model, such as that of
    distributed training, sees the whole model.
    """

    def keep(_module: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return (args[0][hidden][None], *args[1:]), keywords

    handle = head.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class Head:
    """A network's vocabulary head, computed at hidden positions only.

    A network with `shifted` predicts a token at the place before it; `left_out` is the id of a token without
    probability.
    """

    network: Any  # called with keywords
    module: nn.Module  # the outermost module whose output at a position is the logits of that position
    # the embeddings that the module's output is multiplied by, if the network does so by itself
    tied: Tensor | None = None
    # the first call after which each position is treated by itself; None if there is none
    cut: Cut | None = None

    def log_probs(
        self,
        inputs: Mapping[str, Tensor],
        targets: Int64[Tensor, " n"],
        hidden: Places,
        rows: int,
    ) -> Float[Tensor, " n"]:
        """log p of one call's hidden tokens, row by row; the head processes `rows` tokens at a time."""
        with alone_with(self.network):
            captured, states = self._states(inputs, hidden)
            with captured.precision:
                parts = [
                    target_log_probs(self._logits(captured, piece), target)
                    for piece, target in zip(
                        torch.split(states, rows), torch.split(targets, rows), strict=True
                    )
                ]
        return torch.cat(parts) if parts else states.new_zeros(0)

    def log_distributions(self, inputs: Mapping[str, Tensor], hidden: Places) -> Float[Tensor, "n V"]:
        """log p of every vocabulary token at one call's hidden positions, row by row."""
        with alone_with(self.network):
            captured, states = self._states(inputs, hidden)
            with captured.precision:
                return log_softmax(self._logits(captured, states))

    def _states(self, inputs: Mapping[str, Tensor], hidden: Places) -> tuple[Captured, Float[Tensor, "n H"]]:
        """Run the network up to the head; return the head's arguments and the states that predict hidden
        tokens.
        """
        row, column = hidden
        if getattr(self.network, "shifted", False):
            column = (column - 1).clamp(min=0)
        made: list[Cut] = []
        with ExitStack() as hooks:
            if self.cut is not None:
                made = hooks.enter_context(only_after(self.cut, inputs["input_ids"].shape, (row, column)))
            captured = hooks.enter_context(input_taken_from(self.module))
            self.network(**inputs)
        assert captured.hidden is not None
        return captured, captured.hidden[0] if made else captured.hidden[row, column]

    def _logits(self, captured: Captured, states: Float[Tensor, "n H"]) -> Float[Tensor, "n V"]:
        logits = self.module(states[None], *captured.rest, **captured.keywords).squeeze(0)
        if self.tied is not None:
            logits = nn.functional.linear(logits, self.tied)
        if getattr(self.network, "left_out", None) is not None:
            logits[..., self.network.left_out] = -torch.inf
        return logits

    def gives(
        self, ids: Int64[Tensor, "B L"], hidden: Bool[Tensor, "B L"], expected: Float[Tensor, "n V"]
    ) -> bool:
        """Whether the head, called alone after its cut, reproduces the expected logits."""
        try:
            captured, states = self._states({"input_ids": ids}, places_of_hidden(hidden))
            assert captured.hidden is not None
            if captured.hidden.ndim != 3 or (self.cut and captured.hidden.shape[:2] != (1, len(expected))):
                return False
            with captured.precision:
                logits = self._logits(captured, states)
        except _NOT_ALONE:  # positions are not treated alone, or belong to a residual of all of them
            return False
        return isinstance(logits, Tensor) and close(logits, expected)


def places_of_hidden(hidden: Bool[Tensor, "b L"]) -> Places:
    """The rows and columns of hidden tokens, row by row."""
    row, column = hidden.nonzero(as_tuple=True)
    return row, column


def target_log_probs(logits: Float[Tensor, "n V"], targets: Int64[Tensor, " n"]) -> Float[Tensor, " n"]:
    """log softmax(logits) at the targets, in float32 at least, nats, shape (n,)."""
    return -nn.functional.cross_entropy(_single(logits), targets, reduction="none")


def log_softmax(logits: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
    """log softmax(logits) over the vocabulary, in float32 at least, nats."""
    return torch.log_softmax(_single(logits), dim=-1)


def _single(logits: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
    return logits.float() if logits.element_size() < 4 else logits


def logits_of(answer: Any) -> Any:
    """Extract the logits from a network's output: a tensor, a tuple, or an object with a `logits` field."""
    for name in ("logits", "sequence_logits"):  # of a transformers model, of ESM-C's own package
        answer = getattr(answer, name, answer)
    return answer[0] if isinstance(answer, tuple) else answer


def trial_inputs(
    n_ids: int, pad_token_id: int, length: int
) -> tuple[Int64[Tensor, "2 L"], Bool[Tensor, "2 L"]]:
    """Two rows of distinct ids without padding, and the positions whose logits are compared."""
    ids = (torch.arange(1, length + 1) * 7919) % n_ids
    ids = torch.where(ids == pad_token_id, (ids + 1) % n_ids, ids)[None]
    ids = torch.cat([ids, ids.flip(1)])
    hidden = torch.zeros_like(ids, dtype=torch.bool)
    hidden[0, 1::2], hidden[1, 0] = True, True
    return ids, hidden


def trial_tells(name: str, logits: Float[Tensor, "n V"]) -> bool:
    """Whether the trial's logits differ between positions, so that a wrong position would be noticed."""
    largest = float(logits.amax(-1).abs().max())
    if largest > _LARGEST_LOGIT:
        raise InputError(
            f"the logits of {name} reach {largest:.0e}, where float32 rounds their "
            "differences away; its weights are damaged: save or download them again"
        )
    return not close(logits, logits[:1].expand_as(logits), _TELLING)


def find_head(
    network: Any, ids: Int64[Tensor, "2 L"], hidden: Bool[Tensor, "2 L"], expected: Float[Tensor, "n V"]
) -> Head | None:
    """The outermost module that reproduces the network's logits, with its cut; None if there is none."""
    heads = _possible_heads(network, ids, expected.shape[1])
    head = next((head for head in heads if head.gives(ids, hidden, expected)), None)
    if head is None:
        return None
    found = head
    for cut in reversed(_calls_of(network, ids, head.module)[-_CALLS_TRIED:]):
        shorter = replace(head, cut=cut)
        if shorter.gives(ids, hidden, expected):
            found = shorter
    return found


def _possible_heads(network: Any, ids: Int64[Tensor, "2 L"], n_values: int) -> list[Head]:
    """The modules that contain the output embeddings, outermost first, without the network itself."""
    embeddings = network.get_output_embeddings()
    if embeddings is None:  # the last layer of the vocabulary's size
        layers = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Embedding)]
        embeddings = next((layer for layer in reversed(layers) if len(layer.weight) == n_values), None)
    if isinstance(embeddings, nn.Embedding):  # tied: they multiply what a module answers
        ended = reversed(_calls_of(network, ids)[-3:])
        return [Head(network, call.module, embeddings.weight) for call in ended]
    path = next((name for name, module in network.named_modules() if module is embeddings), "")
    parts = path.split(".") if path else []
    return [Head(network, network.get_submodule(".".join(parts[: i + 1]))) for i in range(len(parts))]


def _calls_of(network: Any, ids: Int64[Tensor, "B L"], head: nn.Module | None = None) -> list[Cut]:
    """The module calls, up to the head, that return a vector per position, in the order in which they end."""
    n_calls: Counter[nn.Module] = Counter()
    ended: list[Cut] = []

    def record(module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        first = output[0] if type(output) is tuple and output else output
        if isinstance(first, Tensor) and first.ndim == 3 and first.shape[:2] == ids.shape:
            ended.append(Cut(module, n_calls[module]))
        n_calls[module] += 1

    with ExitStack() as hooks:
        for module in network.modules():
            hooks.callback(module.register_forward_hook(record).remove)
        if head is not None:
            hooks.enter_context(input_taken_from(head))
        network(input_ids=ids)
    return ended


def padding_is_ignored(
    network: Any, ids: Int64[Tensor, "2 L"], hidden: Bool[Tensor, "2 L"], pad_token_id: int
) -> bool:
    """Whether a text's logits stay the same when padding follows it."""
    padding = torch.full_like(ids, pad_token_id)[:, : ids.shape[1] // 2]
    present = torch.cat([torch.ones_like(ids), torch.zeros_like(padding)], dim=1)
    alone = logits_of(network(input_ids=ids, attention_mask=torch.ones_like(ids)))
    padded = logits_of(network(input_ids=torch.cat([ids, padding], dim=1), attention_mask=present))
    return close(padded[:, : ids.shape[1]][hidden], alone[hidden])


def close(a: Float[Tensor, "n V"], b: Float[Tensor, "n V"], times: float = 1.0) -> bool:
    """Whether all non-negligible probabilities agree within `times` the rounding of the logits' dtype."""
    if a.shape != b.shape:
        return False
    first, second = log_softmax(a), log_softmax(b)
    largest = b.masked_fill(second <= _LEAST, 0.0).abs().max()
    tolerance = times * _TOLERANCE.get(a.dtype, 2e-2) * max(1.0, float(largest))
    return bool((first.clamp(min=_LEAST) - second.clamp(min=_LEAST)).abs().max() <= tolerance)
