"""The digests that runs, folders and checkpoints hold, recorded: a changed one would refuse all of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from maskevidence.core.model import fingerprint
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.files import _prefix
from maskevidence.core.table import Table
from maskevidence.core.tokens import Tokens
from maskevidence.core.training.loop import _fingerprint
from maskevidence.images.image_files import Images
from maskevidence.lm_eval.values import key_of_texts
from maskevidence.runs.blocks import _checksum
from maskevidence.runs.folder import seal, seal_of_files
from maskevidence.tables.finished import hash_of
from maskevidence.tables.gaussian.low_rank import PPCA
from maskevidence.tables.own_model import fingerprint_of_code
from maskevidence.texts.encoding import _hashes
from maskevidence.texts.prepared_texts import tokens_fingerprint
from maskevidence.texts.text_files import Texts

X = np.array([[1.0, np.nan, 2.0], [0.25, 0.1, -0.0]])
TABLE = Table("t", X.T.copy().T, ("a", "é", "c"), np.array([5, 2]), levels={"c": ("no", "yes", "ü")})
TOKENS = Tokens.from_array(X, ids=[5, 2])
TEXTS = ("a\ud800", "naïve", "")


class Half(torch.nn.Module):
    """Weights of several types, one of them without a place, as a network may have them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t().bfloat16())
        self.register_buffer("steps", torch.tensor(7))


def moments():
    """The moments of three rows."""
    return GaussianMoments(
        3, torch.tensor([0.5, 1.5], dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    )


def known_model():
    """A model with known weights."""
    model = PPCA(3, 1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.fill_(0.5)
    return model


def code(folder):
    """The fingerprint of a user's file."""
    (folder / "own.py").write_text("def make(tokens): ...\n")
    return fingerprint_of_code(f"{folder / 'own.py'}:make")


def files(folder):
    """The seal of a folder with a file in a folder."""
    (folder / "deep").mkdir()
    (folder / "deep" / "a.txt").write_bytes(b"\xff\x00")
    return seal_of_files(folder)


DIGESTS = {
    "table": (
        lambda _: TABLE.fingerprint(),
        "826c598a9987ccc0caead1de743a04d3dc4304ecd8b5b8b6f750ff6bc0648ce5",
    ),
    "tokens": (
        lambda _: TOKENS.fingerprint(),
        "d840aa8fbcdb0dd9ca65e4000a80c7060f81ed27c26226e30469ea9074f8a93f-c4926d8f727670c16e2ab3d1110ae180b9df04017b132b9858a6dd7c2f59aaa8",
    ),
    "whole tokens": (
        lambda _: Tokens.from_array([[1.0, 2.0]]).fingerprint(),
        "46eb61910ae2b03e9c7ef46b738c6ff2346b2a8e295ef0b4f304663ceb6ca29b",
    ),
    "text of tokens": (
        lambda _: replace(TOKENS, text=torch.tensor([3, 9])).text_fingerprint(),
        "06340f0d4a1d7fdd2067da48fbd92a95010839e75a6c8b3badfdedf119153cc7",
    ),
    "moments": (
        lambda _: moments().fingerprint(),
        "c3eca304d0a3a45be5212cc1549a7e9356df416e7255712392877924d37f69e6",
    ),
    "model": (
        lambda _: fingerprint(known_model()),
        "3898c3536bdfbb9afc07c6ebb921c036b93de191f958b357b4aa0c52d077ce45-866eea1308a65b6878ddb9febe965805e4a6bafc5d23cecd3956fa978d73ead8",
    ),
    "network": (
        lambda _: fingerprint(Half()),
        "da62484464e184da3f5032c16c774613eece0e84f49bb5b9244aed1e487e8a86",
    ),
    "training on tokens": (lambda _: _fingerprint(TOKENS), "1f2e6728f8fbb885"),
    "training on moments": (
        lambda _: _fingerprint(replace(moments(), columns=("a", "é"))),
        "93057f00e030a58e",
    ),
    "images": (
        lambda _: Images("i", np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3), np.array([4])).fingerprint(),
        "979bf6341b5142cbe9448178dadca76e02b056087e555a37d4bc72383712c45d",
    ),
    "texts": (
        lambda _: Texts("t", ("x", "y"), (TEXTS, TEXTS[::-1])).fingerprint(),
        "47f0ef1603251bedbb7399dd7c7ab3933bdee3b04a06cf9d4e855aa28844e9e3",
    ),
    "encoded texts": (
        lambda _: tokens_fingerprint(("x", "é"), TOKENS),
        "aede8dddb866936b0465953521b1940f453ff9931535ab956a0eca725717fb5b",
    ),
    "text by text": (
        lambda _: _hashes((TEXTS, TEXTS[::-1])).tolist(),
        [34761554329096973, 2928234128967534, 4220898380674080],
    ),
    "question": (lambda _: key_of_texts(TEXTS), 55813668567673634),
    "JSON": (
        lambda _: seal({"b": [1, None], "a": "é"}),
        "8920de3941419361f145cefba9aa462ed7008553c0e51521d11ae067eca18a8d",
    ),
    "files": (files, "8ac0f0f4fcfbfdd940cef2533643aefc43e799f0ccf1e8540e5875a6aef369dc"),
    "code": (code, "ca3aae49f8016807d5611b58752c3ecc697db34f6ec224e3551cfe33b2214955"),
    "part": (lambda _: _checksum(b"\x00part"), "bf040bae03f34882"),
    "temporary file": (lambda folder: _prefix(folder / "é.json"), ".8651e077af04-"),
    "cells": (
        lambda _: hash_of(["a", 1], None, [TABLE, None]),
        "1b167f261def1bcb1a6dac25876e4a53b14ed219b82018a03e7716bd999a6542",
    ),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_digests_stay_as_they_were(name, tmp_path, monkeypatch):
    monkeypatch.setattr("maskevidence.__version__", "1.0")
    monkeypatch.setattr("maskevidence.tables.finished.__version__", "1.0")
    compute, recorded = DIGESTS[name]
    assert compute(tmp_path) == recorded
