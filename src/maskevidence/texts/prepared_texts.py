"""Load masked language models, read and encode texts, and reopen a run's texts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.precise import FEWEST
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import DesignWord, parse_design
from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.show.words import beginning
from maskevidence.core.support.checks import free_memory
from maskevidence.core.support.hub import check_revision
from maskevidence.core.support.progress import progress
from maskevidence.core.support.provenance import digest
from maskevidence.core.table import place_of
from maskevidence.core.tokens import Tokens
from maskevidence.runs import DataSource
from maskevidence.runs.prepared import Prepared, recorded
from maskevidence.texts.encoding import EncodedTexts, Joining, PackedTexts, encode_texts, pack_texts
from maskevidence.texts.loading import load_tokenizer
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.pieces import reads_residues
from maskevidence.texts.recipes import RECIPES
from maskevidence.texts.text_files import Texts, read_texts
from maskevidence.texts.text_options import CheckpointOptions, ScoredTextOptions, TextOptions
from maskevidence.texts.whole_words import HIDDEN_LATER, HIDDEN_TOGETHER, WholeWords, notes_on_words

PACKED_FROM = 2**17  # texts, from which on their tokens lie in a file


def prepare_texts(
    model: str,
    data: str,
    design: MaskDesign,
    options: TextOptions = TextOptions(),
) -> Prepared:
    """Load a masked language model, read the texts and encode them.

    Args:
        model: its folder, or OWNER/NAME on the hub.
        data: the texts, as `read_texts` takes them.
        design: how masks will be drawn.
        options: how the model is loaded, which texts are used, and how they are read and encoded.

    Raises:
        InputError: options that exclude each other, or a model or texts that cannot be used.
    """
    options = _with_recipe(options)
    _check(model, design, options)
    texts, scored = read_texts_of(data, options)
    loaded = load_text_model(model, options.checkpoint)
    prepared = _encoded(model, data, loaded, texts, scored, options)
    for note in _recipe_notes(options, design):
        prepared = prepared.with_note(note)
    return prepared


def prepare_pairs(
    model: str, data: str, design: MaskDesign, options: ScoredTextOptions
) -> tuple[Prepared, Prepared]:
    """Prepare the first and the second texts of pairs; both have the same ids."""
    _check(model, design, options)
    required = [str(options.text), str(options.against)]
    both = [read_texts_of(data, replace(options, text=column), required) for column in required]
    for texts, (column,) in both:
        for row, text in enumerate(texts[column]):
            if not text.strip():
                place = place_of(row, texts.lines)
                raise InputError(
                    f"{data!r} has an empty text in column {column!r}, {place}; leave it out (--skip-empty)"
                )
    loaded = load_text_model(model, options.checkpoint)
    first, second = (_encoded(model, data, loaded, *each, options) for each in both)
    return first, second


def groups_of_pairs(data: str, options: ScoredTextOptions) -> tuple[str, ...] | None:
    """The group of each pair, from the column of `by`; None without it."""
    if options.by is None:
        return None
    scored = [str(options.text), str(options.against)]
    skipped = scored if options.skip_empty else None
    return tuple(read_texts(data, [options.by], limit=options.limit, skip_empty=skipped)[options.by])


def _with_recipe(options: TextOptions) -> TextOptions:
    """Fill in the recipe's block size if the options have none."""
    if options.recipe is None or options.block_size is not None:
        return options
    return replace(options, block_size=RECIPES[options.recipe].block_size)


def _check(model: str, design: MaskDesign, options: TextOptions) -> None:
    """Refuse options that exclude each other."""
    check_revision(model, options.checkpoint.revision)
    if options.hides_words and not isinstance(design, LeaveOneOut):
        raise InputError(f"{options.hides_words} belongs to --design leave-one-out; add that")
    if options.pair and options.context_field is None:
        raise InputError("--pair belongs to --context-field; for two scored columns, --text FIRST,SECOND")
    if options.whole_words and options.word_l2r:
        raise InputError("--whole-words and --word-l2r exclude each other; leave one of them out")
    if options.id_column is not None and options.block_size is not None:
        joins = "--block-size" if options.recipe is None else f"--recipe {options.recipe}"
        raise InputError(f"--id-column names single texts, and {joins} joins them; leave one of them out")


def _encode(
    loaded: MaskedLM, texts: Texts, scored: Sequence[str], options: TextOptions
) -> EncodedTexts | PackedTexts:
    """Encode the texts, many of them some at a time, into a file."""
    recipe = None if options.recipe is None else RECIPES[options.recipe]
    joining = None if recipe is None or not recipe.block_size else Joining(recipe.ends, recipe.visible)
    encoding = replace(
        loaded.encoding,
        second=texts[scored[1]] if len(scored) == 2 else None,
        context=None if options.context_field is None else texts[options.context_field],
        context_pair=options.pair,
        long=options.long or "error",
        block_size=options.block_size,
        most_blocks=None if options.block_size is None else options.limit,
        allow_unknown=options.allow_unknown,
        joining=joining,
        lines=texts.lines,
        names=texts.labels,
    )
    with progress("encoding texts", len(texts)) as advance:
        if len(texts) >= PACKED_FROM and _may_pack(options, scored):
            return pack_texts(loaded.tokenizer, texts[scored[0]], encoding, advance)
        encoded = encode_texts(loaded.tokenizer, texts[scored[0]], encoding)
        advance(len(texts))
    return encoded


def _encoded(
    model: str, data: str, loaded: MaskedLM, texts: Texts, scored: Sequence[str], options: TextOptions
) -> Prepared:
    """Encode the texts for a loaded model."""
    checkpoint = options.checkpoint
    recipe = None if options.recipe is None else RECIPES[options.recipe]
    encoded = _encode(loaded, texts, scored, options)
    wrap = None
    notes = [*loaded.notes, *texts.notes, *encoded.notes]
    if options.hides_words and isinstance(encoded, EncodedTexts):
        wrap = partial(WholeWords, texts=encoded, left_to_right=options.word_l2r)
        notes.append(HIDDEN_LATER if options.word_l2r else HIDDEN_TOGETHER)
        notes += notes_on_words(encoded, (text for column in scored for text in texts[column]))
    if checkpoint.bf16:
        notes.append("computed under bfloat16 autocast")
    tokenizer = checkpoint.tokenizer
    elsewhere = replace(checkpoint, tokenizer=None if tokenizer is None else _full_path(tokenizer))
    again = partial(_load_again, _full_path(model), wrap=wrap)
    rounds = recorded(loaded)["dtype"] in ("bfloat16", "float16", "tf32") and _fits_in_float32(loaded)
    exactly = replace(elsewhere, bf16=False, dtype="float32")
    single, columns = options.block_size is None, [texts[column] for column in scored]
    prepared = Prepared(
        loaded if wrap is None else wrap(loaded),
        encoded.tokens,
        _source(data, loaded, texts, encoded, notes, in_blocks=not single),
        load=partial(again, elsewhere),
        in_float32=partial(again, exactly) if rounds else None,
        revision=checkpoint.revision,
        tokenizer=loaded.tokenizer,
        texts=None if isinstance(encoded, PackedTexts) else tuple(zip(*columns, strict=True)),
        labels=tuple(texts.labels[row] for row in encoded.source) if single and texts.labels else None,
        details={} if recipe is None else {"recipe": recipe.to_dict(str(options.recipe))},
        beginnings=partial(_beginnings, columns, encoded.source) if single else None,
    )
    of_reading = {
        "limit": options.limit,
        "id_column": options.id_column,
        "block_size": options.block_size,
        "context_field": options.context_field,
        "skip_empty": ",".join(texts.skipped) or None,
        "upper": options.upper or None,
    }
    return prepared.read_with(data, of_reading)


def _source(
    data: str,
    loaded: MaskedLM,
    texts: Texts,
    encoded: EncodedTexts | PackedTexts,
    notes: list[str],
    *,
    in_blocks: bool,
) -> DataSource:
    """The description of the texts in run.json."""
    of_residues = reads_residues(loaded.tokenizer)
    return DataSource(
        name=data,
        fingerprint=tokens_fingerprint(texts.columns, encoded.tokens),
        text_fingerprint=texts.fingerprint(),
        spelled_fingerprint=encoded.tokens.spelled_fingerprint(),
        n_observations=len(encoded.tokens),
        columns=list(texts.columns),
        notes=notes,
        kind="texts",
        noun="block" if in_blocks else "protein" if of_residues else "text",
        token="residue" if of_residues else "token",
    )


def _beginnings(columns: Sequence[Sequence[str]], source: Int64[np.ndarray, " B"]) -> Iterator[str]:
    """The beginning of the text that each observation comes from, of both texts of a pair."""
    return (" | ".join(beginning(column[row]) for column in columns) for row in map(int, source))


def _recipe_notes(options: TextOptions, design: MaskDesign) -> list[str]:
    """Notes on a recipe's source and on the user's departures from it, one sentence each."""
    if options.recipe is None:
        return []
    recipe = RECIPES[options.recipe]
    notes = [f"recipe {options.recipe}: texts, tokens and masks as in {recipe.source}"]
    if recipe.apart:
        notes.append(recipe.apart)
    if options.block_size != recipe.block_size:
        chosen = f"blocks of {options.block_size} tokens"
        notes.append(f"{chosen} in place of the recipe's {recipe.block_size or 'single texts'}")
    own = parse_design(recipe.design).design
    draws = {"draws": 0, "replicates": 0}
    if own.settings() | draws != design.settings() | draws:
        chosen = design.name if design == FEWEST else str(DesignWord(design))  # which a target extends
        notes.append(f"the masks of {chosen} in place of the recipe's {recipe.design}")
    return notes


def _may_pack(options: TextOptions, scored: Sequence[str]) -> bool:
    """Whether texts are scored one by one, and only the scores need their tokens."""
    asked = (options.context_field, options.recipe, options.block_size, options.hides_words)
    to_score = isinstance(options, ScoredTextOptions) and options.against is None
    return to_score and len(scored) == 1 and not any(asked)


def tokens_fingerprint(columns: Sequence[str], tokens: Observations) -> str:
    """Hash encoded texts: column names, tokens, roles and ids."""
    if not isinstance(tokens, Tokens):
        return tokens.digest_of("\x1f".join(columns))
    return digest("\x1f".join(columns), tokens.ids, tokens.values, tokens.maskable, tokens.context)


def read_texts_of(data: str, options: TextOptions, required: Sequence[str] = ()) -> tuple[Texts, list[str]]:
    """Read the texts; return them with the one or two columns to score.

    With --skip-empty, rows without text in a required column are left out, by default in a scored one.
    """
    columns = None if options.text is None else [name.strip() for name in options.text.split(",")]
    if columns is not None and len(columns) > 2:
        raise InputError(f"--text {options.text!r} names {len(columns)} columns; give one, or two for pairs")
    if columns is not None and len(set(columns)) < len(columns):
        raise InputError(
            f"--text {options.text!r} names one column twice; give it once, or two different ones"
        )
    prompts = options.context_field
    extra = [] if prompts is None else [prompts]
    texts = read_texts(
        data,
        columns,
        extra=extra,
        id_column=options.id_column,
        # each text has a token or more, but for empty lines
        limit=None if options.limit is None else options.limit * (options.block_size or 1),
        running=options.block_size is not None and options.recipe is None,
        skip_empty=required if options.skip_empty else None,
        upper=options.upper,
    )
    scored = [texts.columns[0]] if columns is None else columns
    if prompts in scored:
        raise InputError(f"--context-field {prompts!r} is scored too; choose another --text")
    return texts, scored


def load_text_model(model: str, checkpoint: CheckpointOptions = CheckpointOptions()) -> MaskedLM:
    """Load a masked language model with the given options.

    Args:
        model: its folder, or OWNER/NAME on the hub.
        checkpoint: its tokenizer, how its weights are read, and where it runs.

    Raises:
        InputError: a model or a device that cannot be used.
    """
    tokenizer: Any = checkpoint.tokenizer
    if checkpoint.pattern is not None:
        tokenizer = load_tokenizer(tokenizer or model, checkpoint.pattern)
    return MaskedLM.from_pretrained(
        model,
        tokenizer=tokenizer,
        device=checkpoint.device,
        bfloat16=checkpoint.bf16,
        batch_tokens=checkpoint.batch_tokens,
        revision=checkpoint.revision,
        trust_remote_code=checkpoint.trust_remote_code,
        dtype=checkpoint.dtype,
        mask_id=checkpoint.mask_id,
        diffusion=checkpoint.diffusion,
        attn_implementation=checkpoint.attn_implementation,
        model_class=checkpoint.model_class,
    )


def _load_again(
    model: str, checkpoint: CheckpointOptions, wrap: Callable[[MaskedLM], WholeWords] | None
) -> Any:
    """Load the model in another process; `wrap` hides further pieces of a word."""
    loaded = load_text_model(model, checkpoint)
    return loaded if wrap is None else wrap(loaded)


def _fits_in_float32(model: MaskedLM) -> bool:
    """Whether the weights of a model fit into half of the free memory of its device again, in float32."""
    device, free = model.device, free_memory()
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    return free is None or 4 * sum(weight.numel() for weight in model.parameters()) < free / 2


def _full_path(name: str) -> str:
    """Resolve the path of a file or folder for other processes; leave hub names alone."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def token_scores(prepared: Prepared, scores: ScoreTable) -> list[dict[str, Any]]:
    """log p of each token given all others, nats, from a leave-one-out run's scores."""
    tokens = prepared.in_memory
    row_of_id = {int(number): row for row, number in enumerate(tokens.ids)}
    columns = [row.nonzero().flatten() for row in tokens.maskable]
    listed = []
    for number, draw, score in zip(scores.id, scores.draw, scores.score, strict=True):
        row = row_of_id[int(number)]
        token_id = int(tokens.values[row, columns[row][int(draw)]])
        token = prepared.tokenizer.convert_ids_to_tokens(token_id)
        listed.append({"id": int(number), "position": int(draw), "token": token, "log_prob": float(score)})
    return listed
