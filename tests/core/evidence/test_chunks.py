"""A record that is read chunk after chunk gives the numbers of the whole record."""

from dataclasses import replace

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.evidence.curve import Curve
from maskevidence.core.evidence.result import HowScored, observation_tables, summarize_scores
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks
from maskevidence.core.scores.record import Scores
from maskevidence.runs.observation_files import csv_in_parts

DESIGNS = [me.EverySize(4), me.RandomSize(8), me.RandomSize(8, 1), me.Orderings(4), me.Rates((0.2, 0.7), 5)]


def numbers(curve: Curve) -> np.ndarray:
    names = ("size", "rate", "score", "mask_se", "mask_df", "data_se", "n_masks")
    return np.array([getattr(curve, name) for name in names])


@pytest.mark.parametrize("masks", ["own", "shared"])
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_chunks_give_the_numbers_of_the_whole(design: MaskDesign, masks: Masks, *, varying: bool) -> None:
    model = me.models.PPCA(n_features=7, n_components=2, seed=0)
    x = np.array(model.sample(30, seed=3))
    if varying:
        x[::3, 1:4] = np.nan
    whole = me.estimate_evidence(model, x, design, masks=masks, check=False)
    chunks = replace(Scores.of(whole.scores), at_once=100)
    assert len(list(chunks)) > 1
    key = MaskKey(whole.seed, masks)
    found = summarize_scores(chunks, HowScored(design, key, "exact", whole.base_measure), whole.n_model_calls)
    for name in ("log_evidence", "mask_se", "mask_df", "data_se", "tails"):
        expected, value = getattr(whole, name), getattr(found, name)
        assert value is None if expected is None else value == pytest.approx(expected, rel=1e-9), name
    assert (found.notes, found.n_masks, found.kind) == (whole.notes, whole.n_masks, whole.kind)
    np.testing.assert_array_equal(found.per_observation, whole.per_observation)
    np.testing.assert_allclose(numbers(found.curve), numbers(whole.curve), rtol=1e-9)
    assert "".join(csv_in_parts(observation_tables(found))) == "".join(
        csv_in_parts(observation_tables(whole))
    )


def test_a_sample_has_whole_observations_from_everywhere() -> None:
    row, draw = (grid.ravel() for grid in np.indices((40, 5)))
    table = me.ScoreTable(row, draw, draw + 1, np.full(200, 5), -1.0 * row)
    for at_once in (200, 15):
        some = replace(Scores.of(table), at_once=at_once).sample(60)
        assert some.id.tolist() == np.repeat(np.arange(0, 40, 4), 5).tolist()
