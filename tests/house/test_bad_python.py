"""Frames, tables, models and words that cannot be used: one line each."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.command.scoring import parse_precise
from maskevidence.core.masks.design_words import parse_design
from maskevidence.data import Table
from maskevidence.ray.engine import parse_engine
from maskevidence.tables.rows import binarise
from refusals import one_line

FRAME = pd.DataFrame({"x": np.arange(8.0) ** 2, "w": ["a", "b"] * 4})
ZEROS = Table("t", np.zeros((2, 2)), ("x", "w"), np.arange(2))
NUMBERS = Table("t", np.arange(16.0).reshape(8, 2), ("x", "w"), np.arange(8))


@pytest.fixture(scope="module")
def network() -> me.models.MaskedNetwork:
    return me.models.MaskedNetwork(2, 4, 1).fit(FRAME, epochs=1)


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (pd.to_timedelta(range(8), unit="h"), "'0 days 00:00:00'"),
        (pd.period_range("2020-01-01", periods=8), "'2020-01-01'"),
        ([b"a", b"b"] * 4, "\"b'a'\""),
        ([[1], [2, 3]] * 4, r"'\[1\]'"),
    ],
)
def test_cells_that_are_neither_numbers_nor_words(
    network: me.models.MaskedNetwork, cells: object, shown: str
) -> None:
    """In a new column, and in one of numbers or of words that a model was fitted to."""
    new = me.models.MaskedNetwork(3, 4, 1)
    asked: list[tuple[str, Callable[[pd.DataFrame], object]]] = [
        ("d", new.fit),
        ("d", lambda frame: me.select(frame, ["masked-net", "gaussian"])),
        ("x", network.score_samples),
        ("w", lambda frame: me.impute(network, frame)),
    ]
    for name, ask in asked:
        with pytest.raises(me.InputError, match=rf"column '{name}' .*holds {shown}.* (leave it out|numbers)"):
            ask(FRAME.assign(**{name: cells}))


@pytest.mark.parametrize("name", ["x", "w"])
def test_dates_in_a_column_that_was_fitted_to_none(network: me.models.MaskedNetwork, name: str) -> None:
    """They were read as nanoseconds."""
    frame = FRAME.assign(**{name: pd.date_range("2020-01-01", periods=8)})
    for ask in (network.score_samples, network.impute):
        with pytest.raises(me.InputError, match=f"column '{name}' holds dates, and the model was fitted to"):
            ask(frame)


def test_columns_of_one_name() -> None:
    for frame in (FRAME, FRAME.assign(w=1.0)):
        twice = frame.set_axis(["x", "x"], axis=1)
        for ask in (me.models.MaskedNetwork(2, 4, 1).fit, me.models.Gaussian(n_features=2).fit):
            with pytest.raises(
                me.InputError, match="the data have two columns with the name 'x'; give each its"
            ):
                ask(twice)


def test_numbers_for_a_model_of_words_and_words_for_one_of_numbers(network: me.models.MaskedNetwork) -> None:
    words = Table(
        "t", NUMBERS.values % 2, ("x", "w"), np.arange(8), levels={"x": ("a", "b"), "w": ("a", "b")}
    )
    for data, message in (
        (NUMBERS, "column 'w' of 't' holds numbers, the model was fitted to words"),
        (words, "column 'x' of 't' holds words, the model was fitted to numbers"),
        (FRAME.assign(x="a"), "column 'x' of 'the data' holds words, the model was fitted to numbers"),
    ):
        for ask in (network.score_samples, network.impute):
            with pytest.raises(me.InputError, match=message):
                ask(data)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: me.models.MaskedNetwork(2, 4, 1, dtype=torch.bfloat16).fit(FRAME),
            "do not compute in bfloat16",
        ),
        (
            lambda: me.models.PPCA(2, 1).to(torch.float16).score_samples(NUMBERS),
            "models of rows do not compute in float16; give float32 or float64",
        ),
        (lambda: me.select(NUMBERS, None), "families=None; give words such as 'gaussian'"),  # type: ignore[arg-type]
        (lambda: me.select(NUMBERS, [1]), "give words such as"),  # type: ignore[list-item]
        (lambda: parse_engine("ray:٣"), "'ray:٣' is no engine; give ray, ray:8"),
        (lambda: parse_engine("ray:1_0"), "is no engine"),
        (lambda: parse_precise("1_0"), "--target-se '1_0'; give nats above 0"),
        (lambda: parse_design("fixed-rate:0_1"), "is '0_1'; give a number"),
        (lambda: binarise(ZEROS, "threshold:0_1"), "has no threshold in"),
    ],
)
def test_what_cannot_be_used_is_one_line(ask: Callable[[], object], message: str) -> None:
    one_line(ask, match=message)


def test_a_column_of_bytes_is_left_out_of_a_table(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was taken for images, although an option of tables says how it is read."""
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(0).normal(size=(20, 2))
    pd.DataFrame(numbers, columns=["a", "b"]).assign(blob=b"x").to_parquet("t.parquet")
    done = run("score", "gaussian", "t.parquet", "--drop", "blob", "--out", "run")
    assert done.code == 0, done.err
    assert run("score", "run/model", "t.parquet", "--columns", "a,b").code == 0
    assert run("score", "run/model", "t.parquet").code == 0
    assert "is not an image" in run("score", "gaussian", "t.parquet").error


def test_an_infinite_measurement_is_refused(run: CommandLine, tmp_path: Path) -> None:
    from protein_models import save_protein_model

    save_protein_model(tmp_path / "esm")
    rows = "".join(
        f"M1{letter},{number}\n" for letter, number in zip("GALKS", ("1", "2", "inf", "4", "5"), strict=True)
    )
    (tmp_path / "t.csv").write_text("mutant,y\n" + rows)
    words = ("variants", tmp_path / "esm", tmp_path / "t.csv", "--wild-type", "MSIQHF", "--measured", "y")
    assert "has 'inf' in column 'y', line 4, which is no finite number" in run(*words).error
