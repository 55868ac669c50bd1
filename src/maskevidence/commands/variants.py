"""maskevidence variants: mutants of a protein scored by every convention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import CheckpointOptions, TextDevice, VariantOptions
from maskevidence.kinds.result import Result
from maskevidence.kinds.words import kind_of_model
from maskevidence.show.parts import Page, Table
from maskevidence.show.words import typeset

if TYPE_CHECKING:
    from maskevidence.integrations.proteins.agreement import Correlation
    from maskevidence.integrations.proteins.scoring import VariantPlan, VariantScores

TABLE, SUMMARY = "variants.csv", "variants.json"


@dataclass(frozen=True)
class VariantResult(Result):
    """What `maskevidence variants` gives."""

    plan: "VariantPlan"  # how many passes it takes
    scores: "VariantScores | None"  # the scores; None if only the plan was asked for
    measured: str | None  # name of the measured column; None without one
    # Spearman with the measured effect by convention and by given column
    correlations: "dict[str, Correlation]"
    notes: tuple[str, ...]  # one sentence each
    given: dict[str, Any] = field(default_factory=dict)  # the columns of the table that are compared, by name
    out: Path | None = None  # the folder with the scores; None if they were not written

    def page(self) -> Page:
        """The passes, the first mutants, and the correlations with the measured effect."""
        if self.scores is None:
            headline = f"{self.plan.passes:,} passes of the model"
            return Page(headline, headline, parts=[self.plan.table()], notes=self.notes)
        page = replace(self.scores.page(), notes=self.notes)
        if self.measured is None:
            return page
        rows = [
            [
                name,
                typeset(each.value, 3),
                f"{typeset(each.low, 3)} to {typeset(each.high, 3)}",
                f"{each.n:,}",
            ]
            for name, each in self.correlations.items()
        ]
        headings = ["score", "correlation", "95 % interval", "mutants"]
        return replace(page, parts=[*page.parts, Table(headings, rows, f"Spearman with {self.measured}")])

    def to_dict(self) -> dict[str, Any]:
        """The summary, and the scores of single mutants."""
        scores = {} if self.scores is None else {"scores": self.scores.rows()}
        return self.summary() | scores

    @property
    def written(self) -> Sequence[str]:
        """The files with the scores."""
        return (
            [] if self.out is None or self.scores is None else [f"Written to {self.out}: {TABLE}, {SUMMARY}"]
        )

    def summary(self) -> dict[str, Any]:
        """Content for JSON, without the scores of single mutants."""
        from maskevidence.support.provenance import command, versions

        result: dict[str, Any] = {"plan": vars(self.plan), "notes": list(self.notes)}
        if self.scores is not None:
            result["n_mutants"] = len(self.scores)
            result["agreement"] = [
                {"conventions": list(pair), "spearman": None if math.isnan(value) else value}
                for pair, value in self.scores.agreement().items()
            ]
        if self.measured is not None:
            result["measured"] = self.measured
            result["correlations"] = {name: each._asdict() for name, each in self.correlations.items()}
        return result | {"versions": versions(), "command": command()}


def variants(
    model: Annotated[
        str, Argument("MODEL", "A masked language model of proteins, DNA or RNA: its folder, or OWNER/NAME.")
    ],
    data: Annotated[
        str, Argument("MUTANTS", "A .csv, .parquet or .jsonl table with a column mutant or mutated_sequence.")
    ],
    options: VariantOptions,
    checkpoint: CheckpointOptions = CheckpointOptions(),
    device: TextDevice = TextDevice(),
) -> VariantResult:
    """Score MUTANTS of a wild type under MODEL by every convention, each distinct context in one pass.

    A score above 0 says that the model prefers the mutant to the wild type. `wild-type-fill` and `unmasked`
    are known as masked marginals and wild-type marginals; docs/proteins.md says what each convention hides,
    and why they fall apart where mutated sites are neighbours. With `--measured`, each has Spearman's rank
    correlation with the measured effect, and its bootstrap interval over the mutants.

    Examples:

        maskevidence variants facebook/esm2_t12_35M_UR50D dms.csv --wild-type wt.fasta --measured DMS_score
        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --start 24 --conventions all --plan
        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --conventions joint,pll --out scores

    Args:
        model: a masked language model: its folder, or OWNER/NAME on the hub.
        data: a .csv, .parquet or .jsonl table with a column of mutants or of mutated sequences.
        options: which mutants are scored, and how.
        checkpoint: how the model is loaded.
        device: where it runs.

    Raises:
        InputError: a table, mutants, a model or options that cannot be used.
    """
    from maskevidence.integrations.proteins.mutants import parse_mutants
    from maskevidence.integrations.proteins.scoring import plan_variants
    from maskevidence.integrations.proteins.scoring import variants as score_variants
    from maskevidence.kinds.mutants import conventions_of, read_mutants, read_wild_type
    from maskevidence.kinds.texts import load
    from maskevidence.runs.lock import refuse_unrelated
    from maskevidence.support.hub import check_revision

    if kind_of_model(model) != "texts":
        raise InputError(
            f"{model!r} is no masked language model; give a folder of one, or OWNER/NAME on the hub"
        )
    check_revision(model, checkpoint.revision)
    if options.given is not None and options.measured is None:
        raise InputError("--given is compared with --measured; name the column of measurements, too")
    if options.out is not None:
        refuse_unrelated(options.out, (SUMMARY,), "scores of variants")
        if all((options.out / name).exists() for name in (SUMMARY, TABLE)) and not options.overwrite:
            raise InputError(f"{str(options.out)!r} holds scores; give another folder, or --overwrite")
    conventions = conventions_of(options.conventions)
    wild_type, of_letters = read_wild_type(options.wild_type)
    mutants, sequences, numbers = read_mutants(data, options)
    parse_mutants(wild_type, mutants, options.start, sequences)  # before the model is loaded
    loaded = load(model, checkpoint, device)
    if options.plan:
        plan = plan_variants(
            loaded, wild_type, mutants, conventions, start=options.start, draws=options.draws
        )
        return VariantResult(plan, None, None, {}, (*of_letters, *loaded.notes))
    scores = score_variants(
        loaded, wild_type, mutants, conventions, start=options.start, draws=options.draws, seed=options.seed
    )
    correlations, without = _correlations(scores, numbers, options)
    notes = (*of_letters, *loaded.notes, *scores.notes, *without)
    result = VariantResult(scores.plan, scores, options.measured, correlations, notes, numbers, options.out)
    if options.out is not None:
        _write(result, scores, options.out)
    return result


def _correlations(
    scores: "VariantScores", numbers: dict[str, Any], options: VariantOptions
) -> "tuple[dict[str, Correlation], list[str]]":
    """Spearman with the measured effect by name, and a note on each score that has none."""
    from maskevidence.integrations.proteins.agreement import spearman_interval

    correlations: dict[str, Correlation] = {}
    without: list[str] = []
    if options.measured is None:
        return correlations, without
    compared = scores.scores | {name: numbers[name] for name in numbers if name != options.measured}
    for name, values in compared.items():
        try:
            correlations[name] = spearman_interval(values, numbers[options.measured], seed=options.seed)
        except InputError as error:
            without.append(f"no rank correlation of {name!r} with {options.measured!r}: {error}")
    return correlations, without


def _write(result: VariantResult, scores: "VariantScores", out: Path) -> None:
    """The summary is the sign of the folder, and the table, which comes last, of its being finished."""
    from maskevidence.kinds.mutants import column_beside
    from maskevidence.runs.blocks import write_sealed
    from maskevidence.runs.lock import locked
    from maskevidence.support.files import write_atomic, writing

    taken = ("mutant", *scores.columns().values)
    columns = {column_beside(name, taken): column.tolist() for name, column in result.given.items()}
    with locked(out):
        with writing(out):
            (out / TABLE).unlink(missing_ok=True)
        write_sealed(out / SUMMARY, result.summary())
        write_atomic(out / TABLE, scores.to_csv(columns))
