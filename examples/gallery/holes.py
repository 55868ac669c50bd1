"""Fill the holes of a table: each filled value with its error, beside the value that stood there."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import maskevidence as me

truth = load_wine(as_frame=True).data
holes = truth.mask(np.random.default_rng(0).random(truth.shape) < 0.1)  # a tenth of the cells is missing

filled = me.impute("kernel-gaussian", holes)

column = truth.columns.get_loc("flavanoids")
empty = holes["flavanoids"].isna().to_numpy()
x, mean = truth["flavanoids"][empty], filled.values[empty, column]
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.axline((2, 2), slope=1, color="0.7")
ax.errorbar(x, mean, 1.96 * filled.variance[empty, column] ** 0.5, fmt="o", lw=1, label="with 95 % interval")
ax.set(xlabel="what stood there", ylabel="filled in", title="Flavanoids of wines, missing values")
ax.legend(loc="lower right")
figure.savefig("holes.png", dpi=110)
