"""Score a prepared model in memory, or in a run directory that the same command resumes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from maskevidence import __version__
from maskevidence.command.options import Result, RunOptions
from maskevidence.core.errors import InputError, import_extra, unknown_name
from maskevidence.core.evidence.precise import FEWEST, Precise, default_design
from maskevidence.core.evidence.result import EvidenceEstimate, page_of_numbers
from maskevidence.core.kind import Kind, kinds, named
from maskevidence.core.masks.design import MaskDesign, MaskKey
from maskevidence.core.masks.design_words import DesignWord
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.scores.score_masks import Scoring, check_per_token, score_repeats
from maskevidence.core.show.parts import Part, Table
from maskevidence.core.show.words import count, typeset
from maskevidence.core.support.checks import plain_number
from maskevidence.core.support.files import csv_text, write_atomic
from maskevidence.runs import (
    DataSource,
    Recording,
    RunDirectory,
    read_run,
    record_run,
    rows_per_block,
    write_summary,
)
from maskevidence.runs.blocks import Engine, kept_open, local_engine, parse_shard
from maskevidence.runs.directory import ESTIMATE, TOKENS
from maskevidence.runs.folder import locked
from maskevidence.runs.prepared import Prepared, manifest_of, recorded
from maskevidence.runs.summary import agrees


class Drawing(NamedTuple):
    """The choice of masks that can be made before the observations are read."""

    word: DesignWord  # the design that was asked for, or that of the kind
    design: MaskDesign  # with the masks of the run that is resumed
    precise: Precise | None  # draws random sizes until an error is reached
    begun: bool  # whether a run is resumed
    by_default: bool  # whether the observations decide between `design` and a `Precise`

    def of(self, scoring: Scoring, ready: Prepared) -> tuple[Scoring, Prepared, Precise | None]:
        """The masks for these observations; a note says so where few of them take more than the default.

        Args:
            scoring: with the design of this drawing.
        """
        precise, n_tokens = self.precise, ready.tokens.n_tokens.cpu().numpy()
        if self.by_default and isinstance(chosen := default_design(n_tokens), Precise):
            precise, scoring = chosen, replace(scoring, design=FEWEST)
        if precise is not None:
            assert isinstance(scoring.design, RandomSize)
            first = precise.first(n_tokens, scoring.design, begun=self.begun)
            return replace(scoring, design=first), ready, precise
        design, fixed = scoring.design, self.begun or self.word.named or scoring.key.masks == "shared"
        if fixed or not isinstance(design, RandomSize):
            return scoring, ready, None
        enough = design.enough_draws(n_tokens, "own")
        if enough <= design.draws:
            return scoring, ready, None
        noun = ready.source.noun
        note = (
            f"{enough} random sizes per {noun} instead of {design.draws}, so that the error of "
            f"{count(len(n_tokens), noun)} is known; --design {DesignWord(design)} has "
            f"{design.draws}"
        )
        more = replace(scoring, design=replace(design, draws=enough, replicates=design.n_replicates))
        return more, ready.with_note(note), None


def drawing_for(
    word: DesignWord, run: RunOptions, precise: Precise | None = None, *, by_default: bool = False
) -> Drawing:
    """Choose the masks of a score; a run that is resumed keeps its own.

    Args:
        word: the design that was asked for, or that of the kind.
        run: which folder is resumed, if any.
        precise: draws as many masks as an error takes, in place of the design; None for the design.
        by_default: whether the observations may decide for a `Precise` without a target.
    """
    held = None if run.out is None or run.overwrite else RunDirectory(run.out).manifest()
    before = None if held is None or not by_default else held.target()
    if before is not None and before.target_se is None and before.target_relative is None:
        precise = before
    design = word.design if precise is None else FEWEST
    begun = held is not None and held.design.get("name") == design.name
    if held is not None and begun:
        design = design.continuing(held.mask_design(), word.named)
    return Drawing(word, design, precise, begun, by_default and not begun)


def parse_precise(
    target_se: str | None, design: DesignWord | None = None, shard: str | None = None
) -> Precise | None:
    """Parse --target-se into a `Precise`; None without it.

    Args:
        target_se: nats, such as "0.05", or a share of the log evidence, such as "1%"; ",max_passes=4000"
            after it limits the masks of all observations.
        design: the value of --design, which has to be random-size or random-size:per-token; None without it.

    Example:
        >>> parse_precise("0.05")
        Precise(target_se=0.05, target_relative=None, max_passes=None, negligible=0.1)
        >>> parse_precise("1%,max_passes=4000").target(-50.0)
        0.5
    """
    if target_se is None:
        return None
    word, *limits = target_se.split(",")
    number = word.removesuffix("%")
    try:
        value = plain_number(number)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(
            f"--target-se {target_se!r}; give nats above 0, such as 0.05, or a share of the log evidence, "
            "such as 1%"
        )
    name, _, most = "".join(limits).partition("=")
    if limits and (len(limits) > 1 or name != "max_passes" or not most.isascii() or not most.isdigit()):
        raise InputError(
            f"--target-se {target_se!r}; write a limit on the masks of all observations as "
            f"{word},max_passes=100000"
        )
    is_share = number != word
    share = value / 100 if is_share else None
    precise = Precise(None if is_share else value, share, int(most) if limits else None)
    if design is not None:
        if not isinstance(design.design, RandomSize):
            raise InputError(f"--target-se draws random sizes; leave --design {design} out")
        if design.named:
            raise InputError(
                f"--target-se finds the number of masks, which --design {design} sets; give one of them"
            )
        if design.masks == "shared":
            raise InputError(
                "--target-se needs own masks, whose error is known from few passes; leave shared out"
            )
    if shard is not None:
        raise InputError(
            "--target-se follows the errors of all rows, and a shard sees its own; score the first 100 of N "
            f"rows (--limit 100) with --target-se √(N/100)·{target_se}, and give every shard --design "
            "random-size:K,replicates=K with the K draws at which that run ends"
        )
    return precise


MAX_TOKENS_SHOWN = 40
_ROWS_IN_BOTH, _REPEATS_IN_BOTH = 8, 4  # observations and masks that show the rounding of half precision


def check_tokens_asked(kind: Kind, design: MaskDesign, key: MaskKey, *, reports: bool, records: bool) -> None:
    """Raise an InputError for per-token if neither the report nor the error uses token scores."""
    if reports and not kind.tells_tokens:
        raise InputError("leave-one-out:per-token is a report on texts; leave per-token out")
    if records:
        check_per_token(design, key)


def check_run(run: RunOptions) -> None:
    """Raise an InputError for conflicting or meaningless run options, before any fitting or loading."""
    if run.engine is not None:
        _ray_engine(run.engine)
        if run.out is None:
            raise InputError("--engine ray needs --out, a folder for the scores of the workers")
        import_extra("ray", "ray", "--engine ray")
    if run.shard is not None:
        parse_shard(run.shard)
        if run.out is None:
            raise InputError("--shard needs --out, a separate folder for each shard")


def check_folder(run: RunOptions, model: str, scoring: Scoring) -> None:
    """Refuse a folder of another run, if this shows before a model is fitted or loaded."""
    if run.out is None:
        return
    folder = RunDirectory(run.out)
    folder.refuse_unrelated()
    existing = None if run.overwrite else folder.manifest()
    if existing is not None:
        folder.check(existing.model_copy(update=_asked(model, scoring, run)), overwrite=False)


def _asked(model: str, scoring: Scoring, run: RunOptions) -> dict[str, Any]:
    """The fields of run.json that depend on the options alone."""
    return {
        "model": model,
        "design": scoring.design.settings(),
        "masks": scoring.key.masks,
        "token_scores": scoring.per_token,
        "seed": scoring.key.seed,
        "shard": (1, 1) if run.shard is None else parse_shard(run.shard),
    }


def with_rounding(scoring: Scoring, ready: Prepared) -> Prepared:
    """Score some of the run's masks in half and in single precision, and add a note on the difference."""
    if ready.in_float32 is None or isinstance(scoring.design, Policy):
        return ready
    n = len(ready.tokens)
    rows = torch.linspace(0, n - 1, min(_ROWS_IN_BOTH, 1 + n // 50)).long()
    some, repeats = (
        ready.tokens.scored_together()[rows],
        range(min(_REPEATS_IN_BOTH, scoring.design.n_repeats)),
    )
    rounded, exact = (
        score_repeats(model, some, scoring, repeats, lambda *_: None)[0].score
        for model in (ready.model, ready.in_float32())
    )
    moved, dtype = rounded - exact, recorded(ready.model)["dtype"]
    error = f" ± {moved.std(ddof=1) / math.sqrt(len(moved)):.1g}" if len(moved) > 1 else ""
    return ready.with_note(
        f"{dtype} moved the scores of {count(len(moved), 'mask')} of this run from those in float32 by "
        f"{moved.mean():+.1g}{error} nats per hidden token, by {abs(moved).max():.1g} at most"
    )


def result_of(
    content: dict[str, Any],
    source: DataSource,
    lines: Sequence[str] = (),
    tokens: Sequence[Mapping[str, Any]] | None = None,
    out: Path | None = None,
) -> Result:
    """Show the numbers of an estimate and, if given, the scores of the first tokens.

    Args:
        content: what `estimate.json` holds.
        source: the data, with the nouns for an observation and a token.
        lines: lines on written files.
        tokens: log p of each token given all others, nats.
        out: the run directory, which has the scores of all tokens; None if they are in JSON alone.
    """
    page = page_of_numbers(content, source.noun, source.token)
    if tokens is None:
        return Result(page, content, lines)
    cells = [
        [str(entry["id"]), str(entry["position"]), entry["token"], typeset(entry["log_prob"], 4)]
        for entry in tokens[:MAX_TOKENS_SHOWN]
    ]
    title = "log-probability of each token given all others, nats"
    parts: list[Part] = [Table(["observation", "position", "token", "log p"], cells, title)]
    more = len(tokens) > MAX_TOKENS_SHOWN
    if more or out is not None:
        first, target = f"The first {MAX_TOKENS_SHOWN} of " * more, "--json" if out is None else out / TOKENS
        parts.append(f"{first}{count(len(tokens), 'token')}; {target} has all of them.")
    return Result(replace(page, parts=[*page.parts, *parts]), content | {"tokens": list(tokens)}, lines)


def score_into(
    folder: RunDirectory,
    model: str,
    ready: Prepared,
    scoring: Scoring,
    run: RunOptions,
    precise: Precise | None,
) -> tuple[dict[str, Any], list[str]]:
    """Score into a run directory, or resume the same run there.

    Args:
        folder: the run directory.
        model: the MODEL word.
        ready: the model and the observations.
        scoring: how masks are drawn.
        run: how scores are computed and saved.
        precise: draws as many masks as an error takes, in place of the design; None for the design.

    Returns:
        The content of `estimate.json`, and lines on written files.

    Raises:
        InputError: the folder holds another run, or was changed.
    """
    n_rows = rows_per_block(ready.model, ready.tokens, scoring.design, scoring.key)
    shard = (1, 1) if run.shard is None else parse_shard(run.shard)
    asked = None if precise is None else precise.settings()
    manifest = manifest_of(model, ready, scoring, n_rows, shard=shard, precise=asked)
    n_scored = 0

    def record(design: MaskDesign, engine: Engine) -> None:
        nonlocal n_scored
        n_scored += record_run(
            folder,
            manifest.model_copy(update={"design": design.settings()}),
            ready.model,
            ready.tokens,
            Recording(
                scoring.batch_size,
                engine=engine,
                overwrite=run.overwrite,
                labels=ready.labels,
                texts=ready.beginnings,
                verify=ready.code is not None,
            ),
            fitted=ready.fitted,
        )

    if precise is None:
        record(scoring.design, _engine(run, ready))
    else:
        assert isinstance(scoring.design, RandomSize)
        with kept_open(_engine(run, ready)) as engine:

            def extended(design: RandomSize) -> EvidenceEstimate:
                record(design, engine)
                return read_run(folder.path).estimate

            precise.drawn(scoring.design, extended)
    result, lines = _summarized(folder, n_scored)
    if n_scored == 0 and ready.code is not None:
        lines = [*lines, f"{model} was not scored again: these are its stored scores."]
    return result, lines


def _summarized(folder: RunDirectory, n_scored: int) -> tuple[dict[str, Any], list[str]]:
    """Summarise a run after `n_scored` masks were added; return the result and lines on written files."""
    whole = read_run(folder.path)
    result = whole.result()
    finished = folder.estimate() if n_scored == 0 else None
    before = folder.finished_before("computes it again")
    if finished is not None:
        if whole.manifest.version != __version__:  # another version may summarise differently
            return finished, before
        if not agrees(finished | {"notes": result["notes"]}, result):
            raise InputError(
                f"{str(folder.path / ESTIMATE)!r} was changed after it was written: the scores give another "
                f"estimate; maskevidence summarize {folder.path} writes it again"
            )
        return result, before
    with locked(folder.path):
        missing = write_summary(folder, whole, result)
    return result, folder.written(missing)


def _engine(run: RunOptions, ready: Prepared) -> Engine:
    """The engine of a run; each Ray worker has one thread unless `threads` sets more."""
    if run.engine is None:
        return local_engine
    return replace(_ray_engine(run.engine), threads=run.threads or 1, load=ready.load)


def _ray_engine(word: str) -> Any:
    """Look up the engine of a word; its package is imported when it is called."""
    engines = {name: place for kind in kinds() for name, place in kind.engines.items()}
    name = word.partition(":")[0]
    if name not in engines:
        raise unknown_name("engine", name, engines)
    return named(engines[name])(word)


def tokens_of(kind: Kind, ready: Prepared, scores: ScoreTable, out: Path | None) -> list[dict[str, Any]]:
    """The score of each token, nats; also written as CSV into a run directory."""
    listed = kind.token_scores(ready, scores)
    if out is not None:
        columns = ("id", "position", "token", "log_prob")
        rows = ([entry[column] for column in columns] for entry in listed)
        write_atomic(out / TOKENS, csv_text(columns, rows))
    return listed
