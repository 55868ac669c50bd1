"""Everything that the study has found: claims with their verdicts, tables and figures.

    python studies/summary.py

Reads the records of all parts, finished or not, and trains nothing. Tables are printed in the form of the
docs; pictures and the numbers behind them go to --out.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _claims import FIXED, Result, read_claims, result_of, values_of_units
from _figures import CRITERIA, TARGETS, figure_of_images, figure_of_tables, figure_of_texts, ranked
from _pieces import RESULTS
from _ranks import Mean, hierarchical_mean
from _records import Record, Records

FIGURES = {"tables": figure_of_tables, "text": figure_of_texts, "images": figure_of_images}
PER_CENT = ("accuracy", "fine_tuned", "probed")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the records are")
    parser.add_argument("--out", type=Path, default=Path("runs") / "study", metavar="DIR", help="for figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write claims and numbers here")
    options = parser.parse_args(words)
    claims, numbers = read_claims(), []
    for part, figure in FIGURES.items():
        records = [*Records(options.results, part).by_key.values()]
        failed = sum(bool(record.get("failed")) for record in records)
        seconds = sum(record["cpu_seconds"] for record in records)
        print(f"\n# {part}: {len(records)} models, {failed} could not be fitted, {seconds:.0f} s of CPU time")
        results = [result_of(claim, records) for claim in claims if claim["part"] == part]
        numbers += [as_json(result) for result in results]
        show("Claims", *claims_table(results))
        if not records:
            continue
        for statistic in ("rank", "regret"):
            show(statistic, *table_of(part, statistic, records))
        if part == "tables":
            show("rank among models fitted to the same rows, by their share", *fractions_table(records))
        if part == "text":
            for group in ("equal steps", "equal tokens"):
                show(f"{group}, minus 15 % at equal steps", *ways_table(records, group))
        print(f"\n{figure(records).write(options.out)}")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")
    return 0


def as_json(result: Result) -> dict[str, Any]:
    """A claim with its number, for --json; NaN is null."""
    ends = {name: None if x != x else x for name, x in result.mean._asdict().items()}
    return {**result.claim, **ends, "verdict": result.verdict}


def claims_table(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of the table of claims."""
    rows = []
    for claim, mean, verdict in results:
        asked = f"> {claim['above']:g}" if "above" in claim else f"< {claim['below']:g}"
        digits = 3 if claim["statistic"] == "rank" or claim["target"] not in ("area",) else 1
        rows.append([claim["id"], claim["claim"], interval(mean, digits), asked, verdict])
    return ["", "claim", "measured (95 %)", "asked", "verdict"], rows


def table_of(part: str, statistic: str, records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The mean of a statistic for every criterion and target, with its interval."""
    rows = []
    for criterion, name in CRITERIA[part].items():
        cells = []
        for target in TARGETS[part]:
            values = values_of_units(ranked(part, criterion, target, statistic), records)
            cells.append(
                interval(hierarchical_mean(values, fixed=FIXED[part]), 2 if statistic == "rank" else 3)
            )
        rows.append([name, *cells])
    return ["criterion", *TARGETS[part].values()], rows


def fractions_table(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The rank correlations of the evidence among the models fitted to one share of the training rows."""
    fractions = sorted({record["fraction"] for record in records}, reverse=True)
    rows = []
    for criterion in ("evidence", "evidence_held_out"):
        for target, title in TARGETS["tables"].items():
            claims = [ranked("tables", criterion, target) | {"among": {"fraction": f}} for f in fractions]
            means = [hierarchical_mean(values_of_units(claim, records)) for claim in claims]
            name = f"{CRITERIA['tables'][criterion]}: {title}"
            rows.append([name, *(interval(mean, 2) for mean in means)])
    return ["criterion and target", *(f"{100 * fraction:.0f} %" for fraction in fractions)], rows


def ways_table(records: Sequence[Record], group: str) -> tuple[list[str], list[list[str]]]:
    """Each way to mask of a group, minus 15 % at equal steps."""
    names = ("area", "score_15", "pll", "fine_tuned", "probed")
    rows = []
    for way in dict.fromkeys(record["way"] for record in records if record["group"] == group):
        cells = []
        for target in names:
            claim = {
                "statistic": "difference",
                "target": target,
                "first": {"group": group, "way": way},
                "second": {"group": "equal steps", "way": "15 %"},
            }
            mean = hierarchical_mean(values_of_units(claim, records), fixed=True)
            cells.append(interval(mean, 3 if target in PER_CENT else 1))
        if way != "15 %":
            rows.append([way, *cells])
    return ["way", *names], rows


def interval(mean: Mean, digits: int) -> str:
    """A mean and its interval in words.

    Example:
        >>> interval(Mean(0.5, 0.25, 0.75, 5), 2)
        '0.50 (0.25 to 0.75)'
    """
    if mean.value != mean.value:
        return "–"
    value, low, high = (f"{x:.{digits}f}".replace("-", "−") for x in mean[:3])
    return value if mean.low != mean.low else f"{value} ({low} to {high})"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    print("\n".join(["", title, "", *(f"| {' | '.join(line)} |" for line in lines)]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
