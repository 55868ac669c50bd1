"""Families and numbers of components chosen by held-out evidence."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
from maskevidence.core.comparing.comparison import difference_by_rows
from maskevidence.core.evidence.standard_errors import student_t_quantile
from maskevidence.core.show.pictures import Lines
from maskevidence.core.table import Table
from maskevidence.tables.by_name import parse_components
from maskevidence.tables.choosing import choosing
from maskevidence.tables.choosing.choosing import beaten_candidates
from maskevidence.tables.choosing.selection import below_picture, page_of_selection, picture_of_selection
from maskevidence.tables.gaussian.low_rank import fit_each_rank
from maskevidence.tables.network.network_columns import columns_of, declared_columns


def rows(n: int = 300, k: int = 3, d: int = 8, seed: int = 0, missing: float = 0.0) -> np.ndarray:
    model = me.models.PPCA(d, k, seed=seed)
    x = model.sample(n, seed=seed + 1)
    holes = np.random.default_rng(seed).random(x.shape) < missing
    return np.where(holes & (np.arange(d) > 0), np.nan, x)


@pytest.fixture(scope="module")
def selection() -> me.Selection:
    return me.select(rows(), ["ppca", "factor-analysis", "gaussian"], range(1, 8), folds=4)


def test_the_numbers_are_those_of_fits_to_the_other_folds(selection: me.Selection) -> None:
    """Slowly: the folds by hand, and each candidate fitted alone."""
    x = rows()
    folds = np.array_split(np.random.default_rng(0).permutation(len(x)), 4)
    build: dict[str, Callable[[], Any]] = {
        "ppca:2": lambda: me.models.PPCA(8, 2),
        "factor-analysis:3": lambda: me.models.FactorAnalysis(8, 3),
        "gaussian": lambda: me.models.Gaussian(n_features=8),
    }
    by_row = {name: np.full(len(x), np.nan) for name in build}
    for rows_out in folds:
        for name, new in build.items():
            by_row[name][rows_out] = new().fit(np.delete(x, rows_out, axis=0)).score_samples(x[rows_out])
    found = {one.name: one for one in selection.candidates}
    for name, values in by_row.items():
        assert found[name].log_evidence == pytest.approx(values.mean(), abs=2e-5)
        assert found[name].data_se == pytest.approx(values.std(ddof=1) / np.sqrt(len(x)), rel=1e-4)
        assert found[name].mask_se == 0.0
    difference = found["gaussian"].behind
    assert difference is not None
    assert difference.difference == pytest.approx(
        selection.chosen.log_evidence - by_row["gaussian"].mean(), abs=2e-5
    )


def test_the_highest_evidence_is_chosen_and_the_smallest_not_told_apart_stands_beside(
    selection: me.Selection,
) -> None:
    assert selection.chosen.log_evidence == max(one.log_evidence for one in selection.candidates)
    near = [one for one in selection.candidates if one.beaten_by is None]
    assert selection.smallest.n_parameters == min(one.n_parameters for one in near)
    assert (selection.choice, selection.smallest.name) == ("ppca:4", "ppca:3")
    assert selection.kind == "exact"
    assert isinstance(selection.model, me.models.PPCA)
    expected = me.models.PPCA(8, 4).fit(rows()).score_samples(rows())
    np.testing.assert_allclose(selection.model.score_samples(rows()), expected, rtol=1e-12)
    assert all(one.beaten_by is not None for one in selection.candidates if one.n_components == 1)
    levels = {one.behind.n_pairs for one in selection.candidates if one.behind is not None}
    assert max(levels) > min(levels) >= 1  # step-down


def test_it_shows_in_a_notebook(selection: me.Selection) -> None:
    page = ElementTree.fromstring(selection._repr_html_())
    text = " ".join(page.itertext())
    assert text.strip().startswith("Chosen: ppca:4, highest held-out log evidence")
    assert all(one.name in text for one in selection.candidates)
    assert page.find("svg") is not None
    frame = selection.to_frame()
    assert frame.index.tolist() == [one.name for one in selection.candidates]
    assert frame["log_evidence"].tolist() == [one.log_evidence for one in selection.candidates]


def fading_rows(n: int, seed: int) -> np.ndarray:
    """PPCA with loadings from strong to weak, as in benchmarks/selection.py."""
    rng = np.random.default_rng(seed)
    loadings = np.linalg.qr(rng.normal(size=(20, 5)))[0] * np.sqrt([8.0, 6.0, 4.0, 3.0, 2.0])
    return rng.normal(size=(n, 5)) @ loadings.T + rng.normal(size=(n, 20))


@pytest.mark.slow
def test_with_few_rows_and_weak_components_the_choice_is_not_too_small() -> None:
    """Of 30 such data sets, the smallest model that is not told apart is right in 10, the choice in 28."""
    chosen = [me.select(fading_rows(100, seed), "ppca", range(1, 9)) for seed in range(6)]
    assert sum(one.choice == "ppca:5" for one in chosen) >= 5
    assert isinstance(chosen[0].model, me.models.PPCA)
    assert chosen[0].model.n_components == chosen[0].chosen.n_components


def test_the_answer_says_how_much_a_smaller_model_gives_up() -> None:
    selection = me.select(fading_rows(100, 0), "ppca", range(1, 9))
    behind = selection.smallest.behind
    assert behind is not None
    assert behind.standard_error is not None
    assert selection.smallest.n_parameters < selection.chosen.n_parameters
    assert selection.answer() == (
        f"chosen: {selection.choice}, highest held-out log evidence in closed form; smallest model not told "
        f"apart from it: {selection.smallest.name}; it gives up "
        f"{behind.difference:.2f} ± {behind.standard_error:.2f} nats per row"
    )
    assert selection.to_dict()["smallest"] == selection.smallest.name


def beaten_by_rows(by_row: dict[str, np.ndarray]) -> dict[str, str]:
    ranked = sorted(by_row, key=lambda name: -by_row[name].mean())
    return beaten_candidates(
        ranked, lambda one, other: difference_by_rows((one, other), (by_row[one], by_row[other]))
    )


def test_a_best_candidate_with_a_large_error_is_no_yardstick() -> None:
    """On the digits, one row makes the evidence of 56 components uncertain: everything seemed as good."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=300)
    middle = low + 1.0 + 0.1 * rng.normal(size=300)
    noisy = middle + 0.5 + np.where(np.arange(300) == 7, -600.0, 3.0)
    assert noisy.mean() > middle.mean()
    assert beaten_by_rows({"low": low, "middle": middle, "noisy": noisy}) == {"low": "middle"}


def test_a_candidate_far_behind_does_not_press_the_picture_flat() -> None:
    """The axis ends with the others; a candidate that the best does not beat is not called behind."""
    result = me.select(fading_rows(60, 0), "ppca,factor-analysis", range(1, 4)).to_dict()
    picture, _ = picture_of_selection(result)
    assert isinstance(picture, Lines)
    assert picture.y_limits is None
    assert below_picture(result) == []
    levels = [each["log_evidence"] for each in result["candidates"]]
    last = result["candidates"][-1]
    last |= {"log_evidence": levels[0] - 1e5, "beaten_by": result["candidates"][1]["name"]}
    last["behind"]["interval_95"] = [-1e5, 3e5]
    picture, _ = picture_of_selection(result)
    assert isinstance(picture, Lines)
    assert picture.y_limits is not None
    assert levels[0] - 10 < picture.y_limits[0] < min(levels[:-1]) < levels[0] < picture.y_limits[1]
    assert below_picture(result) == [last]
    assert "worse than another candidate" in str(page_of_selection(result).parts)


@pytest.mark.parametrize("n_candidates", [2, 6])
def test_the_level_is_that_of_all_pairs_of_candidates(n_candidates: int) -> None:
    """A difference with p = 0.006 is told apart alone (0.05), not among 15 pairs (0.05/15), nor by 0.05/5."""
    rng, n = np.random.default_rng(0), 200
    noise = rng.normal(size=(n_candidates, n))
    noise = (noise - noise.mean(1, keepdims=True)) / noise.std(1, ddof=1, keepdims=True)
    behind = student_t_quantile(1 - 0.006 / 2, n - 1) / np.sqrt(n)
    by_row = {"best": 0.0 * noise[0], "low": noise[0] - behind}
    by_row |= {f"vague {k}": 50.0 * noise[k] - behind / 2 for k in range(2, n_candidates)}
    assert beaten_by_rows(by_row) == ({"low": "best"} if n_candidates == 2 else {})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.slow
def test_one_of_equal_candidates_is_seldom_called_worse() -> None:
    rng, wrong, n = np.random.default_rng(1), 0, 150
    for _ in range(n):
        shared = rng.normal(size=60)
        wrong += bool(beaten_by_rows({str(k): shared + rng.normal(size=60) for k in range(6)}))
    assert wrong / n < 0.05 + 3 * (0.05 * 0.95 / n) ** 0.5


def test_masks_give_the_same_within_their_error() -> None:
    x = rows(n=80, k=2, d=5)
    closed = me.select(x, "ppca,gaussian", (1, 2), folds=2)
    masked = me.select(x, "ppca,gaussian", (1, 2), folds=2, design=me.EverySize(8))
    assert masked.kind == "unbiased"
    exact = {one.name: one.log_evidence for one in closed.candidates}
    for one in masked.candidates:
        assert one.mask_se is not None
        assert abs(one.log_evidence - exact[one.name]) < 4 * one.mask_se
    assert masked.chosen.behind is None
    assert all(one.behind.pairing == "masks" for one in masked.candidates[1:])


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [me.models.PPCA, me.models.FactorAnalysis])
def test_fits_of_each_number_are_as_good_as_fits_alone(kind: Any, missing: float) -> None:
    x = rows(n=120, k=2, d=6, seed=4, missing=missing)
    for model in fit_each_rank(kind, x, (1, 2, 4)):
        alone = kind(6, model.n_components).fit(x)
        gain = float(model.score_samples(x).mean() - alone.score_samples(x).mean())
        assert gain > -1e-4  # a fit alone may have found another maximum


@pytest.mark.parametrize("design", [None, "every-size:2"])
def test_its_kind_is_that_of_the_choice(monkeypatch: pytest.MonkeyPatch, design: str | None) -> None:
    monkeypatch.setattr(me.models.Gaussian, "conditionals", "approximate")
    exact = "exact" if design is None else "unbiased"
    for k, choice, kind in ((1, "ppca:1", exact), (4, "gaussian", "approximate")):
        x = rows(200, k, 5, seed=k // 2)
        for words in ("ppca:1,gaussian", "gaussian,ppca:1"):
            selection = me.select(x, words, folds=2, design=design)
            assert (selection.choice, selection.kind) == (choice, kind)
            assert f"the numbers are of several kinds: {choice} {kind}, " in " ".join(selection.notes)


def test_names_and_holes_and_constant_columns() -> None:
    frame = pd.DataFrame(rows(missing=0.1), columns=list("abcdefgh"))
    frame.insert(2, "same", 4.0)
    selection = me.select(frame, "ppca", (1, 3, 8, 9), folds=3)
    assert selection.column_names == tuple("abcdefgh")
    assert selection.model.columns == list("abcdefgh")
    assert selection.choice == "ppca:3"
    assert selection.notes[:2] == (
        "left out columns that do not vary in all folds: same",
        "left out ppca:8, ppca:9: components are fewer than the columns and the rows of a fit",
    )


def test_beside_a_network_densities_are_scored_by_the_mass_of_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `CellMass` gives it for fits to the other fold: densities differ."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[:, 1] = np.random.default_rng(1).choice([7, 8, 9], 60, p=[0.9, 0.06, 0.04])
    fit = me.models.MaskedNetwork.fit
    monkeypatch.setattr(me.models.MaskedNetwork, "fit", lambda self, rows: fit(self, rows, epochs=1))
    design = me.EverySize(masks_per_size=2)
    selection = me.select(x, "gaussian,masked-net:4x1", folds=2, design=design)
    (found,) = (each for each in selection.candidates if each.name == "gaussian")
    order = np.array_split(np.random.default_rng(0).permutation(60), 2)
    expected, densities = [], []
    for out in map(np.sort, order):
        train = np.delete(x, out, axis=0)
        model, tokens = me.models.Gaussian(n_features=2).fit(train), me.Tokens.from_array(x[out], ids=out)
        cells = columns_of(train, declared_columns(x, x))
        for scored, values in ((me.models.CellMass(model, cells), expected), (model, densities)):
            values.append(me.estimate_evidence(scored, tokens, design).log_evidence)
    assert abs(found.log_evidence - np.mean(expected)) < 1e-9
    assert abs(np.mean(densities) - np.mean(expected)) > 0.05


def test_copies_of_rows_are_scored_once_and_noted() -> None:
    """The numbers of a table and of one with copies of the last 20 rows, which are held out together."""
    x = rows(120)
    with_copies = np.concatenate([x, x[100:], x[:1] + (np.arange(8) == 7)])
    selection = me.select(with_copies, "ppca", (1, 2, 3), folds=5)
    assert selection.n_observations == 121
    copies, near = (note for note in selection.notes if "an earlier row" in note)
    assert copies.startswith("20 of 141 rows equal an earlier row")
    assert near.startswith("1 of 141 rows differs from an earlier row in a single cell")
    by_row = [each.data_se for each in selection.candidates]
    assert min(by_row) > 0
    assert not any("earlier row" in note for note in me.select(x, "ppca", (1, 2), folds=5).notes)


def test_an_overfitted_model_is_not_chosen_where_a_third_of_the_rows_are_copies() -> None:
    """A mixture of kernels remembers rows; it was chosen 10 times in 10, and the truth called worse."""
    chosen = []
    for seed in range(2):
        x = rows(84, k=2, seed=seed)
        selection = me.select(np.concatenate([x, x[:36]]), "ppca,kernel-gaussian", (1, 2), seed=seed)
        chosen.append(selection.choice)
        assert {each.name: each.beaten_by for each in selection.candidates}["ppca:2"] is None
    assert "kernel-gaussian" not in chosen


@pytest.fixture(scope="module")
def binary() -> np.ndarray:
    """Two groups of columns, each with a component of its own."""
    rng = np.random.default_rng(0)
    logits = np.repeat(4 * rng.normal(size=(200, 2)), 4, axis=1)
    return (rng.random((200, 8)) < 1 / (1 + np.exp(-logits))).astype(float)


@pytest.mark.slow
def test_an_approximate_number_is_beaten_where_the_error_of_its_integral_is_known(binary: np.ndarray) -> None:
    """Its interval holds that error and covers the difference of the integrals."""
    integrals = me.select(binary, "bernoulli-pca", (1, 2), folds=2)
    selection = me.select(binary, "bernoulli-pca", (1, 2), folds=2, design="every-size:2")
    best, other = selection.candidates
    assert (best.name, other.beaten_by) == ("bernoulli-pca:2", "bernoulli-pca:2")
    assert selection.answer().endswith("every smaller model is worse")
    behind, exact = other.behind, integrals.candidates[1].behind
    assert behind is not None
    assert exact is not None
    off = [
        a.log_evidence - b.log_evidence
        for a, b in zip(selection.candidates, integrals.candidates, strict=True)
    ]
    assert behind.integral_error == pytest.approx(sum(map(abs, off)), abs=1e-5)
    low, high = replace(behind, integral_error=None).interval()
    assert behind.interval() == (low - behind.integral_error, high + behind.integral_error)
    assert behind.interval()[0] <= exact.difference <= behind.interval()[1]


def test_what_proves_nothing_is_neither_smallest_nor_not_told_apart(
    binary: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the integrals, the error of the approximate numbers is not known."""
    monkeypatch.setattr(choosing, "_integrate", lambda *args: None)
    selection = me.select(binary, "bernoulli-pca", (1, 2), folds=2, design="every-size:2")
    other = selection.candidates[1]
    assert other.behind is not None
    assert (other.behind.verdict, other.beaten_by) == ("proves nothing", None)
    assert selection.smallest is selection.chosen
    words = "; the order of it and bernoulli-pca:1 proves nothing"
    assert selection.answer().endswith(words)
    page = page_of_selection(selection.to_dict())
    assert page.parts[0].rows[1][1] == "proves nothing"
    assert [each.group for each in page.parts[1].values] == ["chosen", "the order proves nothing"]


def test_binary_tables_have_their_own_families() -> None:
    generator = torch.Generator().manual_seed(0)
    loadings = 3 * torch.randn(6, 1, generator=generator, dtype=torch.float64)
    x = me.models.BernoulliPCA.from_parameters(loadings, torch.zeros(6).double()).sample(120, seed=1)
    assert me.select(x, "bernoulli-pca", (1, 2), folds=2).choice == "bernoulli-pca:1"
    with pytest.raises(
        me.InputError, match="ppca and bernoulli-pca cannot be compared: their numbers are rel"
    ):
        me.select(x, "ppca,bernoulli-pca", (1, 2))


def test_candidates_that_cannot_be_fitted_are_left_out() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2)) @ np.random.default_rng(1).normal(size=(2, 5))
    x += [0, 0, 0, 0, 1.0] * np.random.default_rng(2).normal(size=(60, 5))  # three dimensions
    selection = me.select(x, "ppca,factor-analysis", (1, 2, 3, 4), folds=3)
    assert {one.name for one in selection.candidates if one.family == "ppca"} == {"ppca:1", "ppca:2"}
    assert any("could not be fitted, and left out: ppca:3, ppca:4" in note for note in selection.notes)


def test_messages_name_columns_as_the_file_does() -> None:
    """It said "leave out column 2" of a table whose columns have names."""
    x = rows(80, d=4, missing=0.2)
    x[:, 2] = x[:, 1] * 2
    frame = pd.DataFrame(x, columns=["age", "height", "length", "weight"])
    notes = me.select(frame, "gaussian,ppca", (1, 2), folds=3).notes
    assert any("leave out column 'height'" in note or "leave out column 'length'" in note for note in notes)
    assert not any("column 1" in note or "column 2" in note for note in notes)
    with pytest.raises(me.NumericalError, match=r"leave out column '(height|length)'"):
        me.models.Gaussian(n_features=4).fit(frame)
    with pytest.raises(me.NumericalError, match=r"leave out column (1|2),"):
        me.models.Gaussian(n_features=4).fit(x)
    huge = frame.assign(age=frame["age"] * 1e300)
    with pytest.raises(me.InputError, match="column 'age' reaches"):
        me.select(huge, "ppca", (1, 2), folds=3)


def test_fits_that_do_not_converge_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskevidence.tables.gaussian.low_rank.MAX_ITERATIONS", 2)
    monkeypatch.setattr("maskevidence.tables.gaussian.low_rank.TOLERANCE", 1e-13)
    selection = me.select(rows(n=60, missing=0.1), "factor-analysis", (1, 2), folds=2)
    assert "4 of the 4 fits ended before they converged" in selection.notes


def test_a_forgotten_code_for_missing_values_is_noted_once() -> None:
    holed = rows(n=100, missing=0.1)
    table = Table("t", np.where(np.isnan(holed), -999.0, holed), tuple("abcdefgh"), np.arange(100))
    for data in (table.values, pd.DataFrame(table.values, columns=list(table.columns))):
        notes = me.select(data, "ppca", (1, 2), folds=2).notes
        assert sum("-999 stands far below all other values of" in note for note in notes) == 1
        assert sum("give --missing=-999 (in Python, NaN)" in note for note in notes) == 1
    for data in (holed, table):  # a table that was read has this note already
        assert not any("-999" in note for note in me.select(data, "ppca", (1, 2), folds=2).notes)


@pytest.mark.parametrize(("n", "folds"), [(199, 20), (200, 5), (15, 15)])
def test_few_rows_are_divided_into_more_folds(n: int, folds: int) -> None:
    assert me.select(rows(n=n), "ppca", (1, 2)).folds == folds


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"families": "pca"}, "unknown family 'pca'; did you mean"),
        ({"families": "gaussian"}, "one model to choose from for 8 columns that vary; give several families"),
        ({"families": "gaussian"}, "impute and score take a single model"),
        ({"families": "ppca:0"}, "lacks its number of components"),
        ({"components": (0, 1)}, r"components=\[0, 1\]; give whole numbers"),
        ({"folds": 1}, "folds=1 of 300 rows with a value; give 2 to 300"),
        ({"components": (9, 10), "families": "ppca"}, "no model to choose from"),
    ],
)
def test_bad_input(options: dict[str, Any], words: str) -> None:
    with pytest.raises(me.InputError, match=words):
        me.select(rows(), **options)


@pytest.mark.parametrize(
    ("word", "numbers"),
    [("3", (3,)), ("1-3", (1, 2, 3)), ("2-8-3", (2, 5, 8)), ("4,1-2", (1, 2, 4)), ("5-5", (5,))],
)
def test_numbers_of_components(word: str, numbers: tuple[int, ...]) -> None:
    assert parse_components(word) == numbers


@pytest.mark.parametrize(
    "word", ["", "0", "1-", "3-1", "1-2-0", "1-2-3-4", "x", "-1", "1.5", "1-99999", "9" * 7]
)
def test_what_is_no_number_of_components(word: str) -> None:
    with pytest.raises(me.InputError, match="--components"):
        parse_components(word)


def test_progress_names_candidate_and_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | None] = []

    @contextmanager
    def listening(*_: object, **__: object) -> Iterator[Any]:
        yield lambda _steps, description=None, _total=None: told.append(description)

    monkeypatch.setattr("maskevidence.tables.choosing.choosing.progress", listening)
    x = np.random.default_rng(0).normal(size=(30, 3))
    me.select(x, ["ppca", "gaussian"], components="1", folds=2)
    assert told[0] == "fits: ppca:1, fold 1 of 2"
    assert list(filter(None, told))[-1] == "fits: gaussian, fold 2 of 2"


def test_a_family_without_components_stands_at_the_side(selection: me.Selection) -> None:
    pytest.importorskip("matplotlib")
    picture, _ = picture_of_selection(selection.to_dict())
    assert isinstance(picture, Lines)
    (gaussian,) = [line for line in picture.lines if line.label.startswith("gaussian")]
    assert len(gaussian.x) == 1
    assert gaussian.x[0] > max(line.x.max() for line in picture.lines if line is not gaussian) == 7
    ticks = selection.plot().get_xticks()
    assert (ticks % 1 == 0).all()
