"""Damaged, missing and duplicated parts are detected, and only they are scored again."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from pyarrow import parquet

import maskevidence as me
from maskevidence.runs import Recording, RunDirectory, blocks, read_run, record_run
from maskevidence.runs.blocks import SavedPart, list_parts, read_part
from recorded_runs import make_manifest, make_model, make_tokens, read_rows


class TestDamage:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> RunDirectory:
        model, tokens, folder = make_model(), make_tokens(), RunDirectory(tmp_path / "run")
        record_run(
            folder, make_manifest(model, tokens, me.EverySize(2)), model, tokens, Recording(save_every=0.0)
        )
        return folder

    @pytest.mark.parametrize("damage", ["truncated", "a byte changed", "empty"])
    def test_is_detected_and_only_that_part_is_scored_again(self, folder: RunDirectory, damage: str) -> None:
        before = read_rows(folder.path)
        part = list_parts(folder.scores)[5].path
        n_rows, content = parquet.read_metadata(part).num_rows, bytearray(part.read_bytes())
        content[len(content) // 2] ^= 1
        part.write_bytes(
            {"truncated": content[: len(content) // 2], "a byte changed": content, "empty": b""}[damage]
        )
        with pytest.raises(me.InputError, match=r"is damaged; run the command in run\.json again"):
            read_run(folder.path)
        model, tokens = make_model(), make_tokens()
        assert record_run(folder, make_manifest(model, tokens, me.EverySize(2)), model, tokens) == n_rows
        pandas.testing.assert_frame_equal(read_rows(folder.path), before, check_exact=True)

    def test_many_scores_are_read_part_after_part(
        self, folder: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Few are read once and kept; of many, each look at all masks reads the files again."""
        read: list[Path] = []

        def noted(part: SavedPart) -> Any:
            read.append(part.path)
            return read_part(part)

        monkeypatch.setattr(blocks, "read_part", noted)
        few = read_run(folder.path).estimate
        few.columns()
        n_parts = len(list_parts(folder.scores))
        assert len(read) == n_parts > 1
        monkeypatch.setattr(blocks, "MASKS_AT_ONCE", 10)
        many = read_run(folder.path).estimate
        assert len(read) > 2 * n_parts
        assert (many.log_evidence, many.mask_se, many.tails) == (few.log_evidence, few.mask_se, few.tails)
        np.testing.assert_array_equal(many.per_observation, few.per_observation)
        assert many.curve.to_csv() == few.curve.to_csv()

    def test_missing_and_duplicated_scores_are_refused(self, folder: RunDirectory) -> None:
        part = list_parts(folder.scores)[5]
        copy = folder.scores / part.path.name.replace(part.checksum, "0" * 16)
        copy.write_bytes(part.path.read_bytes())
        with pytest.raises(me.InputError, match="holds scores twice"):
            read_run(folder.path)
        copy.unlink()
        part.path.unlink()
        with pytest.raises(me.InputError, match="is not finished, 1 of its 24 blocks"):
            read_run(folder.path)
