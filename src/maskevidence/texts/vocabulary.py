"""Tokenizers from a vocab.txt and a pattern that splits texts into the vocabulary's words."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.support.files import reading
from maskevidence.core.support.sources import lines_of

# The words that vocabularies use for each special token, the most usual first.
_SPECIAL = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "[START]", "<bos>"),
    "sep": ("[SEP]", "<sep>", "<eos>", "</s>", "[END]"),
    "mask": ("[MASK]", "<mask>"),
}


def read_vocabulary(file: Path) -> list[str]:
    """Read the words of a `vocab.txt`, one per line, in the order of their ids."""
    with reading(file):
        content = file.read_bytes()
    try:
        words = lines_of(content.decode("utf-8").removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(file)!r} is not UTF-8 text; give a vocab.txt with one word per line"
        ) from error
    while words and not words[-1].strip():
        words.pop()
    twice = next((word for word, count in Counter(words).items() if count > 1), None)
    if not words or twice is not None:
        what = "is empty" if not words else f"has the word {twice!r} twice"
        raise InputError(f"{str(file)!r} {what}; give a vocab.txt with one word per line")
    return words


def pattern_tokenizer(words: Sequence[str], pattern: str) -> Any:
    r"""A tokenizer that splits texts by a regular expression and looks up each part as a whole word.

    What the pattern does not match stands between two matches and is a part, too; parts that are no words are
    unknown tokens, and spaces alone are dropped.

    Example:
        >>> words = "[PAD] [UNK] [CLS] [SEP] [MASK] C Cl ( ) = O".split()
        >>> tokenizer = pattern_tokenizer(words, r"Cl?|[()=O]")
        >>> tokenizer.convert_ids_to_tokens(tokenizer("CC(=O)Cl")["input_ids"])
        ['[CLS]', 'C', 'C', '(', '=', 'O', ')', 'Cl', '[SEP]']
    """
    transformers = import_extra("transformers", "hf", "a tokenizer")
    tokenizers = import_extra("tokenizers", "hf", "a tokenizer")
    number = {word: index for index, word in enumerate(words)}
    special = {
        name: next((word for word in words_of_role if word in number), None)
        for name, words_of_role in _SPECIAL.items()
    }
    for name, what in (("mask", "hidden"), ("unk", "unknown")):
        if special[name] is None:
            raise InputError(
                f"the vocabulary has no word for {what} tokens; call it {' or '.join(_SPECIAL[name])} there"
            )
    cut = tokenizers.Tokenizer(tokenizers.models.WordLevel(number, unk_token=special["unk"]))
    try:
        parts = tokenizers.Regex(pattern)
    except Exception as error:  # of the library's own class, which it does not export
        raise InputError(f"--pattern {pattern!r} is no regular expression ({error}); correct it") from error
    cut.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.WhitespaceSplit(),
            tokenizers.pre_tokenizers.Split(parts, "isolated"),
        ]
    )
    if special["cls"] is not None and special["sep"] is not None:
        ends = [(word, number[word]) for word in (special["sep"], special["cls"])]
        cut.post_processor = tokenizers.processors.BertProcessing(*ends)
    named = {f"{name}_token": word for name, word in special.items() if word is not None}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=cut, **named)


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def letter_tokenizer(sequences: Sequence[str]) -> Any:
    """A tokenizer with one token per letter that occurs in the sequences, in alphabetical order.

    Example:
        >>> tokenizer = letter_tokenizer(["ACGT"])
        >>> tokenizer.convert_ids_to_tokens(tokenizer("GAT")["input_ids"])
        ['[CLS]', 'G', 'A', 'T', '[SEP]']
    """
    letters = sorted({letter for sequence in sequences for letter in sequence if not letter.isspace()})
    if not letters:
        raise InputError("the sequences have no letter; give some to train on")
    return pattern_tokenizer([*SPECIAL, *letters], r"\S")
