"""Texts as tokens: special tokens, context, long texts, blocks, bytes and words."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.texts import encoding
from maskevidence.texts.vocabulary import read_vocabulary
from refusals import one_line
from text_models import SENTENCES, rows_of, small_bert, small_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return small_tokenizer()


def encode_texts(tokenizer: Any, texts: list[str], **options: Any) -> encoding.EncodedTexts:
    return encoding.encode_texts(tokenizer, texts, encoding.Encoding(**options))


def test_segments_equal_those_of_the_tokenizer(tokenizer: Any) -> None:
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer)
    tokens = model.tokens(SENTENCES, second=SENTENCES[::-1])
    seen = []
    model.network.bert.embeddings.register_forward_pre_hook(
        lambda _m, _a, given: seen.append(given["token_type_ids"]), with_kwargs=True
    )
    masked = tokens.maskable & (tokens.maskable.cumsum(1) == 2)
    with torch.no_grad():
        for row in range(len(tokens)):
            model.log_conditionals(tokens[row : row + 1], masked[row : row + 1])
    expected = tokenizer(SENTENCES, SENTENCES[::-1])["token_type_ids"]
    assert [types[0].tolist() for types in seen] == expected


PROMPTS = ["a dog", "the sun ", "", "who is it", "rain\n"]


def byte_level_tokenizer() -> Any:
    """A tokenizer like RoBERTa's, whose words carry the blank before them, with a few merged pairs."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "</s>", "<pad>", "<mask>"]
    letters = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "ai", "Ġa", "Ġr"]
    merges = [("t", "h"), ("a", "i"), ("Ġ", "a"), ("Ġ", "r")]
    made = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False)
    names = dict(zip(("bos_token", "eos_token", "pad_token", "mask_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=made, cls_token="<s>", sep_token="</s>", **names)


@pytest.mark.parametrize("kind", ["words", "bytes", "slow"])
def test_a_context_is_framed_as_the_harness_does(kind: str) -> None:
    """The ids that the model reads, and where the scored ones begin, beside those of the lm-eval class."""
    pytest.importorskip("lm_eval", reason="lm-eval is not installed")
    from maskevidence.lm_eval.texts import Encoder

    tokenizer = byte_level_tokenizer() if kind == "bytes" else small_tokenizer()
    if kind == "slow":  # one written in Python, which knows no offsets
        tokenizer.__class__ = type("Slow", (type(tokenizer),), {"is_fast": False})
    texts = [*SENTENCES[:3], "it is rain, a cat 🐱", " rain"]
    if kind == "bytes":
        prompts = [*PROMPTS[:3], "the 🐱 cat", "rain\n"]
    else:
        prompts, texts[3] = PROMPTS, SENTENCES[3]
    encoded, harness = encode_texts(tokenizer, texts, context=prompts), Encoder(tokenizer, None)
    for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        blank = "" if not prompt or prompt[-1:].isspace() or text[0].isspace() else " "
        ids, first = harness.row(harness.pair(prompt, blank + text))
        assert rows_of(encoded)[row] == ids
        assert int(encoded.tokens.maskable[row].nonzero()[0]) == first
    assert encoded.tokens.n_bytes.tolist() == [len(text.encode()) for text in texts]
    assert any("one text with a blank between them" in note for note in encoded.notes)


def test_a_context_is_seen_and_never_scored_in_one_text_and_in_a_pair(tokenizer: Any) -> None:
    bare, one, pair = (
        encode_texts(tokenizer, SENTENCES, **options)
        for options in ({}, {"context": PROMPTS}, {"context": PROMPTS, "context_pair": True})
    )
    assert rows_of(one)[0] == tokenizer("a dog " + SENTENCES[0])["input_ids"]
    assert rows_of(pair) == tokenizer(PROMPTS, SENTENCES)["input_ids"]
    for encoded in (one, pair):
        assert encoded.tokens.n_tokens.tolist() == bare.tokens.n_tokens.tolist()
        assert encoded.tokens.n_bytes.tolist() == bare.tokens.n_bytes.tolist()
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer)
    values = [
        me.estimate_evidence(model, part.tokens, me.LeaveOneOut()).log_evidence for part in (bare, one, pair)
    ]
    assert min(abs(a - b) for a, b in itertools.combinations(values, 2)) > 1e-3
    with pytest.raises(me.InputError, match="pair=True belongs to a context"):
        encode_texts(tokenizer, SENTENCES, context_pair=True)
    with pytest.raises(me.InputError, match="is empty; leave such rows out"):
        encode_texts(tokenizer, [""], context=["a dog"])


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.UnknownTokensWarning")  # Japanese, and a dash
def test_bytes_of_every_token_add_up(tokenizer: Any) -> None:
    texts = ["the café is\there", "  räin — and sun  ", "日本 the sun", "dogs"]
    encoded = encode_texts(tokenizer, texts, allow_unknown=True)
    assert encoded.tokens.n_bytes.tolist() == [len(text.encode()) for text in texts]
    split = encode_texts(tokenizer, texts, max_tokens=5, long="split", allow_unknown=True)
    assert len(split.tokens) > len(texts)
    sums = np.bincount(split.source, weights=split.tokens.n_bytes.numpy())
    assert sums.tolist() == [len(text.encode()) for text in texts]
    lines = ["the sun\n", "\n", "rain and café\n", "a dog and a cat"]
    blocks = encode_texts(tokenizer, lines, block_size=3)
    assert [note.split(";")[0] for note in blocks.notes] == [
        "the tokens do not spell the texts: letters or accents are lost in 1 of 4"  # of "café"
    ]
    assert int(blocks.tokens.n_bytes.sum()) == len("".join(lines).encode())


def test_split_keeps_all_tokens_and_truncate_the_first(tokenizer: Any) -> None:
    text = " ".join(SENTENCES)
    whole = rows_of(encode_texts(tokenizer, [text]))[0][1:-1]
    split = encode_texts(tokenizer, [SENTENCES[1], text], max_tokens=9, long="split")
    pieces = [row[1:-1] for row in rows_of(split)]
    assert [token for piece in pieces[1:] for token in piece] == whole
    sizes = [len(piece) for piece in pieces[1:]]
    assert max(sizes) <= 7
    assert max(sizes) - min(sizes) <= 1
    assert split.source.tolist() == [0] + [1] * len(sizes)
    assert split.tokens.ids.tolist() == list(range(1 + len(sizes)))
    assert "1 of 2 texts were longer" in split.notes[0]
    cut = encode_texts(tokenizer, [text], ids=[40], max_tokens=9, long="truncate")
    assert rows_of(cut)[0][1:-1] == whole[:7]
    assert cut.tokens.ids.tolist() == [40]
    assert f"{len(whole) - 7} of {len(whole)} tokens are not scored" in cut.notes[0]
    prompted = encode_texts(tokenizer, [text], context=["a dog"], max_tokens=9, long="split")
    assert all(row[:3] == rows_of(prompted)[0][:3] for row in rows_of(prompted))
    pair = encode_texts(tokenizer, [text], second=[text], max_tokens=10, long="truncate")
    expected = tokenizer([text], [text], truncation="longest_first", max_length=10)["input_ids"]
    assert [sorted(row) for row in rows_of(pair)] == [sorted(row) for row in expected]


def test_a_limit_takes_the_first_blocks(tokenizer: Any) -> None:
    texts = ["the cat\n", "\n", "rain falls on the roof\n", "a dog sleeps\n", "the rain falls\n"]
    whole = encode_texts(tokenizer, texts, block_size=5)
    first = encode_texts(tokenizer, texts, block_size=5, most_blocks=2)
    assert torch.equal(first.tokens.values, whole.tokens.values[:2])
    assert not any("fill no block" in note for note in first.notes)
    more = encode_texts(tokenizer, texts, block_size=5, most_blocks=99)
    assert len(more.tokens) == len(whole.tokens) > 2


def test_blocks_are_full_and_in_order(tokenizer: Any) -> None:
    lines = [sentence + "\n" for sentence in SENTENCES]
    running = [token for row in tokenizer(lines, add_special_tokens=False)["input_ids"] for token in row]
    encoded = encode_texts(tokenizer, lines, block_size=7)
    blocks = rows_of(encoded)
    assert {len(block) for block in blocks} == {7}
    assert [token for block in blocks for token in block[1:-1]] == running[: len(running) // 5 * 5]
    assert encoded.notes == (
        f"the last {len(running) % 5} of {len(running)} tokens fill no block and are not scored",
    )


@pytest.mark.parametrize("left_to_right", [False, True])
def test_whole_words_hide_their_other_pieces(tokenizer: Any, left_to_right: bool) -> None:
    """With left_to_right, PLL-word-l2r: the later pieces of a word are hidden, the earlier ones are not."""
    model = me.models.MaskedLM(small_bert(tokenizer), tokenizer)
    encoded = model.encode(["unbelievable dogs and rain", "cat"])
    assert any(np.bincount(words[words >= 0]).max() > 1 for words in encoded.words.numpy())
    words = me.models.WholeWords(model, encoded, left_to_right=left_to_right)
    estimate = me.estimate_evidence(words, encoded.tokens, me.LeaveOneOut())
    expected = []
    for row in range(2):
        words, labels = encoded.words[row], encoded.tokens.values[row : row + 1]
        present = (encoded.tokens.maskable | encoded.tokens.context)[row]
        for place in torch.nonzero(encoded.tokens.maskable[row]).flatten().tolist():
            hidden = words == words[place]
            if left_to_right:
                hidden[:place] = False
            ids = torch.where(hidden, tokenizer.mask_token_id, labels)[:, present]
            with torch.no_grad():
                logits = model.network(input_ids=ids).logits[0, place]
            expected.append(float(torch.log_softmax(logits, -1)[labels[0, place]]))
    np.testing.assert_allclose(estimate.scores.score, expected, atol=1e-5)
    plain = me.estimate_evidence(model, encoded.tokens, me.LeaveOneOut())
    assert plain.scores.score[-1] == pytest.approx(expected[-1], abs=1e-4)
    assert abs(plain.log_evidence - estimate.log_evidence) > 1e-4


LONG = " ".join(SENTENCES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["a", " "]}, "the text in row 1 is empty"),
        ({"texts": ["a", ""], "ids": [3, 9]}, "the text in row 9 is empty"),
        ({"texts": [LONG], "max_tokens": 9}, "special tokens included, the model reads 9"),
        ({"texts": SENTENCES, "block_size": 2}, "leaves no room beside 2 special tokens"),
        ({"texts": SENTENCES, "block_size": 20, "max_tokens": 9}, "the model reads 9 tokens"),
        ({"texts": ["a"], "block_size": 20}, "too few for a block of 20, 2 of them special"),
        ({"texts": ["a"], "second": ["b"], "context": ["c"]}, "takes no context"),
        ({"texts": ["a"], "second": ["b"], "long": "split"}, "cannot be split"),
        ({"texts": ["a"], "second": ["b", "c"]}, "1 texts and 2 of second"),
        ({"texts": [LONG], "context": [LONG], "max_tokens": 7, "long": "split"}, "leaves no room"),
    ],
)
def test_invalid_texts_are_one_clear_line(tokenizer: Any, options: dict[str, Any], message: str) -> None:
    one_line(lambda: encode_texts(tokenizer, **options), match=message)


def test_special_tokens_that_texts_spell_are_said(tokenizer: Any) -> None:
    texts = [*SENTENCES[:2], "a [SEP] dog", "[MASK] [SEP]"]
    note = "special tokens, such as [SEP], are spelled in 2 texts: they are read as text"
    assert note in encode_texts(tokenizer, texts).notes
    assert note.replace("2 texts", "4 texts") in encode_texts(tokenizer, texts, second=texts).notes
    assert encode_texts(tokenizer, SENTENCES).notes == ()


def test_a_refusal_names_the_text(tokenizer: Any) -> None:
    names = ["first", "second"]
    with pytest.raises(me.InputError, match=r"the text in row 1 \('second'\) is empty"):
        encode_texts(tokenizer, ["a dog", " "], names=names)
    with pytest.raises(me.InputError, match=r"the text in line 7 \('first'\) has \d+ tokens"):
        encode_texts(tokenizer, ["a dog " * 9, "a"], max_tokens=5, names=names, lines=[7, 9])


def test_only_line_ends_end_a_word_of_a_vocabulary(tmp_path: Path) -> None:
    words = ["[PAD]", "a\u2028", "\x85", "b\x0b", "c"]
    for end in ("\n", "\r\n"):
        (tmp_path / "vocab.txt").write_bytes(end.join([*words, ""]).encode())
        assert read_vocabulary(tmp_path / "vocab.txt") == words
