"""What may be compared: the same quantity, in the same base measure, on the same data."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.comparing.comparable import same_data
from maskevidence.core.comparing.comparison import verdict
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.images.pixel_density import PixelDensity
from maskevidence.runs import DataSource, RunDirectory, record_run
from recorded_runs import make_manifest

D = 5


def rows(n: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D))


def binary(n: int = 30) -> np.ndarray:
    return (rows(n) > 0).astype(float)


def gaussian(mean: float = 0.0, dtype: torch.dtype = torch.float64) -> me.models.Gaussian:
    return me.models.Gaussian(torch.full((D,), mean, dtype=dtype), torch.eye(D, dtype=dtype))


class Coin(torch.nn.Module):
    """A model as a user writes one: 0/1 tokens, each with its own probability."""

    def __init__(self, p: float = 0.5, conditionals: str = "exact", base_measure: str | None = None) -> None:
        super().__init__()
        self.p, self.conditionals = p, conditionals
        if base_measure is not None:
            self.base_measure = base_measure

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        log_p = torch.where(tokens.values == 1, math.log(self.p), math.log1p(-self.p))
        return torch.where(masked, log_p, 0.0)


def refused(estimates: dict[str, me.EvidenceEstimate] | list[me.EvidenceEstimate]) -> str:
    with pytest.raises(me.InputError) as caught:
        me.compare(estimates)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestQuantity:
    def test_a_pseudo_likelihood_is_compared_with_its_own_design_only(self) -> None:
        x, model = rows(), gaussian()
        designs = {
            "one at a time": me.LeaveOneOut(),
            "all sizes": me.RandomSize(8),
            "half": me.FixedRate(0.5, 2),
            "most": me.FixedRate(0.8, 2),
        }
        estimates = {name: me.estimate_evidence(model, x, design) for name, design in designs.items()}

        def pair(first: str, second: str) -> dict[str, me.EvidenceEstimate]:
            return {name: estimates[name] for name in (first, second)}

        message = refused(pair("one at a time", "all sizes"))
        assert "'one at a time' is of kind pseudo (leave-one-out), 'all sizes' is of kind unbiased" in message
        assert "estimate both with the same design" in message
        assert "different quantities" in refused(pair("one at a time", "half"))
        assert "pseudo (fixed-rate rate=0.5), 'most' is of kind pseudo (fixed-rate rate=0.8)" in refused(
            pair("half", "most")
        )

    def test_more_masks_of_the_same_design_are_the_same_quantity(self) -> None:
        x = rows()
        few, many = (me.estimate_evidence(gaussian(), x, me.FixedRate(0.5, p)) for p in (2, 4))
        assert me.compare([few, many]).behind[0].pairing == "masks"  # those of the shorter run

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_lower_bound_below_an_evidence_proves_nothing(self, order: int) -> None:
        x = binary(200)
        good, bad = (0.5, 0.01)[::order]
        found = me.compare(
            {
                "evidence": me.estimate_evidence(Coin(good), x),
                "bound": me.estimate_evidence(Coin(bad, "learned"), x),
            }
        )
        difference = found.behind[0]
        low, _ = difference.interval()
        assert low > 0
        if order == 1:  # the evidence lies above the bound
            assert (difference.first, difference.verdict) == ("evidence", "proves nothing")
            assert not difference.told_apart
            assert found.between("bound", "evidence").verdict == "proves nothing"
        else:
            assert (difference.first, difference.verdict) == ("bound", "better")
            assert found.between("evidence", "bound").told_apart
        assert difference.to_dict()["verdict"] == difference.verdict

    def test_an_approximate_number_below_another_proves_nothing(self) -> None:
        """One VAE with 64 and with 400 draws was "better than" itself."""
        x = binary(200)
        pair = [me.estimate_evidence(Coin(p, "approximate"), x) for p in (0.5, 0.01)]
        difference = me.compare(pair).behind[0]
        assert difference.excludes_zero
        assert (difference.verdict, difference.told_apart) == ("proves nothing", False)
        assert "approximate conditionals is not in this interval" in verdict(difference, 3)
        pair = [me.estimate_evidence(Coin(p, "approximate"), x, me.Exhaustive()) for p in (0.5, 0.01)]
        difference = me.compare(pair).behind[0]
        assert (difference.interval(), difference.verdict) == (None, "not known")
        assert "1 and 2" in difference.no_interval
        assert difference.no_interval in verdict(difference, 3)

    def test_lower_bounds_rank_among_each_other(self) -> None:
        x = binary(200)
        pair = [me.estimate_evidence(Coin(p, "learned"), x) for p in (0.5, 0.01)]
        assert me.compare(pair).behind[0].told_apart


class TestBaseMeasure:
    def test_a_density_is_not_compared_with_a_mass(self) -> None:
        x = binary()
        models = {"normal": gaussian(), "bernoulli": me.models.BernoulliPCA(D, 1)}
        message = refused({name: me.estimate_evidence(model, x) for name, model in models.items()})
        assert "'normal' is a density per unit of each column, 'bernoulli' a probability mass" in message

    def test_two_pixel_densities(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 1), dtype=np.uint8)
        models = [
            me.models.MaskedImage.from_callable(
                lambda images, hidden: torch.full((len(images), 4, 4), 127.0),
                image_size=4,
                patch_size=2,
                channels=1,
                density=PixelDensity(name, (1,), (900.0,), n_patches=4),
            )
            for name in ("gaussian", "discretised")
        ]
        found = [me.estimate_evidence(model, model.tokens(pixels), me.EverySize(2)) for model in models]
        assert [each.base_measure for each in found] == [
            "density per level (0..255) of each pixel",
            "probability mass",
        ]
        assert "no common scale" in refused(found)

    def test_models_that_do_not_say_are_compared_with_a_note(self) -> None:
        x = binary()
        estimates = {
            "mine": me.estimate_evidence(Coin(0.3), x),
            "theirs": me.estimate_evidence(Coin(0.5, base_measure="probability mass"), x),
        }
        found = me.compare(estimates)
        (note,) = found.notes
        assert "the base measure of mine is not known" in note
        assert found.to_dict()["notes"] == [note]
        assert [entry["base_measure"] for entry in found.to_dict()["ranking"]].count(None) == 1


class TestData:
    @pytest.mark.parametrize("design", [me.EverySize(2), me.LeaveOneOut()], ids=lambda d: d.name)
    def test_other_values_under_the_same_ids(self, design: me.MaskDesign) -> None:
        estimates = [me.estimate_evidence(gaussian(), factor * rows(), design) for factor in (1, 1000)]
        assert "'1' and '2' are of different data: the observations have the same ids" in refused(estimates)

    def test_other_roles_under_the_same_ids(self) -> None:
        tokens = me.Tokens.from_array(rows())
        roles = []
        for prompt in (0, 1):
            context = torch.zeros_like(tokens.context)
            context[:, prompt] = True
            roles.append(me.Tokens(tokens.values, ~context, context, tokens.ids))
        assert "different data" in refused([me.estimate_evidence(gaussian(), each) for each in roles])

    def test_other_moments(self) -> None:
        moments = [me.GaussianMoments.from_rows(factor * rows()) for factor in (1, 1000)]
        estimates = [me.estimate_evidence(gaussian(), each) for each in moments]
        assert "different data" in refused(estimates)
        again = [me.estimate_evidence(gaussian(mean), moments[0]) for mean in (0.0, 0.1)]
        assert me.compare(again).behind[0].n_observations == 30

    def test_the_same_table_for_models_in_float32_and_in_float64(self) -> None:
        x = rows()
        single, double = gaussian(dtype=torch.float32), gaussian(0.1)
        for data in (x, single.tokens(x)):
            found = me.compare([me.estimate_evidence(single, data), me.estimate_evidence(double, x)])
            assert not found.notes

    def test_in_another_order_and_with_padding(self) -> None:
        tokens = me.Tokens.from_array(rows(), ids=np.arange(30) * 3)
        pad = torch.full((30, 2), math.nan, dtype=torch.float64)
        none = torch.zeros(30, 2, dtype=torch.bool)
        padded = me.Tokens(
            torch.cat([tokens.values, pad], 1),
            torch.cat([tokens.maskable, none], 1),
            torch.cat([tokens.context, none], 1),
            tokens.ids,
        )
        assert padded[torch.randperm(30)].fingerprint() == tokens.fingerprint()
        assert padded[:29].fingerprint() != tokens.fingerprint()

    def test_tables_that_differ_in_float64_only(self) -> None:
        x = 1e12 + rows()
        one, other = (me.Tokens.from_array(values).fingerprint() for values in (x, x + 1))
        assert same_data(one, other) is False
        single = me.Tokens.from_array(x, dtype=torch.float32).fingerprint()
        assert same_data(single, one)
        assert same_data(single, other)

    def test_whole_numbers_of_any_type(self) -> None:
        tokens = me.Tokens.from_array(binary())
        for dtype in (torch.float32, torch.int64, torch.uint8, torch.bool):
            other = me.Tokens(tokens.values.to(dtype), tokens.maskable, tokens.context, tokens.ids)
            assert other.fingerprint() == tokens.fingerprint()

    def test_an_estimate_that_does_not_know_its_data_is_compared_with_a_note(self) -> None:
        known = me.estimate_evidence(gaussian(), rows())
        table, design = known.scores, me.EverySize(4)
        unknown = summarize_scores(table, HowScored(design, me.MaskKey(0, "own"), "exact"), 1)
        notes = " ".join(me.compare({"a": known, "b": unknown}).notes)
        assert "whether a and b are of the same data is not known" in notes


class TestTexts:
    """The same texts cut into letters and into pairs of letters."""

    TEXTS = ("abca", "ca", "bbcabb")

    def estimates(self, *sources: tuple[str, ...]) -> list[me.EvidenceEstimate]:
        transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
        tokenizers = pytest.importorskip("tokenizers")
        found = []
        for width, texts in zip((1, 2), sources, strict=True):
            everything = (*self.TEXTS, *sources[1])
            pieces = sorted({t[i : i + width] for t in everything for i in range(0, len(t), width)})
            vocabulary = {piece: number for number, piece in enumerate(["[PAD]", "[UNK]", "[MASK]", *pieces])}
            model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
            backend = tokenizers.Tokenizer(model)
            pattern = tokenizers.Regex("." * width)
            backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
            tokenizer = transformers.PreTrainedTokenizerFast(
                tokenizer_object=backend, unk_token="[UNK]", mask_token="[MASK]", pad_token="[PAD]"
            )
            n = len(vocabulary)
            uniform = me.models.MaskedLM.from_callable(
                lambda ids, n=n: torch.zeros(*ids.shape, n), mask_token_id=2, tokenizer=tokenizer
            )
            found.append(me.estimate_evidence(uniform, list(texts), me.LeaveOneOut()))
        return found

    def test_in_other_tokens_are_the_same_data(self) -> None:
        found = me.compare(self.estimates(self.TEXTS, self.TEXTS))
        assert found.unit == "nats per byte"
        assert not found.notes

    def test_other_texts_in_other_tokens_are_refused(self) -> None:
        assert "different data" in refused(self.estimates(self.TEXTS, ("bbca", "bb", "cacaca")))


class TestCommand:
    """Runs of one model on one table, scored in different ways."""

    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        np.save("x.npy", rows(60) @ np.random.default_rng(1).normal(size=(D, D)))
        np.save("binary.npy", binary(60))
        return tmp_path / "x.npy"

    def test_refuses_numbers_of_different_quantities(self, table: Path, run: CommandLine) -> None:
        assert run("score", "ppca:2", table, "--design", "leave-one-out", "--out", "s1").code == 0
        assert run("score", "ppca:2", table, "--design", "random-size", "--out", "s2").code == 0
        error = run("compare", "s1", "s2").error
        assert "'s1' is of kind pseudo (leave-one-out), 's2' is of kind unbiased" in error
        pytest.importorskip("matplotlib", reason="the extra plots is not installed")
        assert run("report", "s1", "s2", "--out", "page.html").code == 0
        page = Path("page.html").read_text()
        assert "The runs cannot be compared" in page
        assert "these are different quantities" in page
        assert "is better than" not in page
        assert "Density per unit of each column" in page

    def test_refuses_different_base_measures(self, table: Path, run: CommandLine) -> None:
        assert run("score", "gaussian", "binary.npy", "--out", "g").code == 0
        assert run("score", "bernoulli-pca:1", "binary.npy", "--out", "b").code == 0
        assert "have no common scale" in run("compare", "g", "b").error

    def test_a_lower_bound_below_an_evidence_is_no_loser(self, table: Path, run: CommandLine) -> None:
        tokens = me.Tokens.from_array(binary(60))
        data = DataSource(name="binary.npy", fingerprint="f", n_observations=60, columns=[*"abcde"])
        for name, p, conditionals in (("evidence", 0.5, "exact"), ("bound", 0.1, "learned")):
            model, of_run = Coin(p, conditionals, me.model.MASS), {"base_measure": me.model.MASS}
            manifest = make_manifest(model, tokens, me.EverySize(4), model=name, data=data, **of_run)
            record_run(RunDirectory(name), manifest, model, tokens)
        said = "their order proves nothing, since bound is a lower bound on a log evidence that may be"
        text = " ".join(run("compare", "evidence", "bound").out.split())
        assert said in text
        assert "is better than" not in text
        pytest.importorskip("matplotlib", reason="the extra plots is not installed")
        assert run("report", "evidence", "bound", "--out", "page.html").code == 0
        page = Path("page.html").read_text()
        assert said in page
        assert "is better than" not in page
