"""The words for kinds and verdicts, which every view shares."""

import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import maskevidence as me
from learned_conditionals import Learned, rows
from maskevidence.core.comparing.comparison import answer, decided_by_few, ranking, verdict
from maskevidence.core.evidence.result import EvidenceEstimate, HowScored, page_of_numbers, summarize_scores
from maskevidence.core.show.parts import Table
from maskevidence.core.show.terminal import print_page
from maskevidence.runs.summary import _title


def of_kind(kind: str) -> EvidenceEstimate:
    """A small estimate of this kind."""
    if kind == "lower_bound":
        return me.estimate_evidence(Learned(3, 2), rows(6, 3, 2), me.Orderings(4))
    model = me.models.PPCA(n_features=4, n_components=1)
    design = me.LeaveOneOut() if kind == "pseudo" else me.EverySize(2)
    return me.estimate_evidence(model, model.sample(6, seed=1), design)


NAMES = {
    "unbiased": "log evidence",
    "pseudo": "pseudo-log-likelihood",
    "lower_bound": "lower bound on the log evidence",
}


@pytest.mark.parametrize(("kind", "name"), NAMES.items())
def test_every_view_calls_a_number_by_its_name(kind: str, name: str) -> None:
    estimate = of_kind(kind)
    assert estimate.kind == kind
    file = io.StringIO()
    print_page(Console(file=file, width=100), page_of_numbers(estimate.to_dict()))
    first = " ".join(file.getvalue().split(" nats per observation")[0].split())
    assert first.lower().startswith(name.split(" on ")[0])
    assert estimate.plot().get_title().lower().startswith(name)
    comparison = me.compare({"a": estimate, "b": replace(estimate, labels=None)})
    assert ranking(comparison, 2)[0] == ["run", name, "behind best", "wins"]
    assert f"a has the highest {name}" in comparison._repr_html_()


def test_the_picture_of_a_run_calls_it_by_its_name() -> None:
    from maskevidence.runs import DataSource, Manifest

    estimate = of_kind("pseudo")
    source = DataSource(name="t.csv", fingerprint="", n_observations=6, columns=[])
    manifest = Manifest(
        model="ppca:1",
        conditionals="exact",
        data=source,
        design=estimate.design,
        masks="own",
        seed=0,
        rows_per_block=6,
    )
    assert _title(manifest, estimate).startswith("ppca:1 on t.csv: pseudo-log-likelihood ")


def test_numbers_of_several_kinds_are_told_apart() -> None:
    exact = of_kind("unbiased")
    bound = replace(exact, kind="lower_bound")
    columns, rows = ranking(me.compare({"a": exact, "b": bound}), 2)
    assert columns[1] == "number"
    assert {row[0]: row[-1] for row in rows} == {"a": NAMES["unbiased"], "b": NAMES["lower_bound"]}


def shifted(estimate: EvidenceEstimate, by: Any, labels: tuple[str, ...]) -> EvidenceEstimate:
    """The same masks with other scores."""
    scores = estimate.scores
    moved = replace(scores, score=scores.score + np.asarray(by)[scores.id] / scores.n_tokens)
    model = me.models.PPCA(n_features=4, n_components=1)
    found = summarize_scores(
        moved, HowScored(me.EverySize(2), me.MaskKey(0), model.conditionals), estimate.n_model_calls
    )
    return replace(found, labels=labels)


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ([1.0] * 6, None),
        (
            [-1.0, -1.0, 40.0, -1.0, -1.0, -1.0],
            "b is higher on 83 % of the observations; a is ahead because of",
        ),
        ([-1.0, -1.0, -40.0, 1.0, 1.0, 1.0], None),
    ],
)
def test_the_few_observations_that_decide_are_named(by: list[float], told: str | None) -> None:
    base, labels = of_kind("unbiased"), tuple("uvwxyz")
    comparison = me.compare({"a": shifted(base, by, labels), "b": replace(base, labels=labels)})
    (difference,) = comparison.behind
    found = decided_by_few(difference, labels)
    if told is None:
        assert found is None
        return
    assert found == f"{told} 1 of 6: w by 40.0 nats"
    assert "w by 40.0 nats" in comparison._repr_html_()
    assert not re.search("Bayes", comparison._repr_html_())
    listed = difference.to_dict()
    assert listed["log_bayes_factor"] == pytest.approx(35.0)
    assert listed["log_bayes_factor_data_se"] == pytest.approx(6 * difference.data_se)


BECAUSE = "because masks that were not drawn may be far"


@pytest.mark.parametrize(
    ("tails", "words"),
    [
        ((0.0, 0.0), ""),
        ((0.3, 0.3), ""),
        ((0.3, 0.0), f"wider below {BECAUSE} lower"),
        ((0.0, 0.3), f"wider above {BECAUSE} higher"),
    ],
)
def test_a_difference_says_why_its_interval_is_wider_on_one_side(
    tails: tuple[float, float], words: str
) -> None:
    """Masks too rare to be drawn move an end; the headline and the verdict say so."""
    estimate = me.estimate_evidence(Learned(3, 2), rows(6, 3, 2), me.RandomSize(8))
    comparison = me.compare({"a": estimate, "b": replace(estimate, ids=estimate.ids)})
    moved = replace(comparison.behind[0], tails=tails, mask_se=0.1, mask_df=7.0)
    for said in (verdict(moved, 2), answer(replace(comparison, behind=(moved,)))[1]):
        assert "95 % interval" in said
        assert words in said
        assert (BECAUSE in said) == bool(words)


def test_an_estimate_says_why_its_interval_is_wider_below() -> None:
    estimate = me.estimate_evidence(Learned(3, 2), rows(6, 3, 2), me.RandomSize(8))
    for tail in (0.0, 0.3):
        (table,) = (
            part for part in replace(estimate, tails=(tail, 0.0)).page().parts if isinstance(part, Table)
        )
        words = dict(table.rows)["mask error"]
        assert "95 % interval" in words
        assert words.endswith(f"wider below {BECAUSE} lower)") == (tail > 0)
