"""The tokenizers of the architectures: `encode` equals their plain call, and unknown tokens count."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import maskevidence as me
from maskevidence.core.errors import UnknownTokensWarning
from maskevidence.core.show.words import RESIDUES as RESIDUES_NOTE
from maskevidence.texts.encoding import Encoding, encode_texts
from maskevidence.texts.loading import load_tokenizer
from maskevidence.texts.pieces import SPACED as SPACED_NOTE
from protein_models import esm_c_tokenizer as esm_c
from protein_models import esm_tokenizer as esm
from protein_models import prot_bert_tokenizer as prot_bert
from refusals import one_line
from text_models import SENTENCES, rows_of

PROTEINS = ["MKTAYIAK", "MSIQHFRVALIPFFAAFCLPVFAHPETLVKVK", "GG", "MKXBUZOTA"]
ENGLISH = [*SENTENCES, "The Rain, the Café and  THE\tsun — twice", " a dog ", "it's 1,024 cats"]
MASK, UNKNOWN = "[MASK]", "[UNK]"
BERT_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": UNKNOWN,
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": MASK,
}


def bert_base_uncased(_folder: Path) -> Any:
    """BERT's own vocabulary."""
    return load_tokenizer(Path(os.environ["MASKEVIDENCE_DATA"]) / "bert-base-uncased-vocab" / "vocab.txt")


def cased_word_pieces(folder: Path) -> Any:
    """A cased WordPiece vocabulary, in a vocab.txt that stands alone."""
    from tokenizers import BertWordPieceTokenizer

    trained = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    trained.train_from_iterator(ENGLISH, vocab_size=120, min_frequency=1, show_progress=False)
    trained.save_model(str(folder))
    return load_tokenizer(folder / "vocab.txt")


def byte_level(folder: Path) -> Any:
    """RoBERTa: byte pairs of bytes."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaTokenizerFast

    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(ENGLISH, 320, 1, show_progress=False, special_tokens=special)
    trained.save_model(str(folder))
    return RobertaTokenizerFast(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


def unigram(_folder: Path) -> Any:
    """SentencePiece as XLM-RoBERTa and ALBERT have it: a unigram model of pieces that begin with a space."""
    from tokenizers import SentencePieceUnigramTokenizer, processors
    from transformers import PreTrainedTokenizerFast

    trained = SentencePieceUnigramTokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(ENGLISH, 100, show_progress=False, special_tokens=special, unk_token="<unk>")
    trained._tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    named = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, mask_token="<mask>", model_input_names=["input_ids"], **named
    )


SPACED = [" ".join(protein) for protein in PROTEINS]
TOKENIZERS: list[tuple[Callable[[Path], Any], list[str]]] = [
    (esm, PROTEINS),
    (esm_c, PROTEINS),
    (prot_bert, SPACED),
    (bert_base_uncased, ENGLISH),
    (cased_word_pieces, ENGLISH),
    (byte_level, ENGLISH),
    (unigram, ENGLISH),
]


def case(make: Callable[[Path], Any], texts: list[str]) -> Any:
    marks = [pytest.mark.data] if make is bert_base_uncased else []
    return pytest.param((make, texts), id=make.__name__, marks=marks)


@pytest.fixture(params=[case(*pair) for pair in TOKENIZERS])
def tokenizer_and_texts(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, list[str]]:
    make, texts = request.param
    return make(tmp_path), texts


def test_encode_equals_the_plain_call(tokenizer_and_texts: tuple[Any, list[str]]) -> None:
    tokenizer, texts = tokenizer_and_texts
    plain = tokenizer(texts, return_special_tokens_mask=True)
    encoded = encode_texts(tokenizer, texts)
    assert rows_of(encoded) == plain["input_ids"]
    assert min(map(len, plain["input_ids"])) > 2
    for row, flags in enumerate(plain["special_tokens_mask"]):
        unknown = (
            tokenizer.unk_token_id
        )  # a slow tokenizer flags it although it stands for a piece of the text
        expected = [bool(f) and i != unknown for f, i in zip(flags, plain["input_ids"][row], strict=True)]
        assert encoded.tokens.context[row, : len(flags)].tolist() == expected
    pairs = encode_texts(tokenizer, texts, Encoding(second=texts[::-1]))
    assert rows_of(pairs) == tokenizer(texts, texts[::-1])["input_ids"]


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.UnknownTokensWarning")
def test_special_tokens_spelled_out_are_text(tokenizer_and_texts: tuple[Any, list[str]]) -> None:
    tokenizer, texts = tokenizer_and_texts
    mask = tokenizer.mask_token
    encoded = encode_texts(tokenizer, [*texts, f"{texts[0]} {mask} {texts[1]}"], Encoding(allow_unknown=True))
    assert rows_of(encoded)[:-1] == tokenizer(texts)["input_ids"]
    scored = encoded.tokens.values[encoded.tokens.maskable].tolist()
    assert not set(scored) & (set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    known = set(rows_of(encoded)[-1])
    assert set(tokenizer(texts[1])["input_ids"]) <= known  # the text around it is cut as ever


@pytest.mark.parametrize("make", [esm, esm_c, prot_bert])
def test_the_bytes_of_a_protein_are_its_residues(make: Callable[[Path], Any], tmp_path: Path) -> None:
    tokenizer = make(tmp_path)
    texts = SPACED if make is prot_bert else PROTEINS
    n_residues = list(map(len, PROTEINS))
    whole = encode_texts(tokenizer, texts)
    assert whole.tokens.n_bytes.tolist() == n_residues
    split = encode_texts(tokenizer, texts, Encoding(max_tokens=9, long="split"))
    assert split.tokens.n_bytes.tolist() == split.tokens.n_tokens.tolist()
    blocks = encode_texts(tokenizer, texts, Encoding(block_size=9))
    assert blocks.tokens.n_bytes.tolist() == [7] * len(blocks.tokens)


def test_spaces_are_put_between_residues_where_the_tokenizer_wants_them(tmp_path: Path) -> None:
    apart = encode_texts(prot_bert(tmp_path), SPACED)
    together = encode_texts(prot_bert(tmp_path), PROTEINS)
    assert rows_of(together) == rows_of(apart)
    assert together.tokens.n_bytes.tolist() == apart.tokens.n_bytes.tolist()
    assert (apart.notes, together.notes) == ((RESIDUES_NOTE,), (RESIDUES_NOTE, SPACED_NOTE))
    for make in (esm, esm_c):
        assert encode_texts(make(tmp_path), PROTEINS).notes == (RESIDUES_NOTE,)


def test_unknown_tokens_are_counted_warned_of_and_refused(tmp_path: Path) -> None:
    tokenizer = prot_bert(tmp_path)
    assert encode_texts(tokenizer, SPACED).notes == (RESIDUES_NOTE,)
    with pytest.warns(UnknownTokensWarning, match=r"6 of 100 letters \(6.00%\) are \[UNK\]"):
        encode_texts(tokenizer, [" ".join("M" * 94 + "j" * 6)])
    few = encode_texts(tokenizer, [" ".join("M" * 99 + "j")])
    assert "1 of 100 letters (1.00%) are [UNK]" in few.notes[0]
    small = [protein.lower() for protein in PROTEINS]
    for options in (Encoding(), Encoding(block_size=3)):
        with pytest.raises(
            me.InputError, match=r"51 of 51 letters .* capital ones with --upper.* --allow-unknown"
        ):
            encode_texts(tokenizer, small, options)
    with pytest.warns(UnknownTokensWarning, match="51 of 51"):
        assert len(encode_texts(tokenizer, small, Encoding(allow_unknown=True)).tokens) == 4
    other = cased_word_pieces(tmp_path)
    with pytest.raises(me.InputError, match=r"are .UNK.*own tokenizer, or --pattern if .*, or allow it"):
        encode_texts(other, ["\N{GREEK SMALL LETTER ALPHA} \N{GREEK SMALL LETTER BETA}", "a dog"])


def bert_of(words: list[str], folder: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words))


def test_a_vocabulary_that_stands_alone_is_cased_if_its_words_are(tmp_path: Path) -> None:
    words = [*BERT_SPECIAL.values(), "The", "Rain", "falls", "rain"]
    bert_of(words, tmp_path)
    model = me.models.MaskedLM.from_pretrained(tmp_path, device="cpu")
    for tokenizer in (model.tokenizer, load_tokenizer(tmp_path), load_tokenizer(tmp_path / "vocab.txt")):
        assert tokenizer("The Rain falls rain", add_special_tokens=False)["input_ids"] == [5, 6, 7, 8]
    bert_of([*BERT_SPECIAL.values(), "the", "rain"], tmp_path)
    lower = load_tokenizer(tmp_path)
    assert lower("The Rain", add_special_tokens=False)["input_ids"] == [5, 6]


def test_a_vocabulary_that_is_not_read_is_one_clear_line(tmp_path: Path) -> None:
    from transformers import AlbertConfig, AlbertForMaskedLM

    words = [*BERT_SPECIAL.values(), "C", "Cl", "(", ")", "=", "O", ">>"]
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = AlbertConfig(vocab_size=len(words), embedding_size=8, **shape)
    AlbertForMaskedLM(config).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    message = r"the tokenizer knows 5 tokens, the model 12: .*vocab.txt.*docs/masked_lm.md shows.*--tokenizer"
    one_line(lambda: me.models.MaskedLM.from_pretrained(tmp_path, device="cpu"), match=message)
    with pytest.raises(me.InputError, match=message):
        load_tokenizer(tmp_path)
