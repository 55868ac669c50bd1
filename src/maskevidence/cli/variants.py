"""maskevidence variants: mutants of a protein scored by every convention."""

from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable
from maskevidence.tasks.declaring import Argument
from maskevidence.tasks.options import CheckpointOptions, Common, DeviceOptions
from maskevidence.tasks.variant_options import VariantOptions

if TYPE_CHECKING:
    from maskevidence.tasks.variants import VariantResult

MAX_MUTANTS_SHOWN = 5
_LONGEST_NAME = 12


def variants(
    model: Annotated[
        str, Argument("MODEL", "A masked language model of proteins, DNA or RNA: its folder, or OWNER/NAME.")
    ],
    data: Annotated[
        str, Argument("MUTANTS", "A .csv, .parquet or .jsonl table with a column mutant or mutated_sequence.")
    ],
    options: VariantOptions,
    checkpoint: CheckpointOptions,
    device: DeviceOptions,
    common: Common,
) -> None:
    """Score MUTANTS of a wild type under MODEL by every convention, each distinct context in one pass.

    A score above 0 says that the model prefers the mutant to the wild type. `wild-type-fill` and `unmasked`
    are known as masked marginals and wild-type marginals; docs/proteins.md says what each convention hides,
    and why they fall apart where mutated sites are neighbours. With `--measured`, each has Spearman's rank
    correlation with the measured effect, and its bootstrap interval over the mutants.

    Examples:

        maskevidence variants facebook/esm2_t12_35M_UR50D dms.csv --wild-type wt.fasta --measured DMS_score

        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --start 24 --conventions all --plan

        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --conventions joint,pll --out scores
    """
    use_threads(common.threads)
    from maskevidence.tasks.variants import score_variants

    result = score_variants(model, data, options, checkpoint, device)
    screen = output.console(common.json)
    _show(screen, result)
    for note in result.notes:
        screen.print(f"note: {note}")
    if options.out is not None and result.scores is not None:
        screen.print(f"Written to {options.out}: variants.csv, variants.json")
    scores = {} if result.scores is None else {"scores": result.scores.rows()}
    output.write_json(result.to_dict() | scores, common.json)


def _show(screen: Any, result: "VariantResult") -> None:
    """Print the plan, the first mutants, and the correlations."""
    plan = result.plan
    asked = sum(plan.asked.values())
    cells = [[name, f"{plan.asked[name]:,}", f"{plan.distinct[name]:,}"] for name in plan.asked]
    screen.print(
        FittingTable(
            Table(
                ["convention", "contexts asked for", "distinct"],
                [*cells, ["all", f"{asked:,}", f"{plan.passes:,}"]],
                "passes of the model",
            )
        )
    )
    scores = result.scores
    if scores is None:
        return
    names = [_short(name) for name in scores.mutants[:MAX_MUTANTS_SHOWN]]
    shown: dict[str, Any] = {}
    for name, values in scores.scores.items():
        shown[name] = values
        if name in scores.mask_se:
            shown[f"error of {name}"] = scores.mask_se[name]
    rows = [[name, *map(_number, values[: len(names)])] for name, values in shown.items()]
    screen.print(FittingTable(Table(["score", *names], rows, "the first mutants, nats")))
    if result.measured is not None:
        found = [
            [name, f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}", f"{one.n:,}"]
            for name, one in result.correlations.items()
        ]
        title = f"Spearman with {result.measured}"
        screen.print(FittingTable(Table(["score", "correlation", "95 % interval", "mutants"], found, title)))


def _number(value: float) -> str:
    return "" if value != value else f"{value:.3f}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
