"""The vocabulary head and the end of the last layer at masked positions only, for any architecture.

The head is the outermost part of the model that turns hidden states into logits: it ends in the output
embeddings and may begin with a dense layer. A forward pre-hook takes the hidden states away from it, so that
the model's own call computes no logits; the head is then called on a few masked positions at a time. What
follows the last attention, such as the dense layers of the last block, treats each position by itself, too: a
forward hook keeps only masked positions from there on. A trial on a few tokens finds both and checks that
they give the model's own logits.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError

PROBE_LENGTH = 8
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
_TELLING = 4  # times the tolerance by which logits must differ between places, or a trial tells nothing
_LARGEST_LOGIT = 1e5  # beyond it, float32 rounds differences of 0.01 nats away
_LEAST = 100.0  # nats below the largest logit; what lies deeper has no probability
_CALLS_TRIED = 20  # as many calls of modules follow the last attention, or fewer
_NOT_ALONE = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)


class Cut(NamedTuple):
    """A call of a module after which each position is treated by itself.

    A module that several layers share is called several times: `call` says which call is meant, from 0.
    """

    module: nn.Module
    call: int


class Captured:
    """The arguments that a module was called with: hidden states of shape (B, L, H), and the rest."""

    hidden: Tensor | None = None
    rest: tuple[Any, ...] = ()
    keywords: dict[str, Any]


@contextmanager
def input_taken_from(head: nn.Module) -> Iterator[Captured]:
    """Within the context the head receives no positions; the arguments meant for it are captured."""
    captured = Captured()

    def take(_module: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        captured.hidden, captured.rest, captured.keywords = args[0], args[1:], keywords
        return (args[0][:, :0], *args[1:]), keywords

    handle = head.register_forward_pre_hook(take, with_kwargs=True)
    try:
        yield captured
    finally:
        handle.remove()


@contextmanager
def only_after(cut: Cut, hidden: Bool[Tensor, "B L"]) -> Iterator[None]:
    """Within the context the model works on the hidden positions only from a call on, as one row (1, n, H).

    A model that pads its input by itself (Longformer) works on all positions.
    """
    calls: Counter[Cut] = Counter()

    def keep(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        calls[cut] += 1
        first, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        if calls[cut] != cut.call + 1 or first.shape[:2] != hidden.shape:
            return None
        return first[hidden][None] if rest is None else (first[hidden][None], *rest)

    handle = cut.module.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def only_positions(head: nn.Module, hidden: Bool[Tensor, "B L"]) -> Iterator[None]:
    """Within the context the head receives the hidden positions only, as one row of shape (1, n, H).

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


def log_probs_in_pieces(
    head: nn.Module, captured: Captured, hidden: Float[Tensor, "n H"], targets: Int64[Tensor, " n"], rows: int
) -> Float[Tensor, " n"]:
    """log p of each target, shape (n,); the head is called on `rows` positions at a time."""
    parts = [
        target_log_probs(head(piece[None], *captured.rest, **captured.keywords)[0], target)
        for piece, target in zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True)
    ]
    return torch.cat(parts) if parts else hidden.new_zeros(0)


def target_log_probs(logits: Float[Tensor, "n V"], targets: Int64[Tensor, " n"]) -> Float[Tensor, " n"]:
    """log softmax(logits) at the targets, in float32 at least, nats, shape (n,)."""
    return -nn.functional.cross_entropy(_single(logits), targets, reduction="none")


def log_softmax(logits: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
    """log softmax(logits) over the vocabulary, in float32 at least, nats."""
    return torch.log_softmax(_single(logits), dim=-1)


def _single(logits: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
    return logits.float() if logits.element_size() < 4 else logits


def probe_inputs(n_ids: int, pad_token_id: int, length: int) -> Int64[Tensor, "1 L"]:
    """A few different ids without padding."""
    ids = (torch.arange(1, length + 1) * 7919) % n_ids
    return torch.where(ids == pad_token_id, (ids + 1) % n_ids, ids)[None]


def trial_tells(model: Any, ids: Int64[Tensor, "1 L"]) -> bool:
    """Whether the logits of a trial differ between places, so that a wrong place would be seen.

    Raises:
        InputError: logits so large that float32 rounds their differences away.
    """
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    largest = float(logits.amax(-1).abs().max())
    if largest > _LARGEST_LOGIT:
        raise InputError(
            f"the logits of {type(model).__name__} reach {largest:.0e}, where float32 rounds their "
            "differences away; its weights are damaged: save or download them again"
        )
    return not close(logits, logits[:, :1].expand_as(logits), _TELLING)


def find_head(model: Any, ids: Int64[Tensor, "1 L"]) -> nn.Module | None:
    """The outermost module whose output at a position is the model's logits at that position, or None."""
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    for module in _around_output_embeddings(model):
        try:
            with torch.no_grad(), input_taken_from(module) as captured:
                model(input_ids=ids)
            if captured.hidden is None or captured.hidden.shape[:2] != ids.shape:
                continue
            with torch.no_grad():
                again = module(captured.hidden[:, 1::2], *captured.rest, **captured.keywords)
        except _NOT_ALONE:
            continue  # this part cannot be called by itself
        if isinstance(again, Tensor) and close(again, logits[:, 1::2]):
            return module
    return None


def find_cut(model: Any, head: nn.Module, ids: Int64[Tensor, "1 L"]) -> Cut | None:
    """The first call after which the model treats each position by itself up to its head, or None."""
    ids = torch.cat([ids, ids.flip(1)])
    hidden = torch.zeros_like(ids, dtype=torch.bool)
    hidden[0, 1::2], hidden[1, 0] = True, True
    with torch.no_grad():
        expected = model(input_ids=ids).logits[hidden]
    found = None
    for cut in reversed(_calls_before(model, head, ids)[-_CALLS_TRIED:]):
        try:
            with torch.no_grad(), only_after(cut, hidden), input_taken_from(head) as captured:
                model(input_ids=ids)
            if captured.hidden is None or captured.hidden.shape[:2] != (1, len(expected)):
                continue
            with torch.no_grad():
                again = head(captured.hidden, *captured.rest, **captured.keywords)
        except _NOT_ALONE:
            continue  # positions are not treated alone, or belong to a residual of all of them
        if isinstance(again, Tensor) and close(again[0], expected):
            found = cut
    return found


def _calls_before(model: Any, head: nn.Module, ids: Int64[Tensor, "B L"]) -> list[Cut]:
    """The calls of modules that answer with a vector per position, in the order in which they end."""
    n_calls: Counter[nn.Module] = Counter()
    ended: list[Cut] = []

    def record(module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        first = output[0] if type(output) is tuple and output else output
        if isinstance(first, Tensor) and first.ndim == 3 and first.shape[:2] == ids.shape:
            ended.append(Cut(module, n_calls[module]))
        n_calls[module] += 1

    with torch.no_grad(), input_taken_from(head), ExitStack() as hooks:
        for module in model.modules():
            hooks.callback(module.register_forward_hook(record).remove)
        model(input_ids=ids)
    return ended


def padding_is_ignored(model: Any, ids: Int64[Tensor, "1 L"], pad_token_id: int) -> bool:
    """Whether the logits of a text do not change when padding follows it."""
    padding = torch.full_like(ids, pad_token_id)[:, : ids.shape[1] // 2]
    present = torch.cat([torch.ones_like(ids), torch.zeros_like(padding)], dim=1)
    with torch.no_grad():
        alone = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        padded = model(input_ids=torch.cat([ids, padding], dim=1), attention_mask=present).logits
    return close(padded[:, : ids.shape[1]], alone)


def close(a: Tensor, b: Tensor, times: float = 1.0) -> bool:
    """Whether logits with a probability above 0 are equal, up to some times the rounding of their dtype."""
    if a.shape != b.shape:
        return False
    least = b.amax(-1, keepdim=True) - _LEAST
    a, b = a.maximum(least), b.maximum(least)
    tolerance = times * _TOLERANCE.get(a.dtype, 2e-2) * max(1.0, float(b.abs().max()))
    return bool((a - b).abs().max() <= tolerance)


def _around_output_embeddings(model: Any) -> list[nn.Module]:
    """The modules that contain the output embeddings, outermost first, except the model itself."""
    embeddings = model.get_output_embeddings()
    path = next((name for name, module in model.named_modules() if module is embeddings), "")
    parts = path.split(".") if path else []
    return [model.get_submodule(".".join(parts[: i + 1])) for i in range(len(parts))]
