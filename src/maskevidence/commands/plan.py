"""maskevidence plan: how many random sizes a target for the masks' error takes."""

from typing import Annotated

from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Option, one_of_kind
from maskevidence.kinds.options import Data, Model, Preparation, TargetSe
from maskevidence.kinds.result import Reported
from maskevidence.kinds.words import kind_of_model
from maskevidence.show.parts import Page


def plan(
    model: Model,
    data: Data,
    options: Preparation | None = None,
    target_se: TargetSe = None,
    design: Annotated[
        str | None,
        Option("random-size:per-token, if the run is to record the score of each hidden token.", "DESIGN"),
    ] = None,
) -> Reported:
    """How many passes, minutes and MiB a target for the masks' error takes, from a small pilot.

    The pilot scores a few hundred masks and writes nothing. `score --target-se` stops by itself; where no
    run sees all scores, as with `--shard`, give `score` the design that plan prints.

    Examples:

        maskevidence plan ppca:8 digits --target-se 0.05
        maskevidence plan google-bert/bert-base-uncased glue/qnli:validation --target-se 1%

    Args:
        model: the MODEL word.
        data: the DATA word.
        options: how the model and the data are prepared, as for `score`.
        target_se: nats, such as "0.05", or a share of the log evidence, such as "1%".
        design: random-size:per-token if the run will record the scores of hidden tokens.

    Raises:
        InputError: options, a model or data that cannot be used.

    Example:
        >>> planned = plan("ppca:2", "digits", target_se="0.5")
        >>> planned.to_dict()["design"].startswith("random-size:"), len(planned.to_dict()["notes"]) > 0
        (True, True)
    """
    from maskevidence.evidence.planning import plan as plan_passes
    from maskevidence.evidence.precise import FEWEST
    from maskevidence.kinds.prepare import prepare
    from maskevidence.kinds.scoring import parse_precise
    from maskevidence.masks.by_name import parse_design
    from maskevidence.support.provenance import command, versions

    word = None if design is None else parse_design(design)
    precise = parse_precise(target_se, None, word)
    if precise is None:
        raise InputError("plan needs the error that is to be reached; give --target-se")
    options = one_of_kind(kind_of_model(model), model, options, Preparation)
    ready = prepare(model, data, FEWEST, options)
    per_token = word is not None and word.per_token
    passes = plan_passes(ready.model, ready.tokens, precise, seed=options.sample.seed, per_token=per_token)
    notes = [*ready.notes, *passes.notes]
    content = passes.to_dict() | {"notes": notes, "versions": versions(), "command": command()}
    return Reported(Page("", f"--design {passes}", notes=notes), content)
