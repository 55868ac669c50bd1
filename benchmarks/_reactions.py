"""The small ALBERT that knows chemical reactions, and reactions for it.

The model lies in the package `rxnmapper` (`pip install --no-deps rxnmapper==0.4.3`), of which only the files
are read.
"""

import importlib.util
from pathlib import Path
from typing import Any

import maskevidence as me
from _timing import data
from maskevidence.texts.text_files import read_texts

REACTIONS = "ALBERT, reactions"


def reactions(n_texts: int, longest: int = 256) -> tuple[me.models.MaskedLM, me.Tokens] | None:
    """A small ALBERT, and reactions of at most `longest` tokens; None if rxnmapper is not installed."""
    model = smiles_model()
    if model is None:
        return None
    every = read_texts(str(data("reactions", "reactions.csv")))["reaction"]
    texts = [text for text in every if len(model.tokenizer(text).input_ids) <= longest]
    return model, model.tokens(texts[:n_texts])


def smiles_model() -> me.models.MaskedLM | None:
    """The ALBERT of `rxnmapper`; None if that is not installed."""
    found = importlib.util.find_spec("rxnmapper")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    tokenizer = smiles_tokenizer((folder / "vocab.txt").read_text().split("\n"))
    return me.models.MaskedLM.from_pretrained(folder, tokenizer=tokenizer, device="cpu")


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
