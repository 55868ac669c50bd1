"""Log evidence of MNIST test images for deep VAEs trained by masked prediction and by the ELBO.

    MASKEVIDENCE_DATA=FOLDER python benchmarks/held_out_vae.py

The VAEs have a Gaussian likelihood on grey levels in [0, 1], K=20 and two hidden layers of 200. For every
seed, all methods start from the same networks and take the same number of Adam steps. Masked training draws
one mask for every image and step, and computes conditionals by importance sampling. The log evidence is the
highest of three stochastic lower bounds (importance-weighted, annealed from the prior, annealed from the
encoder), which all use the same test images.
"""

import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from _timing import arguments, data, finish, machine, show, timed

# isort: split
import numpy as np

import maskevidence as me
from maskevidence.images.image_files import read_images
from maskevidence.models import VAE, Annealing

sys.path.append(str(Path(__file__).parents[1]))
from paper.figures import plus_minus

N_TRAIN, N_TEST, STEPS, BATCH, LEARNING_RATE, SEEDS = 5000, 60, 800, 100, 1e-3, (0, 1, 2)
OBJECTIVES = {
    "masked, 33 %": lambda seed: me.MaskedObjective(me.FixedRate(0.33, 1), seed=seed),
    "masked, random sizes": lambda seed: me.MaskedObjective(me.RandomSize(1, 1), seed=seed),
    "ELBO": lambda seed: me.Elbo(seed=seed),
}
ANNEALINGS = (Annealing(8, 100, 5), Annealing(8, 40, 5, "encoder"))


def bounds(model: VAE, x: np.ndarray, annealings: Sequence[Annealing]) -> list[me.models.EvidenceBound]:
    """Stochastic lower bounds on the log evidence of the rows; collapsed weights only make them lower."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", me.errors.CollapsedWeightsWarning)
        annealed = [model.annealed_evidence(x, annealing=one) for one in annealings]
        return [model.importance_evidence(x, samples=1024), *annealed]


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    data("mnist")
    n_train, n_test, steps, seeds = N_TRAIN, N_TEST, STEPS, SEEDS
    annealings = ANNEALINGS
    if options.quick:
        n_train, n_test, steps, seeds = BATCH, 2, 1, (0, 1)
        annealings = (Annealing(2, 3, 1), Annealing(2, 3, 1, "encoder"))
    train = read_images("mnist:train", limit=n_train).table().values
    test = read_images("mnist:test", limit=n_test).table().values
    bounds_of: dict[str, list[list[me.models.EvidenceBound]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        for name, objective in OBJECTIVES.items():
            model = VAE(n_features=train.shape[1], n_components=20, seed=seed)
            model.set_units(train)
            how = {"epochs": steps * BATCH // n_train, "batch_size": BATCH, "evidence_every": 0}
            fit = partial(
                me.fit, model, train, objective(seed), learning_rate=LEARNING_RATE, seed=seed, **how
            )
            seconds.setdefault(name, []).append(timed(fit, time.perf_counter)[1])
            bounds_of.setdefault(name, []).append(bounds(model, test, annealings))
    best = {
        name: np.array([max(b.mean for b in each) for each in of_seeds])
        for name, of_seeds in bounds_of.items()
    }
    lines = [
        (
            name,
            *(plus_minus(np.array([each[i].mean for each in bounds_of[name]])) for i in range(3)),
            plus_minus(best[name]),
            "" if name == "ELBO" else plus_minus(best[name] - best["ELBO"]),
            f"{np.median(seconds[name]):.0f}",
        )
        for name in OBJECTIVES
    ]
    numbers = {
        name: {
            "bounds": [
                {b.method: {"mean": b.mean, "draw_se": b.draw_se, "data_se": b.data_se} for b in each}
                for each in bounds_of[name]
            ],
            "log_evidence": best[name].tolist(),
            "seconds": seconds[name],
        }
        for name in OBJECTIVES
    }
    title = (
        f"Log evidence of {n_test} MNIST test images, nats per image, mean ± standard error over "
        f"{len(seeds)} seeds; {steps} Adam steps of {BATCH} of {n_train:,} training images; {machine()}"
    )
    columns = "trained by|importance|annealed, prior|annealed, encoder|tightest|− ELBO, paired|s"
    show(title, columns.split("|"), lines)
    return finish(numbers, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
