"""maskevidence variants: score mutants of a protein by several conventions."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.options import Argument, Result, kind_of_model
from maskevidence.core.errors import InputError
from maskevidence.proteins.mutant_options import VariantOptions
from maskevidence.texts.text_options import CheckpointOptions

if TYPE_CHECKING:
    from maskevidence.proteins.variant_scores import Correlation, VariantScores
    from maskevidence.runs.folder import ResultFolder


def variants_command(
    model: Annotated[
        str, Argument("MODEL", "A masked language model of proteins, DNA or RNA: its folder, or OWNER/NAME.")
    ],
    data: Annotated[
        str, Argument("MUTANTS", "A .csv, .parquet or .jsonl table with a column mutant or mutated_sequence.")
    ],
    options: VariantOptions,
    checkpoint: CheckpointOptions = CheckpointOptions(),
) -> Result:
    """Score MUTANTS of a wild type under MODEL by every convention, each distinct context in one pass.

    A score above 0 means that the model prefers the mutant to the wild type. `wild-type-fill` and `unmasked`
    are also known as masked marginals and wild-type marginals; docs/proteins.md explains which sites each
    convention hides, and why conventions disagree when mutated sites are neighbours. With `--measured`, each
    convention gets Spearman's rank correlation with the measured effect, and its bootstrap interval over the
    mutants.

    Examples:

        maskevidence variants facebook/esm2_t12_35M_UR50D dms.csv --wild-type wt.fasta --measured DMS_score
        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --start 24 --conventions all
        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --conventions joint,pll --out scores
    """
    from maskevidence.proteins.mutant_tables import conventions_of, read_mutants, read_wild_type
    from maskevidence.proteins.mutants import parse_mutants
    from maskevidence.proteins.variant_scores import variants
    from maskevidence.proteins.variants_page import correlation_table
    from maskevidence.texts.prepared_texts import load_text_model

    _check(model, options, checkpoint)
    given = [] if options.given is None else [word.strip() for word in options.given.split(",")]
    measured = [] if options.measured is None else [options.measured, *given]
    conventions = conventions_of(options.conventions)
    wild_type, of_letters = read_wild_type(options.wild_type)
    table = read_mutants(
        data,
        mutant_column=options.mutant_column,
        sequence_column=options.sequence_column,
        numbers_in=measured,
        limit=options.limit,
    )
    # refuses wrong mutants before the model is loaded
    parse_mutants(wild_type, table.mutants, options.start, table.sequences, table.lines)
    loaded = load_text_model(model, checkpoint)
    scores = variants(
        loaded,
        wild_type,
        table.mutants,
        conventions,
        start=options.start,
        draws=options.draws,
        seed=options.seed,
    )
    correlations, without = _correlations(scores, table.numbers, options)
    notes = [*of_letters, *loaded.notes, *scores.notes, *without]
    summary = {"model": model, "data": data, "wild_type": options.wild_type}
    summary |= _summary(scores, correlations, notes, options.measured)
    page = replace(scores.page(), notes=notes)
    if options.measured is not None:
        page = replace(page, parts=[*page.parts, correlation_table(summary)])
    lines = [] if options.out is None else _write(summary, scores, table.numbers, options.out)
    return Result(page, summary | {"scores": scores.rows()}, lines)


def _check(model: str, options: VariantOptions, checkpoint: CheckpointOptions) -> None:
    """Refuse other kinds of models and useless options before anything is read."""
    from maskevidence.core.support.hub import check_revision

    if kind_of_model(model).name != "texts":
        raise InputError(
            f"{model!r} is no masked language model; give a folder of one, or OWNER/NAME on the hub"
        )
    check_revision(model, checkpoint.revision)
    if options.given is not None and options.measured is None:
        raise InputError("--given is compared with --measured; name the column of measurements, too")
    if options.out is not None:
        _folder(options.out).refuse(overwrite=options.overwrite)


def _folder(out: Path) -> "ResultFolder":
    from maskevidence.proteins.mutant_tables import SUMMARY, TABLE
    from maskevidence.runs.folder import ResultFolder

    return ResultFolder(out, "scoring of variants", (SUMMARY, TABLE), signs=(SUMMARY,))


def _summary(
    scores: "VariantScores", correlations: "dict[str, Correlation]", notes: list[str], measured: str | None
) -> dict[str, Any]:
    """The results as JSON values, without the scores of single mutants."""
    from maskevidence.core.support.provenance import origin

    summary = {"plan": vars(scores.plan), "notes": notes, "n_mutants": len(scores)}
    summary["ranked"] = list(scores.ranking())
    summary["agreement"] = [
        {"conventions": list(pair), "spearman": None if math.isnan(value) else value}
        for pair, value in scores.agreement().items()
    ]
    if measured is not None:
        summary["measured"] = measured
        summary["correlations"] = {name: each._asdict() for name, each in correlations.items()}
    return summary | origin()


def _correlations(
    scores: "VariantScores", numbers: dict[str, Any], options: VariantOptions
) -> "tuple[dict[str, Correlation], list[str]]":
    """Each score's rank correlation with the measured effect, and a note on each score without one."""
    from maskevidence.proteins.variant_scores import spearman_interval

    correlations: dict[str, Correlation] = {}
    without: list[str] = []
    if options.measured is None:
        return correlations, without
    without += [
        f"no rank correlation of {name!r} with {options.measured!r}: the lengths of the mutants differ"
        for name in scores.unranked
    ]
    compared = scores.ranking() | {name: numbers[name] for name in numbers if name != options.measured}
    for name, values in compared.items():
        try:
            correlations[name] = spearman_interval(values, numbers[options.measured], seed=options.seed)
        except InputError as error:
            without.append(f"no rank correlation of {name!r} with {options.measured!r}: {error}")
    return correlations, without


def _write(summary: dict[str, Any], scores: "VariantScores", given: dict[str, Any], out: Path) -> list[str]:
    """Write the summary first, to claim the folder, and the table last, to mark it as complete."""
    from maskevidence.core.support.files import write_atomic
    from maskevidence.proteins.mutant_tables import SUMMARY, TABLE, column_beside
    from maskevidence.runs.folder import write_sealed

    taken = ("mutant", *scores.columns().values)
    columns = {column_beside(name, taken): column.tolist() for name, column in given.items()}
    folder = _folder(out)
    with folder.rewritten():
        write_sealed(out / SUMMARY, summary)
        write_atomic(out / TABLE, scores.to_csv(columns))
    return folder.written()
