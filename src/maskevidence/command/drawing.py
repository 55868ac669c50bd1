"""Which masks a score draws: by the design that is asked for, a run that is resumed, and the observations."""

import math
from dataclasses import replace
from typing import NamedTuple

from maskevidence.command.options import RunOptions
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.precise import FEWEST, Precise, default_design
from maskevidence.core.masks.by_name import DesignWord
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.scores.score import Scoring
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import plain_number
from maskevidence.runs import RunDirectory
from maskevidence.runs.prepared import Prepared


class Drawing(NamedTuple):
    """The masks of a score, as far as they are known before the observations are."""

    word: DesignWord  # the design that was asked for, or that of the kind
    design: MaskDesign  # with the masks of the run that is resumed
    precise: Precise | None  # draws random sizes until an error is reached
    begun: bool  # whether a run is resumed
    by_default: bool  # whether the observations decide between `design` and a `Precise`

    def of(self, scoring: Scoring, ready: Prepared) -> tuple[Scoring, Prepared, Precise | None]:
        """The masks for these observations; a note says so where few of them take more than the default.

        Args:
            scoring: with the design of this drawing.
        """
        precise, n_tokens = self.precise, ready.tokens.n_tokens.cpu().numpy()
        if self.by_default and isinstance(chosen := default_design(n_tokens), Precise):
            precise, scoring = chosen, replace(scoring, design=FEWEST)
        if precise is not None:
            assert isinstance(scoring.design, RandomSize)
            first = precise.first(n_tokens, scoring.design, begun=self.begun)
            return replace(scoring, design=first), ready, precise
        design, fixed = scoring.design, self.begun or self.word.named or scoring.key.masks == "shared"
        if fixed or not isinstance(design, RandomSize):
            return scoring, ready, None
        enough = design.enough_draws(n_tokens, "own")
        if enough <= design.draws:
            return scoring, ready, None
        noun = ready.source.noun
        note = (
            f"{enough} random sizes per {noun} instead of {design.draws}, so that the error of "
            f"{count(len(n_tokens), noun)} is known; --design {DesignWord(design)} has "
            f"{design.draws}"
        )
        more = replace(scoring, design=replace(design, draws=enough, replicates=design.n_replicates))
        return more, ready.with_note(note), None


def drawing_for(
    word: DesignWord, run: RunOptions, precise: Precise | None = None, *, by_default: bool = False
) -> Drawing:
    """What a score draws into the folder of its run, if it has one.

    Args:
        word: the design that was asked for, or that of the kind.
        run: which folder is resumed, if any.
        precise: draws as many masks as an error takes, in place of the design; None for the design.
        by_default: whether the observations may decide for a `Precise` without a target.
    """
    held = None if run.out is None or run.overwrite else RunDirectory(run.out).manifest()
    before = None if held is None or not by_default else held.target()
    if before is not None and before.target_se is None and before.target_relative is None:
        precise = before
    design = word.design if precise is None else FEWEST
    begun = held is not None and held.design.get("name") == design.name
    if held is not None and begun:
        design = design.continuing(held.mask_design(), word.named)
    return Drawing(word, design, precise, begun, by_default and not begun)


def parse_precise(
    target_se: str | None, design: DesignWord | None = None, shard: str | None = None
) -> Precise | None:
    """Parse --target-se into a `Precise`; None without it.

    Args:
        target_se: nats, such as "0.05", or a share of the log evidence, such as "1%"; ",max_passes=4000"
            after it limits the masks of all observations.
        design: the value of --design, which has to be random-size or random-size:per-token; None without it.

    Example:
        >>> parse_precise("0.05")
        Precise(target_se=0.05, target_relative=None, max_passes=None, negligible=0.1)
        >>> parse_precise("1%,max_passes=4000").target(-50.0)
        0.5
    """
    if target_se is None:
        return None
    word, *limits = target_se.split(",")
    number = word.removesuffix("%")
    try:
        value = plain_number(number)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(
            f"--target-se {target_se!r}; give nats above 0, such as 0.05, or a share of the log evidence, "
            "such as 1%"
        )
    name, _, most = "".join(limits).partition("=")
    if limits and (len(limits) > 1 or name != "max_passes" or not most.isascii() or not most.isdigit()):
        raise InputError(
            f"--target-se {target_se!r}; write a limit on the masks of all observations as "
            f"{word},max_passes=100000"
        )
    is_share = number != word
    share = value / 100 if is_share else None
    precise = Precise(None if is_share else value, share, int(most) if limits else None)
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
            "--target-se follows the errors of all rows, and a shard sees its own; score the first 100 of N "
            f"rows (--limit 100) with --target-se √(N/100)·{target_se}, and give every shard --design "
            "random-size:K,replicates=K with the K draws at which that run ends"
        )
    return precise
