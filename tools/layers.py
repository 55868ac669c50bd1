"""Draw the rooms of the package and what each imports, from the imports themselves: docs/images/layers.svg.

Rooms stand in the order of the import contract in pyproject.toml, the highest floor first. A line leads from
a room down to one that it imports; it is the thicker, the more of its files do so.
"""

import ast
import tomllib
from collections import Counter
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Arc

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maskevidence"
PICTURE = ROOT / "docs" / "images" / "layers.svg"


def floors() -> list[list[str]]:
    """The rooms of each layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in layers]


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
    folder = PACKAGE / room
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def draw() -> Figure:
    """A column of rooms with their lines, and an arc for each import."""
    rooms = [room for layer in floors() for room in layer]
    height = {room: -0.5 * number for number, room in enumerate(rooms)}
    figure = Figure(figsize=(7, 0.36 * len(rooms)), layout="constrained")
    axes = figure.subplots()
    for room in rooms:
        axes.text(0, height[room], room, ha="right", va="center", fontsize=10, weight="bold")
        axes.text(
            -1.8, height[room], f"{lines_of(room):,} lines", ha="right", va="center", fontsize=9, color="0.4"
        )
    for (upper, lower), n_files in imports().items():
        if upper == lower or upper not in height or lower not in height:
            continue
        middle, span = (height[upper] + height[lower]) / 2, abs(height[upper] - height[lower])
        colour = "#0072B2" if height[upper] > height[lower] else "#D55E00"
        style = {"color": colour, "alpha": 0.5, "linewidth": 0.4 + 0.12 * n_files}
        axes.add_patch(Arc((0.1, middle), span, span, theta1=-90, theta2=90, **style))
    axes.set_xlim(-3.0, 0.3 + 0.25 * len(rooms))
    axes.set_ylim(min(height.values()) - 0.5, 0.5)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


if __name__ == "__main__":
    draw().savefig(PICTURE, format="svg", metadata={"Date": None})
