"""Find the wrong cells of a table: shifted decimals, swapped columns, wrong units."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import maskevidence as me

patients = load_diabetes(scaled=False, as_frame=True).data.sample(frac=1, random_state=0, ignore_index=True)
trusted, right = patients[:221], patients[221:].reset_index(drop=True)
table = right.copy()
table.loc[0:4, "s1"] *= 10  # a shifted decimal
table.loc[10:14, ["s1", "s2"]] = right.loc[10:14, ["s2", "s1"]].to_numpy()  # swapped
table.loc[30:34, "s3"] /= 2.54  # a wrong unit

found = me.wrong_cells("kernel-gaussian", table, rate=0.1, trusted=trusted)

wrong = (table != right).to_numpy()
figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
picture = ax.imshow(np.clip(found.suspicion[:40], 0, None), aspect="auto", cmap="Reds", vmax=12)
row, column = np.nonzero(wrong[:40])
ax.plot(column, row, "ks", fillstyle="none", ms=9, label="made wrong")
row, column = np.nonzero(found.called[:40])
ax.plot(column, row, "c.", label="called")
ax.set(xticks=range(10), xticklabels=table.columns, ylabel="row", title="The first 40 rows of 221")
figure.colorbar(picture, label="suspicion, nats", extend="max")
ax.legend(loc="lower left", framealpha=1)
figure.savefig("wrong_cells.png", dpi=110)
