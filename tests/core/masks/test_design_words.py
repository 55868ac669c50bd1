"""Designs in one word, and the way back."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.masks import design_words
from maskevidence.core.masks.design_words import DesignWord, as_design, parse_design
from maskevidence.texts.published import LLaDA, RandomTime
from refusals import one_line

DESIGNS = {
    "every-size": me.EverySize(),
    "every-size:7": me.EverySize(7),
    "every-size:masks-per-size=7": me.EverySize(7),
    "random-size:16": me.RandomSize(16),
    "random-size:12,replicates=6": me.RandomSize(12, 6),
    "random-size:replicates=4": me.RandomSize(8, 4),
    "orderings:3": me.Orderings(3),
    "orderings:16,bound=importance": me.Orderings(16, bound="importance"),
    "log-sizes:32,orders=4": me.LogSizes(32, 4),
    "leave-one-out": me.LeaveOneOut(),
    "exhaustive": me.Exhaustive(),
    "exhaustive:order-mixture": me.Exhaustive(order_mixture=True),
    "exhaustive:blocks=4,order_mixture": me.Exhaustive(order_mixture=True, blocks=4),
    "fixed-rate:0.15": me.FixedRate(0.15),
    "fixed-rate:1,masks-per-size=2": me.FixedRate(1.0, 2),
    "fixed-rate:1e-05": me.FixedRate(1e-5),
    "rates:0.1-0.3-0.1": me.Rates((0.1, 0.2, 0.3)),
    "rates:0.5-0.5-0.1": me.Rates((0.5,)),
    "rates:0.5": me.Rates((0.5,)),
    "rates:0.15+0.5+0.8": me.Rates((0.15, 0.5, 0.8)),
    "rates:1e-05+2e-05+3e-05,masks-per-size=2": me.Rates((1e-5, 2e-5, 3e-5), 2),
    "rates:0.01-0.99-0.01": me.Rates(tuple(round(k / 100, 12) for k in range(1, 100))),
    "policy": me.Policy(),
    "policy:left-to-right": me.Policy("left-to-right"),
    "policy:entropy,blocks=4,tokens-per-step=2": me.Policy("entropy", blocks=4, tokens_per_step=2),
    "policy:confidence,threshold=0.9": me.Policy("confidence", threshold=0.9),
    "policy:entropy,bound=0.1": me.Policy("entropy", bound=0.1),
    "policy:order=2+0+1": me.Policy("order", order=(2, 0, 1)),
    "policy:order,order=0": me.Policy("order", order=(0,)),
    "random-time:4,eps=0.001,blocks=4,offset=1": RandomTime(4, eps=0.001, blocks=4, offset=1),
    "llada:64,batch=16": LLaDA(64, batch=16),
}


@pytest.mark.parametrize("word", DESIGNS)
def test_a_word_is_a_design_and_a_design_a_word(word: str) -> None:
    design = DESIGNS[word]
    assert parse_design(word) == DesignWord(design)
    for drawn in ("own", "shared"):
        for per_token in (False, True):
            whole = DesignWord(design, drawn, per_token)
            assert parse_design(str(whole)) == whole
            end = ",shared" * (drawn == "shared") + ",per-token" * per_token
            assert parse_design(word + (end if ":" in word else end.replace(",", ":", 1))) == whole


def test_every_design_is_among_them() -> None:
    assert {design.name for design in DESIGNS.values()} == set(design_words.design_names())


def test_words_are_short() -> None:
    for design, word in (
        (me.RandomSize(16), "random-size:16"),
        (me.EverySize(), "every-size:4"),
        (me.LeaveOneOut(), "leave-one-out"),
        (me.Rates(tuple(k / 100 for k in range(1, 100))), "rates:0.01-0.99-0.01"),
        (me.Exhaustive(order_mixture=True, blocks=4), "exhaustive:order-mixture,blocks=4"),
        (me.Policy("entropy", 4), "policy:entropy,blocks=4"),
        (me.Policy("entropy", 4, bound=0.1), "policy:entropy,blocks=4,bound=0.1"),
    ):
        assert str(DesignWord(design)) == word


def test_an_order_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "places.txt").write_text("2 0\n1\n")
    word = parse_design(f"policy:order={tmp_path / 'places.txt'},blocks=2")
    assert word.design == me.Policy("order", blocks=2, order=(2, 0, 1))
    assert parse_design(str(word)) == word


def test_a_new_field_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Windows(me.LeaveOneOut):
        windows: int | None = None
        share: float = 0.5
        wrapped: bool = False
        name: ClassVar[str] = "windows"

    monkeypatch.setattr(design_words, "DESIGNS", (*design_words.DESIGNS, Windows))
    assert parse_design("windows:4,share=0.25,wrapped").design == Windows(4, 0.25, wrapped=True)
    assert str(DesignWord(Windows(4, wrapped=True), "shared")) == "windows:4,wrapped,shared"


BAD = {
    "": "unknown design ''",
    "every-sise:4": "unknown design 'every-sise'; did you mean 'every-size'",
    "nonsense": "unknown design 'nonsense'. Known: every-size",
    "every-size:4,draws=8": "has 'draws=8'; its options are masks-per-size=, shared, per-token",
    "random-size:8,4": "has '4'; its options are draws=, replicates=, shared, per-token",
    "leave-one-out:3": "has '3'; its options are shared, per-token",
    "exhaustive:4": "has '4'; its options are order-mixture, blocks=, shared",
    "every-size:": "has an empty option; its options are",
    "every-size:bound=importance": "its options are masks-per-size=, shared, per-token",
    "random-size:order-mixture": "draws is 'order-mixture'; give a whole number",
    "every-size:2.5": "masks-per-size is '2.5'; give a whole number",
    "every-size:²": "masks-per-size is '²'; give a whole number",
    "every-size:masks-per-size=": "gives masks-per-size no value; write masks-per-size=VALUE",
    "random-size:8,replicates": "gives replicates no value; write replicates=VALUE",
    "every-size:0": "masks_per_size=0; give a whole number of 1 or more",
    "every-size:" + "9" * 30: "or fewer",
    "every-size:" + "9" * 5000: "give a whole number",
    "random-size:6,replicates=4": "draws=6 is not a multiple of replicates=4; give draws=8",
    "every-size:4,masks_per_size=5": "gives masks-per-size twice; leave one of them out",
    "every-size:shared,shared": "gives shared twice",
    "exhaustive:order-mixture=1": "gives order-mixture a value; write order-mixture alone",
    "exhaustive:blocks=4": "blocks belong to the order mixture; add order_mixture=True",
    "orderings:4,bound=upper": "unknown bound 'upper'. Known: area, importance",
    "fixed-rate": "lacks its rate; write fixed-rate:0.15",
    "fixed-rate:a": "rate is 'a'; give a number",
    "fixed-rate:0": "mask rate 0; give a share of the tokens in (0, 1]",
    "fixed-rate:1.01": "mask rate 1.01; give a share",
    "rates": "lacks its rates; write rates:0.1-0.9-0.2",
    "rates:0.1-0.9": "rates is '0.1-0.9'; write FIRST-LAST-STEP",
    "rates:0.9-0.1-0.1": "has no rates",
    "rates:0-0.9-0.1": "mask rate 0; give a share",
    "rates:0.1-1.5-0.1": "mask rate 1.1; give a share",
    "rates:0.1+nan": "mask rate nan; give a share",
    "rates:0.1-0.9-1e-300": "write FIRST-LAST-STEP",
    "rates:0.1-0.9-0.0000001": "has 8e+06 rates; give at most 10,000",
    "policy:confidense": "unknown policy 'confidense'; did you mean 'confidence'",
    "policy:order": "policy:order=FILE",
    "policy:confidence,order=1+0": "policy:order=FILE",
    "policy:confidence,blocks=x": "blocks is 'x'; give a whole number",
    "policy:margin,draws=3": "its options are policy=, blocks=, tokens-per-step=, order=, threshold=, bound=",
    "policy:margin,threshold=0.5": "threshold=0.5 belongs to the policy confidence, in place",
    "policy:bound=0.1": "in place of tokens_per_step; write policy:entropy,bound=0.1",
    "policy:threshold=0.9,tokens-per-step=2": "write policy:confidence,threshold=0.9",
    "policy:threshold=1.1": "threshold=1.1; give a probability from 0 to 1",
    "policy:threshold=x": "threshold is 'x'; give a number",
    "policy:entropy,bound=-1": "bound=-1.0; give a number of nats, 0 or more",
    "policy:order=": "gives order no value",
    "policy:order=0+0": "exactly once",
    "policy:order=nowhere.txt": "cannot be read",
}


@pytest.mark.parametrize("word", BAD, ids=lambda word: word[:40])
def test_bad_words_get_one_line(word: str) -> None:
    one_line(lambda: parse_design(word), match=re.escape(BAD[word]))


@pytest.mark.parametrize("design", [7, me.RandomSize, None, ["every-size"]])
def test_what_is_neither_a_design_nor_a_word(design: object) -> None:
    with pytest.raises(me.InputError, match="give a design such as RandomSize"):
        as_design(design)


class TestInPython:
    """A word stands for the design and the arguments beside it."""

    model = me.models.PPCA(n_features=5, n_components=2, seed=1)
    x = np.array(model.sample(30, seed=0))

    @pytest.mark.parametrize("word", ["every-size:4,shared", "random-size:8,per-token", "orderings:4"])
    def test_estimate_evidence(self, word: str) -> None:
        said = parse_design(word)
        one = me.estimate_evidence(self.model, self.x, word)
        other = me.estimate_evidence(
            self.model, self.x, said.design, masks=said.masks, per_token=said.per_token
        )
        assert (one.log_evidence, one.mask_se) == (other.log_evidence, other.mask_se)
        assert (one.design, one.masks) == (other.design, said.masks)
        assert (one.scores.hidden is not None) == said.per_token

    def test_an_argument_adds_to_the_word(self) -> None:
        assert me.estimate_evidence(self.model, self.x, "every-size:2", masks="shared").masks == "shared"
        assert me.estimate_evidence(self.model, self.x, "every-size:2,shared", masks="own").masks == "shared"

    def test_scores_of_leave_one_out_are_those_of_tokens(self) -> None:
        one = me.estimate_evidence(self.model, self.x, "leave-one-out:per-token")
        assert len(one.scores) == self.x.size
        assert one.scores.score.sum() / len(self.x) == pytest.approx(one.log_evidence)

    def test_select(self) -> None:
        one = me.select(self.x, "ppca", [1, 2], design="every-size:2,shared")
        own, again = (me.select(self.x, "ppca", [1, 2], design=me.EverySize(2)) for _ in range(2))
        assert own.chosen.log_evidence == again.chosen.log_evidence != one.chosen.log_evidence
        with pytest.raises(me.InputError, match="select records no scores of tokens; leave per-token out"):
            me.select(self.x, "ppca", [1, 2], design="random-size:per-token")

    def test_decode_takes_a_policy_alone(self) -> None:
        tokens = me.Tokens.from_array(self.x)
        for word in ("every-size", "policy:confidence,shared"):
            with pytest.raises(me.InputError, match="decoding takes a policy"):
                me.decode(self.model, tokens, word)
