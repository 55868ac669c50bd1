"""The matrix of all pairs, the ranking about a target, the command and the selection of features."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import SelectKBest

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.sklearn import InformationSelector, information_score
from maskevidence.tables.information import gains, matrix
from refusals import one_line


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """y depends on a, b, and on c only as far as c depends on a; d depends on nothing."""
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    x["c"] += 1.5 * x["a"]
    x["y"] = x["a"] + x["b"] + 0.5 * rng.normal(size=n)
    return x


def test_a_pair_of_the_matrix_is_its_information() -> None:
    x = table()[["a", "c"]]
    matrix, pair = me.information_matrix("gaussian", x), me.information("gaussian", x, "a", "c")
    assert matrix.nats[0, 1] == pytest.approx(pair.nats, abs=1e-9)
    assert matrix.nats[1, 0] == matrix.nats[0, 1]
    assert np.isnan(matrix.nats[0, 0])
    assert matrix.standard_error[0, 1] == pytest.approx(pair.standard_error, rel=1e-6)
    assert matrix.p_values[0, 1] == pytest.approx(pair.p_value, abs=1e-12)


def test_the_order_of_the_columns_changes_nothing() -> None:
    """Bandwidths of other columns were compared: 0.288 and 0.286 nats of one pair."""
    x = table(100)[["a", "c", "d"]]
    first, again = (
        me.information_matrix("kernel-gaussian", each, folds=3) for each in (x, x[["d", "c", "a"]])
    )
    assert np.allclose(first.nats, again.nats[::-1, ::-1], rtol=1e-9, atol=1e-12, equal_nan=True)


def test_the_target_is_told_about_alone_and_given_all_others() -> None:
    x = table()
    model = me.models.Gaussian(n_features=5).fit(x)
    found = me.information_matrix(model, x, "y")
    for k, name in enumerate("abcd"):
        rest = [each for each in "abcd" if each != name]
        assert found.nats[0, k] == pytest.approx(me.information(model, x, name, "y").nats, abs=1e-9)
        assert found.nats[1, k] == pytest.approx(me.information(model, x, name, "y", rest).nats, abs=1e-9)
    assert np.isnan(found.nats[:, 4]).all()
    word = me.information_matrix("gaussian", x, target=4)
    assert word.found[:, :4].tolist() == [[True, True, True, False], [True, True, False, False]]
    assert word.page().headline == "3 of 4 columns tell about y, and 2 given all others"


def test_a_pair_takes_the_rows_that_have_both_cells() -> None:
    x = table().to_numpy()
    x[:100, 0], x[60:130, 2] = np.nan, np.nan
    model = me.models.Gaussian(n_features=5).fit(x)
    both = x[130:, [0, 2]]
    s = model.covariance.detach().numpy()[np.ix_([0, 2], [0, 2])]
    z = (both - model.mean.detach().numpy()[[0, 2]]) / np.sqrt(np.diag(s))
    r = s[0, 1] / np.sqrt(s[0, 0] * s[1, 1])
    inside = (z[:, 0] ** 2 - 2 * r * z[:, 0] * z[:, 1] + z[:, 1] ** 2) / (1 - r**2)
    oracle = -0.5 * np.log(1 - r**2) - 0.5 * (inside - (z**2).sum(1))
    found = me.information_matrix(model, x)
    assert found.nats[0, 2] == pytest.approx(oracle.mean(), abs=1e-9)
    assert found.standard_error[0, 2] == pytest.approx(oracle.std(ddof=1) / len(both) ** 0.5)


@pytest.mark.slow
def test_few_of_many_independent_pairs_are_found() -> None:
    """720 pairs of independent columns."""
    n_found, n_below = 0, 0
    for seed in range(16):
        found = me.information_matrix("gaussian", np.random.default_rng(seed).normal(size=(150, 10)))
        n_found += int(np.triu(found.found).sum())
        n_below += int((np.triu(found.p_values, 1) < 0.05).sum() - 55)
    assert n_found <= 3
    assert n_below < 0.05 * 720


def test_the_picture_is_white_where_nothing_is_found() -> None:
    found = me.information_matrix("gaussian", table())
    picture, _ = found.picture()
    assert np.isnan(picture.values[~found.found]).all()  # type: ignore[union-attr]
    assert (picture.values[found.found] > 0).all()  # type: ignore[union-attr]
    frame = found.to_frame()
    assert len(frame) == 10
    assert frame["nats"].is_monotonic_decreasing
    assert frame["found"].sum() == np.triu(found.found).sum()
    assert "false discovery rate 5 %" in found.page().notes[0]


@pytest.mark.parametrize("target", [None, "y"])
def test_a_result_is_read_again(target: str | None) -> None:
    found = me.information_matrix("gaussian", table(), target)
    again = me.InformationMatrix.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.page() == found.page()
    assert again.to_csv() == found.to_csv()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "comma.csv").write_text('a,"b, in m"\n1,2\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_a_table_a_picture_and_a_page(folder: Path, run: CommandLine) -> None:
    words = ("information", "gaussian", "t.csv", "--out", "o", "--json", "r.json")
    result = run(*words)
    assert result.code == 0, result.err
    assert "pairs of columns have information" in result.out
    names = {"information.csv", "information.png", "information.html", "information.json"}
    assert names <= files_in(folder / "o")
    said = json.loads((folder / "r.json").read_text())
    assert said["nats"][0][0] is None
    nats = pd.read_csv("o/information.csv").set_index(["column", "other"])["nats"]
    assert said["nats"][0][4] == pytest.approx(nats["y", "a"])
    page = (folder / "o" / "information.html").read_text()
    assert "How it was made" in page
    assert "not above 0" in page
    again = run(*words[:-2])
    assert again.code == 0
    assert "was finished before" in again.out
    assert result.out.splitlines()[0] == again.out.splitlines()[0]
    assert "holds another table of information" in run(*words[:-2], "--seed", "1").error
    (folder / "o" / "information.json").unlink()  # killed before its last file
    assert run(*words[:-2], "--seed", "1").code == 0
    assert run("report", "o", "--out", "p.html").code == 0
    assert (folder / "p.html").read_text() == (folder / "o" / "information.html").read_text()
    result = run("information", "gaussian", "t.csv", "--target", "y", "--drop", "d")
    assert "3 of 3 columns tell about y, and 2 given all others" in result.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpt2", "t.csv"), "unknown model 'gpt2'"),
        (("gaussian", "t.csv", "--target", "z"), "there is no column 'z'; the columns are a, b, c, d, y"),
        (("gaussian", "t.csv", "--rate", "2"), "rate=2.0; give a share of false discoveries"),
        (
            ("gaussian", "t.csv", "--limit", "9"),
            "9 different rows for 5 folds; give 15 or more, or fewer folds",
        ),
        (("gaussian", "none.csv"), "none.csv"),
        (("gaussian", "comma.csv", "--drop", "b, in m"), """no column 'b'; it has a, "b, in m\""""),
    ],
)
def test_bad_input_is_one_line(folder: Path, run: CommandLine, words: tuple[str, ...], said: str) -> None:
    result = run("information", *words)
    assert result.code == 2
    assert said in result.error


def test_features_are_chosen_by_what_they_tell() -> None:
    x = table()
    features, y = x[list("abcd")], x["y"]
    nats, p = information_score(features, y, "gaussian")
    assert nats[:2] == pytest.approx(me.information_matrix("gaussian", x, "y").nats[0, :2], abs=1e-9)
    assert p[3] > 0.05 > p[0]
    best = SelectKBest(partial(information_score, model="gaussian"), k=2).fit(features, y)
    assert best.get_support().tolist() == [True, True, False, False]
    selector = InformationSelector("gaussian", random_state=0).fit(features, y)
    assert selector.chosen_ == [0, 1]  # c tells nothing that a has not told, d nothing
    assert selector.transform(features).shape == (400, 2)
    assert InformationSelector("gaussian", max_features=1, random_state=0).fit(features, y).chosen_ == [0]
    nothing_new = features.assign(e=1.0, f=-2 * x["a"], y=x["b"] ** 3)
    selector.fit(nothing_new, y)
    assert selector.chosen_ == [0, 1]
    assert information_score(nothing_new, y, "gaussian")[1][4] == 1
    one_line(lambda: selector.fit(features.assign(a=2 * y), y), "column 'y' is 'a', by another name or unit")
    for option, wrong, said in [
        ("alpha", 2, "alpha=2; give a level"),
        ("max_features", -1, "max_features=-1; give a whole number"),
    ]:
        with pytest.raises(ValueError, match=said):
            InformationSelector("gaussian", **{option: wrong}).fit(features, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        information_score(features, y[1:], "gaussian")


def test_features_are_asked_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of a Gaussian inverts its covariance: 2,000 genes took hours."""
    calls, asked = list[int](), matrix._asked
    monkeypatch.setattr(matrix, "_asked", lambda *each: calls.append(1) or asked(*each))
    information_score(np.random.default_rng(0).normal(size=(60, 30)), np.arange(60.0), "gaussian", folds=3)
    assert len(calls) == 3 * 2 * 2  # folds, models of each, with and without the feature


def test_copies_of_a_feature_score_alike_in_any_order() -> None:
    """0 nats before, and p = 1, of all but the first."""
    x = table(200)
    features = x[["a", "d"]].assign(pounds=2.2046 * x["a"], cubed=-(x["a"] ** 3), down=1 - x["a"])
    nats, p = information_score(features, x["y"], "gaussian")
    assert nats.tolist() == [nats[0], nats[1], *[nats[0]] * 3]
    assert nats[0] > 0.1 > nats[1]
    assert (p[[0, 2, 3, 4]] == p[0]).all()
    backwards = information_score(features[features.columns[::-1]], x["y"], "gaussian")
    assert np.allclose(backwards, np.array([nats, p])[:, ::-1], atol=1e-12)


def test_indicators_of_a_category_are_pairs_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole matrix was refused, since no Gaussian of all columns exists."""
    monkeypatch.setattr(gains, "_once", lambda rows: rows)  # the same folds for all columns
    x = table(200)
    kind = np.arange(200) % 3
    named = {name: kind == k for k, name in enumerate(("red", "green", "blue"))}
    dummies = pd.DataFrame(named, dtype=float).assign(a=x["a"] + kind)
    matrix = me.information_matrix("gaussian", dummies)
    for k, name in enumerate(named):
        pair = me.information("gaussian", dummies[[name, "a"]], 0, 1)
        assert matrix.nats[k, 3] == pytest.approx(pair.nats, abs=1e-7)
    about = me.information_matrix("gaussian", dummies, "a")
    assert about.nats[0, :3] == pytest.approx(matrix.nats[3, :3], abs=1e-7)
    assert about.nats[1, :3] == pytest.approx(0, abs=1e-6)  # each is known from the other two
    assert any(note.startswith("red, green, blue: one is a weighted sum") for note in about.notes)
    said = "red, green, blue: one is a weighted sum of the others, so groups that part them"
    one_line(lambda: me.total_correlation("gaussian", dummies), said)


@pytest.mark.parametrize("target", [None, "a"])
def test_a_column_of_two_values_by_another_name_is_left_out(target: str | None) -> None:
    x = table(200)[["a"]].assign(sex=np.arange(200) % 2, male=1.0 - np.arange(200) % 2)
    found = me.information_matrix("gaussian", x, target)
    assert found.names == ("a", "sex")
    assert "column 'male' is 'sex', by another name or unit: left out" in found.notes
    assert not any("weighted sum" in note for note in found.notes)
    of_words = me.information_matrix("kernel-gaussian", x, target, folds=3)
    assert of_words.names == ("a", "sex", "male")  # as words they have log 2 nats on each other


def test_a_feature_of_two_values_does_not_make_auto_blind() -> None:
    """Counts were chosen, whose held-out evidence is of other units, and found nothing."""
    x = table(200)
    features = x[["a", "b", "d"]].assign(sex=np.arange(200) % 2)
    assert {*InformationSelector(random_state=0, folds=3).fit(features, x["y"]).chosen_} == {0, 1}
