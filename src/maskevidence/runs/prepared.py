"""A model and the observations to score it on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.precise import Precise, estimate_evidence
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.kind import kinds
from maskevidence.core.model import base_measure_of, device_of, fingerprint, to_device_of
from maskevidence.core.packed_tokens import Observations, StoredTokens
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.tokens import Tokens
from maskevidence.runs.directory import Beginnings
from maskevidence.runs.folder import seal
from maskevidence.runs.manifest import DataSource, Manifest


@dataclass(frozen=True)
class Prepared:
    """A fitted or loaded model, and the observations to score."""

    model: Any  # the model
    tokens: Observations
    # origin of the observations as in run.json, with notes on the preparation
    source: DataSource
    fitted: bool = False  # whether the model was fitted for this score
    # other settings that affect the numbers and are stored with them, such as the density of pixels
    details: dict[str, Any] = field(default_factory=dict)
    code: str | None = None  # SHA-256 of the user's code; None for other models
    revision: str | None = None  # branch, tag or commit of a model on the hub, if given
    # loads the model in another process; None if the model itself can be sent there
    load: Callable[[], Any] | None = None
    # loads the model in float32, if it computes in half precision and memory holds both; otherwise None
    in_float32: Callable[[], Any] | None = None
    tokenizer: Any = None  # for masked language models; None for others
    # the scored texts, one or two per observation unless they were split or joined; None for
    # other models
    texts: tuple[tuple[str, ...], ...] | None = None
    labels: tuple[str, ...] | None = None  # label of each observation; None if they have none
    beginnings: Beginnings | None = None  # of the text of each observation; None for other data

    @property
    def in_memory(self) -> Tokens:
        """The observations in memory."""
        return self.tokens if isinstance(self.tokens, Tokens) else self.tokens.whole()

    @property
    def notes(self) -> list[str]:
        """Notes on the preparation of model and data, one sentence each."""
        return self.source.notes

    def with_note(self, note: str) -> "Prepared":
        """Add a note."""
        return replace(self, source=self.source.model_copy(update={"notes": [*self.notes, note]}))

    def read_with(self, data: str, options: dict[str, Any]) -> "Prepared":
        """Record the DATA word and the options for reading it, except options that are None or False."""
        chosen = {name: value for name, value in options.items() if value}
        return replace(self, source=self.source.model_copy(update={"name": data, "options": chosen}))


def recorded(model: Any) -> dict[str, str | None]:
    """Names of a model's precision and device; None for a model without parameters.

    Example:
        >>> import maskevidence as me
        >>> recorded(me.models.PPCA(3, 1))
        {'dtype': 'float64', 'device': 'cpu'}
    """
    device = device_of(model)
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    parameters = (parameter for module in modules[:1] for parameter in module.parameters())
    dtype = getattr(model, "dtype", None) or next((each.dtype for each in parameters), None)
    if any(getattr(module, "in_bfloat16", False) for module in modules):
        dtype = torch.bfloat16
    if any(getattr(module, "in_tf32", False) for module in modules):
        dtype = "tf32"
    return {
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "device": None if device is None else str(device),
    }


def score_prepared(
    prepared: Prepared, scoring: Scoring, precise: Precise | None = None
) -> tuple[dict[str, Any], EvidenceEstimate]:
    """Estimate the evidence of a prepared model in memory.

    Args:
        scoring: how masks are drawn, their seed, and how many go into one call of the model.
        precise: draws as many masks as an error takes, in place of the design; None for the design.

    Returns:
        What `estimate.json` holds, and the estimate. A model with a closed form has its mean over the same
        rows as `closed_form`.
    """
    key = scoring.key
    if isinstance(prepared.tokens, StoredTokens):
        raise InputError(
            f"{prepared.source.name!r} is larger than the memory that is free; give --out FOLDER, into which "
            "it is scored by row groups"
        )
    estimate = estimate_evidence(
        prepared.model,
        prepared.in_memory,
        scoring.design if precise is None else precise,
        seed=key.seed,
        masks=key.masks,
        batch_size=scoring.batch_size,
        per_token=scoring.per_token,
        refine=False,  # `prepare` refined the model and noted it
    )
    if hasattr(prepared.model, "log_evidence"):
        with torch.no_grad():
            tokens = to_device_of(prepared.model, prepared.in_memory)
            values = prepared.model.log_evidence(tokens).double().cpu().numpy()
        estimate = replace(estimate, closed_form=values[np.argsort(tokens.ids.cpu().numpy())])
    if hasattr(prepared.model, "notes_on"):  # `prepare`, which knows the words of the table, noted these
        noted = prepared.model.notes_on(prepared.in_memory)
        estimate = replace(estimate, notes=tuple(note for note in estimate.notes if note not in noted))
    return content_of(estimate, prepared.source, prepared.details), estimate


def content_of(estimate: EvidenceEstimate, source: DataSource, details: Mapping[str, Any]) -> dict[str, Any]:
    """What estimate.json holds: the estimate, notes on the data first, and what kinds add to the details."""
    content = estimate.to_dict()
    content["notes"] = list(dict.fromkeys([*source.notes, *estimate.notes]))
    if details:
        content |= details
        for kind in kinds():
            content |= kind.summary(details, estimate.log_evidence, estimate.curve)
    return content


def manifest_of(
    model: str, prepared: Prepared, scoring: Scoring, rows_per_block: int, **others: Any
) -> Manifest:
    """Make the manifest of a score."""
    where = recorded(prepared.model)
    return Manifest(
        model=model,
        revision=prepared.revision,
        model_words=None if prepared.fitted else getattr(prepared.model, "in_words", lambda: None)(),
        model_fingerprint=_fingerprint(prepared),
        conditionals=prepared.model.conditionals,
        base_measure=base_measure_of(prepared.model),
        data=prepared.source,
        design=scoring.design.settings(),
        masks=scoring.key.masks,
        token_scores=scoring.per_token,
        seed=scoring.key.seed,
        rows_per_block=rows_per_block,
        details=prepared.details,
        dtype=where["dtype"],
        devices=[] if where["device"] is None else [where["device"]],
        **others,
    )


def _fingerprint(prepared: Prepared) -> str | None:
    """Fingerprint of the model's weights, settings and code; of a fitted model, its code's or None."""
    own = None if prepared.fitted else fingerprint(prepared.model)
    return own if prepared.code is None else seal([own, prepared.code])
