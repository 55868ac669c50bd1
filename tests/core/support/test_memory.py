"""The memory that is free, as Linux tells it: of the machine, and within a container."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.evidence import score_means
from maskevidence.core.masks import design as masks_design
from maskevidence.core.masks.design import BYTES_PER_MASK
from maskevidence.core.scores import record
from maskevidence.core.support import checks
from maskevidence.core.support.checks import check_memory

GIB = 2**30
FREE = {"proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {32 * 2**20} kB\n"}
SECOND = FREE | {
    "proc/self/cgroup": "0::/a/b\n",
    "sys/fs/cgroup/a/b/memory.max": "max",
    "sys/fs/cgroup/a/memory.max": str(4 * GIB),
    "sys/fs/cgroup/a/memory.current": str(3 * GIB),
    "sys/fs/cgroup/a/memory.stat": f"anon 1\ninactive_file {GIB}\n",
}
V1 = "sys/fs/cgroup/memory/memory"
FIRST = FREE | {
    "proc/self/cgroup": "5:cpu:/c\n4:memory:/docker/1\n",  # the container sees its own folder as the root
    f"{V1}.limit_in_bytes": str(5 * GIB),
    f"{V1}.usage_in_bytes": str(2 * GIB),
    f"{V1}.stat": "inactive_file 7\ntotal_inactive_file 0\n",
}
UNLIMITED = FIRST | {f"{V1}.limit_in_bytes": str(2**63 - 4096)}


@pytest.mark.parametrize(
    ("files", "free"),
    [(FREE, 32), (SECOND, 2), (FIRST, 3), (UNLIMITED, 32)],
    ids=["none", "2", "1", "no limit"],
)
def test_the_smallest_room_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], free: int
) -> None:
    monkeypatch.setattr(checks, "_ROOT", tmp_path)
    monkeypatch.setattr(checks.os, "sysconf", {"SC_PHYS_PAGES": 2**24, "SC_PAGE_SIZE": 4096}.__getitem__)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert checks.free_memory() == free * GIB
    check_memory(free * GIB, "so many masks", "ask for fewer")
    with pytest.raises(InputError, match=f"need about {free} GiB of memory, {free} are free; ask for fewer"):
        check_memory(free * GIB + 1, "so many masks", "ask for fewer")


def test_other_systems_tell_the_memory_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_ROOT", tmp_path)
    monkeypatch.setattr(checks.os, "sysconf", {"SC_PHYS_PAGES": 8, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert checks.free_memory() == 8 * 4096


@pytest.mark.parametrize(
    ("design", "share"), [("random-size:2000", 0.84), ("orderings:333", 0.36), ("random-size:64", 0.88)]
)
def test_masks_take_what_is_counted(monkeypatch: pytest.MonkeyPatch, design: str, share: float) -> None:
    """What a chunk takes is left out: chunks are small here."""
    for module in (masks_design, record, score_means):
        monkeypatch.setattr(module, "MASKS_AT_ONCE", 2**12)
    monkeypatch.setattr(record, "_MASKS_OF_CHUNK", 2**12)
    monkeypatch.setattr(masks_design, "_CELLS_AT_ONCE", 2**12)
    model = me.models.PPCA(6, 2, seed=1)
    x = model.sample(1500 if design == "random-size:64" else 50)
    me.estimate_evidence(model, x[:2], design)  # what is imported on the way takes memory, too
    tracemalloc.start()
    try:
        estimate = me.estimate_evidence(model, x, design, batch_size=1024)
        taken = tracemalloc.get_traced_memory()[1] / estimate.n_masks
    finally:
        tracemalloc.stop()
    assert taken == pytest.approx(share * BYTES_PER_MASK, rel=0.1)


def test_the_limit_of_the_address_space_counts() -> None:
    code = (
        "import resource; from maskevidence.core.support.checks import free_memory;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); print(0 < free_memory() < 2**30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
