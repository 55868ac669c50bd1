"""Numbers of every model, mask design and kind of run, quick to compute.

`python tests/helpers/golden_numbers.py` rewrites tests/golden/numbers.json. Do this only if a number was
meant to change; the commit then says which number, and why.
"""

import hashlib
import itertools
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import maskevidence as me
from paper.encoding_decoding import EncodingDecoding
from protein_models import protein_model
from report_runs import command
from small_world import RUNS, bert, filled, values, vit_mae, with_holes, write_runs, write_world

FILE = Path(__file__).parents[1] / "golden" / "numbers.json"
D, N = 4, 5
EVERY_SIZE, RANDOM_SIZE = me.EverySize(2), me.RandomSize(8, 4)
SHARING = ("own", "shared")
AREAS = {  # designs for which training works, too
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
# name -> command, to be run in a folder with the files, models and runs of small_world.py
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
    "score to a target": "score ppca:2 data/table.csv --target-se 0.3,max_passes=4000",
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
}
_FLOAT32 = ("masked_lm", "masked_image", "collated", "variants", "commands")
# Entries of a result to keep, at any depth.
_KEPT = (
    *(
        "log_evidence",
        "mask_se",
        "data_se",
        "closed_form",
        "lower",
        "area",
        "n_masks",
        "frequencies_per_token",
    ),
    *(
        "difference",
        "standard_error",
        "log_evidence_train",
        "log_evidence_held_out",
        "loss",
        "sd",
        "choice",
    ),
)
Numbers = dict[str, list[Any]]


def tolerance(section: str) -> dict[str, float]:
    """The tolerance of a section: float32 networks, iterative fits, or everything else.

    A fit to rows with holes stops when 20 steps gain too little; processors with different rounding of sums
    stop up to 1e-8 apart.
    """
    if section in _FLOAT32:
        return {"rel": 1e-5, "abs": 1e-5}
    return {"rel": 1e-7, "abs": 1e-9} if section == "selections" else {"rel": 1e-9, "abs": 1e-11}


def binary(n: int = N, d: int = D) -> np.ndarray:
    """Random rows of 0 and 1."""
    return (values(n, d) > 0).astype(float)


class TableOfStates(torch.nn.Module):
    """A user-defined model: 0/1 tokens with a table of joint probabilities."""

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
    """A model that records the masks it is asked for."""

    conditionals = "exact"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def log_conditionals(self, tokens: me.Tokens, masked: Tensor) -> Tensor:
        for number, row in zip(tokens.ids.tolist(), masked.tolist(), strict=True):
            self.seen.append(f"{number}:{''.join('1' if hidden else '0' for hidden in row)}")
        return torch.where(masked, -1.0, 0.0).double()


def vae(likelihood: str = "gaussian", conditioning: Any = None) -> Any:
    """A VAE with networks of a few units in float64."""
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
    "VAE by encoding and decoding": (lambda: vae("gaussian", EncodingDecoding(4, 2)), values),
    "Bernoulli VAE": (lambda: vae("bernoulli"), binary),
    "a user's model": (TableOfStates, binary),
}


def few(result: Any) -> list[Any]:
    """Collect the entries of a result that are in `_KEPT`, at any depth."""
    if isinstance(result, Mapping):
        kept = [[value] if name in _KEPT else few(value) for name, value in result.items()]
    elif isinstance(result, list | tuple):
        kept = [few(entry) for entry in result]
    else:
        return []
    return list(itertools.chain.from_iterable(kept))


def flat(*arrays: Any) -> list[float]:
    """All numbers in arrays or tensors that are neither 0 nor NaN."""
    numbers = np.concatenate([np.asarray(array, dtype=float).ravel() for array in arrays])
    return [float(number) for number in numbers if number and not np.isnan(number)]


def by_design(
    name: str,
    model: Any,
    data: Any,
    designs: Mapping[str, me.MaskDesign] = DESIGNS,
    sharings: tuple[str, ...] = SHARING,
) -> Numbers:
    """Log evidence and mask_se for each design, at the model's current nodes."""
    found: Numbers = {}
    for (label, design), sharing in itertools.product(designs.items(), sharings):
        one = me.estimate_evidence(model, data, design, seed=7, masks=sharing, refine=False)
        found[f"{name}, {label}, {sharing}"] = [one.log_evidence, one.mask_se]
    return found


def both(x: np.ndarray) -> dict[str, np.ndarray]:
    """The rows, complete and with missing values."""
    return {"complete": x, "missing": with_holes(x)}


def rows(x: np.ndarray) -> me.Tokens:
    return me.Tokens.from_array(x, ids=np.arange(len(x)) * 3 + 5)


def estimates_of_rows() -> Numbers:
    """Every model of rows, on complete rows and on rows with missing values."""
    found: Numbers = {}
    for name, (build, x) in OF_ROWS.items():
        found |= by_design(f"{name}, complete", build(), rows(x()))
        found |= by_design(f"{name}, missing", build(), rows(with_holes(x())), sharings=("own",))
    return found


def masks() -> Numbers:
    """A hash of the masks drawn for each design."""
    found: Numbers = {}
    for (name, design), sharing in itertools.product(DESIGNS.items(), SHARING):
        for kind, x in both(values()).items():
            recorder = Recorder()
            me.estimate_evidence(recorder, rows(x), design, seed=7, masks=sharing, check=False)
            seen = " ".join(sorted(recorder.seen)).encode()
            found[f"{name}, {sharing}, {kind}"] = [hashlib.sha256(seen).hexdigest()[:12]]
    return found


def numbers_of_masks() -> Numbers:
    """Designs with many and few masks on many rows with unordered ids, scores by token, and `Precise`."""
    ids, model, found = np.arange(20)[::-1] * 53, ppca(), {}

    def errors(tokens: me.Tokens, design: me.MaskDesign, **options: Any) -> list[Any]:
        one = me.estimate_evidence(model, tokens, design, seed=7, **options)
        return [one.log_evidence, one.mask_se, one.mask_df, one.data_se, one.kind, one.n_masks]

    for kind, x in both(values(20)).items():
        tokens = me.Tokens.from_array(x, ids=ids)
        for design in (me.EverySize(2), me.EverySize(8), me.RandomSize(8), me.RandomSize(12)):
            for sharing in SHARING:
                name = f"{design.name}, {design.n_repeats}, {sharing}, {kind}"
                found[name] = errors(tokens, design, masks=sharing)
    complete = me.Tokens.from_array(values(20), ids=ids)
    found["by token"] = errors(complete, me.RandomSize(8), per_token=True)
    found["precise"] = errors(complete, me.Precise(target_se=0.3))
    return found


def evidence() -> Numbers:
    """Exact log evidences, bounds, samples, imputed and drawn values."""
    found: Numbers = {}
    for name, (build, x) in OF_ROWS.items():
        if name == "a user's model":
            continue
        model, generator = build(), torch.Generator().manual_seed(0)
        for kind, data in both(x()).items():
            if isinstance(model, me.models.VAE):
                bound = model.importance_evidence(data, samples=32)
                annealed = model.annealed_evidence(data, annealing=me.models.Annealing(16, 10, 2))
                elbo = model.elbo(model.tokens(data), generator=generator).detach()
                parts = (bound.log_evidence, bound.standard_error, annealed.log_evidence, elbo)
                found[f"{name}, {kind}"] = [float(part[0]) for part in parts]
            else:
                found[f"{name}, {kind}"] = flat(model.score_samples(data))
        filled_in, hole = me.impute(model, with_holes(x())), np.isnan(with_holes(x()))
        found[f"{name}, sample"] = flat(model.sample(2, seed=1)[0])
        found[f"{name}, holes"] = flat(filled_in.values[hole], filled_in.variance[hole])
        found[f"{name}, drawn"] = flat(me.draw_missing(model, with_holes(x()), 1, seed=2)[0][hole])
    return found


def moments() -> Numbers:
    """Estimates and losses computed from the moments of the rows."""
    x = values(20)
    whole = me.GaussianMoments.from_rows(x[:12]).merge(me.GaussianMoments.from_rows(x[12:]))
    hidden = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]]).bool()
    found: Numbers = {"rows": flat(whole.mean, whole.covariance)}
    for name, build in GAUSSIAN.items():
        model = build()
        for label, design in AREAS.items():
            one = me.estimate_evidence(model, whole, design, seed=7)
            found[f"{name}, {label}"] = [one.log_evidence, one.mask_se]
        loss = me.MaskedObjective(EVERY_SIZE, seed=5, masks="shared")(model, whole)
        found[name] = flat(model.score_moments(whole, hidden).detach(), loss.detach())
    return found


def parameters(model: torch.nn.Module) -> list[float]:
    """Each parameter's sum of squares."""
    return [float(value.detach().square().sum()) for _, value in model.named_parameters()]


def fitted_in_closed_form() -> Numbers:
    """`model.fit`: maximum likelihood in closed form, a few steps of EM or L-BFGS, and the ELBO."""
    x = values(20)
    found: Numbers = {}
    for name, build in GAUSSIAN.items():
        model = build().fit(x)
        # EM to convergence; its end point is less reproducible than its steps
        missing = build().fit(with_holes(x), tolerance=1e-9)
        holed = [round(float(score), 4) for score in missing.score_samples(x[:3])]
        found[name] = [*parameters(model), *flat(model.score_samples(x[:3])), *holed]
    by_grid = bernoulli(integration=me.models.Grid(8, 4.0))
    found["BernoulliPCA"] = parameters(by_grid.fit(binary(20), max_iterations=4))
    found["VAE"] = parameters(vae().fit(x, epochs=2, batch_size=8))
    return found


def fitted_by_masks() -> Numbers:
    """`me.fit`: a few steps of Adam with every design, the likelihood and the bound."""
    x = values(20)
    found: Numbers = {}

    def fitted(name: str, model: Any, data: Any, objective: Any, **options: Any) -> None:
        history = me.fit(model, data, objective, learning_rate=0.05, seed=1, **options)
        last = [float(cell) for cell in history.to_csv().splitlines()[-1].split(",") if cell]
        found[name] = [*last, *parameters(model)]

    for (label, design), sharing in itertools.product(AREAS.items(), SHARING):
        objective = me.MaskedObjective(design, seed=3, masks=sharing)
        fitted(f"PPCA, {label}, {sharing}", ppca(), x, objective, epochs=2, batch_size=8)
    by_grid, with_encoder = (bernoulli(integration=me.models.Grid(8, 4.0)) for _ in range(2))
    with_encoder.add_encoder()
    filled(with_encoder.encoder, 0.3, 8)
    by_moments = me.MaskedObjective(me.EverySize(1), masks="shared")
    more: dict[str, tuple[Any, Any, Any]] = {
        "Gaussian, a design alone": (gaussian(), x, me.RandomSize(1, 1)),
        "PPCA, missing values": (ppca(), with_holes(x), me.RandomSize(4, 4)),
        "PPCA, moments": (ppca(), me.GaussianMoments.from_rows(x), by_moments),
        "PPCA, likelihood": (ppca(), x, me.Likelihood()),
        "FactorAnalysis, orderings": (factor_analysis(), x, me.Orderings(1)),
        "BernoulliPCA, every size": (by_grid, binary(20), me.EverySize(1)),
        "BernoulliPCA, bound": (with_encoder, binary(20), me.Elbo(seed=2)),
        "VAE, random size": (vae().train(), x, me.RandomSize(1, 1)),
        "VAE, bound": (vae().train(), x, me.Elbo(3, weighted=True, seed=2)),
    }
    for name, given in more.items():
        fitted(name, *given, epochs=3, evidence_every=0)
    model, held_out = ppca(), values(8, seed=0) + 1
    stopped = me.fit(
        model, x, me.RandomSize(1, 1), epochs=8, learning_rate=0.3, held_out=held_out, patience=2
    )
    found["PPCA, patience"] = [stopped.best_epoch, stopped.stopped, *parameters(model)]
    return found


def comparisons() -> Numbers:
    """`me.compare`, paired by masks and by observations."""
    x = rows(values(12))
    models = {name: build() for name, build in GAUSSIAN.items()}
    found: Numbers = {}
    for (label, design), sharing in itertools.product(DESIGNS.items(), SHARING):
        estimates = {
            name: me.estimate_evidence(m, x, design, seed=7, masks=sharing) for name, m in models.items()
        }
        found[f"{label}, {sharing}"] = few(me.compare(estimates).to_dict())
    other = [me.estimate_evidence(models["PPCA"], x, EVERY_SIZE, seed=seed) for seed in (0, 1)]
    found["other seeds"] = few(me.compare(other).to_dict())
    return found


def selections() -> Numbers:
    """`me.select` in closed form and by masks."""
    found: Numbers = {}
    for name, words, x in (
        ("closed form", "ppca,gaussian", values(20)),
        ("missing values", "factor-analysis,kernel-gaussian", with_holes(values(20))),
        ("by masks", "bernoulli-pca", binary(20)),
    ):
        selection = me.select(x, words, "1-2", folds=2)
        found[name] = [selection.chosen.name]
        for one in selection.candidates:
            found[f"{name}, {one.name}"] = [one.log_evidence, one.mask_se, one.data_se, one.n_parameters]
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
    """A small BERT on short texts, with and without whole words, and a network from ids to logits."""
    model = bert()
    tokens = model.tokens(TEXTS, ids=[5, 8, 11, 14])
    logits = torch.from_numpy(np.random.default_rng(4).normal(size=(8, 7))).float()
    table = me.models.MaskedLM.from_callable(
        lambda ids: logits[ids] + logits[ids].mean(1, keepdim=True), mask_token_id=7
    )
    everything = torch.ones(3, 4, dtype=torch.bool)
    drawn = torch.from_numpy(np.random.default_rng(5).integers(7, size=(3, 4)))
    found = by_design("MaskedLM", model, tokens, AREAS | POLICIES)
    words = me.Tokens(drawn, everything, ~everything, torch.arange(3))
    found |= by_design("from_callable", table, words, DESIGNS | POLICIES)
    whole = model.encode(["unbelievable rain", "a cat"])
    one_or_all = {"leave-one-out": me.LeaveOneOut(), "every-size": EVERY_SIZE}
    found |= by_design("WholeWords", me.models.WholeWords(model, whole), whole.tokens, one_or_all, ("own",))
    encoded = {
        "pairs": model.encode(["a cat", "the dog"], second=["sings", "falls"]).tokens,
        "prompts": model.tokens(["a cat", "the dog"], context=["who sings?", "rain"]),
        "blocks": model.encode(TEXTS * 3, block_size=10).tokens,
    }
    for name, one in encoded.items():
        found |= by_design(name, model, one, {"random-size": RANDOM_SIZE}, ("own",))
        found[f"{name}, ids"] = flat(one.values)
    return found


def collated() -> Numbers:
    """The collator's masks, ids and weights for a seed."""
    from maskevidence.huggingface import MaskSizeCollator

    tokenizer = bert().tokenizer
    features = [dict(tokenizer(text), id=number) for number, text in enumerate(TEXTS, 20)]
    replaced = {"mlm_probability": 0.9, "mask_replace_prob": 0.4, "random_replace_prob": 0.3}
    options: dict[str, dict[str, Any]] = {
        "random sizes": {},
        "another seed": {"seed": 9},
        "a rate": {"mlm_probability": 0.4},
        "rates": {"design": me.Rates((0.2, 0.5, 0.9))},
        "several masks": {"design": EVERY_SIZE},
        "as transformers replaces": replaced,
        "padded": {"pad_to_multiple_of": 8},
    }
    found: Numbers = {}
    for name, given in options.items():
        batch = MaskSizeCollator(tokenizer, **given)(features)
        labels = batch["labels"].clamp(min=0)
        found[name] = flat(batch["input_ids"], labels, batch["mask_weight"])
    return found


def masked_image() -> Numbers:
    """A small ViT-MAE with both densities and normalised patches, and a network from pixels to patches."""
    images = np.random.default_rng(6).integers(0, 256, (4, 8, 8, 1), dtype=np.uint8)
    held_out = np.random.default_rng(7).integers(0, 256, (6, 8, 8, 1), dtype=np.uint8)

    def load(*, normalised: bool = False) -> Any:
        network = vit_mae()
        network.config.norm_pix_loss = normalised
        return me.models.MaskedImage(network, pixel_mean=[0.4], pixel_std=[0.1]).eval()

    def mean_of_visible(pixels: Tensor, hidden: Tensor) -> Tensor:
        patches = pixels.reshape(-1, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(-1, 4, 16)
        visible = (~hidden)[:, :, None].float()
        mean = (patches * visible).sum((1, 2)) / (16 * visible.sum((1, 2)) + 1)
        return mean[:, None, None].expand_as(patches)

    by_callable = me.models.MaskedImage.from_callable
    variants: dict[str, tuple[Any, dict[str, Any]]] = {
        "gaussian": (load(), {}),
        "discretised": (load(), {"density": "discretised"}),
        "normalised patches": (load(normalised=True), {}),
        "normalised patches brought back": (load(normalised=True), {"patch_statistics": "visible"}),
        "from_callable": (by_callable(mean_of_visible, image_size=8, patch_size=4, channels=1), {}),
    }
    found: Numbers = {}
    for name, (model, options) in variants.items():
        tokens = model.tokens(images, np.arange(4) * 3 + 5)
        found[name] = list(model.calibrate(model.tokens(held_out), **options).to_dict()["variances"])
        found |= by_design(name, model, tokens, AREAS)
        if name in ("gaussian", "normalised patches"):
            found |= by_design(f"loss, {name}", me.models.ReconstructionLoss(model), tokens, AREAS)
    return found


def commands() -> Numbers:
    """The numbers in the commands' JSON: runs, trainings, and commands that use them."""
    found: Numbers = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_runs(write_world(Path()), tuple(name for name in RUNS if name != "train-ppca"))
        for file in sorted(Path("runs").glob("*/estimate.json")):
            found[f"run {file.parent.name}"] = few(json.loads(file.read_text()))
        for name, words in COMMANDS.items():
            command(*words.split(), "--json", "said.json")
            found[name] = few(json.loads(Path("said.json").read_text()))
            Path("said.json").unlink()
        found["filled.csv"] = flat(np.genfromtxt("filled.csv", delimiter=",", skip_header=1)[:3])
    return found


SECTIONS: dict[str, Callable[[], Numbers]] = {
    section.__name__: section
    for section in (
        *(estimates_of_rows, masks, numbers_of_masks, evidence, moments),
        *(fitted_in_closed_form, fitted_by_masks, comparisons, selections),
        *(variants, masked_lm, collated, masked_image, commands),
    )
}


def computed(section: str) -> Numbers:
    """Compute a section with warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SECTIONS[section]()


def write() -> None:
    """Write numbers.json with one line per entry."""
    sections = []
    for name in SECTIONS:
        entries = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in computed(name).items()]
        sections.append(f"{json.dumps(name)}: {{\n" + ",\n".join(entries) + "\n}")
    FILE.write_text("{\n" + ",\n".join(sections) + "\n}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write()
