"""A small table as people write them."""

from pathlib import Path

import pytest

from messy_flats import Flats, messy_flats


@pytest.fixture(scope="session")
def flats() -> Flats:
    """Flats with wrong cells, spellings, codes and holes."""
    return messy_flats()


@pytest.fixture
def file(flats: Flats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flats.csv"
    path.write_bytes(flats.text.encode())
    return path
