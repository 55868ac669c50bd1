"""Check a model on data: whether it keeps the protocol that its scores rest on."""

from dataclasses import dataclass
from typing import Any

from maskevidence.check.findings import CheckReport
from maskevidence.check.run_checks import check_model
from maskevidence.masks.sizes import LeaveOneOut, RandomSize
from maskevidence.tasks.declaring import refuse_other_kinds
from maskevidence.tasks.options import Preparation
from maskevidence.tasks.parse import kind_of_model
from maskevidence.tasks.prepare import prepare

_IN_BFLOAT16 = 0.05  # the room for rounding, relative to 1 + |answer|


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        report: what was found.
        notes: what was done to prepare the model and the data, one sentence each.
    """

    report: CheckReport
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report and the notes as content for JSON."""
        return self.report.to_dict() | {"notes": list(self.notes)}


def check(model: str, data: str, preparation: Preparation = Preparation()) -> Checked:
    """Check a model on data.

    Args:
        model: a word such as "ppca:8", a folder, or OWNER/NAME on the hub.
        data: a file, a data set, or a folder of images.
        preparation: how the model and the data are prepared, as for `score`.

    Raises:
        InputError: options that belong to other models, or a model or data that cannot be used.

    Example:
        >>> check("gaussian", "digits").report.ok
        True
    """
    kind = kind_of_model(model)
    refuse_other_kinds(kind, model, preparation)
    design = LeaveOneOut() if preparation.texts.whole_words else RandomSize()
    ready = prepare(kind, model, data, design, preparation)
    report = check_model(
        ready.model,
        ready.tokens,
        texts=ready.texts,
        seed=preparation.sample.seed,
        tolerance=_IN_BFLOAT16 if preparation.texts.checkpoint.bf16 else None,
    )
    return Checked(report, tuple(ready.notes))
