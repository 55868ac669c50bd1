"""Fixtures of the paper's entries: the command, a pretended device, a little text like GLUE's."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from command_line import Result
from paper.__main__ import main
from pretend_device import pretended_device
from text_models import SENTENCES


@pytest.fixture
def paper(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """`paper("table-1", "--quick")` is `python -m paper table-1 --quick` in this process."""

    def run(*words: object) -> Result:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The pretended device, for transformers' Trainer, too."""
    for name in ("set_device", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, lambda _argument: None)
    with pretended_device(monkeypatch) as device:
        yield device


@pytest.fixture
def glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a little text in the layout of two GLUE sets, without access to the hub."""
    monkeypatch.setenv("MASKEVIDENCE_DATA", str(tmp_path))
    for module in ("core.pretrained", "texts.loading", "core.support.sources"):
        monkeypatch.setattr(f"maskevidence.{module}.hub_reachable", lambda: False)
    for name, split, columns in (
        ("qnli", "validation", "question,sentence"),
        ("mrpc", "test", "sentence1,sentence2"),
    ):
        folder = tmp_path / "glue" / name
        folder.mkdir(parents=True)
        rows = [f'"{SENTENCES[i % 5]}","{SENTENCES[(i + 1) % 5]}"' for i in range(400)]
        (folder / f"{split}.csv").write_text("\n".join([columns, *rows]) + "\n")
    return tmp_path
