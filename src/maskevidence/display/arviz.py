"""Results as ArviZ reads them, where its packages are installed."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from maskevidence.errors import InputError, import_extra
from maskevidence.estimate import EvidenceEstimate

_PURPOSE = "to_arviz()"


def log_likelihood_tree(estimate: EvidenceEstimate) -> Any:
    """The log evidence of each observation as a `DataTree` with the group `log_likelihood`.

    There is one chain of one draw, since a fitted model has no posterior draws. The attributes of the group
    hold the estimate and its two errors.
    """
    base = import_extra("arviz_base", "arviz", _PURPOSE)
    tree = base.from_dict(
        {"log_likelihood": {"x": estimate.per_observation[None, None, :]}},
        coords={"observation": estimate.ids},
        dims={"x": ["observation"]},
    )
    names = ("log_evidence", "mask_se", "data_se", "kind", "base_measure", "seed")
    known = {name: getattr(estimate, name) for name in names if getattr(estimate, name) is not None}
    tree["log_likelihood"].attrs.update(
        known | {"unit": "nats per observation", "design": estimate.design["name"]}
    )
    return tree


def elpd_by_model(unit: str, estimates: Mapping[str, EvidenceEstimate]) -> dict[str, Any]:
    """For each model an `ELPDData` with its pointwise log evidence, which ArviZ's `compare` reads.

    Args:
        unit: that of the comparison.
        estimates: the estimates of the same observations by model.

    Raises:
        InputError: the models were compared per byte, which ArviZ has no place for.
    """
    if unit != "nats per observation":
        raise InputError(
            f"the models were compared in {unit}, and ArviZ compares sums over observations; use to_frame()"
        )
    return {name: _elpd(estimate) for name, estimate in estimates.items()}


def _elpd(estimate: EvidenceEstimate) -> Any:
    """Sums over the observations; se is the pointwise error √(n·var), as everywhere in ArviZ."""
    stats = import_extra("arviz_stats.utils", "arviz", _PURPOSE)
    xarray = import_extra("xarray", "arviz", _PURPOSE)
    values, n = estimate.per_observation, estimate.n_observations
    pointwise = xarray.DataArray(values, dims=["observation"], coords={"observation": estimate.ids}, name="x")
    content = {
        "elpd": float(values.sum()),
        "se": float((n * values.var()) ** 0.5),
        "p": float("nan"),
        "n_samples": 1,
        "n_data_points": n,
        "scale": "log",
        "warning": False,
        "good_k": float("nan"),
        "elpd_i": pointwise,
    }
    if "kind" in {field.name for field in fields(stats.ELPDData)}:  # before ArviZ 1.0
        content["kind"] = "log_evidence"
    return stats.ELPDData(**content)
