"""Time and memory of a training epoch of the linear Bernoulli model, against the straightforward integral.

    python benchmarks/latent.py [--refine]

An epoch consists of the loss, its gradients and a step of Adam, with D=784, K=2, 20×20 nodes and float32. The
straightforward form holds log p(x_j | z_q) of every row, node and token at once, and uses one mask of 15 %
shared by all rows. Its masks are drawn beforehand, whereas the package draws them within the epoch. Both are
timed at N=500, where the array fits into the memory of most machines, and the package also at N=2000. Further
contestants are own masks for each row, random sizes, the exact likelihood of the same quadrature, and the
ELBO. Contestants take turns, and times are medians. Memory is the peak of a process that runs three epochs,
minus what the process held before the first.

`--refine` measures instead how the nodes of a model are found before a score: against an integral to a
hundredth of the tolerance, on a tenth of the rows, and against one to 1e-6 nats on all rows, as the package
did. Both must choose the same nodes. A floor is the log evidence of a tenth of the rows at the chosen nodes.
"""

import argparse
import copy
import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from _timing import (
    Target,
    arguments,
    finish,
    interleaved,
    machine,
    resident,
    show_results,
    spread_of_ratio,
    timed,
)

# isort: split
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import maskevidence as me
from maskevidence.models import BernoulliPCA, Grid

WIDTH, N_COMPONENTS, NODES = 784, 2, Grid(20, 5.0)
STRAIGHT, OURS, OWN = "straightforward, N×D×Q", "shared masks", "own masks"
OBJECTIVES: dict[str, Callable[[], object]] = {
    OURS: lambda: me.MaskedObjective(me.FixedRate(0.15, 1), masks="shared"),
    OWN: lambda: me.MaskedObjective(me.FixedRate(0.15, 1)),
    "own masks, random sizes": lambda: me.MaskedObjective(me.RandomSize(1, 1)),
    "likelihood": me.Likelihood,
    "ELBO": me.Elbo,
}


def straightforward_loss(model: BernoulliPCA, values: Tensor, masked: Tensor) -> Tensor:
    """-D·S(x; M) of one mask that all rows share, in the straightforward form."""
    points, log_weights = NODES.nodes(N_COMPONENTS, values.dtype)
    logits = points @ model.loadings.T + model.bias
    x = values[:, None, :]
    each = x * logsigmoid(logits) + (1 - x) * logsigmoid(-logits)  # (N, Q, D)
    log_posterior = torch.log_softmax(log_weights + each[:, :, ~masked].sum(2), 1)
    log_conditionals = torch.logsumexp(log_posterior[:, :, None] + each[:, :, masked], 1)
    return -values.shape[1] * log_conditionals.mean()


def epochs(n_rows: int) -> dict[str, Callable[[], Tensor]]:
    """Functions that run an epoch of each contestant on the same rows and return the loss before the step."""
    rows = BernoulliPCA(WIDTH, N_COMPONENTS, seed=1).sample(n_rows, seed=2)

    def model_and_step(encoder: bool) -> tuple[BernoulliPCA, Callable[[Callable[[], Tensor]], Tensor]]:
        model = BernoulliPCA(WIDTH, N_COMPONENTS, seed=3, dtype=torch.float32, encoder=encoder)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(loss_of: Callable[[], Tensor]) -> Tensor:
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return model, step

    def straightforward() -> Callable[[], Tensor]:
        model, step = model_and_step(encoder=False)
        values, objective = model.tokens(rows).values, OBJECTIVES[OURS]()
        masks = iter(
            me.shared_masks(objective.design, objective.step_key(i), WIDTH)[0][0] for i in range(10_000)
        )
        return lambda: step(lambda: straightforward_loss(model, values, next(masks)))

    def ours(name: str) -> Callable[[], Tensor]:
        model, step = model_and_step(encoder=name == "ELBO")
        tokens, objective = model.tokens(rows), OBJECTIVES[name]()
        return lambda: step(lambda: objective(model, tokens))

    return {STRAIGHT: straightforward()} | {name: ours(name) for name in OBJECTIVES}


def peak_memory(name: str, n_rows: int) -> float:
    """Memory in MiB that three epochs need in a separate process, in addition to what it held before."""
    command = [sys.executable, __file__, "--memory-of", name, "--rows", str(n_rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def memory_here(name: str, n_rows: int) -> float:
    """The same in this process."""
    contestant = epochs(n_rows)[name]
    torch.randn(64, 64).requires_grad_().square().sum().backward()  # start autograd and its threads
    ctypes.CDLL(None).malloc_trim(0)  # return freed memory, so that it cannot be reused unnoticed
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the memory resident now
    before = resident("VmRSS")
    for _ in range(3):
        contestant()
    return resident("VmHWM") - before


def refined(*, quick: bool) -> tuple[dict[str, dict[str, float]], list[Target]]:
    """CPU seconds of both ways to find the nodes, and of a score at them."""
    found = dict[str, dict[str, float]]()
    for n, width, n_components in [(40, 6, 1)] if quick else [(2000, 30, 2), (2000, 100, 2), (5000, 60, 1)]:
        model = BernoulliPCA(width, n_components, seed=1)
        with torch.no_grad():
            model.loadings.mul_(2)
        tokens = model.tokens(model.sample(n, seed=2))
        ours, before = copy.deepcopy(model), copy.deepcopy(model)
        few = tokens[torch.arange(max(n // 10, 1))]
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda ours=ours, tokens=tokens: ours.refine(tokens),
            "before": lambda before=before, tokens=tokens: refined_to_the_last(before, tokens),
            "floor": lambda ours=ours, few=few: ours.log_evidence(few),
            "score": lambda ours=ours, tokens=tokens: me.estimate_evidence(ours, tokens, refine=False),
        }
        spent = dict[str, float]()
        for name, way in ways.items():
            with torch.no_grad():
                _, spent[name] = timed(way)
        nodes, others = (each.integration.n_nodes_over(n_components) for each in (ours, before))
        found[f"{n:,} x {width}, K={n_components}"] = spent | {"nodes": nodes, "others": others}
    columns = {"s, ours": "{ours:.3f}", "s, 1e-6 and all rows": "{before:.2f}", "floor": "{floor:.3f}"}
    columns |= {"score after it": "{score:.2f}", "nodes": "{nodes}", "of the other": "{others}"}
    show_results(f"Finding the nodes, CPU seconds; {machine()}", "model", columns, found)
    other = sum(each["nodes"] != each["others"] for each in found.values())
    return found, [Target("models with other nodes", other, high=0)]


def refined_to_the_last(model: BernoulliPCA, tokens: me.Tokens, tolerance: float = 0.01) -> None:
    """Set the nodes that bring all rows within the tolerance of their integral to 1e-6 nats, on average."""
    integral = model.integrate(tokens).log_evidence
    while float((model.log_evidence(tokens) - integral).abs().mean()) > tolerance:
        model.integration = model.integration.finer()


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--refine", action="store_true", help="how the nodes of a model are found, instead")
    options = parser.parse_args()
    if options.refine:
        return finish(*refined(quick=options.quick), options.json)
    if options.memory_of is not None:
        print(json.dumps(memory_here(options.memory_of, options.rows)))
        return 0
    (few, many), rounds = (10, 20) if options.quick else (500, 2000), 7
    contestants = epochs(few)
    difference = abs(float(contestants[STRAIGHT]()) / float(contestants[OURS]()) - 1)
    timings = interleaved({name: contestants[name] for name in (STRAIGHT, *OBJECTIVES)}, rounds)
    larger = interleaved({k: v for k, v in epochs(many).items() if k != STRAIGHT}, 3 * rounds)
    of = memory_here if options.quick else peak_memory
    memory = {name: of(name, few) for name in (STRAIGHT, OURS, OWN)}
    memory_larger = {name: of(name, many) for name in (OURS, OWN)}
    slow = timings[STRAIGHT].median
    shown = {
        name: {
            "few": 1000 * timing.median,
            "faster": slow / timing.median,
            "spread": "" if name == STRAIGHT else spread_of_ratio(timings, STRAIGHT, name),
            "mib": f"{memory[name]:.0f}" if name in memory else "",
            "many": "" if name == STRAIGHT else f"{1000 * larger[name].median:.1f}",
            "mib_many": f"{memory_larger[name]:.0f}" if name in memory_larger else "",
        }
        for name, timing in timings.items()
    }
    columns = {f"ms, N={few}": "{few:.1f}", "times faster": "{faster:.1f}", "range": "{spread}"}
    columns |= {f"MiB, N={few}": "{mib}", f"ms, N={many}": "{many}", f"MiB, N={many}": "{mib_many}"}
    title = f"One epoch, medians of {rounds} and {3 * rounds} rounds; {machine()}"
    show_results(title, "method", columns, shown)
    targets = [
        Target("times faster, shared masks", slow / timings[OURS].median, low=10.0),
        Target("times less memory, shared masks", memory[STRAIGHT] / max(memory[OURS], 1e-9), low=20.0),
        Target("relative difference of the losses (float32)", difference, high=1e-5),
    ]
    numbers = {
        "seconds": {f"N={few}": {k: list(v.seconds) for k, v in timings.items()}}
        | {f"N={many}": {k: list(v.seconds) for k, v in larger.items()}},
        "mib": {f"N={few}": memory, f"N={many}": memory_larger},
    }
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
