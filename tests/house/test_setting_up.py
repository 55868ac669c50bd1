"""What `tools/environment.py` refuses before it installs anything."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "environment.py"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process maps")
@pytest.mark.parametrize(("gib", "said"), [(2, "torch maps 3 GB"), (7, None)])
def test_a_shell_with_too_little_address_space_is_refused_at_once(gib, said, tmp_path):
    # In a folder without an environment; the copy says that it would install, and does not.
    (tmp_path / "tools").mkdir()
    copy = tmp_path / "tools" / TOOL.name
    copy.write_text(TOOL.read_text().replace("install(sys.argv[1])", "print('INSTALLS')"))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -v {gib * 1024**2}; exec {sys.executable} {copy} dev"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ("INSTALLS" in done.stdout) is (said is None)
    assert said is None or (done.returncode == 1 and said in done.stderr and "ulimit -v" in done.stderr)
