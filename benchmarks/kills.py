"""Commands killed with SIGKILL at random moments and given again: everything is equal, to the last bit.

`score` and every kind of `train` are given once without a kill. Then, in a new folder each time, the command
is killed at a random moment between its start and its end, and given again. Scores, weights, history and
numbers must be those of the uninterrupted command, and no temporary file may be left. Each command runs in a
process that is forked after the imports, so that no moment is spent on them. Takes about eight minutes of one
core; Ctrl-C shows what was found until then.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

from _timing import Target, arguments, finish, machine, show

# isort: split
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from killed_commands import CASES, Killed, kill, prepare, uninterrupted

KILLS = 40


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    results: dict[str, Killed] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare()
        with contextlib.suppress(KeyboardInterrupt):
            for case in list(CASES)[:1] if options.quick else CASES:
                results[case] = uninterrupted(case, warm=not options.quick)
            for k in range(1 if options.quick else KILLS):
                for case, killed in results.items():
                    kill(case, k, killed)
                print(f"{k + 1}:", *(killed.equal for killed in results.values()), flush=True)
    results = {case: killed for case, killed in results.items() if killed.different}
    columns = ("command", "uninterrupted", "killed at", "some work saved", "equal afterwards")
    show("Killed with SIGKILL, and given again", columns, [row(*one) for one in results.items()])
    print(f"\n{machine()}")
    targets = [
        Target(f"{case}: equal", killed.equal, low=len(killed.different)) for case, killed in results.items()
    ]
    return finish({case: vars(killed) for case, killed in results.items()}, targets, options.json)


def row(case: str, killed: Killed) -> tuple[str, ...]:
    """The cells of one command."""
    moments = f"{min(killed.moments):.0%} to {max(killed.moments):.0%}"
    n, names = len(killed.different), sorted({name for names in killed.different for name in names})
    equal = f"{killed.equal} of {n}" + "".join(f", {name}" for name in names)
    return case, f"{killed.seconds:.1f} s", moments, str(killed.partial), equal


if __name__ == "__main__":
    sys.exit(main())
