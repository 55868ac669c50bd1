"""Shards of a run, summarized, are the run."""

import json
from pathlib import Path

import pytest

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.runs import RunDirectory, read_run, record_run
from recorded_runs import make_manifest, make_model, make_tokens, read_numbers, same_rows


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight shards of a run, and the run."""
    folder = tmp_path_factory.mktemp("shards")
    model, tokens = make_model(), make_tokens()
    for k in range(1, 9):
        manifest = make_manifest(model, tokens, me.RandomSize(8), shard=(k, 8))
        record_run(RunDirectory(folder / str(k)), manifest, model, tokens)
    record_run(RunDirectory(folder / "run"), make_manifest(model, tokens, me.RandomSize(8)), model, tokens)
    return folder


class TestShards:
    def test_give_the_summary_of_the_run(self, shards: Path, tmp_path: Path, run: CommandLine) -> None:
        names = [shards / str(k) for k in (5, 1, 2, 3, 4, 8, 7, 6)]
        summary = run("summarize", *names, "--out", tmp_path / "whole")
        assert f"Written to {tmp_path / 'whole'}: " in " ".join(summary.out.split())
        assert run("summarize", shards / "run").code == 0
        assert same_rows(tmp_path / "whole", shards / "run")
        assert read_numbers(tmp_path / "whole") == read_numbers(shards / "run")
        assert (tmp_path / "whole" / "curve.csv").read_bytes() == (shards / "run" / "curve.csv").read_bytes()

    def test_are_only_printed_without_out(self, shards: Path, run: CommandLine) -> None:
        before = files_in(shards)
        assert any("shard 3 of 8" in note for note in read_run(shards / "3").result()["notes"])
        result = run("summarize", *(shards / str(k) for k in range(1, 9)), "--json", "-")
        estimate = read_run(shards / "run").estimate
        assert json.loads(result.out)["log_evidence"] == estimate.log_evidence
        assert files_in(shards) == before

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (["1", "2", "3"], "these are the shards 1/8, 2/8, 3/8; give each of 1/8 to 8/8 once"),
            (["1", "1", "2", "3", "4", "5", "6", "7"], "give each of 1/8 to 8/8 once"),
            (["run", "run"], "is a whole run and no shard; use compare"),
            (["1/scores"], "give a folder that --out wrote, such as"),
            ([""], "/1', '"),
        ],
    )
    def test_incomplete(self, shards: Path, run: CommandLine, names: list[str], message: str) -> None:
        assert message in run("summarize", *(shards / name for name in names)).error

    def test_of_another_run(self, shards: Path, tmp_path: Path, run: CommandLine) -> None:
        model, tokens = make_model(), make_tokens()
        manifest = make_manifest(model, tokens, me.RandomSize(8), shard=(2, 8), seed=1)
        record_run(RunDirectory(tmp_path), manifest, model, tokens)
        assert "is not a shard of the run" in run("summarize", shards / "1", tmp_path).error

    def test_into_the_folder_of_one_or_nowhere(self, shards: Path, tmp_path: Path, run: CommandLine) -> None:
        result = run("summarize", shards / "1", shards / "2", "--out", shards / "1", "--overwrite")
        assert "is one of the runs" in result.error
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        result = run("summarize", *(shards / str(k) for k in range(1, 9)), "--out", tmp_path / "loop" / "x")
        assert "cannot be written" in result.error

    @pytest.mark.parametrize("word", ["0/8", "9/8", "3", "a/b"])
    def test_malformed(self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine, word: str) -> None:
        result = run("score", *saved, "--shard", word, "--out", tmp_path / "a")
        assert f"shard '{word}'; write which of how many, from 1/8 to 8/8" in result.error
        assert not (tmp_path / "a").exists()

    def test_more_than_blocks(self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine) -> None:
        result = run("score", *saved, "--limit", 5, "--shard", "1/8", "--out", tmp_path / "a")
        assert "make at most 5 shards" in result.error
        assert not (tmp_path / "a").exists()


class TestSummarize:
    def test_computes_everything_from_the_scores(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        out, run.draws = tmp_path / "a", True
        assert run("score", *saved, "--limit", 50, "--out", out).code == 0
        names = ("estimate.json", "curve.csv", "curve.png")
        before = {name: (out / name).read_bytes() for name in names}
        for name in names:
            (out / name).unlink()
        assert run("summarize", out).code == 0
        assert {name: (out / name).read_bytes() for name in names} == before
