"""Masked language models: they are loaded, texts are read and encoded, a run's texts are read again."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.data.texts import Texts, read_texts
from maskevidence.errors import InputError
from maskevidence.kinds.options import CheckpointOptions, TextDevice, TextOptions, TextReading, TextSample
from maskevidence.kinds.prepared import Prepared
from maskevidence.masks.design import MaskDesign
from maskevidence.masks.sizes import LeaveOneOut
from maskevidence.models.text.diffusion import DiffusionNetwork, named_diffusion
from maskevidence.models.text.encoding import EncodedTexts
from maskevidence.models.text.loading import load_checkpoint, load_tokenizer
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.models.text.whole_words import HIDDEN_TOGETHER, WholeWords
from maskevidence.runs import DataSource
from maskevidence.scores.record import ScoreTable
from maskevidence.support.devices import choose_device
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens


def prepare(
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
    sample, reading, checkpoint, device = options.sample, options.reading, options.checkpoint, options.device
    if reading.whole_words and not isinstance(design, LeaveOneOut):
        raise InputError("--whole-words belongs to --design leave-one-out; add that")
    if sample.id_column is not None and reading.block_size is not None:
        raise InputError("--id-column names single texts, and --block-size joins them; leave one of them out")
    texts, scored = read(data, reading, sample)
    loaded = load(model, checkpoint, device)
    with progress("encoding texts", len(texts)) as advance:
        encoded = loaded.encode(
            texts[scored[0]],
            second=texts[scored[1]] if len(scored) == 2 else None,
            context=None if reading.context_field is None else texts[reading.context_field],
            long=reading.long or "error",
            block_size=reading.block_size,
            allow_unknown=reading.allow_unknown,
        )
        advance(len(texts))
    words = encoded if reading.whole_words else None
    notes = [*loaded.notes, *texts.notes, *encoded.notes]
    if reading.whole_words:
        notes.append(HIDDEN_TOGETHER)
    if checkpoint.bf16:
        notes.append("computed under bfloat16 autocast")
    tokenizer = checkpoint.tokenizer
    elsewhere = replace(checkpoint, tokenizer=None if tokenizer is None else _full_path(tokenizer))
    named = None if reading.block_size is not None else texts.labels
    source = DataSource(
        name=data,
        fingerprint=tokens_fingerprint(texts.columns, encoded.tokens),
        text_fingerprint=texts.fingerprint(),
        n_observations=len(encoded.tokens),
        columns=list(texts.columns),
        notes=notes,
    )
    prepared = Prepared(
        loaded if words is None else WholeWords(loaded, words),
        encoded.tokens,
        source,
        load=partial(_load_again, _full_path(model), elsewhere, device, words),
        tokenizer=loaded.tokenizer,
        texts=tuple(zip(*(texts[column] for column in scored), strict=True)),
        labels=None if named is None else tuple(named[row] for row in encoded.source),
    )
    of_reading = {
        "limit": sample.limit,
        "id_column": sample.id_column,
        "block_size": reading.block_size,
        "context_field": reading.context_field,
    }
    return prepared.read_with(data, of_reading)


def tokens_fingerprint(columns: Sequence[str], tokens: Tokens) -> str:
    """A hash of encoded texts: of the names of their columns, the tokens, their roles and their ids."""
    digest = hashlib.sha256("\x1f".join(columns).encode())
    for part in (tokens.ids, tokens.values, tokens.maskable, tokens.context):
        digest.update(np.ascontiguousarray(part.numpy()).tobytes())
    return digest.hexdigest()


def read(data: str, options: TextReading, sample: TextSample) -> tuple[Texts, list[str]]:
    """The texts, and the one or two columns of them that are scored.

    Raises:
        InputError: columns that exclude each other, or texts that cannot be read.
    """
    columns = None if options.text is None else [name.strip() for name in options.text.split(",")]
    if columns is not None and len(columns) > 2:
        raise InputError(f"--text {options.text!r} names {len(columns)} columns; give one, or two for pairs")
    prompts = options.context_field
    extra = [] if prompts is None else [prompts]
    texts = read_texts(
        data,
        columns,
        extra=extra,
        id_column=sample.id_column,
        limit=sample.limit,
        running=options.block_size is not None,
    )
    scored = [texts.columns[0]] if columns is None else columns
    if prompts in scored:
        raise InputError(f"--context-field {prompts!r} is scored too; choose another --text")
    return texts, scored


def reopen(source: DataSource) -> Texts:
    """The texts of a run, read again by the name and with the options that run.json records.

    Raises:
        InputError: texts that cannot be read any more.
    """
    limit = source.options.get("limit")
    assert not isinstance(limit, str)
    return read_texts(source.name, source.columns, limit=limit)


def load(
    model: str, checkpoint: CheckpointOptions = CheckpointOptions(), device: TextDevice = TextDevice()
) -> MaskedLM:
    """Load a masked language model as the options want it.

    Args:
        model: its folder, or OWNER/NAME on the hub.
        checkpoint: its tokenizer, and how its weights are read.
        device: where it runs.

    Raises:
        InputError: a model or a device that cannot be used.
    """
    tokenizer: Any = checkpoint.tokenizer
    own_network = checkpoint.model_class is not None or checkpoint.state_prefix is not None
    if own_network or checkpoint.pattern is not None or checkpoint.mask_token is not None:
        tokenizer = load_tokenizer(tokenizer or model, checkpoint.pattern, checkpoint.mask_token)
    if not own_network:
        return MaskedLM.from_pretrained(
            model,
            tokenizer=tokenizer,
            device=device.device,
            bfloat16=checkpoint.bf16,
            batch_tokens=device.batch_tokens,
            trust_remote_code=checkpoint.trust_remote_code,
            dtype=device.dtype,
            mask_id=checkpoint.mask_id,
            diffusion=checkpoint.diffusion,
        )
    place = choose_device(device.device)
    network, notes = load_checkpoint(
        model,
        checkpoint.model_class,
        checkpoint.state_prefix,
        trust_remote_code=checkpoint.trust_remote_code,
    )
    loaded = MaskedLM(
        _read_as(network.to(place).eval(), tokenizer, checkpoint),
        tokenizer,
        mask_token_id=checkpoint.mask_id,
        bfloat16=checkpoint.bf16,
        batch_tokens=device.batch_tokens,
    )
    loaded.notes = (*notes, *loaded.notes)
    return loaded


def _read_as(network: Any, tokenizer: Any, checkpoint: CheckpointOptions) -> Any:
    """A network of its own class, read as the diffusion model that the options name."""
    if checkpoint.diffusion is None:
        return network
    diffusion = named_diffusion(checkpoint.diffusion)
    mask_id = checkpoint.mask_id if checkpoint.mask_id is not None else tokenizer.mask_token_id
    mask_id = diffusion.mask_token_id if mask_id is None else mask_id
    if mask_id is None:
        raise InputError(f"--diffusion {checkpoint.diffusion} needs the id of the mask token; give --mask-id")
    return DiffusionNetwork(network, diffusion, mask_id)


def _load_again(
    model: str, checkpoint: CheckpointOptions, device: TextDevice, words: EncodedTexts | None
) -> Any:
    """The same model in another process; `words` are given if whole words are hidden together."""
    loaded = load(model, checkpoint, device)
    return loaded if words is None else WholeWords(loaded, words)


def _full_path(name: str) -> str:
    """The full path of a file or folder, for processes elsewhere; the name of a model on the hub as it is."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def token_scores(prepared: Prepared, scores: ScoreTable) -> list[dict[str, Any]]:
    """log p of each token given all others, nats, from the scores of a leave-one-out run."""
    tokens = prepared.tokens
    row_of_id = {int(number): row for row, number in enumerate(tokens.ids)}
    columns = [row.nonzero().flatten() for row in tokens.maskable]
    listed = []
    for number, draw, score in zip(scores.id, scores.draw, scores.score, strict=True):
        row = row_of_id[int(number)]
        token_id = int(tokens.values[row, columns[row][int(draw)]])
        token = prepared.tokenizer.convert_ids_to_tokens(token_id)
        listed.append({"id": int(number), "position": int(draw), "token": token, "log_prob": float(score)})
    return listed
