"""A target for the masks' error in place of a number of masks: and what excludes it."""

from maskevidence.errors import InputError
from maskevidence.evidence.precise import Precise
from maskevidence.kinds.declaring import flag
from maskevidence.kinds.options import PrecisionOptions
from maskevidence.masks.by_name import DesignWord
from maskevidence.masks.sizes import RandomSize


def parse_precise(
    asked: PrecisionOptions, design: DesignWord | None = None, shard: str | None = None
) -> Precise | None:
    """Turn --target-se or --target-relative into a `Precise`; None without them.

    Args:
        asked: the targets.
        design: the value of --design, which has to be random-size or random-size:per-token; None without it.
        shard: the value of --shard.

    Raises:
        InputError: targets that cannot be used, or options that exclude them.

    Example:
        >>> parse_precise(PrecisionOptions(target_se=0.05))
        Precise(target_se=0.05, target_relative=None, max_passes=None, negligible=0.1)
    """
    if asked.target_se is None and asked.target_relative is None:
        if asked.max_passes is not None:
            raise InputError("--max-passes belongs to --target-se or --target-relative; add that")
        return None
    target = flag("target_se" if asked.target_relative is None else "target_relative")
    precise = Precise(asked.target_se, asked.target_relative, asked.max_passes)
    if design is not None:
        if not isinstance(design.design, RandomSize):
            raise InputError(f"{target} draws random sizes; leave --design {design} out")
        if design.named:
            raise InputError(
                f"{target} finds the number of masks, which --design {design} sets; give one of them"
            )
        if design.masks == "shared":
            raise InputError(
                f"{target} needs own masks, whose error is known from few passes; leave shared out"
            )
    if shard is not None:
        raise InputError(
            f"{target} follows the errors of all rows, and a shard sees its own; `maskevidence plan` with "
            "the same target gives the --design for all shards"
        )
    return precise
