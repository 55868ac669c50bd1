"""maskevidence score --against: score both texts of each pair by one model and compare them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from maskevidence.command import scoring as numbers
from maskevidence.command.options import Result, RunOptions
from maskevidence.command.scoring import drawing_for
from maskevidence.core.comparing.pairs import TextPairs, pair_texts
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.design_words import DesignWord
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.show.parts import Page
from maskevidence.core.show.words import count
from maskevidence.core.support.files import csv_text, read_json, write_atomic, write_json
from maskevidence.core.support.provenance import made_of
from maskevidence.runs import RunDirectory, read_run
from maskevidence.runs.folder import ResultFolder
from maskevidence.runs.prepared import Prepared, recorded, score_prepared
from maskevidence.texts.prepared_texts import groups_of_pairs, prepare_pairs
from maskevidence.texts.text_options import ScoredTextOptions

PAIRS, CONTENT = "pairs.csv", "pairs.json"
_FEW_OPEN, _MOST_DRAWS = 0.1, 128  # share of ties at which more masks stop; random sizes per text
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
    groups = groups_of_pairs(data, options)
    both = prepare_pairs(model, data, drawing.design, options)
    longest = max(both, key=lambda ready: int(ready.tokens.n_tokens.max()))
    scoring, noted, _ = drawing.of(scoring, longest)
    notes = dict.fromkeys(note for ready in (*both, noted) for note in ready.notes)
    names, dtypes = (str(options.text), str(options.against)), [recorded(r.model)["dtype"] for r in both]

    def scored(scoring: Scoring) -> TextPairs:
        first, second = (_estimate(model, *each, scoring) for each in zip(both, runs, strict=True))
        return pair_texts(first, second, names, dtypes=dtypes)

    pairs = scored(scoring)
    if not (drawing.begun or word.named or scoring.key.masks == "shared"):
        pairs = _decided(pairs, scoring, scored)
    first_texts, second_texts = ([text for (text,) in ready.texts or ()] for ready in both)
    pairs = replace(pairs, texts=(first_texts, second_texts), groups=groups)
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


def read_pairs(folder: Path) -> Page:
    """Build the page of a folder of pairs again, from its two runs."""
    content = read_json(folder / CONTENT, "score the pairs again")
    first, second = (read_run(folder / name) for name in FOLDERS)
    names = (content["first"], content["second"])
    dtypes = [run.manifest.dtype for run in (first, second)]
    pairs = pair_texts(first.estimate, second.estimate, names, dtypes=dtypes)
    groups = [pair["group"] for pair in content["pairs"]] if content["groups"] else None
    texts = [[pair.get(name, "") for pair in content["pairs"]] for name in ("first", "second")]
    page, manifest = replace(pairs, groups=groups, texts=(texts[0], texts[1])).page(), first.manifest
    made = {"model": manifest.named, "data": manifest.data.name, "command": manifest.command}
    return replace(page, notes=content["notes"], made=made_of(made | {"versions": manifest.versions}))


def _decided(pairs: TextPairs, scoring: Scoring, scored: Callable[[Scoring], TextPairs]) -> TextPairs:
    """Score with four times the random sizes until few pairs are ties within the masks' error."""
    before, notes = pairs, pairs.notes
    while _n_open(pairs) > _FEW_OPEN * len(pairs.call):
        design = scoring.design
        if not isinstance(design, RandomSize) or design.draws >= _MOST_DRAWS:
            break
        scoring = replace(scoring, design=replace(design, draws=4 * design.draws))
        pairs = scored(scoring)
        first = before.estimates[0].how.design
        notes = (
            f"{4 * design.draws} random sizes per text instead of {getattr(first, 'draws', 0)}, with which "
            f"{_n_open(before):,} of {count(len(pairs.call), 'pair')} were ties within the masks' error, and "
            f"{_n_open(pairs):,} still are; --design {DesignWord(first)} stops there",
        )
    return replace(pairs, notes=notes)


def _n_open(pairs: TextPairs) -> int:
    """The number of ties that more masks may decide."""
    return int(((pairs.call == 0) & ~pairs.equal).sum())


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
