"""maskevidence check: whether a model keeps the protocol that its scores rest on."""

from dataclasses import replace

from maskevidence.command.command_words import check_row_words
from maskevidence.command.options import Data, Model, Preparation, TextOptions
from maskevidence.command.result import Result

_IN_BFLOAT16 = 0.05  # the room for rounding, relative to 1 + |answer|


def check_command(model: Model, data: Data, options: Preparation) -> Result:
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
    if options.kind == "rows":
        check_row_words(model, data)
    from maskevidence.core.check.run_checks import check_model
    from maskevidence.command.prepare import prepare
    from maskevidence.core.masks.sizes import LeaveOneOut, RandomSize

    of_texts = options if isinstance(options, TextOptions) else TextOptions()
    design = LeaveOneOut() if of_texts.hides_words else RandomSize()
    ready = prepare(model, data, design, options)
    report = check_model(
        ready.model,
        ready.tokens,
        texts=ready.texts,
        seed=options.seed,
        tolerance=_IN_BFLOAT16 if of_texts.checkpoint.bf16 else None,
    )
    page = report.page()
    page = replace(page, notes=[*page.notes, *ready.notes])
    content = {"data": data} | report.to_dict() | {"notes": ready.notes}
    return Result(page, content, code=0 if report.ok else 1)
