"""The three figures of the study; each has its numbers as CSV."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _claims import FIXED, values_of_units
from _ranks import hierarchical_mean
from _records import Record

sys.path.append(str(Path(__file__).parents[1]))
from paper.figures import PaperFigure
from paper.panels import COLOURS, legend_below, new_figure

CRITERIA = {  # of each part, with words for them
    "tables": {
        "evidence": "evidence, training rows",
        "area": "area, training rows",
        "pll": "PLL, training rows",
        "fixed_rate": "15 %, training rows",
        "evidence_held_out": "evidence, held-out rows",
        "area_held_out": "area, held-out rows",
        "pll_held_out": "PLL, held-out rows",
        "fixed_rate_held_out": "15 %, held-out rows",
    },
    "text": {"area": "area", "mixture": "mixture bound", "pll": "PLL", "score_15": "score at 15 %"},
    "images": {
        "area": "area",
        "score_75": "reconstruction at 75 %",
        "score_all": "reconstruction, all sizes",
    },
}
TARGETS = {
    "tables": {
        "log_density": "log-density of test rows",
        "imputation": "imputation at 20 % holes",
        "accuracy": "accuracy on components",
    },
    "text": {"fine_tuned": "fine-tuned", "probed": "probed", "area_elsewhere": "area of other text"},
    "images": {"probed": "linear probe"},
}
MARKERS = {"equal steps": "o", "equal tokens": "^", "narrow": "s"}


def figure_of_tables(records: Sequence[Record]) -> PaperFigure:
    """Rank correlations of every criterion with every target: a dot for each data set, and the mean."""
    rows = [
        {
            "criterion": criterion,
            "target": target,
            "data_set": data_set,
            "seed": seed,
            "rank_correlation": value,
        }
        for target in TARGETS["tables"]
        for criterion in CRITERIA["tables"]
        for data_set, values in values_of_units(ranked("tables", criterion, target), records).items()
        for seed, value in enumerate(values)
    ]
    figure, axes = new_figure(3, 11.0, 3.8)
    for ax, (target, title) in zip(axes, TARGETS["tables"].items(), strict=False):
        for place, criterion in enumerate(CRITERIA["tables"]):
            values = values_of_units(ranked("tables", criterion, target), records)
            mean = hierarchical_mean(values)
            colour = COLOURS[place % 4]
            ax.plot(
                [hierarchical_mean({"": each}).value for each in values.values()],
                [place] * len(values),
                ".",
                color=colour,
                alpha=0.4,
            )
            ends = [[mean.value - mean.low], [mean.high - mean.value]]
            ax.errorbar(mean.value, place, xerr=ends, fmt="o", color=colour, capsize=4, markersize=5)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("Spearman's correlation, by data set")
        ax.axvline(0.0, color="black", linewidth=0.6)
        ax.set_yticks(range(len(CRITERIA["tables"])), [""] * len(CRITERIA["tables"]))
        ax.invert_yaxis()
    if axes:
        axes[0].set_yticks(range(len(CRITERIA["tables"])), list(CRITERIA["tables"].values()), fontsize=8)
    title = "Tables: how well criteria rank 40 models; dots are data sets, bars 95 % intervals of their mean"
    return _figure("study_tables", title, rows, figure)


def figure_of_texts(records: Sequence[Record]) -> PaperFigure:
    """Area and score at 15 % against fine-tuned accuracy, learning curves, and accuracy by way to mask."""
    names = ("seed", "group", "way", "width", "steps", "n_predicted", *CRITERIA["text"], *TARGETS["text"])
    rows = [{name: record.get(name) for name in names} for record in records]
    figure, axes = new_figure(2, 10.0, 7.4, n_rows=2)
    ways = list(dict.fromkeys(record["way"] for record in records))
    colour = dict(zip(ways, COLOURS, strict=False))
    for ax, criterion in zip(axes[:2], ("area", "score_15"), strict=False):
        _scatter(ax, records, criterion, "fine_tuned", colour)
        ax.set_xlabel(f"{CRITERIA['text'][criterion]}, held-out text  (nats per block)")
        ax.set_ylabel("fine-tuned accuracy, mean of CoLA and SST-2")
    if axes:
        _courses(axes[2], records, colour)
        _by_way(axes[3], [record for record in records if record["group"] == "equal steps"], ways, colour)
        for marker, group in [(marker, group) for group, marker in MARKERS.items()]:
            axes[0].plot([], [], marker, color="grey", label=group)
        for way in ways:
            axes[0].plot([], [], color=colour[way], linewidth=3, label=way)
        legend_below(figure, axes[0], ncols=5, fontsize=8)
    title = "Text: small ModernBERTs trained by several ways to mask, and what they are good for"
    return _figure("study_text", title, rows, figure)


def figure_of_images(records: Sequence[Record]) -> PaperFigure:
    """Area and reconstruction at 75 % against linear-probe accuracy, for each data set."""
    names = ("data_set", "seed", "way", "steps", *CRITERIA["images"], "probed")
    rows = [{name: record.get(name) for name in names} for record in records]
    figure, axes = new_figure(2, 9.0, 6.6, n_rows=2)
    ways = list(dict.fromkeys(record["way"] for record in records))
    colour = dict(zip(ways, COLOURS, strict=False))
    places = iter(axes)
    for data_set in dict.fromkeys(record["data_set"] for record in records):
        here = [record for record in records if record["data_set"] == data_set]
        for criterion, ax in zip(("area", "score_75"), places, strict=False):
            _scatter(ax, here, criterion, "probed", colour)
            ax.set_title({"mnist": "MNIST", "cifar100": "CIFAR-100"}.get(data_set, data_set), fontsize=10)
            ax.set_xlabel(
                "area  (nats per image)" if criterion == "area" else "minus the squared error at 75 % hidden"
            )
            ax.locator_params(axis="x", nbins=5)
            ax.set_ylabel("linear-probe accuracy")
    if axes:
        for way in ways:
            axes[0].plot([], [], "o", color=colour[way], label=way)
        legend_below(figure, axes[0], ncols=4, fontsize=8)
    title = "Images: small masked autoencoders, their area and the accuracy of a linear probe"
    return _figure("study_images", title, rows, figure)


def ranked(part: str, criterion: str, target: str, statistic: str = "rank") -> dict[str, Any]:
    """The entries of a claim without a threshold, for `_claims.values_of_units`."""
    return {"part": part, "statistic": statistic, "by": criterion, "target": target}


def _figure(name: str, title: str, rows: list[dict[str, Any]], figure: Any) -> PaperFigure:
    return PaperFigure(name, title, [], rows, {}, lambda: figure)


def _scatter(ax: Any, records: Sequence[Record], x: str, y: str, colour: Mapping[str, str]) -> None:
    for record in records:
        marker = MARKERS.get(record.get("group", ""), "o")
        ax.plot(record[x], record[y], marker, color=colour[record["way"]], markersize=5, alpha=0.75)


def _courses(ax: Any, records: Sequence[Record], colour: Mapping[str, str]) -> None:
    """The learning curves of the models of equal steps, mean over the seeds."""
    for way, shade in colour.items():
        mine = [r for r in records if r["way"] == way and r["group"] == "equal steps"]
        if mine:
            areas = np.mean([r["course_area"] for r in mine], axis=0)
            ax.plot(mine[0]["course_steps"][1:], areas[1:], "o-", color=shade, markersize=3.5)
    ax.axhline(records[0]["frequencies"], color="black", linewidth=0.8, linestyle="--")
    ax.set_title("dashed: word frequencies alone", fontsize=8)
    ax.set_xlabel("steps")
    ax.set_ylabel("area, held-out text  (nats per block)")


def _by_way(ax: Any, records: Sequence[Record], ways: Sequence[str], colour: Mapping[str, str]) -> None:
    for place, way in enumerate(ways):
        values = [record["fine_tuned"] for record in records if record["way"] == way]
        mean = hierarchical_mean({"": values}, fixed=FIXED["text"])
        ax.plot([place] * len(values), values, ".", color=colour[way], alpha=0.5)
        ends = [[mean.value - mean.low], [mean.high - mean.value]]
        ax.errorbar(place, mean.value, yerr=ends, fmt="o", color=colour[way], capsize=4)
    ax.set_xticks(range(len(ways)), [way.replace(", ", ",\n") for way in ways], fontsize=7)
    ax.set_ylabel("fine-tuned accuracy, equal steps")
