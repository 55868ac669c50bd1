"""The kernel Gaussian of tables with words against the formula, row by row; its draws; its fills."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import maskevidence as me
from maskevidence.models import MixedKernelGaussian


def wards(n: int = 150, seed: int = 0) -> pd.DataFrame:
    """A category, a yes/no and two numbers that depend on who is sick, and a near-unique name."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.4
    frame = pd.DataFrame(
        {
            "ward": np.where(sick, rng.choice(["A", "B"], n, p=[0.9, 0.1]), rng.choice(["B", "C"], n)),
            "visits": rng.poisson(np.where(sick, 6.0, 1.0)).astype(float),
            "seen": np.where(sick, 2.0, rng.integers(1, 3, n)),
            "fever": rng.normal(np.where(sick, 39.0, 36.8), 0.4),
            "name": [f"n{k % (n - 9)}" for k in range(n)],
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.08)


@pytest.fixture(scope="module")
def model() -> MixedKernelGaussian:
    return MixedKernelGaussian(5).fit(wards())


def slow_answers(model: MixedKernelGaussian, row: np.ndarray, visible: np.ndarray) -> tuple[dict, dict]:
    """Conditional means of all inputs under the mixture of kernels, and the mass of numbers' cells."""
    kernels, h = model.kernels, model.kernels.bandwidth.item()
    mean = kernels.gaussian.mean.detach().numpy()
    sigma = h**2 * kernels.gaussian.covariance.detach().numpy()
    centres = mean + np.sqrt(1 - h**2) * kernels.centres.detach().numpy()
    x = np.array([row[k] if v is None else float(row[k] == v) for k, v in model.inputs])
    seen = np.array([visible[k] for k, _ in model.inputs])
    gap = x[seen] - centres[:, seen]
    inverse = np.linalg.inv(sigma[np.ix_(seen, seen)])
    log_weight = -0.5 * np.einsum("ni,ij,nj->n", gap, inverse, gap)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means, masses = {}, {}
    for e, (k, value) in enumerate(model.inputs):
        pull = sigma[e, seen] @ inverse
        each = centres[:, e] + gap @ pull
        means[k, value] = float(weight @ each)
        if value is None and not seen[e]:
            sd, step = np.sqrt(sigma[e, e] - pull @ sigma[seen, e]), model.described[k].step
            below, above = (norm.cdf((x[e] + side * step / 2 - each) / sd) for side in (-1, 1))
            masses[k] = float(np.log(weight @ (above - below) / step))
    return means, masses


@pytest.mark.parametrize("visible", [[1, 3], [0], [2, 3, 4], []])
def test_its_distributions_are_the_formula(model: MixedKernelGaussian, visible: list[int]) -> None:
    frame = wards().dropna().iloc[:1]
    row = model.tokens(frame).values[0].numpy()
    shown = np.isin(np.arange(5), visible)
    means, masses = slow_answers(model, row, shown)
    table = model.table(wards())
    for k in np.flatnonzero(~shown).tolist():
        values = model.values_of(k)
        cells = torch.from_numpy(row)[None, :].repeat(1 if values is None else len(values), 1)
        if values is not None:
            cells[:, k] = values
        tokens = me.Tokens.from_array(cells.numpy())
        masked = torch.from_numpy(~shown).expand(len(cells), -1)
        found = model.log_conditionals(tokens, masked)[:, k].detach()
        if values is None:
            assert found.item() == pytest.approx(masses[k], abs=1e-6)
            continue
        column = model.described[k]
        unseen = column.unseen
        counts = np.array([(table.values[:, k] == v).sum() for v in column.values], float) + 1e-3
        share = counts / counts.sum()
        given = np.array([(k, v) in means for v in column.values])
        positive = np.array([max(means.get((k, v), 0.0), 0.0) for v in column.values])
        rest = max(1 - positive.sum(), 0.0) * (not given.all())
        ours = positive + np.where(given, 0.0, rest * share / max(share[~given].sum(), 1e-300))
        eps = model.mixing[k].item() if given.any() else 1.0
        p = (1 - unseen) * ((1 - eps) * ours / max(ours.sum(), 1e-300) + eps * share)
        np.testing.assert_allclose(found.exp().numpy(), [*p, unseen][: len(values)], rtol=1e-7)
        assert found.exp().sum().item() == pytest.approx(1.0, abs=1e-9)


def test_the_referee_finds_no_fault(model: MixedKernelGaussian) -> None:
    report = me.check_model(model, wards(40, seed=1))
    assert report.ok, report


def test_it_fills_words_and_numbers_better_than_their_marginals() -> None:
    rows, frame = wards(400, seed=2), wards(400, seed=3)
    model = MixedKernelGaussian(5).fit(rows)
    rng = np.random.default_rng(0)
    hidden = (rng.random(frame.shape) < 0.2) & frame.notna().to_numpy()
    filled = model.impute(frame.mask(hidden)).to_frame()
    right = {name: (filled[name] == frame[name])[hidden[:, j]].mean() for j, name in enumerate(frame)}
    commonest = rows["ward"].value_counts(normalize=True).max()
    assert right["ward"] > commonest + 0.15
    error = (filled["fever"] - frame["fever"])[hidden[:, 3]]
    assert error.std() < 0.75 * frame["fever"].std()


def test_draws_have_the_probabilities_that_are_scored(model: MixedKernelGaussian) -> None:
    row = pd.DataFrame({"ward": [None], "visits": [2.0], "seen": [2.0], "fever": [37.9], "name": ["n3"]})
    n = 2000
    drawn = model.draw_missing(pd.concat([row] * n, ignore_index=True), seed=1)[0][:, 0]
    share = np.bincount(drawn.astype(int), minlength=3) / n
    cells = pd.concat([row.assign(ward=word) for word in "ABC"], ignore_index=True)
    masked = torch.zeros(3, 5, dtype=torch.bool)
    masked[:, 0] = True
    p = model.log_conditionals(model.tokens(cells), masked)[:, 0].exp().detach().numpy()
    p /= p.sum()
    assert p.min() > 0.02
    assert (abs(share - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


def test_constant_columns_unseen_words_and_columns_without_frequent_words(tmp_path) -> None:
    frame = wards(60).assign(one="same", name=[f"n{k}" for k in range(60)])
    model = MixedKernelGaussian(6).fit(frame)
    new = frame.iloc[:2].assign(ward="Z")
    assert any("training has not seen (Z)" in note for note in model.notes_on(model.tokens(new), new))
    assert np.isfinite(model.score_samples(new)).all()
    model.save(tmp_path / "m")
    again = me.models.load(tmp_path / "m")
    np.testing.assert_allclose(again.score_samples(frame), model.score_samples(frame), rtol=1e-12)
    words = frame[["one", "name"]]
    alone = MixedKernelGaussian(2).fit(words)
    assert alone.inputs == ()
    assert np.isfinite(alone.score_samples(words)).all()


def test_a_third_value_is_refused(model: MixedKernelGaussian) -> None:
    with pytest.raises(me.InputError, match="has 3 in column 'seen'; the model was fitted to 1 and 2 alone"):
        model.score_samples(wards().dropna().assign(seen=3.0))
