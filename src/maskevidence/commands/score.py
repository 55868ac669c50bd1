"""maskevidence score: the log evidence of a model on data."""

from dataclasses import replace
from typing import TYPE_CHECKING

from maskevidence.kinds.declaring import Kind, one_of_kind
from maskevidence.kinds.options import (
    Data,
    Design,
    Model,
    RunOptions,
    Scorable,
    ScoredTextOptions,
    TextOptions,
)
from maskevidence.kinds.recipes import RECIPES
from maskevidence.kinds.words import kind_of_model

if TYPE_CHECKING:
    from maskevidence.kinds.result import Reported
    from maskevidence.kinds.scoring import Scored

_DESIGN: dict[Kind, str] = {"rows": "every-size", "texts": "random-size", "images": "random-size"}


def score(
    model: Model,
    data: Data,
    design: Design = None,
    options: Scorable | None = None,
    run: RunOptions = RunOptions(),
) -> "Scored | Reported":
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

    Args:
        model: a word such as "ppca:8", a folder, or OWNER/NAME on the hub.
        data: a file, a data set, or a folder of images.
        design: how masks are drawn, such as "random-size:8,per-token"; None for "every-size", and
            "random-size" for transformers.
        options: how the model and the data are prepared, as `RowOptions`, `TextOptions` or `ImageOptions`.
        run: how scores are computed, and where they are saved.

    Raises:
        InputError: options that exclude each other or belong to other models, or a model or data that cannot
            be used.

    Example:
        >>> scored = score("gaussian", "digits", "leave-one-out")
        >>> scored.result["kind"], scored.result["n_observations"]
        ('pseudo', 359)
    """
    from maskevidence.commands.score_pairs import score_pairs
    from maskevidence.evidence.precise import FEWEST
    from maskevidence.kinds import scoring as numbers
    from maskevidence.kinds.prepare import prepare
    from maskevidence.kinds.scoring import parse_precise
    from maskevidence.masks.by_name import parse_design
    from maskevidence.masks.design import MaskKey
    from maskevidence.masks.sizes import LeaveOneOut, RandomSize
    from maskevidence.runs import RunDirectory, read_run
    from maskevidence.scores.score import Scoring

    word = None if design is None else parse_design(design)
    precise = parse_precise(run.target_se, run.max_passes, word, run.shard)
    numbers.check_run(run)
    kind = kind_of_model(model)
    options = one_of_kind(kind, model, options, Scorable)
    recipe = options.reading.recipe if isinstance(options, TextOptions) else None
    default = parse_design(_DESIGN[kind] if recipe is None else RECIPES[recipe].design)
    word = word or replace(default, named=frozenset())
    if isinstance(options, ScoredTextOptions) and options.against is not None:
        return score_pairs(model, data, word, options, run)
    resumed = None if run.overwrite else run.out
    mask_design = word.design if precise is None else FEWEST
    existing = numbers.existing_design(mask_design, resumed)
    if existing is not None:
        mask_design = mask_design.continuing(existing, word.named)
    key = MaskKey(options.sample.seed, word.masks)
    reports = word.per_token and isinstance(mask_design, LeaveOneOut)
    records = word.per_token and not reports
    numbers.check_per_token(kind, mask_design, key, reports=reports, records=records)
    scoring = Scoring(mask_design, key, run.batch_size, per_token=records)
    numbers.check_folder(run, model, scoring)
    ready = prepare(model, data, mask_design, options, resumed)
    if precise is not None:
        assert isinstance(mask_design, RandomSize)
        first = precise.first(ready.tokens.n_tokens.cpu().numpy(), mask_design, begun=existing is not None)
        scoring = replace(scoring, design=first)
    elif existing is None:
        scoring, ready = numbers.with_enough_draws(scoring, word, ready)
    if run.out is None:
        result, estimate = numbers.score_prepared(ready, scoring, precise)
        scored = numbers.Scored(result, noun=ready.source.noun)
    else:
        scored = numbers.score_into(RunDirectory(run.out), model, ready, scoring, run, precise)
    if not reports:
        return scored
    scores = estimate.scores if run.out is None else read_run(run.out).estimate.scores
    return replace(scored, tokens=numbers.tokens_of(ready, scores, run.out))
