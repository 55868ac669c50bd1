"""Questions with four choices, of which the first is right, and the ALBERT that knows reactions.

That model lies in the package `rxnmapper` (`pip install --no-deps rxnmapper==0.4.3`), of which only the files
are read.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maskevidence as me
from _timing import data, is_quick
from maskevidence.texts.text_files import read_texts

FEWEST = 7  # tokens of a choice; all masks of shorter ones are scored, without an error
REACTIONS = "ALBERT, reactions"
_HELD_OUT = 0.05  # of the lines, at the end


class Asked(NamedTuple):
    """A question.

    Attributes:
        number: of the reaction or line in its file.
        context: what is known.
        choices: four texts, the right one first.
    """

    number: int
    context: str
    choices: list[str]


def of_reactions(tokenizer: Any, longest: int) -> Iterator[Asked]:
    """Which of four products belongs to these reactants? In a random order that is always the same.

    Args:
        tokenizer: of the model.
        longest: the longest reaction, in tokens.
    """
    texts = read_texts(str(data("reactions", "reactions.csv")))["reaction"]
    pairs = [text.split(">>") for text in texts]
    products = [product for _, product in pairs]
    lengths = _lengths(tokenizer, products)
    rng = np.random.default_rng(0)
    for number in rng.permutation(len(pairs)).tolist():
        reactants, product = pairs[number]
        if lengths[number] < FEWEST or len(tokenizer(texts[number]).input_ids) > longest:
            continue
        known = {product, *reactants.split(".")}
        others = [i for i in range(len(pairs)) if products[i] not in known and lengths[i] >= FEWEST]
        chosen = rng.choice(others, 3, replace=False).tolist()
        yield Asked(number, f"{reactants}>>", [product, *(products[i] for i in chosen)])


def of_lines(tokenizer: Any) -> Iterator[Asked]:
    """Which of four lines of a play goes on after this one? All four have the same number of tokens."""
    lines = _lines()[1]
    spoken = np.array([bool(line) and not line.endswith(":") for line in lines])
    lengths = np.where(spoken, _lengths(tokenizer, lines), 0)
    rng = np.random.default_rng(0)
    for number in rng.permutation(len(lines) - 1).tolist():
        right = number + 1
        equal = np.flatnonzero(lengths == lengths[right])
        others = [i for i in equal.tolist() if lines[i] != lines[right]]
        if not spoken[number] or lengths[right] < FEWEST or len(others) < 3:
            continue
        chosen = rng.choice(others, 3, replace=False).tolist()
        yield Asked(number, f"{lines[number]} ", [lines[i] for i in (right, *chosen)])


def lines_to_train_on() -> list[str]:
    """The lines of the play about which no question is asked."""
    return _lines()[0]


def _lines() -> tuple[list[str], list[str]]:
    """The lines of the play, and those at its end that are held out."""
    lines = data("tiny_shakespeare", "tiny_shakespeare.txt").read_text().splitlines()
    lines = lines[:6000] if is_quick() else lines
    n_train = round(len(lines) * (1 - _HELD_OUT))
    return lines[:n_train], lines[n_train:]


def _lengths(tokenizer: Any, texts: list[str]) -> np.ndarray:
    return np.array([len(ids) for ids in tokenizer(texts, add_special_tokens=False, verbose=False).input_ids])


def reactions(n_texts: int, longest: int = 256) -> tuple[me.models.MaskedLM, me.Tokens] | None:
    """A small ALBERT, and reactions of at most `longest` tokens; None if rxnmapper is not installed."""
    model = smiles_model()
    if model is None:
        return None
    every = read_texts(str(data("reactions", "reactions.csv")))["reaction"]
    texts = [text for text in every if len(model.tokenizer(text).input_ids) <= longest]
    return model, model.tokens(texts[:n_texts])


def smiles_model(*, bfloat16: bool = False) -> me.models.MaskedLM | None:
    """The ALBERT of `rxnmapper`; None if that is not installed."""
    found = importlib.util.find_spec("rxnmapper")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    tokenizer = smiles_tokenizer((folder / "vocab.txt").read_text().split("\n"))
    return me.models.MaskedLM.from_pretrained(folder, tokenizer=tokenizer, device="cpu", bfloat16=bfloat16)


def smiles_tokenizer(words: list[str]) -> Any:
    """Atoms and bonds as whole words."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    number = {word: place for place, word in enumerate(filter(None, words))}
    cut = Tokenizer(models.WordLevel(number, unk_token="[UNK]"))
    pattern = r"\[[^]]+]|Br?|Cl?|[NOSPFIbcnosp().=#+\\/:~@?*$-]|>>?|%[0-9]{2}|[0-9]"
    cut.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    cut.post_processor = processors.BertProcessing(*[(word, number[word]) for word in ("[SEP]", "[CLS]")])
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=cut, **special)
