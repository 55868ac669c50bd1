"""Texts that are ready to be scored: their fingerprint."""

from maskevidence.texts.encoding import Encoding, encode_texts
from maskevidence.texts.prepared_texts import tokens_fingerprint
from text_models import SENTENCES, small_tokenizer


def test_a_fingerprint_tells_texts_and_roles_apart() -> None:
    tokenizer = small_tokenizer()
    encodings = [
        encode_texts(tokenizer, SENTENCES),
        encode_texts(tokenizer, SENTENCES[::-1]),
        encode_texts(tokenizer, SENTENCES, Encoding(second=SENTENCES)),
        encode_texts(tokenizer, SENTENCES, Encoding(context=SENTENCES)),
    ]
    prints = [tokens_fingerprint(("text",), encoded.tokens) for encoded in encodings]
    assert len(set(prints)) == 4
    again = encode_texts(tokenizer, SENTENCES)
    assert tokens_fingerprint(("text",), again.tokens) == prints[0]
