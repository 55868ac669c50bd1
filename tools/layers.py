"""Draw the five floors of the package and what each room imports: docs/images/layers.svg.

The floors stand in the order of the import contract in pyproject.toml. A line leads from a room down to one
that it imports; it is the thicker, the more of its files do so.
"""

import ast
import tomllib
from collections import Counter
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maskevidence"
PICTURE = ROOT / "docs" / "images" / "layers.svg"
ABOUT = {
    "sklearn": "bridges\nto other tools",
    "tables": "wings\na kind of data each",
    "command": "command\nwhat every kind has",
    "runs": "runs\nfolders that resume",
    "core": "core\nknows no kind",
}
BLUE, ORANGE = "#0072B2", "#D55E00"


def floors() -> list[list[str]]:
    """The rooms of each floor, the highest first, without the front door."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rooms = [[room.strip() for room in layer.split("|")] for layer in layers]
    return [floor for floor in rooms if floor[0] in ABOUT]


def imports() -> Counter[tuple[str, str]]:
    """How many files of a room import another room, wherever the import stands."""
    pairs: Counter[tuple[str, str]] = Counter()
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        modules = (node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))
        parts = (module.split(".") for module in modules)
        pairs.update({(room, part[1]) for part in parts if part[0] == "maskevidence" and len(part) > 1})
    return pairs


def lines_of(room: str) -> int:
    """The lines of a room's files."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (PACKAGE / room).rglob("*.py"))


def draw() -> Figure:
    """A band for each floor with its rooms and their lines, and a line for each import."""
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    axes = figure.subplots()
    place: dict[str, tuple[float, float]] = {}
    for number, floor in enumerate(floors()):
        y = -1.5 * number
        axes.axhspan(y - 0.45, y + 0.45, color="0.95", zorder=0)
        axes.text(-0.1, y, ABOUT[floor[0]], ha="right", va="center", fontsize=9)
        for k, room in enumerate(floor):
            x = 8 * (k + 0.5) / len(floor)
            place[room] = (x, y)
            box = FancyBboxPatch((x - 0.68, y - 0.3), 1.36, 0.6, boxstyle="round,pad=0.02", zorder=3)
            box.set(facecolor="white", edgecolor="0.3")
            axes.add_patch(box)
            axes.text(x, y + 0.1, room, ha="center", va="center", fontsize=10, weight="bold", zorder=4)
            axes.text(
                x, y - 0.15, f"{lines_of(room):,} lines", ha="center", va="center", fontsize=8, zorder=4
            )
    for (upper, lower), n_files in imports().items():
        if upper == lower or upper not in place or lower not in place:
            continue
        (x, y), (x2, y2) = place[upper], place[lower]
        colour = BLUE if y > y2 else ORANGE
        xs, ys = [x, (x + x2) / 2, x2], [y - 0.3, (y + y2) / 2, y2 + 0.3]
        axes.plot(xs, ys, color=colour, alpha=0.45, linewidth=0.5 + 0.06 * n_files, zorder=1)
    axes.set_xlim(-2.2, 8.1)
    axes.set_ylim(-1.5 * (len(floors()) - 1) - 0.6, 0.6)
    axes.axis("off")
    return figure


if __name__ == "__main__":
    draw().savefig(PICTURE, format="svg", metadata={"Date": None})
