"""Convert results for ArviZ."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.errors import import_extra

_PURPOSE = "to_arviz()"

_Floats = Float64[np.ndarray, " n_observations"]
_Integers = Int64[np.ndarray, " n_observations"]


def log_likelihood_tree(values: _Floats, ids: _Integers, attributes: Mapping[str, Any]) -> Any:
    """A `DataTree` with the log evidence of each observation in the group `log_likelihood`.

    There is one chain of one draw, since a fitted model has no posterior draws.
    """
    base = import_extra("arviz_base", "arviz", _PURPOSE)
    tree = base.from_dict(
        {"log_likelihood": {"x": values[None, None, :]}},
        coords={"observation": ids},
        dims={"x": ["observation"]},
    )
    tree["log_likelihood"].attrs.update(attributes)
    return tree


def elpd_data(values: _Floats, ids: _Integers) -> Any:
    """An `ELPDData` with a model's pointwise log evidence, for ArviZ's `compare`.

    It holds sums over the observations; se is the pointwise error √(n·var), as everywhere in ArviZ.
    """
    stats = import_extra("arviz_stats.utils", "arviz", _PURPOSE)
    xarray = import_extra("xarray", "arviz", _PURPOSE)
    n = len(values)
    pointwise = xarray.DataArray(values, dims=["observation"], coords={"observation": ids}, name="x")
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
