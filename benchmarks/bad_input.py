"""A campaign of bad input: every case has to succeed, or to end in one line and exit code 2.

    python benchmarks/bad_input.py --cases 800 --seed 0

The cases are generated (tests/helpers/bad_commands.py): mutated data, models and runs, paths of every kind,
values that no option takes, several options at once, and words missing or strange, over every command of the
program. Each runs in a fork of a warm process with a watchdog of 20 seconds of computing. Faults are internal
errors, tracebacks, bare warnings, anything left behind after a refusal, a process that stays, and any change
outside the places that the command names.
"""

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

from _timing import Target, arguments, finish, show

# isort: split
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "agg"}

from bad_commands import build_world, cases, copy_world
from forked import run_forked, warm_up


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=640, help="their number")
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", type=int, help="run this one case, and show what it prints")
    options = parser.parse_args()
    n_cases = 40 if options.quick else options.cases
    devices = [os.stat(device).st_rdev for device in ("/dev/null", "/dev/full")]
    counts, faults, slowest = Counter(), [], []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bad-input-") as folder:
        os.environ |= {name: f"{folder}/{name}" for name in ("HF_HOME", "MPLCONFIGDIR", "TORCH_HOME")}
        valid = Path(folder) / "valid"
        valid.mkdir()
        build_world(valid)
        warm_up()
        for place, case in islice(enumerate(cases(options.seed)), options.first, options.first + n_cases):
            if options.only is not None and place != options.only:
                continue
            world = Path(folder) / "world"
            copy_world(valid, world)
            case.prepare(world)
            outcome = run_forked(case.words, world)
            fault = outcome.fault(case.may_write(world))
            shutil.rmtree(world)
            counts[case.kind, "fault" if fault else "success" if outcome.code == 0 else "refused"] += 1
            slowest.append((outcome.seconds, place, shlex.join(case.words)[:100]))
            if fault or options.only is not None:
                faults += [place] if fault else []
                text = f"{outcome.err[-3000:]}\n{outcome.changed[:6]}" if fault or options.only else ""
                print(f"case {place} ({case.kind}), {fault}: {shlex.join(case.words)!r}\n{text}", flush=True)
    if devices != [os.stat(device).st_rdev for device in ("/dev/null", "/dev/full")]:
        faults.append(-1)
        print("a device was replaced")
    kinds = sorted({kind for kind, _ in counts})
    rows = [(kind, *(str(counts[kind, what]) for what in ("success", "refused", "fault"))) for kind in kinds]
    show(
        f"{sum(counts.values())} cases of seed {options.seed}, {time.monotonic() - start:.0f} s",
        ("kind", "success", "refused in one line", "fault"),
        rows,
    )
    show(
        "The slowest",
        ("s", "case"),
        [(f"{s:.1f}", f"{place}: {text}") for s, place, text in sorted(slowest)[-5:]],
    )
    numbers = {"counts": {f"{kind}, {what}": n for (kind, what), n in counts.items()}, "seed": options.seed}
    targets = [Target("faults", len(faults), high=0)]
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
