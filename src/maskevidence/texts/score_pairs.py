"""maskevidence score --against: score both texts of each pair by one model and compare them."""

from dataclasses import replace
from pathlib import Path

from maskevidence.command import scoring as numbers
from maskevidence.command.drawing import drawing_for
from maskevidence.command.options import RunOptions
from maskevidence.command.result import Result
from maskevidence.core.comparing.pairs import pair_texts
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.masks.by_name import DesignWord
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.scores.score import Scoring
from maskevidence.core.support.files import csv_text, write_atomic, write_json
from maskevidence.runs import RunDirectory, read_run
from maskevidence.runs.folder import ResultFolder
from maskevidence.runs.prepared import Prepared, recorded, score_prepared
from maskevidence.texts.options import ScoredTextOptions
from maskevidence.texts.prepared_texts import prepare_pairs

PAIRS, CONTENT = "pairs.csv", "pairs.json"
FOLDERS = ("text", "against")  # the runs of the first and of the second texts


def score_pairs(
    model: str, data: str, word: DesignWord, options: ScoredTextOptions, run: RunOptions
) -> Result:
    """Score both texts of each pair, with the same masks where lengths allow, and subtract the scores."""
    _check(word, options, run)
    key = MaskKey(options.seed, word.masks)
    runs = [replace(run, out=None if run.out is None else run.out / name) for name in FOLDERS]
    drawing = drawing_for(word, runs[0])
    scoring = Scoring(drawing.design, key, per_token=word.per_token)
    for each in runs:
        numbers.check_folder(each, model, scoring)
    both = prepare_pairs(model, data, drawing.design, options)
    longest = max(both, key=lambda ready: int(ready.tokens.n_tokens.max()))
    scoring, noted, _ = drawing.of(scoring, longest)
    notes = dict.fromkeys(note for ready in (*both, noted) for note in ready.notes)
    first, second = (_estimate(model, *each, scoring) for each in zip(both, runs, strict=True))
    dtypes = [recorded(ready.model)["dtype"] for ready in both]
    pairs = pair_texts(first, second, (str(options.text), str(options.against)), dtypes=dtypes)
    page = pairs.page()
    page = replace(page, notes=list(dict.fromkeys([*notes, *page.notes])))
    content = pairs.to_dict() | {"notes": page.notes}
    if run.out is None:
        return Result(page, content)
    values, index, name = pairs.columns()
    rows = zip(index, *values.values(), strict=True)
    write_atomic(run.out / PAIRS, csv_text((str(name), *values), rows))
    write_json(run.out / CONTENT, content)
    return Result(page, content, _folder(run.out).written())


def _estimate(model: str, ready: Prepared, run: RunOptions, scoring: Scoring) -> EvidenceEstimate:
    """Score the texts of one column; with --out, read the estimate back from the run."""
    if run.out is None:
        return replace(score_prepared(ready, scoring)[1], labels=ready.labels)
    numbers.score_into(RunDirectory(run.out), model, ready, scoring, run, None)
    return read_run(run.out).estimate


def _check(word: DesignWord, options: ScoredTextOptions, run: RunOptions) -> None:
    """Refuse options that pairs do not support, before a model is loaded."""
    if options.text is None:
        raise InputError("--against names the second texts of pairs; name the first ones, too: --text COLUMN")
    if "," in options.text or options.text == options.against:
        raise InputError(
            f"--text {options.text!r} --against {options.against!r}; give two different columns, one each"
        )
    excluded = {
        "--block-size": options.block_size,
        "--recipe": options.recipe,
        "--long split": options.long == "split",
        "--shard": run.shard,
        "--target-se": run.target_se,
        "leave-one-out:per-token": word.per_token and not word.design.random_sizes,
    }
    for flag, value in excluded.items():
        if value:
            raise InputError(f"{flag} is not for pairs; leave out {flag} or --against")
    if run.out is not None:
        _folder(run.out).refuse_unrelated()


def _folder(out: Path) -> ResultFolder:
    return ResultFolder(out, "pairs", (PAIRS, CONTENT, *(f"{name}/" for name in FOLDERS)), signs=FOLDERS)
