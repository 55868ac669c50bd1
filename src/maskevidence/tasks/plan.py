"""How many random sizes a target for the masks' error takes, for the model and the data of a command."""

from maskevidence.errors import InputError
from maskevidence.evidence.planning import PassPlan
from maskevidence.evidence.planning import plan as plan_passes
from maskevidence.evidence.precise import FEWEST
from maskevidence.kinds.declaring import one_of_kind
from maskevidence.kinds.options import PrecisionOptions, Preparation
from maskevidence.kinds.prepare import prepare
from maskevidence.kinds.words import kind_of_model
from maskevidence.masks.by_name import parse_design
from maskevidence.tasks.precision import parse_precise


def plan(
    model: str,
    data: str,
    precision: PrecisionOptions,
    preparation: Preparation | None = None,
    design: str | None = None,
) -> tuple[PassPlan, list[str]]:
    """Prepare a model and data as `score` does, and plan the passes.

    Args:
        model: the MODEL word.
        data: the DATA word.
        precision: the target.
        preparation: how the model and the data are prepared.
        design: random-size:per-token if the run will record the scores of hidden tokens.

    Returns:
        The plan, and what was done to prepare model and data, one sentence each.

    Raises:
        InputError: options, a model or data that cannot be used.

    Example:
        >>> found, notes = plan("ppca:2", "digits", PrecisionOptions(target_se=0.5))
        >>> found.design.startswith("random-size:"), len(notes) > 0
        (True, True)
    """
    word = None if design is None else parse_design(design)
    precise = parse_precise(precision, word)
    if precise is None:
        raise InputError("plan needs the error that is wanted; give --target-se or --target-relative")
    if precise.max_passes is not None:
        raise InputError("--max-passes belongs to score; plan says how many passes a target takes")
    options = one_of_kind(kind_of_model(model), model, preparation, Preparation)
    ready = prepare(model, data, FEWEST, options)
    seed, per_token = options.sample.seed, word is not None and word.per_token
    return plan_passes(ready.model, ready.tokens, precise, seed=seed, per_token=per_token), ready.notes
