"""Text: does the area rank small BERTs by what they are good for, and better than the loss at 15 %?

    MASKEVIDENCE_DATA=... python studies/text.py

For each of five seeds, twelve ModernBERTs with two layers are trained on the 2.5 million characters of QNLI
and MRPC: seven ways to mask at equal steps, three with as many tokens predicted as 15 % has, and two of half
the width. Every model is one record of results/text.parquet; the same command resumes an interrupted run.
"""

import sys
from functools import partial
from typing import Any

from _pieces import arguments, keyed, run_pieces
from _text_models import QUICK, RANDOM, WAYS, n_hidden, text_model

SEEDS = (0, 1, 2, 3, 4)
STEPS, QUICK_STEPS = 3600, 160
WIDE, NARROW = 64, 32
FEWER, BLOCK = ("40 %", "75 %", RANDOM), 62  # ways with fewer steps; tokens in a block


def units(*, quick: bool) -> dict[str, Any]:
    """What tells the models apart, by key; all models of a seed come before those of the next one."""
    steps = QUICK_STEPS if quick else STEPS
    models = [("equal steps", way, WIDE, steps) for way in WAYS]
    usual = steps * n_hidden("15 %", BLOCK)
    models += [("equal tokens", way, WIDE, round(usual / n_hidden(way, BLOCK))) for way in FEWER]
    models += [("narrow", way, NARROW, steps) for way in ("15 %", RANDOM)]
    return keyed(
        [
            {"seed": seed, "group": group, "way": way, "width": width, "steps": n_steps}
            for seed in SEEDS[: 1 if quick else None]
            for group, way, width, n_steps in models
        ]
    )


def main(words: list[str] | None = None) -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args(words)
    piece = partial(text_model, amount=QUICK) if options.quick else text_model
    return run_pieces("text", piece, units(quick=options.quick), options)


if __name__ == "__main__":
    sys.exit(main())
