"""Choose the kernel of a Gaussian process by the marginal likelihood, which is the area under each curve."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import maskevidence as me
from maskevidence.sklearn import GaussianProcessRows

x = np.linspace(0, 6, 60)[:, None]
y = np.sin(2 * x[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=60)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
estimates = {}
for name, kernel in {"RBF": kernels.RBF(1.0), "Matérn 1/2": kernels.Matern(1.0, nu=0.5)}.items():
    regressor = GaussianProcessRegressor(kernel + kernels.WhiteKernel(0.1), optimizer=None)
    estimates[name] = me.evidence_of_rows(GaussianProcessRows(regressor), x, y)
    label = f"{name}: log p(y | x) = {estimates[name].log_evidence:.1f}".replace("-", "−")
    estimates[name].plot(ax, label=label)
first, second = (estimate.log_evidence for estimate in estimates.values())
ax.set(title=f"RBF leads by a log Bayes factor of {first - second:.1f}")
ax.legend(loc="lower right")
figure.savefig("kernel.png", dpi=110)
