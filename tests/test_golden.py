"""Version 0.1.0 as it was: its numbers come out again, and its finished runs can be read.

tests/golden/README.md says what is kept and how it was made; golden_numbers.py computes the numbers.
"""

# ruff: noqa: F811 (a fixture is imported, and asked for by its name)

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine, files_in, run  # noqa: F401
from golden_numbers import FILE, GOLDEN, READING, RUNS, SECTIONS, as_json, differences, tolerance
from maskevidence.evidence import MASKS_ALONE
from maskevidence.model import DENSITY, MASS
from maskevidence.models.fingerprints import same_fingerprint
from maskevidence.models.image.pixel_density import PER_LEVEL

pytest.importorskip("transformers", reason="the extra hf is not installed")

WANTED = json.loads(FILE.read_text())
SCORED = sorted(WANTED["runs"])
WITHOUT_REPEATS = [name for name in SCORED if name not in ("shard-2", "whole")]
TRAINED = sorted(path.name for path in RUNS.glob("train-*"))
TRANSFORMERS = ("text", "tokens", "image", "train-bert", "train-vit-mae")
# EM and L-BFGS end where a tolerance is met, and another machine may take a step more.
ITERATED = ("bernoulli-pca",)
STOPPED_SHORT = ("holes",)  # EM of version 0.1.0, whose last steps were as small as its tolerance
LOOSER_BOUND = "factor-analysis"  # whose noise had a lower bound ten times as high in version 0.1.0
OF_THE_MOMENT = ("versions", "command")
OF_SEALS = ("schema_version", "seal", "kept_model")  # which version 0.1.0 did not have
ADDED = (
    "model_words",
    "closed_form_se",
    "base_measure",
    "token_scores",
    "control",
    "control_fingerprint",
    "kept_control",
    "precise",
    "dtype",
    "device",
    "devices",
)  # entries that results of version 0.1.0 lack
WRITER = "0.1.0"
OF_ANOTHER_VERSION = f"are by maskevidence {WRITER}, and this is {me.__version__}"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the old runs, models and data, where the commands are given."""
    made = tmp_path / "golden"
    shutil.copytree(GOLDEN, made)
    monkeypatch.chdir(made)
    return made


def command_of(name: str) -> list[str]:
    """The words after the program's name, as the run or the training has kept them."""
    folder = RUNS / name
    kept = folder / ("train.json" if name in TRAINED else "run.json")
    return json.loads(kept.read_text())["command"].split()[1:]


def tolerance_of(name: str) -> tuple[float, float]:
    """Relative and absolute, of the numbers of a run that is made again."""
    if name in STOPPED_SHORT:
        return (1e-3, 1e-3)
    return (1e-5, 1e-5) if name in (*TRANSFORMERS, *ITERATED) else (1e-7, 1e-11)


def check(found: Any, wanted: Any, rel: float, absolute: float, but: tuple[str, ...] = ()) -> None:
    """The same structure with the same numbers, except for the names in `but`."""
    if but:
        found, wanted = ({k: v for k, v in one.items() if k not in but} for one in (found, wanted))
    wrong = list(differences(found, wanted, rel, absolute))
    assert not wrong, "\n".join([f"{len(wrong)} differences, of which the first:", *wrong[:10]])


# What run.json of version 0.1.0 says about the base measure; it is not known for a saved model of rows.
BASE_MEASURES = {
    "bernoulli-pca": MASS,
    "text": MASS,
    "tokens": MASS,
    "image": PER_LEVEL,
    **dict.fromkeys(("leave-one-out", "vae", "shard-1")),
}


def as_then(content: Any) -> Any:
    """A result without the entries that were added after version 0.1.0."""
    if isinstance(content, dict):
        return {name: as_then(value) for name, value in content.items() if name not in ADDED}
    return content


def unknown_errors(table: list[list[Any]]) -> list[list[Any]]:
    """An old curve: an error of rounding alone, because masks are equal by chance, is unknown now."""
    return [
        ["" if isinstance(cell, float) and 0 < abs(cell) < 1e-12 else cell for cell in row] for row in table
    ]


def csv_of(file: Path) -> list[list[Any]]:
    """The cells of a CSV file, numbers as numbers."""
    return cells_of(file.read_text())


def cells_of(text: str) -> list[list[Any]]:
    """The cells of the text of a CSV file, numbers as numbers."""

    def cell(text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    return [[cell(text) for text in row] for row in csv.reader(text.splitlines())]


@pytest.mark.filterwarnings("ignore:the importance weights")
@pytest.mark.parametrize("section", SECTIONS)
def test_numbers_come_out_again(section: str) -> None:
    check(as_json(SECTIONS[section]()), WANTED[section], *tolerance(section))


def as_said_now(name: str) -> dict[str, Any]:
    """An old estimate.json as this version says it: other numbers for random sizes, and further notes."""
    if name in WANTED["summarised"]:
        return as_then(WANTED["summarised"][name]["result"])
    estimate = WANTED["runs"][name]
    added = [MASKS_ALONE] if estimate["kind"] == "approximate" else []
    return estimate | {"notes": [*estimate["notes"], *added]}


def curve_now(name: str) -> list[list[Any]]:
    """The curve of an old run as this version computes it."""
    if name in WANTED["summarised"]:
        return cells_of(WANTED["summarised"][name]["curve"])
    return csv_of(RUNS / name / "curve.csv")


def begun_before(name: str) -> list[str]:
    """The command of a run for the folder "anew", which has its run.json, but no scores.

    The run keeps its masks, which this version draws otherwise by default, and a run.json that the command
    would not write is refused.
    """
    Path("anew").mkdir()
    shutil.copy(RUNS / name / "run.json", "anew/run.json")
    return [word if word != f"runs/{name}" else "anew" for word in command_of(name)]


class TestOldRuns:
    def test_are_all_there(self) -> None:
        assert {path.name for path in RUNS.iterdir()} == {*SCORED, *TRAINED, "partial"}

    @pytest.mark.parametrize("name", WITHOUT_REPEATS)
    def test_are_summarised_from_their_scores(self, run: CommandLine, copy: Path, name: str) -> None:
        folder = copy / "runs" / name
        (folder / "estimate.json").unlink()
        (folder / "curve.csv").unlink()
        result = run("summarize", f"runs/{name}", "--json", "-")
        assert result.code == 0, result.err
        wanted = as_said_now(name)
        check(as_then(json.loads(result.out)), wanted, 1e-9, 1e-12)
        written = json.loads((folder / "estimate.json").read_text())
        check(as_then(written), wanted, 1e-9, 1e-12)
        assert written["base_measure"] == BASE_MEASURES.get(name, DENSITY)
        wanted_curve = curve_now(name)
        if name == "orderings":
            wanted_curve = unknown_errors(wanted_curve)
        check(csv_of(folder / "curve.csv"), wanted_curve, 1e-9, 1e-12)

    @pytest.mark.parametrize("name", SCORED)
    def test_are_finished(self, run: CommandLine, copy: Path, name: str) -> None:
        """The command that made a run prints its result again, and changes nothing."""
        before = {file: (copy / "runs" / name / file).read_bytes() for file in files_in(copy / "runs" / name)}
        result = run(*command_of(name), "--json", "again.json")
        assert result.code == 0, result.err
        assert "was finished before" in " ".join(result.out.split())
        again = json.loads(Path("again.json").read_text())
        check(again, WANTED["runs"][name], 1e-12, 0.0, but=("tokens",))
        after = {file: (copy / "runs" / name / file).read_bytes() for file in before}
        assert after == before

    @pytest.mark.parametrize("name", WITHOUT_REPEATS)
    def test_come_out_again_in_a_new_folder(self, run: CommandLine, copy: Path, name: str) -> None:
        words = begun_before(name)
        result = run(*words)
        assert result.code == 0, result.err
        found = json.loads(Path("anew/estimate.json").read_text())
        if name == LOOSER_BOUND:
            assert found["closed_form"] == pytest.approx(as_said_now(name)["closed_form"], abs=1e-3)
            assert "noise variance at its lower bound (10⁻⁴ of" in " ".join(found["notes"])
            return
        check(as_then(found), as_said_now(name), *tolerance_of(name), but=OF_THE_MOMENT)
        old, new = (json.loads((of / "run.json").read_text()) for of in (RUNS / name, copy / "anew"))
        # settings were added to the fingerprints of models after version 0.1.0
        assert same_fingerprint(new["model_fingerprint"], old["model_fingerprint"])
        check(as_then(new), old, *tolerance_of(name), but=(*OF_THE_MOMENT, "model_fingerprint", *OF_SEALS))
        if (RUNS / name / "tokens.csv").exists():
            check(csv_of(copy / "anew" / "tokens.csv"), csv_of(RUNS / name / "tokens.csv"), 1e-5, 1e-5)

    def test_with_missing_values_are_fitted_closer_now(self) -> None:
        """Where EM of version 0.1.0 stopped, the log evidence of the training rows was 6e-6 nats lower."""
        table = me.data.read_table(GOLDEN / "data" / "holes.csv")
        train, _ = table.split(0.2, seed=0)
        old = me.models.load(RUNS / "holes" / "model").score_samples(train.values).mean()
        new = me.models.PPCA(5, 2).fit(train.values).score_samples(train.values).mean()
        assert old < new < old + 1e-4

    @pytest.mark.parametrize("words", READING, ids=" ".join)
    def test_are_read_by_commands(self, run: CommandLine, copy: Path, words: tuple[str, ...]) -> None:
        result = run(*words, "--json", "-")
        assert result.code == 0, result.err
        wanted = WANTED["read_by_commands"][" ".join(words)]
        exact = words[0] != "score" or words[1] == "models/ppca"
        check(json.loads(result.out), wanted, *((1e-9, 1e-12) if exact else (1e-5, 1e-5)), but=OF_THE_MOMENT)

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (
                ("text", "tokens"),
                "'runs/tokens' is of kind pseudo (leave-one-out): these are different quantities",
            ),
            (
                ("leave-one-out", "vae"),
                "'runs/leave-one-out' is of kind pseudo (leave-one-out), 'runs/vae' is of kind",
            ),
        ],
    )
    def test_of_different_quantities_are_not_compared(
        self, run: CommandLine, copy: Path, names: tuple[str, str], message: str
    ) -> None:
        assert message in run("compare", *(f"runs/{name}" for name in names)).error

    def test_with_unknown_base_measures_are_compared_with_a_note(self, run: CommandLine, copy: Path) -> None:
        words = [word if word != "runs/vae" else "anew" for word in command_of("vae")]
        assert run(*words).code == 0
        result = json.loads(run("compare", "runs/vae", "anew", "--json", "-").out)
        assert [entry["base_measure"] for entry in result["ranking"]] in ([None, DENSITY], [DENSITY, None])
        assert any("the base measure of runs/vae is not known" in note for note in result["notes"])

    def test_that_was_killed_belongs_to_its_version(self, run: CommandLine, copy: Path) -> None:
        """It is not resumed, because scores of two versions would be one run; --overwrite begins again."""
        folder = copy / "runs" / "partial"
        old = {file: (folder / file).read_bytes() for file in files_in(folder)}
        assert "estimate.json" not in old
        assert "is not finished, 13 of its 18 blocks" in run("summarize", "runs/partial").error
        assert OF_ANOTHER_VERSION in run(*command_of("partial")).error
        assert {file: (folder / file).read_bytes() for file in old} == old
        assert run(*command_of("partial"), "--overwrite").code == 0
        result = run(*begun_before("partial"))
        assert result.code == 0, result.err
        found = json.loads((copy / "anew" / "estimate.json").read_text())
        check(as_then(found), WANTED["runs"]["whole"], 1e-7, 1e-11, but=OF_THE_MOMENT)

    def test_get_no_more_masks(self, run: CommandLine, copy: Path) -> None:
        """A larger --masks-per-size adds nothing to what version 0.1.0 scored."""
        folder = copy / "runs" / "vae"
        old = {file: (folder / file).read_bytes() for file in files_in(folder)}
        words = [word if word != "2" else "3" for word in command_of("vae")]
        assert OF_ANOTHER_VERSION in run(*words).error
        assert {file: (folder / file).read_bytes() for file in old} == old

    def test_shards_are_put_together(self, run: CommandLine, copy: Path) -> None:
        """The whole run claims no seals, because its parts have none."""
        shards = ("runs/shard-1", "runs/shard-2")
        assert run("summarize", *shards, "--out", "whole").code == 0
        content = json.loads((copy / "whole" / "run.json").read_text())
        assert content["schema_version"] == 1
        assert "seal" not in content
        assert content["versions"]["maskevidence"] == WRITER
        assert run("summarize", "whole").code == 0

    def test_compared_with_a_new_one_are_said_to_be_old(self, run: CommandLine, copy: Path) -> None:
        words = [word if word != "runs/table" else "anew" for word in command_of("table")]
        assert run(*words).code == 0
        assert "was scored by maskevidence" in " ".join(run("compare", "runs/table", "anew").out.split())
        two_old = run("compare", "runs/table", "runs/factor-analysis").out
        assert "was scored by" not in two_old

    def test_are_reported(self, run: CommandLine, copy: Path) -> None:
        pytest.importorskip("plotly", reason="the extra plots is not installed")
        for name in SCORED:
            result = run("report", f"runs/{name}", "--out", f"{name}.html")
            assert result.code == 0, result.err
            page = (copy / f"{name}.html").read_text()
            numbers = as_said_now(name)
            assert f"{abs(numbers['log_evidence']):,.2f}" in page
            assert f"{numbers['n_observations']:,} " in page
            assert metadata_of(name, "torch") in page
        assert "the rain falls on the roof" in re.sub(r"<[^>]+>", "", (copy / "text.html").read_text())
        result = run("report", "runs/table", "runs/factor-analysis", "runs/partial", "--out", "all.html")
        assert result.code == 0, result.err
        page = (copy / "all.html").read_text()
        for name in ("table", "factor-analysis"):
            assert f"{abs(WANTED['runs'][name]['log_evidence']):,.2f}" in page
        assert "partial" in page


def metadata_of(name: str, package: str) -> str:
    """The version of a package that a run was made with."""
    return json.loads((RUNS / name / "run.json").read_text())["versions"][package]


class TestOldTrainings:
    @pytest.mark.parametrize("name", TRAINED)
    def test_come_out_again_in_a_new_folder(self, run: CommandLine, copy: Path, name: str) -> None:
        words = [word if word != f"runs/{name}" else "anew" for word in command_of(name)]
        result = run(*words)
        assert result.code == 0, result.err
        old, new = (json.loads((of / "train.json").read_text()) for of in (RUNS / name, copy / "anew"))
        check(as_then(new), old, *tolerance_of(name), but=(*OF_THE_MOMENT, "held_out"))
        check(csv_of(copy / "anew" / "history.csv"), csv_of(RUNS / name / "history.csv"), *tolerance_of(name))
        if old.get("held_out"):  # by random sizes, which are drawn otherwise now
            apart = new["held_out"]["log_evidence"] - old["held_out"]["log_evidence"]
            assert abs(apart) < 3 * old["held_out"]["mask_se"]

    @pytest.mark.parametrize("name", ["train-bert", "train-vit-mae"])
    def test_are_finished(self, run: CommandLine, copy: Path, name: str) -> None:
        result = run(*command_of(name), "--json", "again.json")
        assert result.code == 0, result.err
        assert "was finished before" in " ".join(result.out.split())
        old = json.loads((RUNS / name / "train.json").read_text())
        check(json.loads(Path("again.json").read_text()), old, 1e-12, 0.0)

    def test_go_on_from_a_checkpoint(self, run: CommandLine, copy: Path) -> None:
        words = [word if word != "6" else "9" for word in command_of("train-ppca")]
        result = run(*words)
        if me.__version__ != WRITER:  # a checkpoint too
            assert f"was written by maskevidence {WRITER}" in result.error
            return
        assert result.code == 0, result.err
        folder = copy / "runs" / "train-ppca"
        assert json.loads((folder / "train.json").read_text())["resumed_from"] == 6
        assert run(*[word if word != "runs/train-ppca" else "anew" for word in words]).code == 0
        grown, anew = csv_of(folder / "history.csv"), csv_of(copy / "anew" / "history.csv")
        check(grown, anew, 1e-7, 1e-11)
        old = csv_of(RUNS / "train-ppca" / "history.csv")
        check(grown[: len(old)], old, 1e-7, 1e-11)

    def test_are_scored_by_the_command(self, run: CommandLine, copy: Path) -> None:
        """Held-out rows and images that `train` scored are scored again by `score`."""
        result = run("score", "runs/train-ppca", "data/table.csv", "--test-fraction", 0.2, "--json", "-")
        assert result.code == 0, result.err
        closed_form = json.loads((RUNS / "train-ppca" / "train.json").read_text())["log_evidence_held_out"]
        assert np.isclose(json.loads(result.out)["closed_form"], closed_form, rtol=1e-7)
