"""maskevidence check: whether a model keeps the protocol that its scores rest on."""

from dataclasses import replace
from typing import Annotated, Any

from maskevidence.command.options import Data, Model, OptionsOf, Result
from maskevidence.core.kind import kind_named


def check_command(model: Model, data: Data, options: Annotated[Any, OptionsOf("check")]) -> Result:
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
    """
    kind = kind_named(options.kind)
    kind.check_words(model, data)
    from maskevidence.core.check.run_checks import check_model
    from maskevidence.core.masks.design_words import parse_design

    design, tolerance = kind.check_with(options)
    ready = kind.prepare(model, data, parse_design(design).design, options, None)
    report = check_model(
        ready.model, ready.in_memory, texts=ready.texts, seed=options.seed, tolerance=tolerance
    )
    page = report.page()
    page = replace(page, notes=[*page.notes, *ready.notes])
    content = {"data": data} | report.to_dict() | {"notes": ready.notes}
    return Result(page, content, code=0 if report.ok else 1)
