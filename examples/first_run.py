"""Choose a model of a table by the evidence of new rows, train a small BERT, and write a report."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

import maskevidence as me
from maskevidence.integrations.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces
from maskevidence.report import read_runs, write_report
from maskevidence.runs import write_run

MODELS: dict[str, Callable[[int], Any]] = {
    "masked-net:64x1": lambda n: me.models.MaskedNetwork(n, width=64, layers=1),
    "factor-analysis:3": lambda n: me.models.FactorAnalysis(n, n_components=3),
    "ppca:3": lambda n: me.models.PPCA(n, n_components=3),
    "gaussian": lambda n: me.models.Gaussian(n_features=n),
}
RATES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 1.0)  # shares of hidden tokens
WIDTH = 22  # characters of a bar
screen = Console()


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column holds bars."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, min_width=79)
    for column in columns:
        table.add_column(column, justify="left" if column in (columns[0], columns[-1]) else "right")
    for row in rows:
        table.add_row(*row)
    screen.print(table, "")


def bar(low: float, high: float, longest: float) -> str:
    """A bar that is dark up to the lower end of an interval, and light up to the upper one."""
    dark, end = (round(WIDTH * min(max(x / longest, 0.0), 1.0)) for x in (low, high))
    return "█" * dark + "░" * (end - dark)


def choose_family(table: me.data.Table, out: Path) -> str:
    """Choose among families by the log evidence of new rows, and write a report."""
    few, new = table.split(test_fraction=1 / 4, seed=1)
    models = {name: make(len(few.columns)).fit(few) for name, make in MODELS.items()}
    estimates = {name: me.estimate_evidence(model, new, "every-size:8") for name, model in models.items()}
    comparison = me.compare(estimates)
    intervals = {each.second: each.interval() or (0.0, 0.0) for each in comparison.behind}
    longest = max(high for _, high in intervals.values())
    rows, folders = [], []
    for name, model in models.items():
        by_masks = f"{estimates[name].log_evidence:.2f} ± {estimates[name].mask_se:.2f}"
        behind = bar(*intervals[name], longest) if name in intervals else "best"
        rows.append([name, f"{model.n_parameters:,}", by_masks, behind])
        folders.append(out / name.replace(":", "-"))
        write_run(folders[-1], name, model, new, estimates[name], overwrite=True)
    title = f"Models of {len(few)} patients with diabetes: log evidence, nats per patient"
    show(title, ["model", "parameters", f"{len(new):,} new patients", "behind best, ░ 95 %"], rows)
    write_report(read_runs(folders), out / "report.html")
    ties = [each.second for each in comparison.behind if not each.told_apart]
    verdict = f"not told apart from {', '.join(ties)}" if ties else "better than every other"
    return f"{comparison.names[0]} has the highest held-out log evidence, {verdict}"


def train_bert(steps: int, limit: int, out: Path) -> str:
    """Train a small ModernBERT on the text that comes with Python; show how much visible tokens help."""
    lines = me.data.read_texts("python-topics", running=True)["text"]
    first, last = lines[: 9 * len(lines) // 10], lines[9 * len(lines) // 10 :]
    model = new_modern_bert(word_pieces(first, vocabulary_size=1024))
    train, held_out = model.tokens(first, block_size=64), model.tokens(last, block_size=64)[:limit]
    before = me.estimate_evidence(model, held_out, me.Rates(RATES)).curve
    train_masked_lm(model, train, recipe=Recipe(steps=steps, batch_size=16, learning_rate=5e-3))
    after = me.estimate_evidence(model, held_out, me.Rates(RATES)).curve
    model.save(out / "bert")
    gains, rows = after.score - after.score[-1], []  # over the score where no token is visible
    for rate, random, score, gain in zip(RATES, before.score, after.score, gains, strict=True):
        gained = bar(gain, gain, gains.max() or 1.0)
        rows.append([f"{rate:.0%}", f"{random:.2f}", f"{score:.2f}", gained])
    title = f"A small BERT, {steps} steps on Python's documentation: score, nats per hidden token"
    show(title, ["hidden", "before", "after", "gained from visible tokens"], rows)
    return f"Visible tokens raise the BERT's score of a hidden one by {gains[0]:.2f} nats"


def main(out: Path, steps: int = 300, limit: int = 100) -> None:
    """Run both parts, and say what came out."""
    patients = load_diabetes(scaled=False)
    values = np.column_stack([patients.data, patients.target])
    names = (*patients.feature_names, "progression")
    table = me.data.Table("diabetes", values, names, np.arange(len(values)))
    answers = [choose_family(table, out), train_bert(steps, limit, out)]
    check = f"maskevidence check {out / 'bert'} python-topics --block-size 64 --limit 200"
    tables = "maskevidence select masked-net,factor-analysis:3,gaussian TABLE.csv"
    screen.print(f"Report: {out / 'report.html'}\nTry next: {check}\n          {tables}", soft_wrap=True)
    screen.print(*reversed(answers), sep="\n", style="bold", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/first_run"))
    main(parser.parse_args().out)
