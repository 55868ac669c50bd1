"""Packed tokens are those that were packed, and give a run the same scores to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskDesign, MaskKey, n_masks
from maskevidence.core.packed_tokens import PackedTokens
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.tokens import Tokens
from maskevidence.runs import DataSource, Recording, RunDirectory, read_run, record_run, rows_per_block
from maskevidence.runs import score_into as into
from maskevidence.runs.prepared import Prepared, manifest_of
from short_texts import Softmax, some_tokens


def packed(tokens: Tokens, at_once: int = 7) -> PackedTokens:
    return PackedTokens((tokens[k : k + at_once] for k in range(0, len(tokens), at_once)), pad=3)


@pytest.mark.parametrize("rows", [slice(0, 50), slice(13, 14), slice(20, 20), torch.tensor([4, 49, 4])])
def test_rows_come_back(monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    monkeypatch.setattr("maskevidence.core.packed_tokens._ROWS_AT_ONCE", 8)
    tokens = some_tokens(50)
    found, wanted = packed(tokens)[rows], tokens.scored_together()[rows]
    for name, column in vars(wanted).items():
        if column is None:
            assert getattr(found, name) is None
        else:
            assert torch.equal(getattr(found, name), column), name
    assert torch.equal(packed(tokens).n_tokens, tokens.n_tokens)


def test_hashes_are_those_of_tokens_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from maskevidence.texts.prepared_texts import tokens_fingerprint

    monkeypatch.setattr("maskevidence.core.packed_tokens._ROWS_AT_ONCE", 8)
    tokens = some_tokens(50)
    assert packed(tokens).digest_of("text") == tokens_fingerprint(["text"], tokens)
    assert packed(tokens).digest_of("text") != tokens_fingerprint(["text"], some_tokens(50, seed=1))


@pytest.mark.parametrize("wrong", ["gap", "vectors", "large"])
def test_what_cannot_be_packed_is_refused(wrong: str) -> None:
    values, every = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool)
    if wrong == "gap":
        every = torch.tensor([[False, True]])
    if wrong == "vectors":
        values = values[..., None]
    if wrong == "large":
        values = values + 2**31
    with pytest.raises(InputError):
        PackedTokens([Tokens(values, every, ~every & False, torch.arange(1))])


def run_into(
    folder: Path, tokens: Any, design: MaskDesign, shard: tuple[int, int] = (1, 1), **recording: Any
) -> np.ndarray:
    model: Any = Softmax()
    source = DataSource(name="made up", fingerprint="", n_observations=len(tokens), columns=[])
    cut = rows_per_block(model, tokens, design, MaskKey(0))
    ready = Prepared(model, tokens, source)
    manifest = manifest_of("own", ready, Scoring(design, MaskKey(0)), cut, shard=shard)
    record_run(RunDirectory(folder), manifest, model, tokens, Recording(**recording))
    return read_run(folder).estimate.scores.score


@pytest.mark.parametrize("design", [me.RandomSize(4), me.EverySize(2), me.LeaveOneOut()])
def test_a_run_of_packed_tokens_is_the_same(tmp_path: Path, design: MaskDesign) -> None:
    tokens = some_tokens(200)
    wanted = run_into(tmp_path / "a", tokens, design)
    np.testing.assert_array_equal(run_into(tmp_path / "b", packed(tokens), design), wanted)
    shards = [run_into(tmp_path / f"{k}", packed(tokens), design, shard=(k, 2)) for k in (1, 2)]
    np.testing.assert_array_equal(np.concatenate(shards), wanted)


def test_a_run_of_packed_tokens_resumes(tmp_path: Path) -> None:
    tokens = packed(some_tokens(200))
    wanted = run_into(tmp_path / "a", tokens, me.RandomSize(8, 4))
    run_into(tmp_path / "b", tokens, me.RandomSize(4, 4))
    parts = sorted((tmp_path / "b" / "scores").iterdir())
    parts[0].unlink()
    run_into(tmp_path / "b", tokens, me.RandomSize(4, 4))
    np.testing.assert_array_equal(run_into(tmp_path / "b", tokens, me.RandomSize(8, 4)), wanted)


def test_scores_that_wait_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run_into(tmp_path / "a", some_tokens(200), me.RandomSize(4), save_every=1e9)
    assert len(list((tmp_path / "a" / "scores").iterdir())) == 1
    monkeypatch.setattr(into, "_MASKS_TO_SAVE", 100)
    found = run_into(tmp_path / "b", some_tokens(200), me.RandomSize(4), save_every=1e9)
    np.testing.assert_array_equal(found, wanted)
    assert len(list((tmp_path / "b" / "scores").iterdir())) == 8


def test_blocks_on_a_gpu_have_eight_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, model = some_tokens(40_000), Softmax()
    at_once = 41

    def batches(self: Softmax, n_present: np.ndarray) -> Any:
        return (np.arange(k, min(k + at_once, len(n_present))) for k in range(0, len(n_present), at_once))

    monkeypatch.setattr(Softmax, "batches", batches)
    assert rows_per_block(model, tokens, me.RandomSize(8), MaskKey(0)) == 128
    monkeypatch.setattr("maskevidence.runs.blocks.device_of", lambda _: torch.device("cuda", 0))
    assert rows_per_block(model, tokens, me.RandomSize(8), MaskKey(0)) == 128  # eight calls are fewer
    at_once = 655
    assert rows_per_block(model, tokens, me.RandomSize(8), MaskKey(0)) == pytest.approx(655, abs=10)
    assert rows_per_block(model, packed(tokens, 999), me.RandomSize(8), MaskKey(0)) == pytest.approx(
        655, abs=10
    )


@pytest.mark.parametrize("design", [me.RandomSize(8), me.EverySize(4), me.EverySize(40), me.LeaveOneOut()])
def test_masks_are_counted_by_length(design: MaskDesign) -> None:
    lengths = some_tokens(30).n_tokens.numpy()
    wanted = [
        int(design.is_scored(np.full(k, n), np.arange(k)).sum())
        for n, k in zip(lengths, design.n_draws(lengths).tolist(), strict=True)
    ]
    assert n_masks(design, lengths).tolist() == wanted
