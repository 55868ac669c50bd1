"""Encoded texts as rows: their fingerprint."""

from maskevidence.models.text.encoding import Encoding, encode_texts
from maskevidence.tasks.text_rows import TextRows
from text_models import SENTENCES, small_tokenizer


def test_a_fingerprint_tells_texts_and_roles_apart() -> None:
    tokenizer = small_tokenizer()
    encodings = [
        encode_texts(tokenizer, SENTENCES),
        encode_texts(tokenizer, SENTENCES[::-1]),
        encode_texts(tokenizer, SENTENCES, Encoding(second=SENTENCES)),
        encode_texts(tokenizer, SENTENCES, Encoding(context=SENTENCES)),
    ]
    prints = [TextRows("a", ("text",), encoded).fingerprint() for encoded in encodings]
    assert len(set(prints)) == 4
    assert TextRows("b", ("text",), encode_texts(tokenizer, SENTENCES)).fingerprint() == prints[0]
