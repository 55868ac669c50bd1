"""BERT-base on the paper's GLUE texts, with random and with pre-trained weights."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import maskevidence as me
from maskevidence.integrations.huggingface import load_tokenizer, new_bert
from maskevidence.support.hub import hub_reachable
from maskevidence.support.progress import progress
from paper.bert_curves import Curves, rate_curve
from paper.place import current_place, put

PRETRAINED = "google-bert/bert-base-uncased"
VOCABULARY = "bert-base-uncased-vocab/vocab.txt"  # below MASKEVIDENCE_DATA
ALL = "all"
_SETS = {
    "AX": ("glue/ax:test", ("premise", "hypothesis")),
    "CoLA": ("glue/cola:train", ("sentence",)),
    "QNLI": ("glue/qnli:validation", ("question", "sentence")),
    "MRPC": ("glue/mrpc:test", ("sentence1", "sentence2")),
}


def base_curves(
    seeds: Sequence[int], model: str | None, n_blocks: int, rates_per_block: int, block_size: int
) -> Curves:
    """The curves of BERT-base by text and weights ("random, seed 1" or "pretrained").

    Raises:
        InputError: no text, no vocabulary, or too few blocks.
    """
    texts = texts_at_hand()
    if model is None and hub_reachable():
        model = PRETRAINED
    given = (
        None if model is None else me.models.MaskedLM.from_pretrained(model, device=current_place().device)
    )
    if given is None:
        parts = {ALL if len(texts) > 1 else next(iter(texts)): texts}
    else:
        parts = {name: {name: lines} for name, lines in texts.items()}
    tokenizer = _vocabulary() if given is None else given.tokenizer
    curves: Curves = {}
    n_models = len(seeds) + (given is not None)
    with progress("BERT-base", len(parts) * n_models * n_blocks * rates_per_block) as advance:
        for seed in (*seeds, None):
            weights = "pretrained" if seed is None else f"random, seed {seed}"
            network = given if seed is None else _random_weights(tokenizer, given, seed)
            if network is None:
                continue
            for text, lines in parts.items():
                tokens = blocks_of(network, lines, n_blocks, block_size)
                curves[text, weights] = rate_curve(network, tokens, rates_per_block, advance=advance)
    return curves


def _vocabulary() -> Any:
    root = os.environ.get("MASKEVIDENCE_DATA")
    file = None if root is None else Path(root) / VOCABULARY
    if file is None or not file.is_file():
        raise me.InputError(
            "there is no vocabulary of BERT-base: the hub does not answer, and MASKEVIDENCE_DATA has no "
            f"{VOCABULARY}; set it to a folder that has one, or give --model FOLDER"
        )
    return load_tokenizer(file)


def _random_weights(tokenizer: Any, given: me.models.MaskedLM | None, seed: int) -> me.models.MaskedLM:
    """A model with the shape of the given one, or of BERT-base, and untrained weights."""
    if given is None:
        return put(new_bert(tokenizer, "base", seed=seed))
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = transformers.AutoModelForMaskedLM.from_config(given.network.config)  # type: ignore[no-untyped-call]
    return me.models.MaskedLM(network.to(given.device).eval(), tokenizer)


def texts_at_hand() -> dict[str, list[str]]:
    """The available texts of the paper's GLUE sets, with the columns of a row one after the other.

    Raises:
        InputError: no set is available, neither on the hub nor in MASKEVIDENCE_DATA.
    """
    texts = {}
    for name, (word, columns) in _SETS.items():
        root = os.environ.get("MASKEVIDENCE_DATA")
        if not (root and (Path(root) / word.partition(":")[0]).is_dir()) and not hub_reachable():
            continue
        fields = me.data.read_texts(word, list(columns)).fields
        texts[name] = [text for row in zip(*fields, strict=True) for text in row]
    if not texts:
        raise me.InputError(
            "there is no GLUE text: the hub does not answer, and MASKEVIDENCE_DATA names no folder with "
            "glue/; set that variable, or HF_HOME to a cache that holds it"
        )
    return texts


def blocks_of(
    model: me.models.MaskedLM, texts: Mapping[str, Sequence[str]], n_blocks: int, block_size: int
) -> me.Tokens:
    """Blocks from the start of each set, in equal shares, numbered from 0.

    Raises:
        InputError: a set with too little text.
    """
    share = -(-n_blocks // len(texts))
    parts = []
    for name, lines in texts.items():
        tokens = model.tokens(list(lines), block_size=block_size)
        if len(tokens) < share:
            raise me.InputError(
                f"{name} has {len(tokens)} blocks of {block_size} tokens, {share} are needed; give more"
            )
        parts.append(tokens[:share])
    values, maskable, context = (
        torch.cat([getattr(part, field) for part in parts]) for field in ("values", "maskable", "context")
    )
    return me.Tokens(values, maskable, context, torch.arange(len(values)))[:n_blocks]
