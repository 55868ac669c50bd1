"""An estimate of the log evidence in a notebook."""

from contextlib import suppress
from typing import Any

import numpy as np

from maskevidence.display import html
from maskevidence.display.curve import curve_part
from maskevidence.display.curve_picture import axes_for, draw_on, set_title
from maskevidence.display.frames import data_frame
from maskevidence.errors import InputError
from maskevidence.estimate import EvidenceEstimate
from maskevidence.masks import design_from_settings
from maskevidence.observation_table import observation_table
from maskevidence.wording import (
    NOT_KNOWN,
    capital,
    count,
    data_error,
    digits_for,
    evidence_name,
    interval_95,
    kind_name,
    kind_words,
    number,
    orders_in_words,
    sentence,
    standard_error,
    typeset,
)


def estimate_line(estimate: EvidenceEstimate) -> str:
    """The estimate in one line."""
    digits = _digits(estimate)

    def error(value: float | None) -> str:
        return NOT_KNOWN if value is None else number(value, digits)

    return (
        f"EvidenceEstimate({number(estimate.log_evidence, digits)} nats per observation, "
        f"mask_se {error(estimate.mask_se)}, data_se {error(estimate.data_se)}, {kind_name(estimate.kind)}, "
        f"{count(estimate.n_observations, 'observation')})"
    )


def estimate_html(estimate: EvidenceEstimate) -> str:
    """The log evidence, its two errors, what kind of number it is, its curve and its notes."""
    digits = _digits(estimate)
    what = estimate.kind, estimate.design["name"]
    name = evidence_name(*what)
    interval = NOT_KNOWN
    if estimate.no_interval is None:
        interval = interval_95(*estimate.interval(), digits, typeset)
    mask_se = standard_error(estimate.mask_se, digits, typeset)
    data_se = data_error(estimate.data_se, estimate.mask_se, estimate.n_observations, digits, typeset)
    rows = [
        ["drawing of the masks", "mask_se", mask_se, interval],
        ["sampling of the observations", "data_se", data_se, ""],
    ]
    amount = f"{count(estimate.n_observations, 'observation')}, {count(estimate.n_masks, 'mask')}"
    return html.block(
        html.headline(f"{capital(name)} {typeset(estimate.log_evidence, digits)}", "nats per observation"),
        html.table(["standard error", "", "nats per observation", ""], rows, words=(0, 1, 3)),
        _orders(estimate, digits),
        html.paragraph(f"{capital(kind_name(estimate.kind))}: {sentence(kind_words(*what))}"),
        html.paragraph(
            f"{amount}; design {estimate.design['name']}, {estimate.masks} masks, seed {estimate.seed}."
        ),
        curve_part(estimate.curve),
        html.notes(estimate.notes),
    )


def estimate_plot(estimate: EvidenceEstimate, ax: Any, label: str) -> Any:
    """The curve on axes, with the log evidence and its errors as the title."""
    axes = axes_for(ax)
    draw_on(axes, {label: estimate.curve})
    if not axes.get_title():
        set_title(axes, _title(estimate))
    return axes


def estimate_frame(estimate: EvidenceEstimate) -> Any:
    """A data frame with a row for each observation; without mask_se and mask_df for a user's own design."""
    scores = estimate.scores.sorted()
    _, first = np.unique(scores.id, return_index=True)
    columns: dict[str, Any] = {"n_tokens": scores.n_tokens[first]}
    if scores.n_bytes is not None:
        columns["n_bytes"] = scores.n_bytes[first]
    columns["log_evidence"] = estimate.per_observation
    with suppress(InputError):
        table = observation_table(estimate, design_from_settings(estimate.design))
        columns |= {"mask_se": table.mask_se, "mask_df": table.mask_df}
    if estimate.closed_form is not None:
        columns["closed_form"] = estimate.closed_form
    columns["per_token"] = estimate.per_observation / columns["n_tokens"]
    return data_frame(
        columns, estimate.ids if estimate.labels is None else list(estimate.labels), "observation"
    )


def _orders(estimate: EvidenceEstimate, digits: int) -> str:
    """What other orders of the tokens make of the same scores, where the design has orders."""
    parts = {"bracket": estimate.bracket, "order_spread": estimate.order_spread}
    told = {name: None if part is None else part.to_dict() for name, part in parts.items()}
    rows = orders_in_words(told, digits, typeset)
    return html.table(["over orders", ""], rows, words=(0, 1)) if rows else ""


def _title(estimate: EvidenceEstimate) -> str:
    digits = _digits(estimate)
    errors = [("masks", estimate.mask_se), ("observations", estimate.data_se)]
    known = ", ".join(f"± {typeset(value, digits)} {name}" for name, value in errors if value is not None)
    name = capital(evidence_name(estimate.kind, estimate.design["name"]))
    told = f"{name} {typeset(estimate.log_evidence, digits)} nats per observation"
    return told + (f" ({known})" if known else "")


def _digits(estimate: EvidenceEstimate) -> int:
    return digits_for(estimate.mask_se, estimate.data_se)
