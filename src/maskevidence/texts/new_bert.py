"""New BERTs and small ModernBERTs, with word pieces learned from the training text."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from maskevidence.core.errors import InputError, import_extra, unknown_name
from maskevidence.core.support.devices import seeded
from maskevidence.core.tokens import Tokens
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.vocabulary import SPECIAL


class Size(NamedTuple):
    """The shape of a BERT, with a suitable vocabulary size and block size."""

    config: dict[str, Any]  # arguments of `transformers.BertConfig`
    vocabulary_size: int  # word pieces of a vocabulary learned from the text
    block_size: int  # tokens of a block of text, special tokens included; the number of the model's positions


_MAX_LETTERS = 1000
_SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# With dropout, a third layer or twice the learning rate, "small" often gets no further than word frequencies.
SIZES = {"small": Size(_SMALL, 2048, 64), "base": Size({}, 30522, 512)}


def word_pieces(texts: Sequence[str], vocabulary_size: int) -> Any:
    """A lower-casing WordPiece tokenizer with a vocabulary learned from the texts.

    Args:
        texts: the texts to learn from.
        vocabulary_size: the number of pieces, special tokens included; fewer if the texts have fewer, more
            if their letters alone take more.

    Raises:
        InputError: texts without a word.
        MissingExtraError: transformers is not installed.

    Example:
        >>> tokenizer = word_pieces(["the rain falls"] * 3, vocabulary_size=40)
        >>> tokenizer.mask_token, tokenizer.tokenize("The rain")
        ('[MASK]', ['the', 'rain'])
    """
    tokenizers = import_extra("tokenizers", "hf", "a vocabulary of word pieces")
    transformers = import_extra("transformers", "hf", "a tokenizer")
    if not any(text.strip() for text in texts):
        raise InputError("the training text contains no word; give a text to train on")
    tokenizer = tokenizers.BertWordPieceTokenizer(lowercase=True)
    # The trainer numbers inner letters in the order of a hash table, which differs between processes, and
    # breaks ties by these numbers. If the letters are given as special tokens, their numbers are fixed.
    normalize = tokenizer._tokenizer.normalizer.normalize_str
    letters = Counter(letter for text in texts for letter in normalize(text) if not letter.isspace())
    kept = sorted(sorted(letters), key=lambda letter: -letters[letter])[:_MAX_LETTERS]
    tokenizer.train_from_iterator(
        list(texts),
        vocab_size=vocabulary_size,
        limit_alphabet=_MAX_LETTERS,
        special_tokens=[*SPECIAL, *(f"##{letter}" for letter in sorted(kept))],
        show_progress=False,
    )
    return transformers.BertTokenizerFast(vocab=tokenizer.get_vocab(), do_lower_case=True)


def new_bert(tokenizer: Any, size: str = "small", *, positions: int | None = None, seed: int = 0) -> MaskedLM:
    """A BERT with random weights.

    Args:
        tokenizer: its tokenizer.
        size: "small" (2 layers of 128, no dropout) or "base" (the shape of BERT-base).
        positions: the number of tokens it reads, special tokens included; by default 64 and 512.
        seed: seed of the weights.

    Raises:
        InputError: another size.

    Example:
        >>> model = new_bert(word_pieces(["the rain falls"] * 3, vocabulary_size=40))
        >>> model.max_tokens
        64
    """
    if size not in SIZES:
        raise unknown_name("size", size, SIZES)
    transformers = import_extra("transformers", "hf", "a masked language model")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=positions or SIZES[size].block_size,
        pad_token_id=tokenizer.pad_token_id,
        **SIZES[size].config,
    )
    return _with_random_weights(transformers.BertForMaskedLM, config, tokenizer, seed)


def new_modern_bert(tokenizer: Any, width: int = 64, *, positions: int = 64, seed: int = 0) -> MaskedLM:
    """A two-layer ModernBERT with full attention and random weights.

    Its rotary positions leave the plateau of word frequencies in fewer steps than those of `new_bert`.

    Args:
        tokenizer: its tokenizer.
        width: of the states.
        positions: the number of tokens it reads, special tokens included.
        seed: seed of the weights.

    Example:
        >>> model = new_modern_bert(word_pieces(["the rain falls"] * 3, vocabulary_size=40), width=16)
        >>> model.max_tokens
        64
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    n_layers = 2
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=n_layers,
        num_attention_heads=2,
        layer_types=["full_attention"] * n_layers,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return _with_random_weights(transformers.ModernBertForMaskedLM, config, tokenizer, seed)


def _with_random_weights(network_class: Any, config: Any, tokenizer: Any, seed: int) -> MaskedLM:
    with seeded(seed):
        network = network_class(config)
    return MaskedLM(network.eval(), tokenizer)


def frequency_score(train: Tokens, other: Tokens, vocabulary_size: int) -> float:
    """Mean log-probability of tokens by their frequency in other texts, nats per token.

    One is added to the count of each token of the vocabulary. This is the score at every mask size of the
    best model that ignores the context.

    Args:
        train: the texts whose maskable tokens are counted.
        other: the texts whose maskable tokens are predicted.
        vocabulary_size: number of tokens of the vocabulary.

    Example:
        >>> train = Tokens.from_array(torch.tensor([[0, 0, 1]]))
        >>> round(frequency_score(train, Tokens.from_array(torch.tensor([[0]])), 3), 4)  # log(3/6)
        -0.6931
    """
    counts = torch.bincount(train.values[train.maskable].long(), minlength=vocabulary_size) + 1.0
    log_p = torch.log(counts / counts.sum())
    return float(log_p[other.values[other.maskable].long()].mean())
