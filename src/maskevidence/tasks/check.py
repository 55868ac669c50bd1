"""Check a model on data: whether it keeps the protocol that its scores rest on."""

from dataclasses import dataclass
from typing import Any

from maskevidence.check.findings import CheckReport
from maskevidence.check.run_checks import check_model
from maskevidence.kinds.declaring import one_of_kind
from maskevidence.kinds.options import Preparation, TextOptions
from maskevidence.kinds.prepare import prepare
from maskevidence.kinds.words import kind_of_model
from maskevidence.masks.sizes import LeaveOneOut, RandomSize

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


def check(model: str, data: str, preparation: Preparation | None = None) -> Checked:
    """Check a model on data.

    Args:
        model: a word such as "ppca:8", a folder, or OWNER/NAME on the hub.
        data: a file, a data set, or a folder of images.
        preparation: how the model and the data are prepared, as for `score`; by default as its kind is.

    Raises:
        InputError: options that belong to other models, or a model or data that cannot be used.

    Example:
        >>> check("gaussian", "digits").report.ok
        True
    """
    options = one_of_kind(kind_of_model(model), model, preparation, Preparation)
    of_texts = options if isinstance(options, TextOptions) else TextOptions()
    design = LeaveOneOut() if of_texts.reading.whole_words else RandomSize()
    ready = prepare(model, data, design, options)
    report = check_model(
        ready.model,
        ready.tokens,
        texts=ready.texts,
        seed=options.sample.seed,
        tolerance=_IN_BFLOAT16 if of_texts.checkpoint.bf16 else None,
    )
    return Checked(report, tuple(ready.notes))
