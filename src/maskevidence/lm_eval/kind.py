"""The command of EleutherAI's lm-evaluation-harness."""

from collections.abc import Mapping

from maskevidence.core.kind import Kind


class Harness(Kind):
    """The command of EleutherAI's lm-evaluation-harness."""

    commands: Mapping[str, str] = {"lm-eval": "maskevidence.lm_eval.command:lm_eval"}


harness = Harness()
