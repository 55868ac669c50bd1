"""maskevidence score: the log evidence of a model on data."""

from dataclasses import replace
from typing import Annotated, Any

from maskevidence.command.options import Data, Design, Model, OptionsOf, Result, RunOptions
from maskevidence.core.kind import kind_named


def score(
    model: Model,
    data: Data,
    design: Design = None,
    *,
    options: Annotated[Any, OptionsOf("score")],
    run: RunOptions = RunOptions(),
) -> Result:
    """Estimate the log evidence of MODEL on DATA, with error bars and the curve over mask sizes.

    With --out the scores are saved while they are computed: the same command resumes an interrupted run, and
    a larger number of masks, as of random-size:16 after random-size:8, adds to the existing scores.

    A model word such as `ppca:8` is fitted to a training part of the rows and scored on the others; a saved
    model is scored as it is. Standard errors are given for the masks (Monte Carlo) and for the observations.

    Examples:

        maskevidence score ppca:8 digits
        maskevidence score gaussian table.csv --design orderings:16 --out runs/a
        maskevidence score runs/a/model table.csv --design leave-one-out --json -
        maskevidence score google-bert/bert-base-uncased glue/qnli:validation --text question,sentence
        maskevidence score runs/a/model table.csv --out runs/b --engine ray:8
        maskevidence score runs/bert pairs.csv --text sentence_good --against sentence_bad
    """
    kind = kind_named(options.kind)
    kind.check_words(model, data)  # before numpy is imported
    from maskevidence.core.masks.design_words import parse_design

    word = None if design is None else parse_design(design)  # before torch is imported

    from maskevidence.command import scoring as numbers
    from maskevidence.command.scoring import drawing_for, parse_precise
    from maskevidence.core.masks.design import MaskKey
    from maskevidence.core.masks.sizes import LeaveOneOut
    from maskevidence.core.scores.score_masks import Scoring
    from maskevidence.runs import RunDirectory, read_run
    from maskevidence.runs.prepared import score_prepared

    precise = parse_precise(run.target_se, word, run.shard)
    numbers.check_run(run)
    word = word or replace(parse_design(kind.design_for(options)), named=frozenset())
    apart: Result | None = kind.score(model, data, word, options, run)
    if apart is not None:
        return apart
    by_default = design is None and precise is None and kind.may_race and run.shard is None
    drawing = drawing_for(word, run, precise, by_default=by_default)
    key = MaskKey(options.seed, word.masks)
    reports = word.per_token and isinstance(drawing.design, LeaveOneOut)
    records = word.per_token and not reports
    numbers.check_tokens_asked(kind, drawing.design, key, reports=reports, records=records)
    batch_size = getattr(options, "batch_size", Scoring.batch_size)
    scoring = Scoring(drawing.design, key, batch_size, per_token=records)
    numbers.check_folder(run, model, scoring)
    ready = kind.prepare(model, data, drawing.design, options, None if run.overwrite else run.out)
    scoring, ready, precise = drawing.of(scoring, ready)
    ready = numbers.with_rounding(scoring, ready)
    if run.out is None:
        result, estimate = score_prepared(ready, scoring, precise)
        lines: list[str] = []
    else:
        result, lines = numbers.score_into(RunDirectory(run.out), model, ready, scoring, run, precise)
    tokens = None
    if reports:
        scores = estimate.scores if run.out is None else read_run(run.out).estimate.scores
        tokens = numbers.tokens_of(kind, ready, scores, run.out)
    return numbers.result_of(result, ready.source, lines, tokens, run.out)
