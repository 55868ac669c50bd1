"""maskevidence check: whether a model keeps the protocol that its scores rest on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from maskevidence.kinds.declaring import one_of_kind
from maskevidence.kinds.options import Data, Model, Preparation, TextOptions
from maskevidence.kinds.result import Result
from maskevidence.kinds.words import kind_of_model
from maskevidence.show.parts import Page

if TYPE_CHECKING:
    from maskevidence.check.findings import CheckReport

_IN_BFLOAT16 = 0.05  # the room for rounding, relative to 1 + |answer|


@dataclass(frozen=True)
class Checked(Result):
    """The result of a check."""

    data: str  # the DATA word
    report: "CheckReport"  # what the checks found
    notes: tuple[str, ...] = ()  # what was done to prepare the model and the data, one sentence each

    def page(self) -> Page:
        """What the checks found, and the notes."""
        page = self.report.page()
        return replace(page, notes=[*page.notes, *self.notes])

    def to_dict(self) -> Mapping[str, Any]:
        """The report and the notes."""
        return {"data": self.data} | self.report.to_dict() | {"notes": list(self.notes)}

    @property
    def code(self) -> int:
        """1 if a check failed."""
        return 0 if self.report.ok else 1


def check(model: Model, data: Data, options: Preparation | None = None) -> Checked:
    """Check that MODEL keeps the protocol on DATA, so that its scores can be trusted.

    Every check says on how many rows and masks it was made, what it found, and what to look at: whether
    answers leak hidden values, depend on other rows or on padding, belong to another place, do not sum to 1,
    or do not fit one joint density; and for texts, whether bytes and scored tokens are those of the text.

    The exit code is 0 if no check failed, 1 if one did, and 2 if MODEL or DATA cannot be used. The
    statistical checks of one call raise a false alarm on a sound model with a probability of at most 0.1 %.

    Examples:

        maskevidence check ppca:8 digits
        maskevidence check runs/a/model table.csv --json -
        maskevidence check google-bert/bert-base-uncased glue/qnli:validation --text question --limit 200

    Args:
        model: a word such as "ppca:8", a folder, or OWNER/NAME on the hub.
        data: a file, a data set, or a folder of images.
        options: how the model and the data are prepared, as for `score`.

    Raises:
        InputError: options that belong to other models, or a model or data that cannot be used.

    Example:
        >>> check("gaussian", "digits").report.ok
        True
    """
    from maskevidence.check.run_checks import check_model
    from maskevidence.kinds.prepare import prepare
    from maskevidence.masks.sizes import LeaveOneOut, RandomSize

    options = one_of_kind(kind_of_model(model), model, options, Preparation)
    of_texts = options if isinstance(options, TextOptions) else TextOptions()
    design = LeaveOneOut() if of_texts.reading.hides_words else RandomSize()
    ready = prepare(model, data, design, options)
    report = check_model(
        ready.model,
        ready.tokens,
        texts=ready.texts,
        seed=options.sample.seed,
        tolerance=_IN_BFLOAT16 if of_texts.checkpoint.bf16 else None,
    )
    return Checked(data, report, tuple(ready.notes))
