"""Scores of mutants: every convention equals its plain loop, and no context is computed twice."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.scores.score_masks import order_mixture
from maskevidence.proteins.conventions import CONVENTIONS, FEW_PASSES, area
from protein_models import (
    evidence,
    mixture,
    one_at_a_time,
    plain_scores,
    protein_model,
    pseudo_log_likelihood,
)
from refusals import one_line

WILD_TYPE = "MSIQHFRVALIPFFAAFCLP"
MUTANTS = ["S2A", "S2W", "L10K", "S2A:I3V", "I3V:Q4E:H5D", "S2A:I3V:P20G:Q4E", "WT", "M1G:L19A:P20V:A15C:V8I"]
ARCHITECTURES = ("Esm", "Esmc", "Bert")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> me.models.MaskedLM:
    return protein_model(request.param, tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> me.models.MaskedLM:
    return protein_model("Bert", tmp_path_factory.mktemp("vocabulary"))


def mutated(mutant: str) -> str:
    letters = list(WILD_TYPE)
    for part in [] if mutant == "WT" else mutant.split(":"):
        letters[int(part[1:-1]) - 1] = part[-1]
    return "".join(letters)


def test_every_convention_equals_its_plain_loop(model: me.models.MaskedLM) -> None:
    conventions = [name for name in CONVENTIONS if name != "whole"]
    scores = me.variants(model, WILD_TYPE, MUTANTS, conventions)
    log_p = one_at_a_time(model)
    for row, mutant in enumerate(MUTANTS):
        expected = plain_scores(log_p, WILD_TYPE, mutated(mutant))
        for name in conventions:
            assert scores[name][row] == pytest.approx(expected[name], abs=1e-5), (mutant, name)
    assert abs(scores["mask-fill"]).max() > 0.3
    single = [row for row, mutant in enumerate(MUTANTS) if ":" not in mutant]
    for name in ("mutant-fill", "match-fill", "mask-fill", "joint", "joint-mixture"):
        assert scores[name][single] == pytest.approx(scores["wild-type-fill"][single], abs=1e-5)
    assert abs(scores["wild-type-fill"][3:] - scores["mutant-fill"][3:]).max() > 1e-3


def test_mixture_and_area_of_sites_equal_brute_force_over_orders() -> None:
    rng = np.random.default_rng(0)
    for n in range(1, 6):
        row, place = np.indices((2**n, n))
        table = np.where(row >> place & 1, np.log(rng.uniform(0.05, 1, (2**n, n))), 0.0)

        def log_p(_letters: str, hidden: Any, site: int, _letter: str, table: Any = table) -> float:
            return float(table[sum(1 << one for one in hidden), site])

        sites = list(range(n))
        assert area(table) == pytest.approx(evidence(log_p, "A" * n, sites), abs=1e-12)
        assert order_mixture(table)[-1] == pytest.approx(mixture(log_p, "A" * n, sites), abs=1e-12)


def counted(model: me.models.MaskedLM, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The rows that the network is shown, from now on."""
    shown: list[tuple[Any, ...]] = []
    inputs = model._adapter.inputs

    def record(ids: Any, context: Any, lengths: Any) -> Any:
        shown.extend(tuple(row) for row in ids.tolist())
        return inputs(ids, context, lengths)

    monkeypatch.setattr(model._adapter, "inputs", record)
    return shown


def test_every_distinct_context_is_one_pass(
    bert: me.models.MaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    singles = [
        f"{WILD_TYPE[j]}{j + 1}{b}" for j in range(10) for b in "ACDEFGHIKLMNPQRSTVWY" if b != WILD_TYPE[j]
    ]
    doubles = [f"{singles[i]}:{singles[(i + 95) % 190]}" for i in range(0, 40, 2)]
    shown = counted(bert, monkeypatch)
    plan = me.variants(bert, WILD_TYPE, [*singles, *doubles]).plan
    assert len(shown) == len(set(shown)) == plan.passes
    alone = me.variants(
        bert, WILD_TYPE, singles, ["wild-type-fill", "mutant-fill", "mask-fill", "joint"]
    ).plan
    assert (alone.passes, alone.distinct["wild-type-fill"], alone.asked["wild-type-fill"]) == (10, 10, 190)
    assert sum(plan.asked.values()) > 10 * plan.passes
    assert me.variants(bert, WILD_TYPE, singles, ["unmasked"]).plan.passes == 1
    assert me.variants(bert, WILD_TYPE, singles[:3], ["pll"]).plan.passes == 20 + 3 * 19


def test_whole_sequences_have_common_masks_and_an_error(bert: me.models.MaskedLM) -> None:
    short, design = WILD_TYPE[:6], me.Exhaustive()
    mutants = ["S2A", "S2A:F6W", "MSIQHFR", "MIQHF"]
    truth = [
        me.estimate_evidence(bert, bert.tokens([letters]), design).log_evidence
        for letters in (short, "MAIQHF", "MAIQHW", "MSIQHFR", "MIQHF")
    ]
    expected = np.array(truth[1:]) - truth[0]
    drawn = [me.variants(bert, short, mutants, ["whole"], draws=64, seed=seed) for seed in range(6)]
    values = np.array([scores["whole"] for scores in drawn])
    errors = np.array([scores.mask_se["whole"] for scores in drawn])
    standard = np.sqrt((errors**2).mean(0) / len(drawn))
    assert (abs(values.mean(0) - expected) < 4 * standard).all()
    assert values.std(0, ddof=1) == pytest.approx(np.sqrt((errors**2).mean(0)), rel=0.8)
    apart = np.array(
        [
            me.estimate_evidence(bert, bert.tokens([short]), me.RandomSize(64), seed=s).log_evidence
            for s in range(20)
        ]
    )
    assert errors[:, 0].mean() < math.sqrt(2) * apart.std(ddof=1)  # less than of two estimates: masks cancel
    pll = me.variants(bert, short, mutants, ["pll"])["pll"]
    log_p = one_at_a_time(bert)
    for row, letters in enumerate(("MAIQHF", "MAIQHW", "MSIQHFR", "MIQHF")):
        plain = pseudo_log_likelihood(log_p, letters) - pseudo_log_likelihood(log_p, short)
        assert pll[row] == pytest.approx(plain, abs=1e-5)


def test_where_lengths_differ_the_mean_over_residues_stands_beside_the_sum(
    bert: me.models.MaskedLM,
) -> None:
    """A plain loop over each sequence; half a protein gone is not the best of its mutants."""
    sequences = [WILD_TYPE, "S2A", WILD_TYPE[:10], WILD_TYPE[:5] + "W" + WILD_TYPE[5:]]
    scores = me.variants(bert, WILD_TYPE, sequences, ["pll", "whole"], draws=256)
    letters = [WILD_TYPE, mutated("S2A"), *sequences[2:]]
    log_p = one_at_a_time(bert)
    means = [pseudo_log_likelihood(log_p, each) / len(each) for each in letters]
    assert scores["pll-per-residue"] == pytest.approx(np.array(means) - means[0], abs=1e-5)
    assert scores["pll"].argmax() == 2  # +30 nats: the sum has ten terms fewer
    assert scores["pll"][2] > 20
    assert abs(scores["pll-per-residue"]).max() < 1
    design = me.RandomSize(512)
    areas = [
        me.estimate_evidence(bert, bert.tokens([each]), design).log_evidence / len(each) for each in letters
    ]
    errors = scores.mask_se["whole-per-residue"]
    assert errors[0] == scores["whole-per-residue"][0] == 0.0
    off = scores["whole-per-residue"] - (np.array(areas) - areas[0])
    assert (abs(off[1:]) < 5 * errors[1:] + 0.02).all()
    assert list(scores.agreement()) == [("pll-per-residue", "whole-per-residue")]
    assert "2 mutants of 4 shorter or longer than the wild type" in scores.notes[0]
    assert "pll-per-residue" not in me.variants(bert, WILD_TYPE, ["S2A", "WT"], ["pll"]).scores
    one_length = me.variants(bert, WILD_TYPE, [WILD_TYPE[1:], WILD_TYPE[:-1]], ["pll", "whole"])
    assert ("pll", "whole") in one_length.agreement()


def test_mutants_as_others_write_them_and_notes_on_them(bert: me.models.MaskedLM) -> None:
    written = ["S2A", "s2a", "p.Ser2Ala", "p.(SER2ala)", "p.S2A", "S2A:L10K", "p.Ser2Ala:L10K"]
    scores = me.variants(bert, WILD_TYPE, written, ["joint"])
    assert len({*scores["joint"][:5]}) == len({*scores["joint"][5:]}) == 1
    assert scores.mutants == tuple(written)
    assert "5 rows with the mutant of an earlier row (first: 's2a')" in scores.notes[0]
    unclear = me.variants(bert, WILD_TYPE, ["S2X", "S2A"], ["joint"])
    assert "1 mutant with B, J, X or Z" in unclear.notes[0]
    assert not me.variants(bert, WILD_TYPE, ["S2A", "S2G"], ["joint"]).notes


def test_many_sites_take_random_masks(bert: me.models.MaskedLM) -> None:
    many = ":".join(
        f"{letter}{j + 1}{'A' if letter != 'A' else 'G'}" for j, letter in enumerate(WILD_TYPE[:11])
    )
    scores = me.variants(bert, WILD_TYPE, [many, "S2A"], ["joint", "joint-mixture"], draws=128)
    log_p = one_at_a_time(bert)
    rng = np.random.default_rng(0)
    letters = mutated(many)

    def one(order: list[int], of: str) -> float:
        return sum(log_p(of, order[k:], site, of[site]) for k, site in enumerate(order))

    drawn = np.array(
        [one(o, letters) - one(o, WILD_TYPE) for o in (rng.permutation(11).tolist() for _ in range(25))]
    )
    error = math.hypot(drawn.std() / 5, scores.mask_se["joint"][0])
    assert abs(scores["joint"][0] - drawn.mean()) < 4 * error
    assert math.isnan(scores["joint-mixture"][0])
    assert scores.mask_se["joint"][1] == 0
    assert "more than 10 sites" in scores.notes[0]


def test_long_sequences_are_scored_in_windows(bert: me.models.MaskedLM) -> None:
    long = WILD_TYPE * 4  # 80 residues; the model reads 42
    scores = me.variants(
        bert, long, ["S2A", "S42W", "P80G", "S42W:I43V"], ["wild-type-fill", "mask-fill", "pll"]
    )
    assert "in a window around the mean of its sites" in scores.notes[0]
    log_p = one_at_a_time(bert)
    for row, (first, site, new) in enumerate([(0, 1, "A"), (20, 41, "W"), (38, 79, "G")]):
        window = long[first : first + 42]
        expected = plain_scores(log_p, window, window[: site - first] + new + window[site - first + 1 :])
        for name in ("wild-type-fill", "mask-fill", "pll"):
            assert scores[name][row] == pytest.approx(expected[name], abs=1e-5)
    with pytest.raises(
        me.InputError, match=r"row 0 \(from 0\), 'S2A:P80G': its sites are too far apart for a window of 42"
    ):
        me.variants(bert, long, ["S2A:P80G"])
    with pytest.raises(me.InputError, match="have no common window"):
        me.variants(bert, long, [long + "A"], ["pll"])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mutants": ["S2A", "T2A"]}, r"row 1 \(from 0\), 'T2A': the wild type has S at 2, not T; .*--start"),
    (
        {"mutants": ["S2A", "A99P"]},
        r"row 1 \(from 0\), 'A99P': there is no site 99; the wild type has the sites 1 to 20",
    ),
    ({"mutants": ["S2A"], "start": 24}, r"there is no site 2; .* 24 to 43"),
    ({"mutants": ["S2J"]}, r"row 0 \(from 0\), 'S2J': the model does not know the letter 'J'"),
    ({"mutants": ["S2A:S2C"]}, r"site 2 is changed twice"),
    ({"mutants": ["p.Sel2Ala"]}, r"'p.Sel2Ala' is not a substitution; write A1P or p.Ala1Pro"),
    ({"mutants": ["p.Lys2Ala"]}, r"the wild type has S at 2, not K"),
    ({"wild_type": "mkta", "mutants": ["K2R"]}, r"has a small k at 2; write it in capitals"),
    ({"mutants": ["s2x", WILD_TYPE.lower()]}, r"row 1 .*: '\w' is a small letter, and the model knows"),
    ({"mutants": ["S2A:"]}, r"'' is not a substitution; write A1P"),
    ({"mutants": [""]}, r"row 0 \(from 0\), '': there is no mutant"),
    ({"mutants": []}, r"no list of mutants"),
    ({"mutants": "S2A"}, r"give a list of str"),
    (
        {"mutants": ["S2A", WILD_TYPE[:-1]]},
        r"row 1 \(from 0\), .* is an insertion or deletion, and wild-type-fill compares",
    ),
    (
        {"mutants": ["k2a"], "wild_type": "mk"},
        r"the wild type: 'm' is a small letter, and the model knows 'M'; write capitals",
    ),
    ({"mutants": ["S2A"], "wild_type": " "}, r"no letter"),
    ({"mutants": ["S2A"], "conventions": ["wt-marginals"]}, r"'wt-marginals'"),
    ({"mutants": ["S2A"], "conventions": []}, r"no list of conventions"),
    ({"mutants": ["S2A"], "draws": 1}, r"draws=1; give 2 to 10,000"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_bad_input_is_one_line_with_the_first_row(
    bert: me.models.MaskedLM, given: dict[str, Any], message: str
) -> None:
    arguments = {"wild_type": WILD_TYPE, **given}
    one_line(lambda: me.variants(bert, **arguments), match=message)


def test_models_that_do_not_read_single_letters() -> None:
    from text_models import small_bert, small_tokenizer

    words = me.models.MaskedLM(small_bert(small_tokenizer()), small_tokenizer())
    with pytest.raises(me.InputError, match="tokens that are not single letters"):
        me.variants(words, "thecat", ["t1a"])
    with pytest.raises(me.InputError, match="PPCA does not predict single letters"):
        me.variants(me.models.PPCA(4, 2), "MKTA", ["K2R"])


def test_unmasked_distributions_see_the_token(model: me.models.MaskedLM) -> None:
    tokens = model.tokens([WILD_TYPE, WILD_TYPE[:9]])
    places = tokens.maskable.clone()
    places[0, ::2] = False
    with torch.no_grad():
        found = model.unmasked_log_distributions(tokens, places)
        present = (tokens.maskable | tokens.context).long()
        padded = torch.where(present.bool(), tokens.values, model.tokenizer.pad_token_id)
        logits = model.network(input_ids=padded, attention_mask=present).logits
    torch.testing.assert_close(found, torch.log_softmax(logits[places], -1), atol=1e-5, rtol=0)
    assert set(FEW_PASSES) < set(CONVENTIONS)
