"""Score the mutants of a table, and compare the scores with measurements and with scores that it holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.data.fasta import is_fasta, read_fasta
from maskevidence.data.tables import is_number
from maskevidence.data.texts import Columns, read_text_file
from maskevidence.errors import InputError
from maskevidence.integrations.proteins.agreement import MIN_PAIRS, Correlation, spearman_interval
from maskevidence.integrations.proteins.conventions import CONVENTIONS, FEW_PASSES
from maskevidence.integrations.proteins.mutants import parse_mutants
from maskevidence.integrations.proteins.scoring import VariantPlan, VariantScores, plan_variants, variants
from maskevidence.kinds.options import CheckpointOptions, TextDevice
from maskevidence.kinds.words import kind_of_model
from maskevidence.runs.lock import locked, refuse_unrelated
from maskevidence.show.parts import Page, Table
from maskevidence.support.files import reading, write_atomic, write_json, writing
from maskevidence.support.provenance import command, versions
from maskevidence.tasks.variant_options import VariantOptions

TABLE, SUMMARY = "variants.csv", "variants.json"


@dataclass(frozen=True)
class VariantResult:
    """What `maskevidence variants` gives.

    Attributes:
        plan: how many passes it takes.
        scores: the scores; None if only the plan was asked for.
        measured: name of the measured column; None without one.
        correlations: Spearman with the measured effect by convention and by given column.
        notes: one sentence each.
        given: the columns of the table that are compared, by name.
    """

    plan: VariantPlan
    scores: VariantScores | None
    measured: str | None
    correlations: dict[str, Correlation]
    notes: tuple[str, ...]
    given: dict[str, Float64[np.ndarray, " N"]] = field(default_factory=dict)

    def page(self) -> Page:
        """The passes, the first mutants, and the correlations with the measured effect."""
        if self.scores is None:
            headline = f"{self.plan.passes:,} passes of the model"
            return Page(headline, headline, parts=[self.plan.table()], notes=self.notes)
        page = replace(self.scores.page(), notes=self.notes)
        if self.measured is None:
            return page
        rows = [
            [name, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}", f"{each.n:,}"]
            for name, each in self.correlations.items()
        ]
        headings = ["score", "correlation", "95 % interval", "mutants"]
        return replace(page, parts=[*page.parts, Table(headings, rows, f"Spearman with {self.measured}")])

    def to_dict(self) -> dict[str, Any]:
        """Content for JSON, without the scores of single mutants."""
        result: dict[str, Any] = {"plan": vars(self.plan), "notes": list(self.notes)}
        if self.scores is not None:
            result["n_mutants"] = len(self.scores)
            result["agreement"] = [
                {"conventions": list(pair), "spearman": None if np.isnan(value) else value}
                for pair, value in self.scores.agreement().items()
            ]
        if self.measured is not None:
            result["measured"] = self.measured
            result["correlations"] = {name: one._asdict() for name, one in self.correlations.items()}
        return result | {"versions": versions(), "command": command()}


def score_variants(
    model: str,
    data: str,
    options: VariantOptions,
    checkpoint: CheckpointOptions = CheckpointOptions(),
    device: TextDevice = TextDevice(),
) -> VariantResult:
    """Score the mutants of a table.

    Args:
        model: a masked language model: its folder, or OWNER/NAME on the hub.
        data: a .csv, .parquet or .jsonl table with a column of mutants or of mutated sequences.
        options: which mutants are scored, and how.
        checkpoint: how the model is loaded.
        device: where it runs.

    Raises:
        InputError: a table, mutants, a model or options that cannot be used.
    """
    if kind_of_model(model) != "texts":
        raise InputError(
            f"{model!r} is no masked language model; give a folder of one, or OWNER/NAME on the hub"
        )
    if options.given is not None and options.measured is None:
        raise InputError("--given is compared with --measured; name the column of measurements, too")
    if options.out is not None:
        refuse_unrelated(options.out, (SUMMARY,), "scores of variants")
        if all((options.out / name).exists() for name in (SUMMARY, TABLE)) and not options.overwrite:
            raise InputError(f"{str(options.out)!r} holds scores; give another folder, or --overwrite")
    conventions = _conventions(options.conventions)
    wild_type = read_wild_type(options.wild_type)
    mutants, sequences, numbers = _read(data, options)
    parse_mutants(wild_type, mutants, options.start, sequences)  # before the model is loaded
    from maskevidence.kinds.texts import load

    loaded = load(model, checkpoint, device)
    if options.plan:
        plan = plan_variants(
            loaded, wild_type, mutants, conventions, start=options.start, draws=options.draws
        )
        return VariantResult(plan, None, None, {}, tuple(loaded.notes))
    scores = variants(
        loaded, wild_type, mutants, conventions, start=options.start, draws=options.draws, seed=options.seed
    )
    correlations, without = {}, []
    if options.measured is not None:
        compared = scores.scores | {name: numbers[name] for name in numbers if name != options.measured}
        for name, values in compared.items():
            try:
                correlations[name] = spearman_interval(values, numbers[options.measured], seed=options.seed)
            except InputError as error:
                without.append(f"no rank correlation of {name!r} with {options.measured!r}: {error}")
    notes = (*loaded.notes, *scores.notes, *without)
    result = VariantResult(scores.plan, scores, options.measured, correlations, notes, numbers)
    if options.out is not None:
        with locked(options.out):
            taken = ("mutant", *scores.columns().values)
            columns = {_beside(name, taken): one.tolist() for name, one in numbers.items()}
            # The summary is the sign of the folder, and the table, which comes last, of its being finished.
            with writing(options.out):
                (options.out / TABLE).unlink(missing_ok=True)
            write_json(options.out / SUMMARY, result.to_dict())
            write_atomic(options.out / TABLE, scores.to_csv(columns))
    return result


def read_wild_type(word: str) -> str:
    """The letters of a wild type, from a FASTA file with one record or as they are.

    Raises:
        InputError: a file that cannot be read, or has several records; or something other than letters.

    Example:
        >>> read_wild_type("MKT A")
        'MKTA'
    """
    file = Path(word)
    if is_fasta(file) or file.is_file():
        with reading(file):
            if not file.is_file():
                raise InputError(f"there is no file {word!r}; check the path")
        sequences = read_fasta(file).sequences
        if len(sequences) > 1:
            raise InputError(f"{word!r} has {len(sequences)} records; give a file with the wild type alone")
        return sequences[0]
    letters = "".join(word.split())
    if not letters.isalpha():
        raise InputError(f"{word[:60]!r} is neither a FASTA file nor a sequence of letters; give one")
    return letters


def _conventions(names: str | None) -> tuple[str, ...]:
    if names is None:
        return FEW_PASSES
    if names == "all":
        return tuple(CONVENTIONS)
    return tuple(dict.fromkeys(name.strip() for name in names.split(",")))


def _read(
    data: str, options: VariantOptions
) -> tuple[list[str], list[str] | None, dict[str, Float64[np.ndarray, " N"]]]:
    """The mutants, their whole sequences if there are some beside them, and the columns of numbers."""
    file = Path(data)
    with reading(file):
        if not file.is_file():
            raise InputError(f"there is no file {data!r}; give a .csv, .parquet or .jsonl table of mutants")
    columns = read_text_file(file, running=False)
    has_mutants, has_sequences = (
        name in columns.names for name in (options.mutant_column, options.sequence_column)
    )
    if not has_mutants and not has_sequences:
        raise InputError(
            f"{data!r} has neither a column {options.mutant_column!r} nor {options.sequence_column!r}; it "
            f"has {', '.join(columns.names)} (--mutant-column, --sequence-column)"
        )
    sequences = _texts(data, columns, options.sequence_column, options.limit) if has_sequences else None
    mutants = _texts(data, columns, options.mutant_column, options.limit) if has_mutants else sequences
    assert mutants is not None
    if not mutants:
        raise InputError(f"{data!r} has no row; give a mutant or more")
    wanted = [] if options.measured is None else [options.measured, *_names(options.given)]
    numbers = {name: _numbers(data, columns, name, options.limit) for name in wanted}
    for name, values in numbers.items():
        known = int((~np.isnan(values)).sum())
        if known < MIN_PAIRS:
            raise InputError(
                f"{data!r} has {known} numbers in column {name!r}; a rank correlation needs {MIN_PAIRS} or "
                "more"
            )
        if np.nanmin(values) == np.nanmax(values):
            raise InputError(
                f"{data!r} has one number alone in column {name!r}, {np.nanmin(values):g}; a rank "
                "correlation needs different ones: leave the column out"
            )
    return mutants, sequences if has_mutants else None, numbers


def _beside(name: str, taken: Collection[str]) -> str:
    """The name of a given column in the table of scores, none of whose columns it hides."""
    return f"given {name}" if name in taken else name


def _names(words: str | None) -> list[str]:
    return [] if words is None else [word.strip() for word in words.split(",")]


def _texts(data: str, columns: Columns, name: str, limit: int | None) -> list[str]:
    values = columns.column(name)[:limit]
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"{data!r} has no text in column {name!r}, row {row} (from 0); leave it out")
    return values


def _numbers(data: str, columns: Columns, name: str, limit: int | None) -> Float64[np.ndarray, " N"]:
    """A column of numbers; empty cells are NaN."""
    if name not in columns.names:
        raise InputError(f"{data!r} has no column {name!r}; it has {', '.join(columns.names)}")
    values: Sequence[Any] = columns.column(name)[:limit]
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            numbers[row] = float(value if is_number(str(value)) else "no number")
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{data!r} has {str(value)[:40]!r} in column {name!r}, row {row} (from 0), which is no "
                "number; correct it or leave it empty"
            ) from error
    return numbers
