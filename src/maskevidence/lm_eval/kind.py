"""The kind that adds the lm-eval command."""

from collections.abc import Mapping

from maskevidence.core.kind import Kind


class Harness(Kind):
    """The lm-eval command."""

    commands: Mapping[str, str] = {"lm-eval": "maskevidence.lm_eval.race_command:lm_eval"}


harness = Harness()
