"""One process at a time writes into a run directory."""

import subprocess
import sys
from pathlib import Path

import pytest

import maskevidence as me
from maskevidence.runs import RunDirectory, record_run
from recorded_runs import make_manifest, make_model, make_tokens


class TestTwoProcesses:
    def test_the_second_is_refused_until_the_first_is_killed(self, tmp_path: Path) -> None:
        holder = (
            "import sys, time; from pathlib import Path; from maskevidence.runs.folder import locked\n"
            "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        model, tokens = make_model(), make_tokens()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            manifest = make_manifest(model, tokens, me.LeaveOneOut())
            with pytest.raises(me.InputError, match=f"process {process.pid} is writing into"):
                record_run(RunDirectory(tmp_path), manifest, model, tokens)
        finally:
            process.kill()
            process.communicate()
        assert record_run(RunDirectory(tmp_path), manifest, model, tokens) > 0
        assert not (tmp_path / ".lock.pid").exists()

    @pytest.mark.parametrize("name", [".lock", ".lock.pid"])
    def test_nothing_is_written_through_a_symbolic_link(self, tmp_path: Path, name: str) -> None:
        model, tokens, precious = make_model(), make_tokens(), tmp_path / "precious"
        precious.write_text("text")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / name).symlink_to(precious)
        manifest = make_manifest(model, tokens, me.LeaveOneOut())
        if name == ".lock":
            with pytest.raises(me.InputError, match=r"lock' is a symbolic link; remove it, or give another"):
                record_run(RunDirectory(tmp_path / "run"), manifest, model, tokens)
        else:
            assert record_run(RunDirectory(tmp_path / "run"), manifest, model, tokens) > 0
        assert precious.read_text() == "text"
