"""Masks of an observation that are successive windows of one random order: is the estimate better for it?

    python benchmarks/windows.py --out windows

"Subsets" are the masks of `RandomSize`: each hides a random subset, independently of the others. With
"windows of W", each W successive masks of a replicate belong to one random order of the tokens. They are
successive windows of it: each begins where the last one has ended, and the order goes on from its beginning
at its end. Each mask alone is a uniformly random subset of its size, so that the estimate stays unbiased, and
the masks of an order hide all tokens equally often, up to one time. With "sizes a quarter apart" those of an
order are exactly D/4 apart, as in lm-eval's questions. "Back to back" windows begin at evenly spaced places
of the order, and every second one goes backwards. "Kronecker sizes" are those of the sequence that training
uses.

The first table has the variance of the estimates of designs with equally many masks, over that of subsets
with the same control variates: none for shared masks, the curve of the sizes, or the curve and the tokens
(`per_token=True`). It also has the standard error of this ratio (jackknife over runs), the same ratio of the
mean squared half-widths of 95 % intervals, and how often Student's t interval and the package's hold the
truth, which is known. Designs have 8 replicates unless their name says another number.

The second table says which share of the variance of masks of one size is linear in which tokens they hide:
the part that windows take out. What is left is the part of pairs and larger groups of tokens.

Models: PPCA(8) fitted to digits; PPCA(8) fitted to 500 digits and other digits, some of which have ink where
it is rare; PPCA(5) fitted to breast cancer and other rows of it; and small BERTs for English texts and for
a family of proteins (needs `MASKEVIDENCE_DATA`), with 12 tokens, whose log-probabilities for all masks are
kept in a table. With --out, a folder keeps them and every run, so that the same command resumes.
"""

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits

import maskevidence as me
from _precision_models import standardised
from maskevidence.data.fasta import read_fasta
from maskevidence.evidence.score_means import mean_of_scores
from maskevidence.evidence.standard_errors import t_half_width
from maskevidence.masks.design import BoolMatrix, Integers, MaskKey, Masks, Positions, masks_of_all_rows
from maskevidence.model import HasScoreMoments
from maskevidence.support.keyed_random import keyed_ranks, scaled, stratified
from maskevidence.tokens import positions
from precision import slug
from size_samplers import small_bert, train, trained_bert

NONE, CURVE, TOKENS = "none", "curve", "curve, tokens"
ROWS, SHORT, RESIDUES = 50, 12, 40
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
SAVED_AFTER = 50  # runs


@dataclass(frozen=True)
class Windows(me.RandomSize):
    """Random sizes whose masks are windows of one order for every `windows` turns of a replicate.

    Ids have to be 0..ROWS-1, the positions of the rows.
    """

    windows: int = 4
    name: ClassVar[str] = "windows"

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens, turn = maskable.sum(1), draw // self.n_replicates % self.windows
        position, start = positions(np.arange(ROWS))[ids], np.zeros_like(size)
        for step in range(1, self.windows):
            later = turn >= step
            earlier = np.where(later, draw - step * self.n_replicates, draw)
            start += np.where(later, self.plan(key, ids, n_tokens, earlier, position)[1], 0)
        ranks = keyed_ranks(key.seed, key.columns(ids, draw - turn * self.n_replicates), maskable)
        return maskable & ((ranks - start[:, None]) % n_tokens[:, None] < size[:, None])


@dataclass(frozen=True)
class QuarterApart(Windows):
    """The same with sizes exactly D/4 apart within an order, as those of lm-eval's questions."""

    name: ClassVar[str] = "quarter-apart"

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> tuple[Integers, Integers]:
        assert position is not None
        turn, row, n_rows = index // self.n_replicates, position[:, 0], ROWS
        if key.masks == "shared":
            row, n_rows = np.zeros_like(row), 1
        share = stratified(key.seed, index % self.n_replicates, turn // self.windows, row, n_rows)
        with np.errstate(over="ignore"):
            share = share + np.uint64(2**64 // self.windows) * (turn % self.windows).astype(np.uint64)
        return index, scaled(share, n_tokens) + 1


@dataclass(frozen=True)
class BackToBack(me.RandomSize):
    """Windows that need no other sizes: in turn, the next one goes up or down from evenly spaced starts.

    Of two windows of an order, that of the even turn hides the tokens from a start on, that of the odd turn
    those before it, so that they overlap as little as they can.
    """

    windows: int = 4
    name: ClassVar[str] = "back-to-back"

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens, turn = maskable.sum(1), draw // self.n_replicates % self.windows
        start = turn // 2 * n_tokens // max(1, self.windows // 2)
        start = np.where(turn % 2 == 1, start - size, start)
        ranks = keyed_ranks(key.seed, key.columns(ids, draw - turn * self.n_replicates), maskable)
        return maskable & ((ranks - start[:, None]) % n_tokens[:, None] < size[:, None])


@dataclass(frozen=True)
class KroneckerSizes(me.RandomSize):
    """Subsets whose sizes follow the sequence of `kronecker` over rows and turns, not jittered strata."""

    name: ClassVar[str] = "kronecker-sizes"

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> tuple[Integers, Integers]:
        assert position is not None
        return super().plan(key, position[:, 0], n_tokens, index)


# draws, masks -> designs with as many; the first is what the others are compared with
DESIGNS: dict[tuple[int, Masks], dict[str, me.RandomSize]] = {
    (16, "own"): {
        "subsets": me.RandomSize(16),
        "subsets, Kronecker sizes": KroneckerSizes(16),
        "windows of 4, 4 replicates": Windows(16, 4),
        "windows of 4, sizes a quarter apart, 4 replicates": QuarterApart(16, 4),
    },
    (256, "shared"): {
        "subsets": me.RandomSize(256),
        "subsets, Kronecker sizes": KroneckerSizes(256),
        "windows of 4": Windows(256),
        "windows of 4, sizes a quarter apart": QuarterApart(256),
        "windows of 32": Windows(256, windows=32),
        "windows of 4, back to back": BackToBack(256),
    },
}


@dataclass(frozen=True)
class Subject:
    """A model, the rows that it scores, and their mean log evidence."""

    model: Any
    rows: Any
    truth: float

    @property
    def n_tokens(self) -> int:
        return self.rows.shape[1] if isinstance(self.rows, np.ndarray) else self.rows.width


def digits(held_out: bool, _steps: int, _out: Path | None) -> Subject:
    """PPCA(8) and 50 digits: some of those that it was fitted to, or others."""
    table = load_digits().data
    rows = standardised(table[:, table.std(0) > 1.5 if held_out else (table > 0).mean(0) > 0.2])
    model = me.models.PPCA(rows.shape[1], 8).fit(rows[:500] if held_out else rows)
    return with_evidence(model, rows[-ROWS:] if held_out else rows[:ROWS])


def breast_cancer(_steps: int, _out: Path | None) -> Subject:
    """PPCA(5) and 50 rows that it was not fitted to."""
    rows = standardised(load_breast_cancer().data)
    return with_evidence(me.models.PPCA(rows.shape[1], 5).fit(rows[ROWS:]), rows[:ROWS])


def with_evidence(model: Any, rows: np.ndarray) -> Subject:
    return Subject(model, rows, float(model.score_samples(rows).mean()))


def english(steps: int) -> tuple[Any, me.Tokens]:
    """A small BERT, and texts of 12 word pieces, on which it was not trained."""
    model, tokens = trained_bert(min(steps, 1000), n_texts=ROWS, share=0.7)
    places = torch.tensor([*range(SHORT + 1), tokens.width - 1])
    parts = (tokens.values, tokens.maskable, tokens.context)
    return model, me.Tokens(*(part[:ROWS, places] for part in parts), torch.arange(ROWS))


def proteins(steps: int) -> tuple[Any, me.Tokens]:
    """A small BERT for a family of proteins, and the first 12 residues of others of its members."""
    path = Path(os.environ["MASKEVIDENCE_DATA"]) / "proteins" / "usp_5ahw.fasta"
    number = {letter: place for place, letter in enumerate(LETTERS)}
    read = ([number[letter] for letter in row if letter in number] for row in read_fasta(path).sequences)
    table = torch.tensor([row[:RESIDUES] for row in read if len(row) >= RESIDUES])
    table = torch.nn.functional.pad(table, (1, 1), value=len(LETTERS))  # a letter that is never hidden
    training, network = table[:-ROWS], small_bert(len(LETTERS) + 2)

    def batch(generator: torch.Generator) -> torch.Tensor:
        return training[torch.randint(len(training), (32,), generator=generator)]

    train(network, batch, len(LETTERS) + 1, min(steps, 1000))
    network.eval()
    model = me.models.MaskedLM.from_callable(
        lambda ids: network(input_ids=ids).logits, mask_token_id=len(LETTERS) + 1
    )
    context = torch.zeros(ROWS, SHORT + 2, dtype=torch.bool)
    context[:, [0, -1]] = True
    places = torch.tensor([*range(SHORT + 1), RESIDUES + 1])
    return model, me.Tokens(table[-ROWS:, places], ~context, context, torch.arange(ROWS))


class AllMasks(torch.nn.Module):
    """A model that looks up its log-probabilities for all masks, shape (ROWS, 2^SHORT, SHORT)."""

    conditionals = "learned"

    def __init__(self, answers: torch.Tensor) -> None:
        super().__init__()
        self.answers = answers.double()

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return self.answers[tokens.ids, (masked.long() << torch.arange(SHORT)).sum(1)]


def answers_for_all_masks(model: Any, rows: me.Tokens) -> torch.Tensor:
    """log p of each token for every mask of 12 tokens between two that are context."""
    number = torch.arange(2**SHORT)
    masked = torch.zeros(len(number), SHORT + 2, dtype=torch.bool)
    masked[:, 1:-1] = (number[:, None] >> torch.arange(SHORT)) & 1 == 1
    answers = torch.zeros(ROWS, len(number), SHORT)
    for row in range(ROWS):
        for part in torch.split(number[1:], 1024):
            several = rows[torch.full((len(part),), row)]
            with torch.no_grad():
                answers[row, part] = model.log_conditionals(several, masked[part])[:, 1:-1].float()
    return answers


def tabled(make: Callable[[int], tuple[Any, me.Tokens]], steps: int, out: Path | None) -> Subject:
    """Texts or proteins of 12 tokens, with the answers for all of their masks, and the area over these."""
    file = None if out is None else out / f"{make.__name__}.pt"
    if file is not None and file.exists():
        answers = torch.load(file, weights_only=True)
    else:
        answers = answers_for_all_masks(*make(steps))
        if file is not None:
            torch.save(answers, file)
    every = torch.ones(ROWS, SHORT, dtype=torch.bool)
    rows = me.Tokens(torch.zeros(ROWS, SHORT), every, ~every, torch.arange(ROWS))
    size = np.bitwise_count(np.arange(1, 2**SHORT))
    weighted = answers[:, 1:].sum(2).double().numpy() / size / np.bincount(size)[size]
    return Subject(AllMasks(answers), rows, float(weighted.sum(1).mean()))


SUBJECTS: dict[str, Callable[[int, Path | None], Subject]] = {
    "PPCA(8), digits": partial(digits, False),
    "PPCA(8), held-out digits": partial(digits, True),
    "PPCA(5), breast cancer": breast_cancer,
    "BERT, proteins": partial(tabled, proteins),
    "BERT, English": partial(tabled, english),
}
QUICK = ("PPCA(5), breast cancer",)


def run(subject: Subject, design: me.RandomSize, key: MaskKey) -> dict[str, list[float]]:
    """By control variate: the estimate, half the width of Student's t interval, the package's interval."""
    own, rows = key.masks == "own", subject.rows
    if not own and isinstance(subject.model, HasScoreMoments):
        rows = me.GaussianMoments.from_rows(rows)
    table = me.estimate_evidence(
        subject.model, rows, design, seed=key.seed, masks=key.masks, per_token=own, check=False
    ).scores
    answer = {}
    for name, some in ((CURVE, replace(table, hidden=None)), (TOKENS, table)) if own else ((NONE, table),):
        mean = mean_of_scores(some, design, key).mean
        assert mean.mask_se is not None
        assert mean.mask_df is not None
        answer[name] = [mean.mean, t_half_width(mean.mask_se, mean.mask_df, 0.95), *mean.interval(0.95)]
    return answer


def token_shares(subject: Subject, n_masks: int) -> dict[Masks, float]:
    """Which share of the variance of the masks of a size is linear in which tokens they hide.

    The scores are those of each row for own masks, and their means over the rows for shared masks.
    """
    design = me.RandomSize(n_masks, 1)
    drawn = masks_of_all_rows(design, MaskKey(1, "shared"), subject.n_tokens)
    table = me.estimate_evidence(
        subject.model, subject.rows, design, seed=1, masks="shared", check=False
    ).scores
    score = table.score.reshape(-1, n_masks).T[np.argsort(table.draw[:n_masks])]
    effects = drawn.masked() / drawn.size[:, None] - 1 / subject.n_tokens
    sizes, of_size = np.unique(drawn.size, return_inverse=True)
    df = n_masks - len(sizes)
    answer: dict[Masks, float] = {}
    for masks, each in (("own", score), ("shared", score.mean(1, keepdims=True))):
        sums = np.zeros((len(sizes), each.shape[1]))
        np.add.at(sums, of_size, each)
        centred = each - (sums / np.bincount(of_size)[:, None])[of_size]
        left = centred - effects @ np.linalg.lstsq(effects, centred, rcond=None)[0]
        left_df = df - (subject.n_tokens - 1)
        answer[masks] = 1 - (left**2).sum() / left_df / ((centred**2).sum() / df)
    return answer


def measure(
    subject: Subject, masks: Masks, piece: dict[str, Any], n_runs: int, save: Callable[[], Any]
) -> None:
    """Add runs of each design to a piece until it has all."""
    (designs,) = (some for (_, each), some in DESIGNS.items() if each == masks)
    for seed in range(n_runs):
        for name, design in designs.items():
            runs = piece.setdefault(name, [])
            if len(runs) == seed:
                runs.append(run(subject, design, MaskKey(50_000 + seed, masks)))
        if seed % SAVED_AFTER == SAVED_AFTER - 1:
            save()


def others_variance(values: np.ndarray) -> np.ndarray:
    """The variance of all values but each in turn."""
    off, n = values - values.mean(), len(values) - 1
    return ((off**2).sum() - off**2 - off**2 / n) / n


def summary(piece: dict[str, Any], truth: float) -> list[dict[str, Any]]:
    """For each design and control variate: the ratios to the first design, and the coverage."""
    n_runs, answer = min(len(runs) for runs in piece.values()), []
    for control in next(iter(piece.values()))[0]:
        first = np.array([each[control] for each in next(iter(piece.values()))[:n_runs]])
        for design, runs in piece.items():
            mean, half, low, high = np.array([each[control] for each in runs[:n_runs]]).T
            answer.append(
                {
                    "design": design,
                    "control": control,
                    "runs": n_runs,
                    "variance": mean.var() / first[:, 0].var(),
                    "error": np.sqrt(n_runs - 1)
                    * (others_variance(mean) / others_variance(first[:, 0])).std(),
                    "width": (half**2).mean() / (first[:, 1] ** 2).mean(),
                    "bias": (mean.mean() - truth) / mean.std(),
                    "t": (abs(mean - truth) <= half).mean(),
                    "interval": ((low <= truth) & (truth <= high)).mean(),
                }
            )
    return answer


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="how many runs of each design")
    parser.add_argument("--only", default="", help="only the models whose names hold this")
    parser.add_argument("--masks", default="", help="only own masks, or only shared masks")
    parser.add_argument("--out", type=Path, help="a folder that keeps the runs and the texts")
    options = parser.parse_args()
    n_runs, steps, n_masks = (3, 4, 256) if options.quick else (options.runs, 1000, 4096)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    print(machine())
    numbers: dict[str, Any] = {}
    rows, shares, targets = [], [], []
    for name in QUICK if options.quick else SUBJECTS:
        if options.only not in name:
            continue
        if "proteins" in name and "MASKEVIDENCE_DATA" not in os.environ:
            print(f"{name}: set MASKEVIDENCE_DATA to a folder that has them", file=sys.stderr)
            continue
        subject = SUBJECTS[name](steps, options.out)
        share = token_shares(subject, n_masks)
        shares.append((name, *(f"{share[masks]:.2f}" for masks in ("own", "shared"))))
        for n_draws, masks in DESIGNS:
            if options.masks not in masks:
                continue
            title = f"{name}, {n_draws} {masks} masks"
            file = None if options.out is None else options.out / f"{slug(title)}.json"
            piece = json.loads(file.read_text()) if file is not None and file.exists() else {}

            def save(file: Path | None = file, piece: dict[str, Any] = piece) -> None:
                if file is not None:
                    file.write_text(json.dumps(piece))

            measure(subject, masks, piece, n_runs, save)
            save()
            numbers[title] = summary(piece, subject.truth)
            for each in numbers[title]:
                texts = (f"{each[what]:.3f}" for what in ("width", "t", "interval"))
                ratio = f"{each['variance']:.2f} ± {each['error']:.2f}"
                rows.append((title, each["control"], each["design"], str(each["runs"]), ratio, *texts))
                limit, bias = 0.15 + 3 / math.sqrt(each["runs"]), float(abs(each["bias"]))
                targets.append(Target(f"{title}, {each['design']}: bias", bias, high=limit))
    columns = ("model", "control", "design", "runs", "variance", "half-width²", "Student's t", "interval")
    show("Ratios to subsets, and coverage", columns, rows)
    show("Share of the tokens in the variance", ("model", "own masks", "shared masks"), shares)
    return finish({"models": numbers, "shares": shares}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
