"""Estimates of many tables for simulations, with one call of the model for all of them."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks, drawn_masks
from maskevidence.core.scores.score_masks import Scoring, score_in_memory
from maskevidence.core.tokens import positions

_IN_A_CALL = 8192


def many_estimates(
    model: me.models.Gaussian | me.models.PPCA,
    tables: Sequence[np.ndarray],
    design: MaskDesign,
    masks: Masks = "own",
    seeds: Sequence[int] | None = None,
) -> list[me.EvidenceEstimate]:
    """The estimates of `me.estimate_evidence` for each table, with one seed per table.

    They have no curve, which would take a third of the time. The first and the last estimate are compared
    with `me.estimate_evidence`. If the model scores whole orders, all tables use one seed, and their
    observations have different ids.

    Args:
        model: a model whose conditionals are exact.
        tables: tables of the same shape (n, D), complete.
        design: how masks are drawn.
        masks: "own" or "shared".
        seeds: a seed for each table; by default 0, 1, 2 and so on.
    """
    seeds = range(len(tables)) if seeds is None else seeds
    if isinstance(design, me.Orderings) and hasattr(model, "score_orderings"):
        assert masks == "own"
        return _of_whole_orders(model, tables, design)
    n, width = tables[0].shape
    ids, maskable = np.arange(n), np.ones((n, width), dtype=np.bool_)
    drawn = [
        drawn_masks(design, MaskKey(seed, masks), ids, maskable, position=positions(ids)) for seed in seeds
    ]
    tokens = model.tokens(np.concatenate(tables))
    rows = torch.from_numpy(np.concatenate([n * k + each.row for k, each in enumerate(drawn)]))
    masked = torch.from_numpy(np.concatenate([each.masked() for each in drawn]))
    with torch.no_grad():
        parts = zip(rows.split(_IN_A_CALL), masked.split(_IN_A_CALL), strict=True)
        scores = torch.cat([me.score_masks(model, tokens[row], mask) for row, mask in parts]).double().numpy()
    of_each = np.split(scores, np.cumsum([len(each) for each in drawn])[:-1])
    found = [
        _summarized(
            me.ScoreTable(ids[each.row], each.draw, each.size, np.full_like(each.row, width), score),
            design,
            each.key,
        )
        for each, score in zip(drawn, of_each, strict=True)
    ]
    for k in (0, -1):
        expected = me.estimate_evidence(model, tables[k], design, seed=seeds[k], masks=masks)
        for name in ("per_observation", "mask_se", "mask_df", "data_se"):
            ours, theirs = getattr(found[k], name), getattr(expected, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or np.allclose(ours, theirs, rtol=1e-7, atol=1e-10), name
    return found


def scores_of(
    model: me.model.MaskedModel, tokens: me.Tokens, design: MaskDesign, key: MaskKey
) -> me.ScoreTable:
    """The scores of all masks of a design on all observations."""
    scoring = Scoring(design, key, _IN_A_CALL)
    return score_in_memory(model, tokens, scoring, range(design.n_repeats))[0]


def _of_whole_orders(
    model: me.model.MaskedModel, tables: Sequence[np.ndarray], design: me.Orderings
) -> list[me.EvidenceEstimate]:
    key, n = MaskKey(0, "own"), len(tables[0])
    tokens = me.Tokens.from_array(np.concatenate(tables))
    scores = scores_of(model, tokens, design, key).sorted()
    parts = np.split(np.arange(len(scores)), len(tables))
    assert all((scores.id[part] // n == k).all() for k, part in enumerate(parts))
    return [_summarized(scores.select(part), design, key) for part in parts]


def _summarized(table: me.ScoreTable, design: MaskDesign, key: MaskKey) -> me.EvidenceEstimate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maskevidence.core.evidence.result.curve_from_scores", lambda *_: None)
        return summarize_scores(table, HowScored(design, key, "exact"), 1)
