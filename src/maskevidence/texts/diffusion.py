"""Diffusion language models that hide tokens: how to call each family and read its outputs.

They differ in what their outputs at a hidden place are: the logits of that place or of the place before
(Dream), with an entry for the mask token that has to be left out (MDLM, SEDD, BD3-LM), given a time or none.
Models whose noise is not hiding, or that write over what is visible, have no such conditionals.
"""

import inspect
import re
from dataclasses import dataclass
from typing import Any, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.texts.masked_head import logits_of
from maskevidence.texts.text_options import DiffusionName

# What has no conditionals of hidden tokens given visible ones, by the name of the model or of its type.
_REFUSED = {
    r"llada-?_?2[._-]1": (
        "it edits tokens that are visible, so that no factorisation over hidden ones is left"
    ),
    r"diffusion-?_?gemma": "its noise puts random tokens in place of others and hides none",
}
_LEAST_VISIBLE = 1e-3  # the share of visible tokens at SEDD's largest noise


@dataclass(frozen=True)
class Diffusion:
    """How to call a family of diffusion language models and read its outputs.

    Attributes:
        name: of the family.
        mask_token_id: the id of its mask token; None if it is the last one of the vocabulary.
        shifted: whether the logits at a place are those of the next one.
        without_mask: whether the mask token's entry is left out before the softmax.
        time: the argument that takes a time, which is zero, or "sigma" for the noise that belongs to the
            share of hidden tokens; None for none.
        copy: whether a second copy of the text follows, which the attention of later blocks reads.
        mask_of_keys: whether an attention mask is given as booleans of shape (B, 1, 1, L).
        auto_class: the class of transformers that loads it with the model's own code.
        source: the paper.
    """

    name: DiffusionName
    mask_token_id: int | None = None
    shifted: bool = False
    without_mask: bool = False
    time: str | None = None
    copy: bool = False
    mask_of_keys: bool = False
    auto_class: str = "AutoModel"
    source: str = ""


DIFFUSIONS = {
    one.name: one
    for one in (
        Diffusion("llada", 126336, source="Nie et al. 2025"),
        Diffusion("dream", 151666, shifted=True, mask_of_keys=True, source="Ye et al. 2025"),
        Diffusion(
            "mdlm",
            without_mask=True,
            time="timesteps",
            auto_class="AutoModelForMaskedLM",
            source="Sahoo et al. 2024",
        ),
        Diffusion("sedd", without_mask=True, time="sigma", source="Lou et al. 2024"),
        Diffusion(
            "bd3lm",
            without_mask=True,
            time="timesteps",
            copy=True,
            auto_class="AutoModelForMaskedLM",
            source="Arriola et al. 2025",
        ),
    )
}


def named_diffusion(name: str) -> Diffusion:
    """Look up a family by its name.

    Raises:
        InputError: an unknown name.

    Example:
        >>> named_diffusion("dream").shifted
        True
    """
    if name not in get_args(DiffusionName):
        raise unknown_name("diffusion model", name, get_args(DiffusionName))
    return DIFFUSIONS[name]  # type: ignore[index]


def recognised_diffusion(model_type: str, name: str) -> Diffusion | None:
    """Recognise a family by a configuration's model type or the model's name; None for other models.

    Raises:
        InputError: a model without conditionals of hidden tokens given visible ones.

    Example:
        >>> recognised_diffusion("Dream", "Dream-org/Dream-v0-Base-7B").name
        'dream'
        >>> recognised_diffusion("llada2_moe", "inclusionAI/LLaDA2.1-mini")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 'inclusionAI/LLaDA2.1-mini' cannot be scored: it edits tokens \
that are visible, so that no factorisation over hidden ones is left
    """
    for pattern, reason in _REFUSED.items():
        if re.search(pattern, f"{model_type} {name}", re.IGNORECASE):
            raise InputError(f"{name!r} cannot be scored: {reason}")
    return DIFFUSIONS.get(model_type.lower())  # type: ignore[call-overload]


class DiffusionNetwork(nn.Module):
    """A diffusion language model as a function from ids to logits; their softmax is the conditionals.

    Args:
        network: maps ids, and a time if it takes one, to logits or to an output with `logits`.
        diffusion: how it is called and read.
        mask_token_id: the id of the mask token.

    Attributes:
        max_tokens: the longest text that it reads, if its configuration says.
        may_pad: whether texts of different lengths may share a call.
        pad_token_id: what follows the shorter ones.
        shifted: whether the hidden state of a place predicts the next token.
        left_out: the id that gets no probability; None if there is none.
        config: of the network, if it has one.

    Example:
        >>> next_token = DiffusionNetwork(lambda ids: torch.eye(4)[ids] * 9, named_diffusion("dream"), 3)
        >>> next_token(torch.tensor([[0, 1, 3]])).argmax(-1)      # the logits of the place before
        tensor([[0, 0, 1]])
    """

    def __init__(self, network: Any, diffusion: Diffusion, mask_token_id: int) -> None:
        super().__init__()
        self.network, self.diffusion, self.mask_token_id = network, diffusion, mask_token_id
        self.config = getattr(network, "config", None)
        limits = (getattr(self.config, name, None) for name in _LENGTHS)
        self.max_tokens = next((int(limit) for limit in limits if isinstance(limit, int)), None)
        padding = mask_token_id if diffusion.copy else getattr(self.config, "pad_token_id", None)
        self.pad_token_id = int(padding or 0)
        self.shifted, self.left_out = diffusion.shifted, mask_token_id if diffusion.without_mask else None
        takes = arguments_of(network)
        self._takes_mask = diffusion.time is None and "attention_mask" in takes
        self.may_pad = self._takes_mask or (diffusion.copy and self.max_tokens is not None)

    def get_output_embeddings(self) -> nn.Module | None:
        """The layer that computes the logits, if the network names it."""
        return getattr(self.network, "get_output_embeddings", lambda: None)()

    def forward(
        self, input_ids: Int64[Tensor, "B L"], attention_mask: Int64[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L V"]:
        """Logits at every position, shape (B, L, V); absent tokens have 0 in `attention_mask`."""
        arguments: dict[str, Tensor] = {}
        if self.diffusion.time == "sigma":
            visible = (input_ids != self.mask_token_id).float().mean(1)
            arguments["sigma"] = -visible.clamp(min=_LEAST_VISIBLE).log()
        elif self.diffusion.time is not None:
            arguments[self.diffusion.time] = torch.zeros(len(input_ids), device=input_ids.device)
        if attention_mask is not None and self._takes_mask and not bool(attention_mask.all()):
            keys = attention_mask.bool()[:, None, None] if self.diffusion.mask_of_keys else attention_mask
            arguments["attention_mask"] = keys
        shown = self._with_copy(input_ids) if self.diffusion.copy else input_ids
        logits = logits_of(self.network(shown, **arguments))[:, : input_ids.shape[1]]
        if self.shifted:
            logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        if self.left_out is not None:
            at_mask = torch.arange(logits.shape[-1], device=logits.device) == self.left_out
            logits = logits.masked_fill(at_mask, -torch.inf)
        return logits

    def _with_copy(self, ids: Int64[Tensor, "B L"]) -> Int64[Tensor, "B L2"]:
        """The ids twice, each copy padded with mask tokens to the length that the model reads.

        The copy shows hidden tokens no more than the text itself: only what is visible tells of earlier
        blocks. Places after the text belong to later blocks, which no block attends to.
        """
        missing = (self.max_tokens or ids.shape[1]) - ids.shape[1]
        filled = nn.functional.pad(ids, (0, missing), value=self.mask_token_id)
        return torch.cat([filled, filled], dim=1)

    def settings(self) -> dict[str, Any]:
        """The family's name, which determines the numbers besides the weights, as JSON values."""
        return {"diffusion": self.diffusion.name}


_LENGTHS = ("model_length", "max_sequence_length", "max_position_embeddings", "n_positions")


def arguments_of(network: Any) -> frozenset[str]:
    """The arguments of a network, or of the only module below it if it passes all on, as wrappers do.

    Such are the wrappers of peft and of torch.compile, which take `*args, **kwargs`.
    """
    takes = inspect.signature(getattr(network, "forward", network)).parameters
    below = list(network.children()) if isinstance(network, nn.Module) else []
    passed_on = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if len(below) == 1 and {each.kind for each in takes.values()} <= passed_on:
        return arguments_of(below[0])
    return frozenset(takes)
