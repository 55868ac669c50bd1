"""Speed beside that of another revision: the same calls on both, in turns.

    python benchmarks/since.py --base REVISION

Two processes of one thread each hold one revision and are called in turns, so that a change in the machine's
speed affects both. What is measured is CPU time; each ratio is that of the two shortest rounds, which other
work on the machine has disturbed least. The calls are those that every release has had: scores of PPCA, of a
Gaussian and of a Bernoulli model, of a small BERT, and training by maximum likelihood and by masked
prediction. Takes about three minutes.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from time import process_time
from typing import IO, Any

from _timing import Target, arguments, finish, machine, show

ROOT = Path(__file__).resolve().parent.parent
AT_MOST = 1.05
SECONDS = 0.2  # a round repeats short calls for about this long


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        return work()
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=15, help="how many times each revision takes its turn")
    parser.add_argument("--only", default="", help="only the calls whose name has this in it")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    names = [name for name in workloads() if options.only in name]
    rows, targets, numbers = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        unpack(options.base, Path(folder))
        with worker(Path(folder) / "src") as base, worker(ROOT / "src") as now:
            for name in names[:1] if options.quick else names:
                seconds: dict[str, list[float]] = {"base": [], "now": []}
                for _ in range(rounds + 1):
                    seconds["base"].append(ask(base, name))
                    seconds["now"].append(ask(now, name))
                before, after = (min(values[1:]) for values in seconds.values())
                ratios = [b / a for a, b in zip(seconds["base"][1:], seconds["now"][1:], strict=True)]
                numbers[name] = {"base": before, "now": after, "ratio": after / before}
                spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
                rows.append(
                    (name, f"{1e3 * before:.1f}", f"{1e3 * after:.1f}", f"{after / before:.3f}", spread)
                )
                targets.append(Target(f"time of {name}", after / before, high=AT_MOST))
                print(f"{name}: {after / before:.3f} ({spread})", file=sys.stderr, flush=True)
    columns = ("call", f"ms, {options.base}", "ms, now", "ratio", "range of the rounds")
    show(f"CPU time of one call, one thread; {machine()}", columns, rows)
    return finish({"calls": numbers}, targets, options.json)


def unpack(revision: str, folder: Path) -> None:
    """The sources of a revision, in a folder."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src"], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


@contextmanager
def worker(source: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the package of one revision and answers the name of a call with its seconds."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], name: str) -> float:
    """CPU seconds of one call."""
    to, answer = stream(process.stdin), stream(process.stdout)
    to.write(name + "\n")
    to.flush()
    return float(answer.readline())


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def work() -> int:
    """Answer each name on standard input with the CPU seconds of its call."""
    import torch

    torch.set_num_threads(1)
    ready: dict[str, tuple[Callable[[], object], int]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            call = workloads()[name]()
            call()
            start = process_time()
            call()
            ready[name] = call, max(1, round(SECONDS / (process_time() - start)))
        call, times = ready[name]
        start = process_time()
        for _ in range(times):
            call()
        print((process_time() - start) / times, flush=True)
    return 0


def workloads() -> dict[str, Callable[[], Callable[[], object]]]:
    """What prepares each call, by its name."""
    return {
        "random-size:8, PPCA, 5,000 x 100": lambda: scoring(table(5000, 100), "RandomSize", 8, 4),
        "every-size:4 of own masks, PPCA, 2,000 x 20": lambda: scoring(table(2000, 20), "EverySize", 4),
        "every-size:2 of shared masks, PPCA, 2,000 x 60": lambda: scoring(
            table(2000, 60), "EverySize", 2, masks="shared"
        ),
        "leave-one-out, PPCA, 500 x 100": lambda: scoring(table(500, 100), "LeaveOneOut"),
        "exhaustive, PPCA, 20 x 12": lambda: scoring(table(20, 12), "Exhaustive"),
        "random-size:8, Gaussian, 500 x 40": lambda: scoring(
            table(500, 40), "RandomSize", 8, 4, model="Gaussian"
        ),
        "orderings:2, Gaussian, 500 x 40": lambda: scoring(table(500, 40), "Orderings", 2, model="Gaussian"),
        "random-size:4, Bernoulli model, 200 x 30": bernoulli,
        "random-size:4, BERT of 2 layers, 40 texts": bert,
        "PPCA by maximum likelihood, 5,000 x 100": fitted,
        "PPCA by masked prediction, 20 steps": trained,
    }


def table(rows: int, columns: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    factors = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, columns))
    return factors + rng.standard_normal((rows, columns))


def scoring(x: Any, design: str, *how: int, model: str = "PPCA", masks: str = "own") -> Callable[[], object]:
    """Score a fitted model of rows."""
    import maskevidence as me

    fitted = me.models.PPCA(x.shape[1], 5) if model == "PPCA" else me.models.Gaussian(n_features=x.shape[1])
    fitted.fit(x)
    drawn = getattr(me, design)(*how)
    return lambda: me.estimate_evidence(fitted, x, drawn, masks=masks)


def bernoulli() -> Callable[[], object]:
    """Score a Bernoulli latent variable model, whose integration grid is refined first."""
    import torch

    import maskevidence as me

    torch.manual_seed(0)
    model = me.models.BernoulliPCA(30, 2)
    x = (table(200, 30) > 0).astype(float)
    tokens, design = me.Tokens.from_array(x), me.RandomSize(4, 4)
    return lambda: me.estimate_evidence(model, tokens, design)


def bert() -> Callable[[], object]:
    """Score a BERT with random weights on rows of word pieces."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    import maskevidence as me

    torch.manual_seed(0)
    network = BertForMaskedLM(
        BertConfig(vocab_size=2000, hidden_size=64, num_hidden_layers=2, num_attention_heads=2)
    )
    model = me.models.MaskedLM(network.eval(), mask_token_id=4)
    values = torch.randint(5, 2000, (40, 48), generator=torch.Generator().manual_seed(1))
    everywhere = torch.ones_like(values, dtype=torch.bool)
    tokens = me.Tokens(values, everywhere, torch.zeros_like(everywhere), torch.arange(40))
    return lambda: me.estimate_evidence(model, tokens, me.RandomSize(4, 4))


def fitted() -> Callable[[], object]:
    import maskevidence as me

    x = table(5000, 100)
    return lambda: me.models.PPCA(100, 5).fit(x)


def trained() -> Callable[[], object]:
    import torch

    import maskevidence as me

    x = table(1000, 50)

    def train() -> object:
        torch.manual_seed(0)
        return me.fit(
            me.models.PPCA(50, 5), x, me.MaskedObjective(me.RandomSize(4)), epochs=5, batch_size=250
        )

    return train


if __name__ == "__main__":
    sys.exit(main())
