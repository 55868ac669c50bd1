"""The log marginal likelihood of a model of your own, beside its closed form."""

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
import torch

import maskevidence as me
from maskevidence.core.model import Conditionals


class EquallyCorrelated(torch.nn.Module):
    conditionals: Conditionals = "exact"  # variance 1, all correlations 1/2

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        visible = tokens.visible(masked)
        gain = 1 / (1 + visible.sum(1, keepdim=True))
        mean = gain * torch.where(visible, tokens.values, 0).sum(1, keepdim=True)
        log_p = -((tokens.values - mean) ** 2) / (1 + gain) - 0.5 * (torch.pi * (1 + gain)).log()
        return torch.where(masked, log_p, 0)


x = np.random.default_rng(0).multivariate_normal(np.zeros(12), (np.eye(12) + 1) / 2, size=100)
estimate = me.estimate_evidence(EquallyCorrelated(), x, me.EverySize(16))
closed_form = scipy.stats.multivariate_normal(cov=(np.eye(12) + 1) / 2).logpdf(x).mean()
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
title = f"Area: {estimate.log_evidence:.2f}; closed form: {closed_form:.2f}".replace("-", "−")
estimate.plot(ax).set(title=title)
figure.savefig("own_model.png", dpi=110)
