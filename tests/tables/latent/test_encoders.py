"""VAEs of networks as people have them: log variances, whole VAEs, decoders that end with a sigmoid."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import maskevidence as me
from latent_models import D, K, linear_vae, loadings
from maskevidence.models import VAE
from refusals import one_line


class LogVariances(nn.Module):
    """Another encoder, with log σ² in place of log σ."""

    def __init__(self, encoder: nn.Module, *, one_tensor: bool) -> None:
        super().__init__()
        self.encoder, self.one_tensor = encoder, one_tensor

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        mean, log_scale = self.encoder(x)
        return torch.cat([mean, 2 * log_scale], 1) if self.one_tensor else (mean, 2 * log_scale)


class WholeVAE(nn.Module):
    """A VAE as it is usually written: one module, whose forward pass is a reconstruction."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(D, 2 * K), nn.Linear(K, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x)[:, :K])


@pytest.mark.parametrize("one_tensor", [True, False])
def test_log_variances_are_twice_the_log_scales(one_tensor: bool, tmp_path: Path) -> None:
    vae, ppca = linear_vae(loadings(), wider=1.3)
    encoder = LogVariances(vae.encoder, one_tensor=one_tensor)
    of_variance = VAE(encoder, vae.decoder, n_features=D, scale="log_variance")
    of_variance.tokens_given_latent.load_state_dict(vae.tokens_given_latent.state_dict())
    x = ppca.sample(20, seed=2)
    same = [m.importance_evidence(x, samples=32).log_evidence for m in (vae, of_variance)]
    np.testing.assert_allclose(*same, rtol=1e-12)
    of_variance.save(tmp_path)
    again = me.models.load(tmp_path, encoder=encoder, decoder=vae.decoder)
    np.testing.assert_allclose(again.importance_evidence(x, samples=32).log_evidence, same[0], rtol=1e-12)


class Bare(nn.Linear):
    """No model of anything."""


X = np.zeros((3, D))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: me.estimate_evidence(WholeVAE(), X),
            r"WholeVAE has no method `log_conditionals`; wrap it: me.models.VAE\(model.encoder, model.dec",
        ),
        (lambda: me.estimate_evidence(Bare(D, D), X), "wrap it: in a class with `conditionals` and"),
        (lambda: me.fit(WholeVAE(), X, me.Elbo()), r"needs a model with an encoder.*wrap it: me.models.VAE"),
        (lambda: me.fit(WholeVAE(), X, me.RandomSize(1, 1)), r"lacks; wrap it: me.models.VAE"),
        (lambda: VAE(WholeVAE()), r"WholeVAE is a whole VAE; wrap it: me.models.VAE\(model.encoder, model"),
        (
            lambda: VAE(
                nn.Linear(D, 2 * K), nn.Sequential(nn.Linear(K, D), nn.Sigmoid()), likelihood="bernoulli"
            ),
            r"ends with a sigmoid, but likelihood='bernoulli' takes logits.*decoder\[:-1\]",
        ),
        (
            lambda: VAE(nn.Linear(D, 2 * K), nn.Linear(K, D), scale="log_var"),
            "unknown scale 'log_var'; did you mean 'log_variance'",
        ),
    ],
)
def test_a_bare_module_is_told_how_to_wrap_it(
    unchecked: None, call: Callable[[], object], message: str
) -> None:
    one_line(call, match=message)


def test_a_transformer_without_its_tokenizer_is_told_so(unchecked: None) -> None:
    from text_models import small_bert, small_tokenizer

    network = small_bert(small_tokenizer(), hidden_size=16, intermediate_size=16)
    with pytest.raises(me.InputError, match=r"wrap it: me.models.MaskedLM\(model, tokenizer\)"):
        me.estimate_evidence(network, ["a text"])
    report = me.check_model(network, ["a text"])
    assert not report.ok
    assert "wrap it" in str(report)
