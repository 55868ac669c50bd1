"""New BERTs in a few sizes, with word pieces made from their own text."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from maskevidence.errors import InputError, import_extra, unknown_name
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.support.hub import hub_reachable


class Size(NamedTuple):
    """A shape of BERT, and what goes with it.

    Attributes:
        config: of `transformers.BertConfig`.
        vocabulary_size: word pieces of a vocabulary made from the text.
        block_size: tokens of a block of text, special tokens included; the model's positions.
    """

    config: dict[str, Any]
    vocabulary_size: int
    block_size: int


_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MOST_LETTERS = 1000
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# With dropout, a third layer or twice the learning rate, it often gets no further than word frequencies.
SIZES = {
    "small": Size(
        {
            "hidden_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 512,
            **_NO_DROPOUT,
        },
        2048,
        64,
    ),
    "base": Size({}, 30522, 512),
}


def word_pieces(texts: Sequence[str], vocabulary_size: int) -> Any:
    """A lower-casing WordPiece tokenizer with a vocabulary made from texts.

    Args:
        texts: what it shall cut well.
        vocabulary_size: how many pieces, special tokens included; fewer where the texts have fewer.

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
        raise InputError("the training text has no word in it; give a text to train on")
    made = tokenizers.BertWordPieceTokenizer(lowercase=True)
    # The trainer numbers inner letters as it meets them in a hash table, another way in each process, and
    # breaks ties by these numbers. Given beforehand, they are the same in all.
    normal = made._tokenizer.normalizer.normalize_str
    letters = Counter(letter for text in texts for letter in normal(text) if not letter.isspace())
    kept = sorted(sorted(letters), key=lambda letter: -letters[letter])[:_MOST_LETTERS]
    given = [*_SPECIAL, *(f"##{letter}" for letter in sorted(kept))]
    made.train_from_iterator(
        list(texts),
        vocab_size=vocabulary_size,
        limit_alphabet=_MOST_LETTERS,
        special_tokens=given,
        show_progress=False,
    )
    return transformers.BertTokenizerFast(vocab=made.get_vocab(), do_lower_case=True)


def load_tokenizer(place: str | Path) -> Any:
    """A tokenizer from a folder, from the hub or its cache, or from BERT's own vocab.txt.

    Raises:
        InputError: there is none, or one without a mask token.

    Example:
        >>> load_tokenizer("no/such/vocab.txt")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: there is no tokenizer in 'no/such/vocab.txt'; give a folder that \
save_pretrained wrote, a vocab.txt, or OWNER/NAME on the hub
    """
    transformers = import_extra("transformers", "hf", "a tokenizer")
    path = Path(place)
    if path.is_file():
        return transformers.BertTokenizerFast(vocab=str(path), do_lower_case=True)
    local = path.is_dir() or not hub_reachable()
    try:
        found = transformers.AutoTokenizer.from_pretrained(str(place), local_files_only=local)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError) as error:
        raise InputError(
            f"there is no tokenizer in {str(place)!r}; give a folder that save_pretrained wrote, a "
            "vocab.txt, or OWNER/NAME on the hub"
        ) from error
    if found.mask_token_id is None:
        raise InputError(f"the tokenizer in {str(place)!r} has no mask token; give one that has")
    return found


def new_bert(tokenizer: Any, size: str = "small", *, positions: int | None = None, seed: int = 0) -> MaskedLM:
    """A BERT with random weights.

    Args:
        tokenizer: its tokenizer.
        size: "small" (2 layers of 128, no dropout) or "base" (the shape of BERT-base).
        positions: how many tokens it reads, special tokens included; by default 64 and 512.
        seed: of the weights.

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
    chosen = SIZES[size]
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=positions or chosen.block_size,
        pad_token_id=tokenizer.pad_token_id,
        **chosen.config,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = transformers.BertForMaskedLM(config)
    return MaskedLM(network.eval(), tokenizer)
