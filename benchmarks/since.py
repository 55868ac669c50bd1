"""Speed beside that of another revision: the same calls on both, in turns.

    python benchmarks/since.py --base REVISION

Two processes of one thread each hold one revision and are called in turns, so that a change in the machine's
speed affects both. What is measured is CPU time; each ratio is that of the two shortest rounds, which other
work on the machine has disturbed least. Beside it stand the passes of a call, the rows that went through the
model, and how far the numbers of both revisions are apart, relative to their size or 1. The calls are scores
of PPCA, of a Gaussian, of a Bernoulli model and of a small BERT, by designs and by decoding policies; scores
of mutants, and of questions and texts of the lm-evaluation-harness; and training by maximum likelihood and by
masked prediction. Takes about ten minutes.
"""

import json
import math
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

from _timing import Target, arguments, finish, machine, random_bert, show_results

ROOT = Path(__file__).resolve().parent.parent
AT_MOST = 1.05
SECONDS = 0.2  # a round repeats short calls for about this long
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
Call = Callable[[], object]


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
    targets, numbers = [], {}
    with tempfile.TemporaryDirectory() as folder:
        unpack(options.base, Path(folder))
        with worker(Path(folder) / "src") as base, worker(ROOT / "src") as now:
            for name in names[:1] if options.quick else names:
                answers = [(ask(base, name), ask(now, name)) for _ in range(rounds + 1)][1:]
                before, after = (
                    min(answer["seconds"] for answer in side) for side in zip(*answers, strict=True)
                )
                ratios = [now["seconds"] / base["seconds"] for base, now in answers]
                numbers[name] = {
                    "base": 1e3 * before,
                    "now": 1e3 * after,
                    "ratio": after / before,
                    "spread": f"{min(ratios):.2f} to {max(ratios):.2f}",
                    "passes": " / ".join(f"{answer['passes']:,}" for answer in answers[0]),
                    "apart": largest_difference(*(answer["numbers"] for answer in answers[0])),
                }
                targets.append(Target(f"time of {name}", after / before, high=AT_MOST))
                print(f"{name}: {after / before:.3f}", file=sys.stderr, flush=True)
    columns = {
        f"ms, {options.base}": "{base:.1f}",
        "ms, now": "{now:.1f}",
        "ratio": "{ratio:.3f}",
        "range of the rounds": "{spread}",
        "passes": "{passes}",
        "numbers apart": "{apart:.1g}",
    }
    show_results(f"CPU time of one call, one thread; {machine()}", "call", columns, numbers)
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


def ask(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """CPU seconds, passes and the numbers of one call."""
    to, answer = stream(process.stdin), stream(process.stdout)
    to.write(name + "\n")
    to.flush()
    line = answer.readline()
    if not line:
        raise SystemExit(f"{name} cannot be called in one of the revisions; see above")
    return json.loads(line)


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def work() -> int:
    """Answer each name on standard input with the CPU seconds, passes and numbers of its call."""
    import torch

    torch.set_num_threads(1)
    ready: dict[str, tuple[Call, int, dict[str, Any]]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            call, model = workloads()[name]()
            with counting(model) as passes:
                numbers = list(flat(call()))
            start = process_time()
            call()
            times = max(1, round(SECONDS / (process_time() - start)))
            ready[name] = call, times, {"passes": passes[0], "numbers": numbers}
        call, times, found = ready[name]
        start = process_time()
        for _ in range(times):
            call()
        print(json.dumps({"seconds": (process_time() - start) / times, **found}), flush=True)
    return 0


def flat(answer: object) -> Iterator[float | str]:
    """The numbers of an answer, and words for all that is none."""
    if isinstance(answer, dict | list | tuple):
        for part in answer.values() if isinstance(answer, dict) else answer:
            yield from flat(part)
    else:
        yield answer if isinstance(answer, int | float) else repr(answer)


def largest_difference(before: list[float | str], after: list[float | str]) -> float:
    """The largest difference of two answers, relative to the larger of 1 and the number; infinite for words.

    Example:
        >>> largest_difference([200.0, "a"], [100.0, "a"]), largest_difference(["a"], ["b"])
        (0.5, inf)
    """
    if len(before) != len(after):
        return math.inf
    apart = 0.0
    for old, new in zip(before, after, strict=True):
        if isinstance(old, str) or isinstance(new, str):
            apart = apart if old == new else math.inf
        elif not (math.isnan(old) and math.isnan(new)):
            apart = max(apart, abs(new - old) / max(1.0, abs(old)))
    return apart


@contextmanager
def counting(model: Any) -> Iterator[list[int]]:
    """Count the rows that go through a model, in a list with one entry."""
    methods = ("log_conditionals", "log_distributions", "unmasked_log_distributions", "score_orderings")
    passes = [0]

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(tokens: Any, masked: Any) -> Any:
            passes[0] += len(masked)
            return method(tokens, masked)

        return call

    present = [name for name in methods if hasattr(model, name)]
    for name in present:
        setattr(model, name, counted(getattr(model, name)))
    try:
        yield passes
    finally:
        for name in present:
            delattr(model, name)


def workloads() -> dict[str, Callable[[], tuple[Call, Any]]]:
    """What prepares each call and its model, by the call's name."""
    from functools import partial

    return {
        "random-size:8, PPCA, 5,000 x 100": lambda: scoring(table(5000, 100), "RandomSize", 8, 4),
        "random-size:8, PPCA, 500 x 64": lambda: scoring(table(500, 64), "RandomSize", 8),
        "every-size:4 of own masks, PPCA, 2,000 x 20": lambda: scoring(table(2000, 20), "EverySize", 4),
        "every-size:2 of shared masks, PPCA, 2,000 x 60": lambda: scoring(
            table(2000, 60), "EverySize", 2, masks="shared"
        ),
        "leave-one-out, PPCA, 500 x 100": lambda: scoring(table(500, 100), "LeaveOneOut"),
        "exhaustive, PPCA, 20 x 12": lambda: scoring(table(20, 12), "Exhaustive"),
        "exhaustive:order-mixture, PPCA, 20 x 11": lambda: scoring(table(20, 11), "Exhaustive", True),
        "random-size:8, Gaussian, 500 x 40": lambda: scoring(
            table(500, 40), "RandomSize", 8, 4, model="Gaussian"
        ),
        "orderings:2, Gaussian, 500 x 40": lambda: scoring(table(500, 40), "Orderings", 2, model="Gaussian"),
        "random-size:4, Bernoulli model, 200 x 30": bernoulli,
        "random-size:4, BERT of 2 layers, 40 texts": partial(bert, "RandomSize", 4, 4),
        "policy:confidence, BERT of 2 layers, 8 texts": partial(bert, "Policy", "confidence", rows=8),
        "policy:left-to-right, BERT of 2 layers, 8 texts": partial(bert, "Policy", "left-to-right", rows=8),
        "7 conventions, 599 mutants": partial(variants, 599, ()),
        "pll and whole, 8 mutants": partial(variants, 8, ("pll", "whole")),
        "lm-eval, 16 questions of 4 choices": partial(questions, range(16, 20)),
        "lm-eval, 16 questions of 4 short choices": partial(questions, range(2, 6)),
        "lm-eval, 16 texts": texts,
        "PPCA by maximum likelihood, 5,000 x 100": fitted,
        "PPCA by masked prediction, 20 steps": trained,
    }


def table(rows: int, columns: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    factors = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, columns))
    return factors + rng.standard_normal((rows, columns))


def scoring(x: Any, design: str, *how: Any, model: str = "PPCA", masks: str = "own") -> tuple[Call, Any]:
    """Score a fitted model of rows."""
    import maskevidence as me

    fitted = me.models.PPCA(x.shape[1], 5) if model == "PPCA" else me.models.Gaussian(n_features=x.shape[1])
    fitted.fit(x)
    drawn = getattr(me, design)(*how)
    return lambda: me.estimate_evidence(fitted, x, drawn, masks=masks).per_observation.tolist(), fitted


def bernoulli() -> tuple[Call, Any]:
    """Score a Bernoulli latent variable model, whose integration grid is refined first."""
    import torch

    import maskevidence as me

    torch.manual_seed(0)
    model = me.models.BernoulliPCA(30, 2)
    x = (table(200, 30) > 0).astype(float)
    tokens, design = me.Tokens.from_array(x), me.RandomSize(4, 4)
    return lambda: me.estimate_evidence(model, tokens, design).per_observation.tolist(), model


def network(vocabulary: int, tokenizer: Any = None) -> Any:
    """A BERT with random weights."""
    import maskevidence as me

    bert = random_bert(vocabulary, 64, 2, 2, intermediate_size=3072)
    return me.models.MaskedLM(bert, tokenizer, mask_token_id=4)


def bert(design: str, *how: Any, rows: int = 40) -> tuple[Call, Any]:
    """Score a BERT on rows of word pieces."""
    import torch

    import maskevidence as me

    model, drawn = network(2000), getattr(me, design)(*how)
    values = torch.randint(5, 2000, (rows, 48), generator=torch.Generator().manual_seed(1))
    everywhere = torch.ones_like(values, dtype=torch.bool)
    tokens = me.Tokens(values, everywhere, torch.zeros_like(everywhere), torch.arange(rows))
    return lambda: me.estimate_evidence(model, tokens, drawn).per_observation.tolist(), model


def letters(n: int) -> str:
    """A protein of random residues."""
    import numpy as np

    return "".join(np.random.default_rng(n).choice(list(RESIDUES), n))


def protein_model() -> Any:
    """A BERT of residues."""
    from maskevidence.texts.vocabulary import letter_tokenizer

    return network(5 + len(RESIDUES), letter_tokenizer([RESIDUES]))


def variants(n: int, conventions: tuple[str, ...]) -> tuple[Call, Any]:
    """Score single and double mutants of a protein of 120 residues."""
    import numpy as np

    import maskevidence as me

    model, wild_type, rng = protein_model(), letters(120), np.random.default_rng(0)
    sites = [sorted(rng.choice(20, 1 + k % 2, replace=False).tolist()) for k in range(n)]
    mutants = [
        ":".join(f"{wild_type[site]}{site + 1}{rng.choice(list(RESIDUES))}" for site in some)
        for some in sites
    ]
    chosen = {"conventions": conventions} if conventions else {}

    def score() -> object:
        found = me.variants(model, wild_type, mutants, **chosen)
        return {name: values.tolist() for name, values in found.scores.items()}

    return score, model


def questions(lengths: range) -> tuple[Call, Any]:
    """Decide between choices of these numbers of tokens, as the lm-evaluation-harness asks."""
    from types import SimpleNamespace

    asked = [
        SimpleNamespace(
            task_name="task",
            doc_id=k,
            idx=choice,
            doc=None,
            args=(letters(20 + k), letters(100 * k + 100 + n)[:n]),
        )
        for k in range(16)
        for choice, n in enumerate(lengths)
    ]
    answerer, model = lm_eval_answerer()
    task = SimpleNamespace(
        OUTPUT_TYPE="multiple_choice",
        config=SimpleNamespace(),
        _metric_fn_list=["acc"],
        doc_to_choice=lambda doc: ["choice"] * len(lengths),
    )
    return lambda: [
        (float(value), value.deviations.tolist(), greedy)
        for value, greedy in answerer().continuations(asked, {"task": task})
    ], model


def texts() -> tuple[Call, Any]:
    """Score whole texts, as the lm-evaluation-harness asks."""
    from types import SimpleNamespace

    answerer, model = lm_eval_answerer()
    asked = [SimpleNamespace(args=(letters(40 + k),)) for k in range(16)]
    return lambda: [(float(value), value.deviations.tolist()) for value in answerer().texts(asked)], model


def lm_eval_answerer() -> tuple[Callable[[], Any], Any]:
    """What makes an answerer of the harness's requests, and its model."""
    from maskevidence.lm_eval.answering import Answerer, Settings

    words = {"score": "evidence", "target": "decision", "masks": 16, "seed": 0}
    model = protein_model()
    return lambda: Answerer(model, Settings.parse(**words), None, 64), model


def fitted() -> tuple[Call, Any]:
    import maskevidence as me

    x = table(5000, 100)
    return lambda: numbers_of(me.models.PPCA(100, 5).fit(x)), None


def trained() -> tuple[Call, Any]:
    import torch

    import maskevidence as me

    x = table(1000, 50)

    def train() -> object:
        torch.manual_seed(0)
        model = me.models.PPCA(50, 5)
        me.fit(model, x, me.MaskedObjective(me.RandomSize(4)), epochs=5, batch_size=250)
        return numbers_of(model)

    return train, None


def numbers_of(model: Any) -> list[Any]:
    """The parameters of a model."""
    return [parameter.tolist() for parameter in model.parameters()]


if __name__ == "__main__":
    sys.exit(main())
