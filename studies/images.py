"""Images: does the area rank small masked autoencoders by what their encoders are good for?

    MASKEVIDENCE_DATA=... python studies/images.py

ViT-MAEs are trained on MNIST and CIFAR-100 at 15, 50 and 75 % and by random sizes, for three seeds each.
Every model is one record of results/images.parquet; the same command resumes an interrupted run.
"""

import sys
from typing import Any

from _image_models import SETS, WAYS, image_model
from _pieces import arguments, keyed, run_pieces

SEEDS = (0, 1, 2)
STEPS, QUICK_STEPS = {"mnist": 800, "cifar100": 300}, 30


def units(*, quick: bool) -> dict[str, Any]:
    """What tells the models apart, by key; all models of a seed come before those of the next one."""
    return keyed(
        [
            {
                "data_set": data_set,
                "seed": seed,
                "way": way,
                "steps": QUICK_STEPS if quick else STEPS[data_set],
            }
            for seed in SEEDS[: 1 if quick else None]
            for data_set in SETS
            for way in WAYS
        ]
    )


def main(words: list[str] | None = None) -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args(words)
    return run_pieces("images", image_model, units(quick=options.quick), options)


if __name__ == "__main__":
    sys.exit(main())
