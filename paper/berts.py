"""The BERTs of the paper's texts: BERT-base on GLUE, and small ones on the text that comes with Python."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import maskevidence as me
from maskevidence import huggingface
from maskevidence.huggingface import Recipe, new_bert
from paper.bert_curves import Curves, rate_curve
from paper.figures import current_device, pretrained, put

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
    texts, given = texts_at_hand(), pretrained(me.models.MaskedLM.from_pretrained, model, PRETRAINED)
    if given is None:
        parts = {ALL if len(texts) > 1 else next(iter(texts)): texts}
    else:
        parts = {name: {name: lines} for name, lines in texts.items()}
    tokenizer = _vocabulary() if given is None else given.tokenizer
    curves: Curves = {}
    for seed in (*seeds, *([] if given is None else [None])):
        weights = "pretrained" if seed is None else f"random, seed {seed}"
        network = given if seed is None else _random_weights(tokenizer, given, seed)
        assert network is not None
        for text, lines in parts.items():
            tokens = blocks_of(network, lines, n_blocks, block_size)
            curves[text, weights] = rate_curve(network, tokens, rates_per_block, what=f"BERT-base, {weights}")
    return curves


def _vocabulary() -> Any:
    """The tokenizer of BERT-base by its vocabulary alone."""
    file = Path(os.environ.get("MASKEVIDENCE_DATA", "")) / VOCABULARY
    if not file.is_file():
        raise me.InputError(
            "there is no vocabulary of BERT-base: the hub does not answer, and MASKEVIDENCE_DATA has no "
            f"{VOCABULARY}; set it to a folder that has one, or give --model FOLDER"
        )
    return huggingface.load_tokenizer(file)


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
    texts, reason = {}, None
    for name, (word, columns) in _SETS.items():
        try:
            fields = me.data.read_texts(word, columns).fields
        except me.InputError as error:
            reason = error
        else:
            texts[name] = [text for row in zip(*fields, strict=True) for text in row]
    if not texts:
        raise me.InputError(f"there is no GLUE text; set MASKEVIDENCE_DATA to a folder with glue/ ({reason})")
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
            few = f"{name} has {len(tokens)} blocks of {block_size} tokens"
            raise me.InputError(f"{few}, {share} are needed; give more")
        parts.append(tokens[:share])
    fields = ("values", "maskable", "context")
    values, maskable, context = (torch.cat([getattr(part, name) for part in parts]) for name in fields)
    return me.Tokens(values, maskable, context, torch.arange(len(values)))[:n_blocks]


@dataclass(frozen=True)
class SmallText:
    """The English text that comes with Python, in blocks of 64 tokens, for BERTs with 2 layers of width 128.

    The first nine tenths of the lines are for training, with 2,048 word pieces that are made from them.
    Without a device, new models are on the processor and are trained on the fastest device.
    """

    tokenizer: Any
    train: me.Tokens
    held_out: me.Tokens
    device: torch.device | None = None

    def new_model(self, seed: int) -> me.models.MaskedLM:
        """A BERT with random weights."""
        model = new_bert(self.tokenizer, seed=seed)
        return model if self.device is None else model.to(self.device)

    def trained(self, design: me.MaskDesign, recipe: Recipe) -> me.models.MaskedLM:
        """A new model trained with the masks of a design; the seed of the recipe also sets its weights."""
        model = self.new_model(recipe.seed)
        options = huggingface.TrainerOptions(device=self.device)
        huggingface.train_masked_lm(model, self.train, design, recipe, options)
        return model

    def unigram_score(self) -> float:
        """Mean log-probability of a held-out token by its frequency in the other part, nats."""
        return huggingface.frequency_score(self.train, self.held_out, len(self.tokenizer))


def small_text(limit: int | None = None) -> SmallText:
    """The text on the current device; the held-out part is limited to a number of blocks.

    Raises:
        InputError: this Python was installed without the text.
    """
    lines = me.data.read_texts("python-topics", running=True)["text"]
    n_train = len(lines) - round(len(lines) / 10)
    tokenizer = huggingface.word_pieces(lines[:n_train], 2048)
    model = new_bert(tokenizer)
    train, held_out = (model.tokens(part, block_size=64) for part in (lines[:n_train], lines[n_train:]))
    return SmallText(tokenizer, train, held_out[:limit], current_device())
