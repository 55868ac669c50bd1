"""Check which estimates may be compared: the same quantity, in the same base measure, on the same data."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.model import CELLS, DENSITY

# Options that change the precision of an estimate but not the estimated quantity.
_PRECISION = {"masks_per_size", "draws", "replicates", "orders"}

# Kinds that estimate the log evidence of a joint density.
_EVIDENCES = ("exact", "unbiased", "approximate")

Estimates = Mapping[str, EvidenceEstimate]


def check_comparable(estimates: Estimates) -> list[str]:
    """Raise an InputError unless all numbers are the same quantity.

    The data must have the same fingerprint, or come from the same texts. A number of kind `pseudo` is
    compared only with numbers of the same design, and base measures must be equal. An area is compared with
    areas, an importance bound with bounds of as many orders, a policy with the same policy, and a mixture
    with mixtures; bounds and mixtures also with the log evidence of a joint density.

    Returns:
        The checks that could not be made, one sentence each.
    """
    unchecked = []
    for first, second in combinations(estimates, 2):
        a, b = estimates[first], estimates[second]
        check_same_quantity(first, a, second, b)
        if not _of_same_data(first, a, second, b):
            unchecked.append(
                f"whether {first} and {second} are of the same data is not known: only the ids of their "
                "observations could be compared"
            )
    unknown = [name for name, estimate in estimates.items() if estimate.base_measure is None]
    if unknown:
        unchecked.append(
            f"the base measure of {' and '.join(unknown)} is not known: the comparison holds only if all "
            "numbers are probability masses, or densities in the same unit"
        )
    return unchecked


def in_same_tokens(estimates: Estimates) -> bool:
    """Whether all estimates score the same tokens, rather than one text cut in different ways."""
    first, *others = estimates.values()
    return all(
        same_data(first.data_fingerprint, other.data_fingerprint) is not False and _equally_long(first, other)
        for other in others
    )


def check_same_quantity(first: str, a: EvidenceEstimate, second: str, b: EvidenceEstimate) -> None:
    """Raise an InputError if two estimates differ in base measure or in the quantity they estimate."""
    if None not in (a.base_measure, b.base_measure) and a.base_measure != b.base_measure:
        remedy = "compare models with the same base measure"
        if {a.base_measure, b.base_measure} == {DENSITY, CELLS}:
            density = first if a.base_measure == DENSITY else second
            remedy = f"score {density!r} with --cells, in Python as me.models.CellMass(model, training_rows)"
        raise InputError(
            f"{first!r} is a {a.base_measure}, {second!r} a {b.base_measure}: these have no common scale; "
            f"{remedy}"
        )
    if not _same_quantity(a, b):
        numbers = (f"{name!r} is {_described(estimate)}" for name, estimate in ((first, a), (second, b)))
        raise InputError(
            f"{', '.join(numbers)}: these are different quantities; estimate both with the same design"
        )


def _same_quantity(a: EvidenceEstimate, b: EvidenceEstimate) -> bool:
    """Whether the kinds and quantities are equal, or one is the log evidence that the other targets."""
    if a.kind == b.kind and _quantity(a) == _quantity(b):
        return True
    apart = {"pseudo", "policy"}
    return a.kind not in apart and b.kind not in apart and bool({a.kind, b.kind} & set(_EVIDENCES))


def _of_same_data(first: str, a: EvidenceEstimate, second: str, b: EvidenceEstimate) -> bool:
    """True if the data are known to be the same; raise an InputError if they are known to differ."""
    if not np.array_equal(a.ids, b.ids) or a.n_observations != b.n_observations:
        raise InputError(
            f"{first!r} and {second!r} are of different observations; estimate both on the same ones"
        )
    same_tokens = same_data(a.data_fingerprint, b.data_fingerprint)
    same_texts = same_data(a.text_fingerprint, b.text_fingerprint)
    if same_tokens is False and not same_texts and (same_texts is False or _equally_long(a, b)):
        raise InputError(
            f"{first!r} and {second!r} are of different data: the observations have the same ids, but other "
            "values; estimate both on the same data"
        )
    return bool(same_tokens or same_texts)


def same_data(first: str | None, second: str | None) -> bool | None:
    """Compare the fingerprints of two data sets; None if one of them is unknown.

    A fingerprint of rounded values alone is compared with the rounded values of the other.

    Example:
        >>> from maskevidence.core.tokens import Tokens
        >>> import torch
        >>> dtypes = (torch.float32, torch.float64)
        >>> rounded, exact = (Tokens.from_array([[0.1, 0.2]], dtype=dtype).fingerprint() for dtype in dtypes)
        >>> rounded == exact, same_data(rounded, exact), same_data(rounded, None)
        (False, True, None)
    """
    if first is None or second is None:
        return None
    rounded, exact = sorted((first, second), key=len)
    return rounded == exact or exact.startswith(f"{rounded}-")


def _equally_long(a: EvidenceEstimate, b: EvidenceEstimate) -> bool:
    """Whether each observation has the same number of tokens in both estimates."""
    return np.array_equal(a.record.n_tokens, b.record.n_tokens)


def _quantity(estimate: EvidenceEstimate) -> dict[str, object]:
    """The settings of an estimate's design that determine which quantity it estimates."""
    design = estimate.design
    if estimate.kind in ("lower_bound", "mixture"):
        importance = design.get("bound") == "importance"
        quantity = {"bound": "importance", "orders": design["orders"]} if importance else {}
        return quantity | {"blocks": design.get("blocks")}
    if estimate.kind in _EVIDENCES:
        return {}
    return {name: value for name, value in design.items() if name not in _PRECISION}


def _described(estimate: EvidenceEstimate) -> str:
    quantity = {name: value for name, value in _quantity(estimate).items() if value not in (None, False)}
    words = [str(quantity.pop("name", "")), *(f"{name}={value}" for name, value in quantity.items())]
    options = " ".join(filter(None, words))
    return f"of kind {estimate.kind.replace('_', ' ')}" + (f" ({options})" if options else "")
