"""Size of the source, optionally beside that of another revision.

    python benchmarks/house.py --base 609ae8c

Lines are those of every Python file and stub in `src/maskevidence`. The length of a function runs from its
`def` to its last line without the docstring; its parameters include `*args` and `**kwargs`, but not `self`
and `cls`. Methods and nested functions count like any other function.
"""

import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _timing import arguments, finish, show

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/maskevidence"
LONG_FUNCTION, MANY_PARAMETERS, LONGEST_FILES = 60, 7, 8
NOW = "working tree"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class House:
    """What the source of one revision consists of.

    Attributes:
        files: lines of each Python file and stub, by its path in the package.
        classes: number of class definitions.
        long_functions: lines of each function longer than `LONG_FUNCTION`, by file and qualified name.
        wide_functions: parameters of each function with at least `MANY_PARAMETERS`, likewise.
    """

    files: dict[str, int]
    classes: int
    long_functions: dict[str, int]
    wide_functions: dict[str, int]

    @property
    def at_the_top(self) -> list[str]:
        return sorted(name for name in self.files if "/" not in name and not name.startswith("__init__"))


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Every class and function below a node of the syntax tree, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from definitions(child, f"{name}.")
        else:
            yield from definitions(child, prefix)


def n_lines(function: Function) -> int:
    """Lines of a function from its `def` to its end, without the docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def n_parameters(function: Function) -> int:
    """Parameters of a function, `*args` and `**kwargs` included, `self` and `cls` excluded."""
    args = function.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return sum(arg is not None and arg.arg not in ("self", "cls") for arg in named)


def measure(root: Path) -> House:
    """Count the files, lines, classes and functions of a checkout."""
    files: dict[str, int] = {}
    long_functions: dict[str, int] = {}
    wide_functions: dict[str, int] = {}
    classes = 0
    for path in sorted((root / PACKAGE).rglob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        name, source = path.relative_to(root / PACKAGE).as_posix(), path.read_text()
        files[name] = len(source.splitlines())
        for qualified, node in definitions(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                classes += 1
                continue
            if n_lines(node) > LONG_FUNCTION:
                long_functions[f"{name}:{qualified}"] = n_lines(node)
            if n_parameters(node) >= MANY_PARAMETERS:
                wide_functions[f"{name}:{qualified}"] = n_parameters(node)
    return House(files, classes, long_functions, wide_functions)


def check_out(revision: str, folder: Path) -> Path:
    """Unpack the package of a git revision into a folder."""
    command = ["git", "-C", str(ROOT), "archive", revision, PACKAGE]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"git cannot read the revision {revision!r}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def summary(house: House) -> dict[str, str]:
    """The counts of one revision, as they are shown."""
    return {
        "files": f"{len(house.files):,}",
        "lines": f"{sum(house.files.values()):,}",
        "median lines of a file": f"{statistics.median(house.files.values()):g}",
        "modules at the top": f"{len(house.at_the_top)}",
        "classes": f"{house.classes}",
        f"functions over {LONG_FUNCTION} lines": f"{len(house.long_functions)}",
        f"functions with {MANY_PARAMETERS} parameters or more": f"{len(house.wide_functions)}",
    }


def show_names(revision: str, house: House) -> None:
    """The names behind the counts of one revision, the largest first."""
    longest = dict(sorted(house.files.items(), key=_size)[:LONGEST_FILES])
    for what, unit, sizes in (
        ("longest files", "lines", longest),
        (f"functions over {LONG_FUNCTION} lines", "lines", house.long_functions),
        (f"functions with {MANY_PARAMETERS} parameters or more", "parameters", house.wide_functions),
    ):
        rows = [(name, str(size)) for name, size in sorted(sizes.items(), key=_size)]
        show(f"{revision}: {what}", ("name", unit), rows or [("none", "")])
    print(f"\n{revision}: modules at the top: {', '.join(house.at_the_top)}")


def _size(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--base", metavar="REVISION", help="measure this git revision, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        roots = {NOW: ROOT}
        if options.base is not None:
            roots = {options.base: check_out(options.base, Path(folder))} | roots
        houses = {revision: measure(root) for revision, root in roots.items()}
    counts = {revision: summary(house) for revision, house in houses.items()}
    rows = [(what, *(counts[revision][what] for revision in roots)) for what in counts[NOW]]
    show("The source", ("what", *roots), rows)
    for revision, house in houses.items():
        show_names(revision, house)
    numbers = {revision: vars(house) for revision, house in houses.items()}
    return finish(numbers, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
