"""The examples, in a small form."""

from pathlib import Path

import pytest

import first_run
import maskevidence as me
from maskevidence.command.pages.reported_runs import ImageContent, read_runs
from maskevidence.core.errors import InputError
from maskevidence.runs import read_run


@pytest.fixture
def pixels() -> me.data.Table:
    """The inner pixels of sixty images of digits, every third of the first ones."""
    pytest.importorskip("sklearn")
    digits = me.data.digits()
    inner = [name for name in digits.columns if name[6] in "2345" and name[8] in "2345"]
    return digits.select(inner).take(digits.ids[: 3 * 60 : 3])


def test_the_first_run_answers_in_its_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On lines of one word each, where a visible word tells the hidden ones; Python's own text changes."""
    for extra in ("sklearn", "transformers", "matplotlib"):
        pytest.importorskip(extra)
    lines = [" ".join([word] * 70) for word in ("alpha", "delta", "gamma", "beta") * 10]
    monkeypatch.setattr("pydoc_data.topics.topics", {"words": "\n\n".join(lines)})
    first_run.main(tmp_path, steps=30, limit=4, models="factor-analysis:3,ppca:3")
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("Chosen: factor-analysis:3, highest held-out log evidence")
    assert {path.name for path in tmp_path.iterdir()} == {"bert", "chosen", "report.html", "wines.csv"}
    assert "factor-analysis:3" in (tmp_path / "report.html").read_text(encoding="utf-8")
    bars = {line.split()[0]: line.count("█") for line in said if line.split("%")[0].strip().isdigit()}
    assert list(bars) == [f"{rate:.0%}" for rate in first_run.RATES]
    assert bars.pop("100%") == 0
    assert max(bars.values()) == first_run.WIDTH
    assert min(bars.values()) > first_run.WIDTH / 2


def test_an_estimate_in_memory_becomes_a_run(pixels: me.data.Table, tmp_path: Path) -> None:
    model = me.models.PPCA(n_features=16, n_components=3).fit(pixels)
    estimate = me.estimate_evidence(model, pixels, me.RandomSize(4), seed=3)
    me.save_run(estimate, tmp_path / "run", name="ppca:3", data=pixels, model=model)
    run = read_run(tmp_path / "run")
    assert run.estimate.log_evidence == estimate.log_evidence
    assert run.estimate.mask_se == estimate.mask_se
    assert run.result()["closed_form"] == pytest.approx(model.score_samples(pixels).mean(), rel=1e-12)
    assert me.models.load(tmp_path / "run" / "model").score_samples(pixels).shape == (60,)
    (reported,) = read_runs([tmp_path / "run"])
    assert isinstance(reported.contents, type(lambda: None))  # the rows are found again by their ids
    assert isinstance(reported.contents(177), ImageContent)
    with pytest.raises(InputError, match="holds another run"):
        me.save_run(estimate, tmp_path / "run", name="another", data=pixels, model=model)
    me.save_run(estimate, tmp_path / "run", name="another", data=pixels, model=model, overwrite=True)


def test_an_estimate_of_other_rows_is_refused(pixels: me.data.Table, tmp_path: Path) -> None:
    model = me.models.PPCA(n_features=16, n_components=3).fit(pixels)
    estimate = me.estimate_evidence(model, pixels.head(59), me.RandomSize(4))
    with pytest.raises(InputError, match="not of the rows of 'digits'; give those rows"):
        me.save_run(estimate, tmp_path / "run", name="ppca:3", data=pixels, model=model)
    assert not (tmp_path / "run").exists()
