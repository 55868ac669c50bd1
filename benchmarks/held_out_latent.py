"""Held-out log evidence of linear Bernoulli models trained by masked prediction, ELBO and exact likelihood.

    MASKEVIDENCE_DATA=FOLDER python benchmarks/held_out_latent.py

The models have K=2 and see the first 2,000 binarised MNIST training images; the first 2,000 test images are
held out. All methods start from the same loadings and take 300 Adam steps of 0.05 on all training images, in
float32. The log evidence is an integral, refined to 1e-3 nats per image.
"""

import sys
import time
from functools import partial

from _timing import arguments, data, finish, machine, mean_and_se, show_results, timed

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.images.image_files import read_images
from maskevidence.models import BernoulliPCA
from maskevidence.tables.rows import binarise

SEEDS = (4, 44, 444)
N_IMAGES, EPOCHS, LEARNING_RATE, TOLERANCE = 2000, 300, 0.05, 1e-3
METHODS = (
    "ELBO",
    "masked, 15 %, shared",
    "masked, 15 %",
    "masked, all sizes",
    "likelihood at 20×20 nodes",
)


def objective_of(method: str, seed: int) -> me.Elbo | me.MaskedObjective | me.Likelihood:
    """The objective of a method; every step draws new masks, for each image or shared as in the paper."""
    return {
        "ELBO": me.Elbo(seed=seed),
        "masked, 15 %, shared": me.MaskedObjective(me.FixedRate(0.15, 1), seed=seed, masks="shared"),
        "masked, 15 %": me.MaskedObjective(me.FixedRate(0.15, 1), seed=seed),
        "masked, all sizes": me.MaskedObjective(me.RandomSize(1, 1), seed=seed),
        "likelihood at 20×20 nodes": me.Likelihood(),
    }[method]


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    data("mnist")
    n_images, epochs, seeds = (20, 2, SEEDS[:2]) if options.quick else (N_IMAGES, EPOCHS, SEEDS)
    train, test = (
        binarise(read_images(f"mnist:{split}", limit=n_images).table(), "threshold").values
        for split in ("train", "test")
    )
    results: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        results[method] = {"train": [], "held_out": [], "seconds": [], "error": []}
        for seed in seeds:
            encoder = method == "ELBO"
            model = BernoulliPCA(train.shape[1], 2, seed=seed, encoder=encoder, dtype=torch.float32)
            tokens = model.tokens(train)
            steps = {"epochs": epochs, "learning_rate": LEARNING_RATE, "evidence_every": 0}
            fit = partial(me.fit, model, tokens, objective_of(method, seed), **steps)
            results[method]["seconds"].append(timed(fit, time.perf_counter)[1])
            parts = {"train": tokens, "held_out": model.tokens(test)}
            for part, rows in parts.items():
                integral = model.integrate(rows, tolerance=TOLERANCE)
                results[method][part].append(float(integral.log_evidence.mean()))
                results[method]["error"].append(integral.error)
            print(method, seed, results[method], file=sys.stderr, flush=True)
    base = np.array(results["ELBO"]["held_out"])
    shown = {
        method: {
            "train": mean_and_se(values["train"], 2),
            "held_out": mean_and_se(values["held_out"], 2),
            "ahead": "" if method == "ELBO" else mean_and_se(np.array(values["held_out"]) - base, 2, "+"),
            "seconds": np.median(values["seconds"]),
        }
        for method, values in results.items()
    }
    title = (
        f"Log evidence, nats per image, mean ± standard error over {len(seeds)} seeds; K=2, "
        f"{n_images} images each, {epochs} Adam steps of {LEARNING_RATE}; {machine()}"
    )
    columns = {"training": "{train}", "held out": "{held_out}", "held out − ELBO, paired": "{ahead}"}
    show_results(title, "trained by", columns | {"s of training": "{seconds:.0f}"}, shown)
    return finish({"found": results, "seeds": list(seeds)}, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
