"""Does `me.check_model` raise a false alarm on masked language models, and how long does it take?

    python benchmarks/check_architectures.py

Small models with random weights of the 21 architectures of the tests, on rows of random tokens; and an ALBERT
trained on chemical reactions, if the package `rxnmapper` is installed (`pip install --no-deps
rxnmapper==0.4.3`; it is not imported, only its files are read; needs `MASKEVIDENCE_DATA`). Takes about two
minutes, half of it for the ALBERT.
"""

import sys
import time
from pathlib import Path

from _timing import Target, arguments, finish, machine, show
from leave_one_out import REACTIONS, reactions

# isort: split
import maskevidence as me

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from architectures import ARCHITECTURES, MASK, network, some_tokens


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    names = ["Bert"] if options.quick else sorted(ARCHITECTURES)
    tokens = some_tokens([8, 13, 20, 5, 16, 11, 9, 20])
    found = {name: check(me.models.MaskedLM(network(name), mask_token_id=MASK), tokens) for name in names}
    trained = None if options.quick else reactions(20)
    if trained is None:
        print("rxnmapper is not installed or not asked for; its model is left out", file=sys.stderr)
    else:
        found[REACTIONS] = check(*trained)
    rows = [
        (name, str(result["applied"]), f"{result['seconds']:.1f}", ", ".join(result["failed"]))
        for name, result in found.items()
    ]
    show(f"Checks of sound models; {machine()}", ("model", "checks applied", "s", "failed"), rows)
    n_failed = sum(len(result["failed"]) for result in found.values())
    targets = [
        Target(f"failed checks of {len(found)} models", n_failed, high=0),
        Target("seconds, BERT of 2 layers", found["Bert"]["seconds"], high=60),
    ]
    return finish(found, targets, options.json)


def check(model: me.models.MaskedLM, tokens: me.Tokens) -> dict:
    start = time.perf_counter()
    report = me.check_model(model, tokens)
    return {
        "seconds": time.perf_counter() - start,
        "applied": sum(finding.status != "skipped" for finding in report.findings),
        "failed": [finding.check for finding in report.failed],
    }


if __name__ == "__main__":
    sys.exit(main())
