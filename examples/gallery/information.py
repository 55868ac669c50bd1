"""What columns of a table tell about the progression of diabetes, alone and given all others."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import maskevidence as me

patients = load_diabetes(scaled=False, as_frame=True).frame

found = me.information_matrix("gaussian", patients, target="target")

numbers = found.to_frame().pivot(index="column", columns="given")
numbers = numbers.sort_values(("nats", "alone"))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for shift, given in ((0.15, "alone"), (-0.15, "given all others")):
    height = [k + shift for k in range(len(numbers))]
    error = 2 * numbers["standard_error", given]
    ax.errorbar(numbers["nats", given], height, xerr=error, fmt="o", label=f"{given}, ± 2 standard errors")
ax.axvline(0, color="0.7")
ax.set(yticks=range(len(numbers)), yticklabels=numbers.index, xlabel="nats about the progression")
ax.legend()
figure.savefig("information.png", dpi=110)
