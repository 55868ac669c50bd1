"""Figure 2: PPCA trained by the masked objective with all sizes, with random sizes, and with one rate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

import maskevidence as me
from paper import known_noise
from paper.figures import SEEDS, Claim, PaperFigure, put, shown
from paper.panels import BLACK, BLUE, ORANGE, name_axes, new_figure

N_ROWS, N_FEATURES, N_COMPONENTS = 2000, 10, 2
EPOCHS, LEARNING_RATE, RATE = 1000, 0.01, 0.2
QUICK = {"epochs": 100}
DESIGNS = {"all sizes": me.EverySize(1), "random sizes": me.RandomSize(1, 1), "20 %": me.FixedRate(RATE, 1)}


@dataclass(frozen=True)
class Training:
    """R initialisations trained together for E steps, in nats per observation.

    Attributes:
        objective: minus the loss before each step.
        log_evidence: the exact log evidence before each step and after the last.
        bias: D·S(x; M) of all masks of 20 % minus the log evidence at each of `bias_epochs`.
    """

    objective: Float64[np.ndarray, "R E"]
    log_evidence: Float64[np.ndarray, "R E+1"]
    bias: Float64[np.ndarray, "R n"]

    @property
    def end(self) -> Float64[np.ndarray, " R"]:
        """The log evidence after the last step."""
        return self.log_evidence[:, -1]

    def course(self, i: int) -> Iterable[tuple[float | None, float]]:
        """The objective, None after the last step, and the log evidence of an initialisation."""
        return zip([*self.objective[i].tolist(), None], self.log_evidence[i].tolist(), strict=True)


def train_together(
    x: Tensor, design: me.MaskDesign, seeds: Sequence[int], epochs: int, bias_epochs: Sequence[int] = ()
) -> Training:
    """Adam from W = randn(D, K) for every seed at once, with known noise and new masks at every epoch.

    `RandomSize` draws a mask for every row. The masks of the other designs are shared by the rows, one set
    per initialisation and epoch, and scored on the moments of the rows.
    """
    moments = me.GaussianMoments.from_rows(x)
    width = x.shape[1]
    loadings = known_noise.initial_loadings(width, N_COMPONENTS, seeds).requires_grad_()
    optimizer = torch.optim.Adam([loadings], lr=LEARNING_RATE)
    second = put(known_noise.second_moments(moments))
    objectives = [me.MaskedObjective(design, seed=seed, masks="shared") for seed in seeds]
    masks_of_rate = _every_mask_of_rate(width, len(seeds))
    objective, evidence, bias = [], [], []
    for epoch in shown(range(epochs + 1), f"Figure 2, {design.name}"):
        with torch.no_grad():
            evidence.append(known_noise.log_evidences(loadings, moments))
            if epoch in bias_epochs:
                of_masks = known_noise.moment_scores(loadings, second, masks_of_rate)
                bias.append(width * of_masks.mean(1) - evidence[-1])
        if epoch == epochs:
            break
        optimizer.zero_grad()
        if isinstance(design, me.RandomSize):
            value = _score_rows(loadings, x, design, seeds, epoch)
        else:
            drawn = [me.shared_masks(design, o.step_key(epoch), width) for o in objectives]
            masked, weight = (put(torch.stack(parts)) for parts in zip(*drawn, strict=True))
            value = (weight * known_noise.moment_scores(loadings, second, masked)).sum(1)
        loss = -value.sum()  # the gradient of one initialisation does not depend on the others
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        objective.append(value.detach())
    return Training(
        torch.stack(objective, 1).cpu().numpy(),
        torch.stack(evidence, 1).cpu().numpy(),
        torch.stack(bias, 1).cpu().numpy() if bias else np.empty((len(seeds), 0)),
    )


def _every_mask_of_rate(width: int, n_initialisations: int) -> Bool[Tensor, "R P D"]:
    """All masks that hide 20 % of the tokens, for each initialisation."""
    chosen = torch.combinations(torch.arange(width), max(1, int(RATE * width + 1e-9)))
    masked = torch.zeros(len(chosen), width, dtype=torch.bool).scatter(1, chosen, True)
    return put(masked.expand(n_initialisations, -1, -1))


def _score_rows(
    loadings: Tensor, x: Tensor, design: me.RandomSize, seeds: Sequence[int], epoch: int
) -> Tensor:
    """D·S(x; M) of one mask of random size for every row, averaged over the rows, for each initialisation.

    The formula of PPCA for a batch of all rows of all initialisations. K = 2, so that A⁻¹ is written out.
    """
    n_rows, width = x.shape
    ids, maskable = np.arange(n_rows), np.ones((n_rows, width), dtype=np.bool_)
    lengths, noise = np.full(n_rows, width), 1.0 / known_noise.PRECISION
    masked = []
    for seed in seeds:
        key = me.MaskedObjective(design, seed=seed).step_key(epoch)
        draw, size = design.plan(key, ids, lengths, np.zeros_like(ids))
        masked.append(torch.from_numpy(design.masked(key, ids, draw, size, maskable)))
    x, hidden = put(x), put(torch.stack(masked).double())  # (R, N, D)
    seen = 1 - hidden
    outer = (loadings[:, :, :, None] * loadings[:, :, None, :]).reshape(len(seeds), width, -1)
    a, b, _, d = (torch.eye(2, dtype=x.dtype, device=x.device).flatten() + seen @ outer / noise).unbind(2)
    inverse = torch.stack([d, -b, -b, a], 2) / (a * d - b * b)[:, :, None]
    projected = (seen * x) @ loadings / noise
    latent = (inverse.reshape(*inverse.shape[:2], 2, 2) @ projected[..., None])[..., 0]
    residual = x - latent @ loadings.mT
    variance = noise + inverse @ outer.mT
    log_density = -0.5 * (np.log(2 * np.pi) + torch.log(variance) + residual**2 / variance)
    return (width * (hidden * log_density).sum(2) / hidden.sum(2)).mean(1)


def optimum_of_rate(moments: me.GaussianMoments, seeds: Sequence[int]) -> float:
    """The exact log evidence at the optimum of the 20 % objective of all masks, maximised by L-BFGS.

    Of the optima that the initialisations lead to, the highest objective counts.
    """
    width = len(moments.mean)
    masked = _every_mask_of_rate(width, len(seeds))
    second = put(known_noise.second_moments(moments))
    loadings = known_noise.initial_loadings(width, N_COMPONENTS, seeds).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [loadings], max_iter=1000, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -known_noise.moment_scores(loadings, second, masked).mean(1).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = int(known_noise.moment_scores(loadings, second, masked).mean(1).argmax())
        return float(known_noise.log_evidences(loadings, moments)[best])


def figure_2(seeds: Sequence[int] = SEEDS, *, epochs: int = EPOCHS) -> PaperFigure:
    """PPCA (D=10, K=2, N=2000, β=5) trained by all sizes, by random sizes per row, and by 20 % alone.

    Adam with learning rate 0.01, one new mask per epoch and size (P=1), and five initialisations, on the
    published data and on data drawn from the model.
    """
    bias_epochs = sorted({round(epochs * share) for share in (0, 0.1, 0.2, 0.5, 1)})
    x, model = known_noise.published(N_ROWS, N_FEATURES, N_COMPONENTS)
    own = torch.from_numpy(model.sample(N_ROWS, seed=1991))
    claims, rows, numbers, runs = list[Claim](), [], {}, {}
    for source, data in (("published data", x), ("data from the model", own)):
        moments = me.GaussianMoments.from_rows(data)
        true = known_noise.log_evidence(model, moments)
        best = known_noise.log_evidence(known_noise.best_with_known_noise(moments, N_COMPONENTS), moments)
        runs[source] = {
            name: train_together(data, design, seeds, epochs, bias_epochs if name == "20 %" else ())
            for name, design in DESIGNS.items()
        }
        optimum = best - optimum_of_rate(moments, seeds)
        claims += _claims(source, runs[source], true, best, optimum, bias_epochs)
        numbers[source] = {
            "true_model": true,
            "maximum_likelihood": best,
            "gap_at_end": {name: (best - run.end).tolist() for name, run in runs[source].items()},
            "gap_at_optimum_of_20_percent": optimum,
            "bias_epochs": bias_epochs,
            "bias_of_20_percent": runs[source]["20 %"].bias.tolist(),
        }
        rows += [
            {"data": source, "objective_of": name, "seed": seed, "epoch": epoch}
            | {"objective": objective, "log_evidence": evidence}
            for name, run in runs[source].items()
            for i, seed in enumerate(seeds)
            for epoch, (objective, evidence) in enumerate(run.course(i))
        ]
    title = "Figure 2: PPCA trained by masked prediction, all sizes and one rate"
    drawing = partial(_draw, runs["published data"], numbers["published data"])
    return PaperFigure("figure_2", title, claims, rows, numbers, drawing)


def _claims(
    source: str, runs: dict[str, Training], true: float, best: float, optimum: float, bias_epochs: list[int]
) -> list[Claim]:
    """The claims on one source of data."""
    sizes, rate = runs["all sizes"], runs["20 %"]
    epochs = rate.objective.shape[1]
    short, half = epochs < EPOCHS, epochs // 2
    gaps = {name: best - run.end for name, run in runs.items()}
    claims = [
        Claim(f"{source}, {name}: the log evidence ends within 0.02 of maximum likelihood ({best:.4f})").by(
            f"short of it by {gaps[name].min():.4f} to {gaps[name].max():.4f} (true model {true:.4f})",
            gaps[name].max() < 0.02,
            too_short=short,
        )
        for name in ("all sizes", "random sizes")
    ]
    centred = sizes.objective[:, half:] - sizes.log_evidence[:, half:-1]
    mean, se = float(centred.mean()), float(centred.std(ddof=1) / np.sqrt(centred.size))
    words = f"{source}, all sizes: the objective is centred on the log evidence (second half, within 3 se)"
    claims.append(Claim(words, f"mean difference {mean:+.4f} ± {se:.4f}", abs(mean) <= 3 * se))
    gap, rise, source = gaps["20 %"], rate.end - rate.log_evidence[:, 0], f"{source}, 20 %"
    ends = f"rises by {rise.min():.1f} to {rise.max():.1f}, ends {gap.min():.3f} to {gap.max():.3f} short"
    by_epoch = zip(bias_epochs, rate.bias.mean(0), strict=True)
    course = ", ".join(f"{value:.2f} at {epoch}" for epoch, value in by_epoch)
    late, moved = (np.ptp(rate.bias[:, places], axis=1).max() for places in (slice(-2, None), slice(1, None)))
    return [
        *claims,
        Claim(f"{source}: the log evidence is still maximised (within 0.02 at epoch {epochs})").by(
            ends, gap.max() < 0.02, too_short=short
        ),
        Claim(f"{source}: the optimum of the objective maximises the log evidence (within 0.001)").by(
            f"every mask enumerated, L-BFGS: {optimum:.4f} short", optimum < 0.001
        ),
        Claim(f"{source}: the bias is constant during training (within 0.1 after a tenth of it)").by(
            f"mean bias {course}; over the second half it still moves by up to {late:.2f}",
            moved < 0.1,
            too_short=short,
        ),
    ]


def _draw(runs: dict[str, Training], numbers: dict[str, Any]) -> Any:
    figure, axes = new_figure(3, 12.0, 3.8)
    true, best = numbers["true_model"], numbers["maximum_likelihood"]
    epochs = runs["20 %"].objective.shape[1]
    low = float(np.quantile(runs["all sizes"].log_evidence[:, 5], 0.5))
    panels = (
        ("all sizes", 0, low, "sizes 1..10, one mask each"),
        ("20 %", 0, low, "20 % only (2 of 10), one mask"),
        ("20 %", epochs * 4 // 5, best - 5, "20 %, the last fifth of the epochs"),
    )
    for ax, (name, first, bottom, title) in zip(axes, panels, strict=True):
        epoch = np.arange(first, epochs + 1)
        objective, evidence = runs[name].objective[:, first:], runs[name].log_evidence[:, first:]
        thin = ax.plot(epoch[:-1], objective.T, color=ORANGE, linewidth=0.5, alpha=0.35)
        thick = ax.plot(epoch, evidence.T, color=BLUE, linewidth=1.3)
        thin[0].set_label("masked objective, each epoch's masks")
        thick[0].set_label("exact log evidence")
        ax.axhline(true, color=BLACK, linestyle="--", linewidth=1.0, label=f"true model, {true:.2f}")
        name_axes(ax, "epoch", title=title, limits=(first, epochs))
        ax.set_ylim(bottom, best + 6)
    axes[0].set_ylabel("nats per observation")
    many = "5 initialisations" if len(runs["20 %"].objective) == 5 else None
    axes[0].legend(fontsize=7.5, frameon=False, loc="lower right", title=many, title_fontsize=7.5)
    return figure
