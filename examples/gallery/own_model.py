"""The log marginal likelihood of a model of your own, beside its closed form."""

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
import torch

import maskevidence as me


class EquallyCorrelated(torch.nn.Module):
    conditionals = "exact"  # mean 0, variance 1, all correlations 1/2

    def log_conditionals(self, tokens, masked):
        visible = tokens.visible(masked)
        gain = 1 / (1 + visible.sum(1, keepdim=True))
        mean = gain * torch.where(visible, tokens.values, 0).sum(1, keepdim=True)
        hidden = torch.distributions.Normal(mean, ((1 + gain) / 2).sqrt())
        return torch.where(masked, hidden.log_prob(tokens.values), 0)


x = np.random.default_rng(0).multivariate_normal(np.zeros(12), (np.eye(12) + 1) / 2, size=100)
estimate = me.estimate_evidence(EquallyCorrelated(), x, me.EverySize(16))
closed_form = scipy.stats.multivariate_normal(cov=(np.eye(12) + 1) / 2).logpdf(x).mean()
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
estimate.plot(ax)
title = f"Area: {estimate.log_evidence:.2f} ± {estimate.mask_se:.2f}; closed form: {closed_form:.2f}"
ax.set(title=title.replace("-", "−"))
figure.savefig("own_model.png", dpi=110)
