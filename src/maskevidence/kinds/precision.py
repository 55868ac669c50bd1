"""A target for the masks' error in place of a number of masks: and what excludes it."""

import math

from maskevidence.errors import InputError
from maskevidence.evidence.precise import Precise
from maskevidence.masks.by_name import DesignWord
from maskevidence.masks.sizes import RandomSize


def parse_precise(
    target_se: str | None,
    max_passes: int | None = None,
    design: DesignWord | None = None,
    shard: str | None = None,
) -> Precise | None:
    """Turn --target-se into a `Precise`; None without it.

    Args:
        target_se: nats, such as "0.05", or a share of the log evidence, such as "1%".
        design: the value of --design, which has to be random-size or random-size:per-token; None without it.

    Example:
        >>> parse_precise("0.05")
        Precise(target_se=0.05, target_relative=None, max_passes=None, negligible=0.1)
        >>> parse_precise("1%").target(-50.0)
        0.5
    """
    if target_se is None:
        if max_passes is not None:
            raise InputError("--max-passes belongs to --target-se; add that")
        return None
    number = target_se.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(
            f"--target-se {target_se!r}; give nats above 0, such as 0.05, or a share of the log evidence, "
            "such as 1%"
        )
    is_share = number != target_se
    precise = Precise(None if is_share else value, value / 100 if is_share else None, max_passes)
    if design is not None:
        if not isinstance(design.design, RandomSize):
            raise InputError(f"--target-se draws random sizes; leave --design {design} out")
        if design.named:
            raise InputError(
                f"--target-se finds the number of masks, which --design {design} sets; give one of them"
            )
        if design.masks == "shared":
            raise InputError(
                "--target-se needs own masks, whose error is known from few passes; leave shared out"
            )
    if shard is not None:
        raise InputError(
            "--target-se follows the errors of all rows, and a shard sees its own; `maskevidence plan` with "
            "the same target gives the --design for all shards"
        )
    return precise
