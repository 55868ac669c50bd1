"""The kind that adds the lm-eval command."""

from maskevidence.core.kind import Kind

harness = Kind()
harness.commands = {"lm-eval": "maskevidence.lm_eval.race_command:lm_eval"}
