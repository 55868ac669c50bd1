"""A run directory holds the scores of an estimate in memory, and only missing scores are computed."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from pyarrow import parquet

import maskevidence as me
from command_line import files_in
from maskevidence.core.masks.design import MaskDesign
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from maskevidence.runs.blocks import list_parts
from recorded_runs import make_manifest, make_model, make_tokens, read_rows, same_rows

DESIGNS = [
    me.EverySize(2),
    me.RandomSize(8),
    me.Orderings(3),
    me.LeaveOneOut(),
    me.Exhaustive(),
    me.FixedRate(0.5),
    me.Rates((0.2, 0.5, 0.9), masks_per_size=2),
]
ESSENTIALS = ("log_evidence", "mask_se", "mask_df", "data_se", "n_tokens", "n_bytes", "n_masks")


class Counting(torch.nn.Module):
    """A model that counts the masks that it scores."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()
        self.n_masks = 0

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        self.n_masks += len(masked)
        return self.model.log_conditionals(tokens, masked)


class Budgeted(Counting):
    """A model that makes its own batches of 60 tokens, shortest texts first."""

    def batches(self, n_present: np.ndarray) -> Iterable[np.ndarray]:
        order = np.argsort(n_present, kind="stable")
        return np.array_split(order, int(np.ceil(n_present.sum() / 60)))


class TestRecord:
    @pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
    @pytest.mark.parametrize(
        ("build", "masks"), [(make_model, "own"), (Counting, "shared"), (Budgeted, "own")]
    )
    def test_equals_an_estimate_in_memory(
        self, tmp_path: Path, build: Callable[[], me.MaskedModel], design: MaskDesign, masks: str
    ) -> None:
        model, tokens = build(), make_tokens(n_bytes=True)
        record_run(RunDirectory(tmp_path), make_manifest(model, tokens, design, masks=masks), model, tokens)
        estimate = read_run(tmp_path).estimate
        wanted = me.estimate_evidence(model, tokens, design, masks=masks)
        for name in ("id", "draw", "size", "n_tokens", "n_bytes"):
            np.testing.assert_array_equal(getattr(estimate.scores, name), getattr(wanted.scores, name))
        np.testing.assert_allclose(estimate.scores.score, wanted.scores.score, rtol=1e-12)
        for name in ESSENTIALS:
            number = getattr(wanted, name)
            assert getattr(estimate, name) == (number and pytest.approx(number, rel=1e-9)), name
        assert estimate.kind == wanted.kind

    def test_is_plain_parquet(self, tmp_path: Path) -> None:
        model, tokens = make_model(), make_tokens()
        record_run(RunDirectory(tmp_path), make_manifest(model, tokens, me.EverySize(2)), model, tokens)
        rows = pandas.read_parquet(tmp_path / "scores")
        assert list(rows.columns) == ["id", "draw", "size", "n_tokens", "score", "n_bytes"]
        assert rows["n_bytes"].isna().all()
        by_size = rows["score"].groupby([rows["id"], rows["size"]]).mean()  # whatever their number of masks
        by_observation = by_size.groupby("id").sum()
        assert by_observation.mean() == pytest.approx(read_run(tmp_path).estimate.log_evidence)

    @pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
    def test_has_the_same_bits_however_often_it_is_saved(self, tmp_path: Path, design: MaskDesign) -> None:
        model, tokens = make_model(), make_tokens()
        for name, save_every in (("often", 0.0), ("once", 1e9)):
            folder = RunDirectory(tmp_path / name)
            record_run(
                folder, make_manifest(model, tokens, design), model, tokens, Recording(save_every=save_every)
            )
        n_parts = [len(list_parts(tmp_path / name / "scores")) for name in ("often", "once")]
        assert n_parts[0] > n_parts[1] == 1
        assert same_rows(tmp_path / "often", tmp_path / "once")

    def test_scores_only_what_is_missing(self, tmp_path: Path) -> None:
        model, tokens, folder = Counting(), make_tokens(), RunDirectory(tmp_path)
        manifest = make_manifest(model, tokens, me.EverySize(2))
        total = record_run(folder, manifest, model, tokens, Recording(save_every=0.0))
        assert total == model.n_masks == 2 * int(tokens.n_tokens.sum()) - len(tokens)  # one hides all tokens
        before = read_rows(tmp_path)
        lost = [part.path for part in list_parts(folder.scores)][3:20:4]
        n_lost = sum(parquet.read_metadata(path).num_rows for path in lost)
        for path in lost:
            path.unlink()
        assert record_run(folder, manifest, model, tokens) == n_lost
        assert model.n_masks == total + n_lost
        assert record_run(folder, manifest, model, tokens) == 0
        pandas.testing.assert_frame_equal(read_rows(tmp_path), before, check_exact=True)

    def test_an_interrupt_saves_what_was_scored(self, tmp_path: Path) -> None:
        class Interrupted(Counting):
            def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
                if self.n_masks > 300:
                    raise KeyboardInterrupt
                return super().log_conditionals(tokens, masked)

        model, tokens, folder = Interrupted(), make_tokens(), RunDirectory(tmp_path)
        manifest = make_manifest(model, tokens, me.EverySize(2))
        with pytest.raises(KeyboardInterrupt):
            record_run(folder, manifest, model, tokens)
        saved = len(read_rows(tmp_path))
        assert saved == model.n_masks
        fresh = Counting()
        record_run(folder, manifest, fresh, tokens)
        assert fresh.n_masks == 2 * int(tokens.n_tokens.sum()) - len(tokens) - saved

    def test_removes_temporary_files_of_a_killed_write(self, tmp_path: Path) -> None:
        model, tokens, folder = make_model(), make_tokens(), RunDirectory(tmp_path)
        manifest = make_manifest(model, tokens, me.EverySize(2))
        folder.begin(manifest)
        (folder.scores / ".blocks-0.abc.tmp").write_bytes(b"half")
        (tmp_path / ".run.json.abc.tmp").write_bytes(b"half")
        (tmp_path / ".model.tmp").mkdir()
        record_run(folder, manifest, model, tokens)
        assert not [name for name in files_in(tmp_path) if "tmp" in name]
        assert not (tmp_path / ".model.tmp").exists()


class TestMoreMasks:
    @pytest.mark.parametrize(
        ("few", "many"),
        [
            (me.RandomSize(8), me.RandomSize(16)),
            (me.EverySize(2), me.EverySize(5)),
            (me.Orderings(2), me.Orderings(4)),
            (me.FixedRate(0.5, 2), me.FixedRate(0.5, 3)),
            (me.Rates((0.2, 0.8), 1), me.Rates((0.2, 0.8), 3)),
        ],
        ids=lambda design: design.name,
    )
    def test_are_added_to_existing_ones(self, tmp_path: Path, few: MaskDesign, many: MaskDesign) -> None:
        model, tokens = make_model(), make_tokens()
        folder, whole = RunDirectory(tmp_path / "grown"), RunDirectory(tmp_path / "whole")
        first = record_run(folder, make_manifest(model, tokens, few), model, tokens)
        old = {part.path.name for part in list_parts(folder.scores)}
        second = record_run(folder, make_manifest(model, tokens, many), model, tokens)
        total = record_run(whole, make_manifest(model, tokens, many), model, tokens)
        assert first + second == total
        assert old <= {part.path.name for part in list_parts(folder.scores)}
        grown, fresh = read_rows(folder.path), read_rows(whole.path)
        np.testing.assert_allclose(grown["score"], fresh["score"], rtol=1e-12)
        pandas.testing.assert_frame_equal(grown.drop(columns="score"), fresh.drop(columns="score"))
        a, b = (read_run(run.path).estimate for run in (folder, whole))
        assert (a.log_evidence, a.mask_se, a.data_se) == pytest.approx((b.log_evidence, b.mask_se, b.data_se))

    def test_fewer_are_refused(self, tmp_path: Path) -> None:
        model, tokens, folder = make_model(), make_tokens(), RunDirectory(tmp_path)
        record_run(folder, make_manifest(model, tokens, me.EverySize(4)), model, tokens)
        with pytest.raises(me.InputError, match=r"another run \(masks_per_size 2 instead of 4\)"):
            record_run(folder, make_manifest(model, tokens, me.EverySize(2)), model, tokens)
