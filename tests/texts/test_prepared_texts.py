"""Texts that are ready to be scored: their fingerprint."""

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.runs import read_run
from maskevidence.texts import encoding, prepared_texts
from maskevidence.texts.encoding import Encoding, encode_texts, pack_texts
from maskevidence.texts.prepared_texts import tokens_fingerprint
from text_models import SENTENCES, small_bert, small_tokenizer


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


STRANGE = [*SENTENCES, "the [MASK] sings", "The Cat!", "a ☃ dog sings", "who  or what ?"]


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.UnknownTokensWarning")
@pytest.mark.parametrize(
    "options",
    [
        Encoding(allow_unknown=True),
        Encoding(allow_unknown=True, max_tokens=6, long="split", lines=range(2, 11)),
        Encoding(allow_unknown=True, max_tokens=6, long="truncate", names=list("abcdefghi")),
    ],
)
def test_texts_packed_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch, options: Encoding) -> None:
    monkeypatch.setattr(encoding, "TEXTS_AT_ONCE", 2)
    tokenizer, advanced = small_tokenizer(), list[int]()
    wanted, found = (
        encode_texts(tokenizer, STRANGE, options),
        pack_texts(tokenizer, STRANGE, options, advanced.append),
    )
    assert found.notes == wanted.notes
    assert len(wanted.notes) >= 3
    np.testing.assert_array_equal(found.source, wanted.source)
    for name, column in vars(wanted.tokens.scored_together()).items():
        np.testing.assert_array_equal(getattr(found.tokens.whole(), name), column, err_msg=name)
    assert found.tokens.spelled_fingerprint() == wanted.tokens.spelled_fingerprint()
    assert sum(advanced) == len(STRANGE)


@pytest.mark.parametrize(
    "texts", [[*SENTENCES, ""], ["☃ ☃ ☃ ☃ ☃ ☃ ☃", *SENTENCES[:1]], [*SENTENCES, "a " * 99]]
)
def test_packed_texts_are_refused_alike(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    monkeypatch.setattr(encoding, "TEXTS_AT_ONCE", 2)
    said = []
    for encode in (encode_texts, pack_texts):
        with pytest.raises(InputError) as refused:
            encode(small_tokenizer(), texts, Encoding(max_tokens=40))
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_run_of_many_texts_is_that_of_few(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_bert(small_tokenizer()).save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 9))
    words = ("score", tmp_path / "model", tmp_path / "texts.txt")
    for folder, least in (("few", 2**17), ("many", 1)):
        monkeypatch.setattr(prepared_texts, "PACKED_FROM", least)
        assert run(*words, "--out", tmp_path / folder).code == 0
    few, many = (tmp_path / name for name in ("few", "many"))
    np.testing.assert_array_equal(read_run(many).estimate.scores.score, read_run(few).estimate.scores.score)
    identities = [json.loads((folder / "run.json").read_text())["data"] for folder in (few, many)]
    assert identities[0] == identities[1]
    assert (many / "observations.csv").read_text() == (few / "observations.csv").read_text()
