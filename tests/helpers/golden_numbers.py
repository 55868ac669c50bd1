"""Numbers of every model, mask design and kind of run, small enough to be computed in seconds.

`python tests/helpers/golden_numbers.py` writes tests/golden/numbers.json again. That is right only where a
number was meant to change; the commit then says which, and why.
"""

import itertools
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import maskevidence as me
from protein_models import protein_model
from report_runs import command
from small_world import RUNS, bert, filled, values, vit_mae, with_holes, write_runs, write_world

FILE = Path(__file__).parents[1] / "golden" / "numbers.json"
D, N = 4, 5
EVERY_SIZE, RANDOM_SIZE = me.EverySize(2), me.RandomSize(8, 4)
SHARING = ("own", "shared")
AREAS = {  # the designs that training takes, too
    "every-size": EVERY_SIZE,
    "random-size": RANDOM_SIZE,
    "orderings": me.Orderings(3),
    "leave-one-out": me.LeaveOneOut(),
    "exhaustive": me.Exhaustive(),
    "fixed-rate": me.FixedRate(0.5, 2),
    "rates": me.Rates((0.2, 0.5, 0.9), masks_per_size=2),
}
DESIGNS = AREAS | {
    "importance bound": me.Orderings(4, bound="importance"),
    "order mixture": me.Exhaustive(order_mixture=True),
    "order mixture in blocks": me.Exhaustive(order_mixture=True, blocks=2),
    "left to right": me.Policy("left-to-right", blocks=3, tokens_per_step=2),
}
POLICIES = {
    "confidence": me.Policy("confidence"),
    "margin in blocks": me.Policy("margin", blocks=4),
    "entropy, two tokens": me.Policy("entropy", tokens_per_step=2),
}
TEXTS = ["the rain falls", "a cat and a dog", "rain", "unbelievable"]
# By name, a command in a folder with the files, models and runs of small_world.py.
COMMANDS = {
    "score, every size": "score models/ppca data/table.csv --design every-size:2",
    "score, random sizes by token": "score ppca:1 data/holes.csv --design random-size:8,per-token",
    "score, rates": "score models/ppca data/table.csv --design rates:0.2-0.8-0.3 --limit 20",
    "score, fixed rate": "score models/ppca data/table.csv --design fixed-rate:0.4,shared",
    "score, exhaustive": "score models/ppca data/holes.csv --design exhaustive --test-fraction 0.2",
    "score, order mixture": "score models/bert data/texts.jsonl --limit 4 "
    "--design exhaustive:order-mixture,blocks=3",
    "score, importance bound": "score models/bert data/texts.jsonl --limit 4 "
    "--design orderings:4,bound=importance",
    "score, policy": "score models/bert data/texts.jsonl --design policy:entropy,blocks=4,tokens-per-step=2",
    "score, whole words": "score models/bert data/texts.jsonl --design leave-one-out --whole-words",
    "score, blocks of text": "score models/bert data/running.txt --block-size 12 --design random-size:4",
    "score, levels of pixels": "score models/vit-mae data/images --density discretised",
    "score to a target": "score ppca:2 data/table.csv --target-se 0.3 --max-passes 4000",
    "summarize": "summarize runs/shard-1 runs/shard-2",
    "compare": "compare runs/table runs/factor-analysis",
    "impute": "impute ppca:2 data/holes.csv --out filled.csv",
    "select": "select ppca,gaussian data/table.csv --components 1-2 --folds 2",
    "train by masks": "train ppca:2 data/table.csv --epochs 3 --out trained-by-masks",
    "train by likelihood": "train factor-analysis:1 data/holes.csv --objective likelihood --epochs 3 "
    "--out trained-by-likelihood",
    "train by the ELBO": "train vae:2 data/table.csv --objective elbo --epochs 3 --out trained-by-elbo",
    "train masked-lm": "train masked-lm data/running.txt --config models/bert --steps 3 --batch-size 4 "
    "--block-size 16 --out trained-bert",
    "train vit-mae": "train vit-mae data/images --config models/vit-mae --steps 3 --batch-size 4 "
    "--out trained-vit-mae",
}
_FLOAT32 = ("masked_lm", "masked_image", "collated", "variants", "commands")
# Of the moment, of names, or said in words.
_NOT_KEPT = {
    *("versions", "command", "notes", "options"),
    *("settings", "objective", "details", "device", "devices", "model", "data", "out", "files"),
    *("design", "model_fingerprint", "tokens", "n_model_calls", "recipe"),
}
Numbers = dict[str, Any]


def tolerance(section: str) -> tuple[float, float]:
    """Relative and absolute: the networks of texts and images are in float32; fits of selections iterate.

    A fit to rows with holes stops where 20 steps gain too little, and processors that round sums otherwise
    stop 1e-8 apart.
    """
    if section in _FLOAT32:
        return 1e-5, 1e-5
    return (1e-7, 1e-9) if section == "selections" else (1e-9, 1e-11)


def binary(n: int = N, d: int = D) -> np.ndarray:
    """Rows of 0 and 1."""
    return (values(n, d) > 0).astype(float)


class TableOfStates(torch.nn.Module):
    """A model as a user writes one: 0/1 tokens with a table of joint probabilities."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.states = torch.tensor(list(itertools.product((0.0, 1.0), repeat=D)), dtype=torch.float64)
        self.log_p = torch.log_softmax(
            torch.from_numpy(np.random.default_rng(3).normal(size=len(self.states))), 0
        )

    def log_sum(self, tokens: me.Tokens, known: Tensor) -> Tensor:
        differ = ((self.states != tokens.values[:, None]) & known[:, None]).any(2)
        return torch.logsumexp(self.log_p.masked_fill(differ, -torch.inf), 1)

    def log_conditionals(self, tokens: me.Tokens, masked: Tensor) -> Tensor:
        visible = tokens.visible(masked)
        joint = [self.log_sum(tokens, visible | token) for token in torch.eye(D, dtype=torch.bool)]
        return torch.where(masked, torch.stack(joint, 1) - self.log_sum(tokens, visible)[:, None], 0.0)


class Recorder:
    """A model that writes down the masks that it is asked for."""

    conditionals = "exact"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def log_conditionals(self, tokens: me.Tokens, masked: Tensor) -> Tensor:
        for number, row in zip(tokens.ids.tolist(), masked.tolist(), strict=True):
            self.seen.append(f"{number}:{''.join('1' if hidden else '0' for hidden in row)}")
        return torch.where(masked, -1.0, 0.0).double()


def vae(likelihood: str = "gaussian", conditioning: Any = None) -> Any:
    """Networks of a few units in float64."""
    rule = conditioning or me.models.ImportanceSampling(8, 2, prior_draws=2, fills=2)
    made = me.models.VAE(
        likelihood=likelihood,
        n_features=D,
        n_components=2,
        hidden=(3,),
        conditioning=rule,
        dtype=torch.float64,
    )
    made.set_units(values(20))
    filled(made.encoder, 0.5, 1)
    filled(made.decoder, 0.5, 2)
    return made.eval()


def gaussian() -> me.models.Gaussian:
    root = values(D, D, seed=1)
    return me.models.Gaussian(torch.linspace(-1, 1, D).double(), torch.from_numpy(root @ root.T + np.eye(D)))


def loadings(k: int = 2) -> Tensor:
    return torch.from_numpy(np.random.default_rng(2).normal(size=(D, k)))


def ppca() -> me.models.PPCA:
    return me.models.PPCA.from_parameters(loadings(), 0.4, torch.linspace(-1, 1, D).double())


def factor_analysis() -> me.models.FactorAnalysis:
    noise = torch.linspace(0.2, 2.0, D).double()
    return me.models.FactorAnalysis.from_parameters(loadings(), noise, torch.linspace(-1, 1, D).double())


def bernoulli(**options: Any) -> me.models.BernoulliPCA:
    return me.models.BernoulliPCA.from_parameters(loadings(), torch.linspace(-1, 1, D).double(), **options)


GAUSSIAN = {"Gaussian": gaussian, "PPCA": ppca, "FactorAnalysis": factor_analysis}
OF_ROWS: dict[str, tuple[Callable[[], Any], Callable[[], np.ndarray]]] = {
    **{name: (build, values) for name, build in GAUSSIAN.items()},
    "BernoulliPCA on a grid": (lambda: bernoulli(integration=me.models.Grid(8, 4.0)), binary),
    "BernoulliPCA by importance": (lambda: bernoulli(integration=me.models.Importance(16)), binary),
    "KernelGaussian": (lambda: me.models.KernelGaussian(D, 1).fit(values(20)), values),
    "VAE by importance": (vae, values),
    "VAE by encoding and decoding": (lambda: vae("gaussian", me.models.EncodingDecoding(4, 2)), values),
    "Bernoulli VAE": (lambda: vae("bernoulli"), binary),
    "a user's model": (TableOfStates, binary),
}


def numbers_of(estimate: me.EvidenceEstimate) -> Numbers:
    """What is kept of an estimate."""
    names = (
        "log_evidence mask_se mask_df data_se kind n_masks n_tokens n_observations n_bytes "
        "per_token bits_per_byte"
    )
    kept = {name: getattr(estimate, name) for name in names.split()}
    curve = estimate.curve
    return kept | {
        "per_observation": estimate.per_observation[:3].tolist(),
        "curve": [*curve.score[:2].tolist(), float(curve.score[-1])],
    }


def by_design(model: Any, data: Any, designs: dict[str, me.MaskDesign] = DESIGNS) -> Numbers:
    """An estimate for each design, with own and with shared masks, at the nodes that the model has."""
    return {
        f"{name}, {sharing}": numbers_of(
            me.estimate_evidence(model, data, design, seed=7, masks=sharing, refine=False)
        )
        for name, design in designs.items()
        for sharing in SHARING
    }


def both(x: np.ndarray) -> dict[str, np.ndarray]:
    """Complete rows, and the same with missing values."""
    return {"complete": x, "missing": with_holes(x)}


def rows(x: np.ndarray) -> me.Tokens:
    return me.Tokens.from_array(x, ids=np.arange(len(x)) * 3 + 5)


def estimates_of_rows() -> Numbers:
    """Every model of rows, on complete rows and on rows with missing values."""
    return {
        name: {kind: by_design(build(), rows(data)) for kind, data in both(x()).items()}
        for name, (build, x) in OF_ROWS.items()
    }


def masks() -> Numbers:
    """The masks themselves."""
    found: Numbers = {}
    for name, design in DESIGNS.items():
        for sharing in SHARING:
            for kind, x in both(values()).items():
                recorder = Recorder()
                me.estimate_evidence(recorder, rows(x), design, seed=7, masks=sharing, check=False)
                found[f"{name}, {sharing}, {kind}"] = " ".join(sorted(recorder.seen))
    return found


def conditionals() -> Numbers:
    """log p of each hidden token and the score of the mask, on masks that are written here."""
    hidden = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1], [1, 0, 1, 1]]).bool()
    found = {}
    for name, (build, x) in OF_ROWS.items():
        model, tokens = build(), rows(x())
        with torch.no_grad():
            log_p = model.log_conditionals(tokens, hidden)
            scores = me.score_masks(model, tokens, hidden)
            holed = rows(with_holes(x()))
            some = hidden & holed.maskable
            some[~some.any(1), 3] = True
            missing = model.log_conditionals(holed, some)
        found[name] = {"log_p": log_p.tolist(), "scores": scores.tolist(), "missing": missing.tolist()}
    return found


def evidence() -> Numbers:
    """Exact log evidences, bounds of it, samples."""
    found: Numbers = {}
    for name, (build, x) in OF_ROWS.items():
        if name == "a user's model":
            continue
        model, generator = build(), torch.Generator().manual_seed(0)
        entry: Numbers = {}
        for kind, data in both(x()).items():
            if isinstance(model, me.models.VAE):
                bound = model.importance_evidence(data, samples=32)
                annealed = model.annealed_evidence(data, annealing=me.models.Annealing(16, 10, 2))
                entry[kind] = {
                    "importance": bound.log_evidence.tolist(),
                    "standard_error": bound.standard_error.tolist(),
                    "effective_sample_size": bound.effective_sample_size.tolist(),
                    "annealed": annealed.log_evidence.tolist(),
                    "method": annealed.method,
                    "elbo": model.elbo(model.tokens(data), generator=generator).tolist(),
                }
            else:
                entry[kind] = {
                    "score_samples": model.score_samples(data).tolist(),
                    "log_evidence": model.log_evidence(model.tokens(data)).tolist(),
                }
        entry["sample"] = model.sample(2, seed=1).tolist()
        filled_in = me.impute(model, with_holes(x()))
        entry["impute"] = {"values": filled_in.values.tolist(), "variance": filled_in.variance.tolist()}
        entry["draw_missing"] = me.draw_missing(model, with_holes(x()), 1, seed=2).tolist()
        found[name] = entry
    return found


def moments() -> Numbers:
    """The path that needs the moments of the rows alone."""
    x = values(20)
    whole = me.GaussianMoments.from_rows(x[:12]).merge(me.GaussianMoments.from_rows(x[12:]))
    hidden = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]]).bool()
    found: Numbers = {"mean": whole.mean.tolist(), "covariance": whole.covariance.tolist()}
    for of, build in GAUSSIAN.items():
        model = build()
        estimates = {
            name: numbers_of(me.estimate_evidence(model, whole, design, seed=7))
            for name, design in AREAS.items()
        }
        loss = me.MaskedObjective(EVERY_SIZE, seed=5, masks="shared")(model, whole)
        with torch.no_grad():
            scores = model.score_moments(whole, hidden).tolist()
        found[of] = {"estimates": estimates, "scores": scores, "loss": loss.item()}
    return found


def numbers_of_masks() -> Numbers:
    """Designs of many and few masks of many rows with other ids, with the scores of tokens, and `Precise`."""
    ids, model, found = np.arange(20)[::-1] * 53, ppca(), {}
    for design in (me.EverySize(2), me.EverySize(8), me.RandomSize(8), me.RandomSize(12)):
        for sharing in SHARING:
            for kind, x in both(values(20)).items():
                tokens = me.Tokens.from_array(x, ids=ids)
                estimate = me.estimate_evidence(model, tokens, design, seed=7, masks=sharing)
                found[f"{design.name}, {design.n_repeats}, {sharing}, {kind}"] = numbers_of(estimate)
    x = me.Tokens.from_array(values(20), ids=ids)
    found["by token"] = numbers_of(me.estimate_evidence(model, x, me.RandomSize(8), seed=7, per_token=True))
    found["precise"] = numbers_of(me.estimate_evidence(model, x, me.Precise(target_se=0.3), seed=7))
    return found


def parameters(model: torch.nn.Module) -> Numbers:
    """A few of each parameter, and the sum of their squares."""
    return {
        name: {
            "first": value.detach().flatten()[:3].tolist(),
            "squares": float(value.detach().square().sum()),
        }
        for name, value in model.named_parameters()
    }


def history_of(history: me.History) -> Numbers:
    """The history as CSV has it, as numbers."""
    lines = [line.split(",") for line in history.to_csv().splitlines()[1:]]
    return {
        "rows": [[float(cell) if cell else None for cell in line] for line in lines],
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
    }


def fitted_in_closed_form() -> Numbers:
    """`model.fit`: maximum likelihood in closed form, by a few steps of EM or L-BFGS, and by the ELBO."""
    x = values(20)
    found: Numbers = {}
    for name, build in GAUSSIAN.items():
        model = build().fit(x)
        found[name] = {"parameters": parameters(model), "scores": model.score_samples(x[:3]).tolist()}
        # EM until it converges; its end is known less well than its steps
        missing = build().fit(with_holes(x), tolerance=1e-9)
        found[name]["missing"] = [round(float(s), 4) for s in missing.score_samples(x[:3])]
    model = bernoulli(integration=me.models.Grid(8, 4.0)).fit(binary(20), max_iterations=4)
    found["BernoulliPCA"] = parameters(model)
    model = vae().fit(x, epochs=2, batch_size=8)
    found["VAE"] = parameters(model)
    return found


def fitted_by_masks() -> Numbers:
    """`me.fit`: a few steps of Adam under every design, the likelihood and the bound."""
    x = values(20)
    by_grid = bernoulli(integration=me.models.Grid(8, 4.0))
    with_encoder = bernoulli(integration=me.models.Grid(8, 4.0))
    with_encoder.add_encoder()
    assert with_encoder.encoder is not None
    filled(with_encoder.encoder, 0.3, 8)
    by_moments = me.MaskedObjective(me.EverySize(1), masks="shared")
    found: Numbers = {}
    for label, design in AREAS.items():
        for sharing in SHARING:
            model = ppca()
            objective = me.MaskedObjective(design, seed=3, masks=sharing)
            history = me.fit(model, x, objective, epochs=2, batch_size=8, learning_rate=0.05, seed=1)
            found[f"PPCA, {label}, {sharing}"] = {
                "history": history_of(history),
                "parameters": parameters(model),
            }
    more: dict[str, tuple[Any, Any, Any]] = {
        "Gaussian, a design alone": (gaussian(), x, me.RandomSize(1, 1)),
        "PPCA, missing values": (ppca(), with_holes(x), me.RandomSize(4, 4)),
        "PPCA, moments": (ppca(), me.GaussianMoments.from_rows(x), by_moments),
        "PPCA, likelihood": (ppca(), x, me.Likelihood()),
        "FactorAnalysis, orderings": (factor_analysis(), x, me.Orderings(1)),
        "BernoulliPCA, every size": (by_grid, binary(20), me.EverySize(1)),
        "BernoulliPCA, bound": (with_encoder, binary(20), me.Elbo(seed=2)),
        "VAE, random size": (vae(), x, me.RandomSize(1, 1)),
        "VAE, bound": (vae(), x, me.Elbo(3, weighted=True, seed=2)),
    }
    for name, (model, data, objective) in more.items():
        ready = model.train() if name.startswith("VAE") else model
        history = me.fit(ready, data, objective, epochs=3, learning_rate=0.05, seed=1, evidence_every=0)
        found[name] = {"history": history_of(history), "parameters": parameters(model)}
    model = ppca()
    history = me.fit(
        model, x, me.RandomSize(1, 1), epochs=8, learning_rate=0.3, held_out=values(8, seed=0) + 1, patience=2
    )
    found["PPCA, patience"] = {"history": history_of(history), "parameters": parameters(model)}
    return found


def comparisons() -> Numbers:
    """`me.compare`: paired by masks, and by observations."""
    x = rows(values(12))
    models = {name: build() for name, build in GAUSSIAN.items()}
    found = {}
    for label, design in DESIGNS.items():
        for sharing in SHARING:
            estimates = {
                name: me.estimate_evidence(m, x, design, seed=7, masks=sharing) for name, m in models.items()
            }
            found[f"{label}, {sharing}"] = kept(me.compare(estimates).to_dict())
    other = [me.estimate_evidence(models["PPCA"], x, EVERY_SIZE, seed=seed) for seed in (0, 1)]
    found["other seeds"] = kept(me.compare(other).to_dict())
    return found


def selections() -> Numbers:
    """`me.select` in closed form and by masks."""
    found = {}
    for name, words, x in (
        ("closed form", "ppca,gaussian", values(20)),
        ("missing values", "factor-analysis,kernel-gaussian", with_holes(values(20))),
        ("by masks", "bernoulli-pca", binary(20)),
    ):
        selection = me.select(x, words, "1-2", folds=2)
        found[name] = {
            one.name: [one.log_evidence, one.mask_se, one.data_se, one.n_parameters]
            for one in selection.candidates
        } | {"choice": selection.chosen.name}
    return found


def variants() -> Numbers:
    """`me.variants` by every convention."""
    with tempfile.TemporaryDirectory() as folder:
        model = protein_model("Bert", Path(folder))
    names = ("wild-type-fill", "mutant-fill", "match-fill", "mask-fill", "unmasked", "joint", "joint-mixture")
    scores = me.variants(
        model, "MKTAYIAK", ["M1A", "K2R:T3A", "T3A", "A4G"], (*names, "pll", "whole"), draws=8
    )
    return {name: list(map(float, scores[name])) for name in (*names, "pll", "whole")}


def masked_lm() -> Numbers:
    """A small BERT on short texts, with whole words, and a network from ids to logits."""
    model = bert()
    tokens = model.tokens(TEXTS, ids=[5, 8, 11, 14])
    logits = torch.from_numpy(np.random.default_rng(4).normal(size=(8, 7))).float()
    table = me.models.MaskedLM.from_callable(
        lambda ids: logits[ids] + logits[ids].mean(1, keepdim=True), mask_token_id=7
    )
    everything = torch.ones(3, 4, dtype=torch.bool)
    words = me.Tokens(
        torch.from_numpy(np.random.default_rng(5).integers(7, size=(3, 4))),
        everything,
        ~everything,
        torch.arange(3),
    )
    whole = model.encode(["unbelievable rain", "a cat"])
    wrapped = me.models.WholeWords(model, whole)
    pairs = model.encode(["a cat", "the dog"], second=["sings", "falls"])
    prompts = model.tokens(["a cat", "the dog"], context=["who sings?", "rain"])
    blocks = model.encode(TEXTS * 3, block_size=10)
    found = {
        "MaskedLM": by_design(model, tokens, AREAS | POLICIES),
        "MaskedLM.from_callable": by_design(table, words, DESIGNS | POLICIES),
        "WholeWords": {
            design.name: numbers_of(me.estimate_evidence(wrapped, whole.tokens, design, seed=7))
            for design in (me.LeaveOneOut(), EVERY_SIZE)
        },
    }
    for name, one in (("pairs", pairs.tokens), ("prompts", prompts), ("blocks", blocks.tokens)):
        found[name] = numbers_of(me.estimate_evidence(model, one, RANDOM_SIZE, seed=7))
        found[f"{name}, ids"] = one.values.tolist()
    with torch.no_grad():
        hidden = tokens.maskable & (torch.arange(tokens.width) % 2 == 1)
        found["log_p"] = model.log_conditionals(tokens, hidden).tolist()
        found["score of each text"] = me.score_masks(model, tokens, tokens.maskable).tolist()
    return found


def collated() -> Numbers:
    """The masks, ids and weights that the collator of texts gives for a seed."""
    from maskevidence.integrations.huggingface import MaskSizeCollator

    tokenizer = bert().tokenizer
    features = [dict(tokenizer(text), id=number) for number, text in enumerate(TEXTS, 20)]
    options: dict[str, dict[str, Any]] = {
        "random sizes": {},
        "another seed": {"seed": 9},
        "a rate": {"mlm_probability": 0.4},
        "rates": {"design": me.Rates((0.2, 0.5, 0.9))},
        "several masks": {"design": EVERY_SIZE},
        "as transformers replaces": {
            "mlm_probability": 0.9,
            "mask_replace_prob": 0.4,
            "random_replace_prob": 0.3,
        },
        "padded": {"pad_to_multiple_of": 8},
    }
    found = {}
    for name, given in options.items():
        batch = MaskSizeCollator(tokenizer, **given)(features)
        found[name] = {key: batch[key].tolist() for key in ("input_ids", "labels", "mask_weight")}
    return found


def masked_image() -> Numbers:
    """A small ViT-MAE with both densities, with normalised patches, and a network from pixels to patches."""
    images = np.random.default_rng(6).integers(0, 256, (4, 8, 8, 1), dtype=np.uint8)
    held_out = np.random.default_rng(7).integers(0, 256, (6, 8, 8, 1), dtype=np.uint8)

    def load() -> Any:
        return me.models.MaskedImage(vit_mae(), pixel_mean=[0.4], pixel_std=[0.1]).eval()

    def normalised() -> Any:
        network = vit_mae()
        network.config.norm_pix_loss = True
        return me.models.MaskedImage(network, pixel_mean=[0.4], pixel_std=[0.1]).eval()

    def mean_of_visible() -> Any:
        def predict(pixels: Tensor, hidden: Tensor) -> Tensor:
            patches = pixels.reshape(-1, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(-1, 4, 16)
            visible = (~hidden)[:, :, None].float()
            mean = (patches * visible).sum((1, 2)) / (16 * visible.sum((1, 2)) + 1)
            return mean[:, None, None].expand_as(patches)

        return me.models.MaskedImage.from_callable(predict, image_size=8, patch_size=4, channels=1)

    variants: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "gaussian": (load, {}),
        "discretised": (load, {"density": "discretised"}),
        "normalised patches": (normalised, {}),
        "normalised patches brought back": (normalised, {"patch_statistics": "visible"}),
        "from_callable": (mean_of_visible, {}),
    }
    found: Numbers = {}
    for name, (build, options) in variants.items():
        model = build()
        tokens = model.tokens(images, np.arange(4) * 3 + 5)
        density = model.calibrate(model.tokens(held_out), **options)
        found[name] = {"density": density.to_dict(), "estimates": by_design(model, tokens, AREAS)}
        if name in ("gaussian", "normalised patches"):
            loss = me.models.ReconstructionLoss(model)
            found[f"reconstruction loss, {name}"] = by_design(loss, tokens, AREAS)
    model = load()
    model.calibrate(model.tokens(held_out))
    tokens = model.tokens(images)
    hidden = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1]]).bool()
    with torch.no_grad():
        found["log_p"] = model.log_conditionals(tokens, hidden).tolist()
        found["losses"] = model.reconstruction_losses(tokens, hidden).tolist()
        found["reconstructed"] = model.reconstruct(tokens, hidden)[0, 0].tolist()
    return found


def kept(content: Any) -> Any:
    """A result without what is of the moment, named by a path, or said in words."""
    if isinstance(content, dict):
        return {name: kept(value) for name, value in content.items() if name not in _NOT_KEPT}
    return [kept(entry) for entry in content] if isinstance(content, list | tuple) else content


def commands() -> Numbers:
    """What the commands say: each kind of run, training, and use of both."""
    found: Numbers = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_runs(write_world(Path()), tuple(name for name in RUNS if name != "train-ppca"))
        for name in RUNS:
            if (Path("runs", name) / "estimate.json").exists():
                found[f"run {name}"] = kept(json.loads(Path("runs", name, "estimate.json").read_text()))
        for name, words in COMMANDS.items():
            command(*words.split(), "--json", "said.json")
            found[name] = kept(json.loads(Path("said.json").read_text()))
        filled_in = np.genfromtxt("filled.csv", delimiter=",", skip_header=1)
        found["filled.csv"] = filled_in[:6].tolist()
    return found


SECTIONS: dict[str, Callable[[], Numbers]] = {
    section.__name__: section
    for section in (
        *(estimates_of_rows, masks, numbers_of_masks, conditionals, evidence, moments),
        *(fitted_in_closed_form, fitted_by_masks, comparisons, selections),
        *(variants, masked_lm, collated, masked_image, commands),
    )
}


def differences(found: Any, wanted: Any, rel: float, absolute: float, place: str = "") -> Iterator[str]:
    """Where a structure of numbers differs from the wanted one, a line each; more names are no difference."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if missing := wanted.keys() - found.keys():
            yield f"{place}: the names {sorted(missing)} are missing"
        for name in wanted.keys() & found.keys():
            yield from differences(found[name], wanted[name], rel, absolute, f"{place}/{name}")
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(found) != len(wanted):
            yield f"{place}: {len(found)} entries instead of {len(wanted)}"
        for k, (a, b) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(a, b, rel, absolute, f"{place}[{k}]")
    elif isinstance(wanted, float) and isinstance(found, int | float) and not isinstance(found, bool):
        if not math.isclose(found, wanted, rel_tol=rel, abs_tol=absolute):
            yield f"{place}: {found!r} instead of {wanted!r}"
    elif found != wanted:
        yield f"{place}: {found!r} instead of {wanted!r}"


def as_json(content: Any) -> Any:
    """The structure as a file gives it back: tuples are lists, and numbers are Python's."""
    return json.loads(json.dumps(content, allow_nan=False))


def computed(section: str) -> Any:
    """The numbers of a section, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return as_json(SECTIONS[section]())


def write() -> None:
    """Write numbers.json, a line for each entry of a section."""
    sections = []
    for name in SECTIONS:
        entries = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in computed(name).items()]
        sections.append(f"{json.dumps(name)}: {{\n" + ",\n".join(entries) + "\n}")
    FILE.write_text("{\n" + ",\n".join(sections) + "\n}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write()
