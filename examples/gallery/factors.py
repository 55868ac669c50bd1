"""Choose the number of factors of a table by held-out evidence."""

import matplotlib.pyplot as plt
import numpy as np

import maskevidence as me

rng = np.random.default_rng(4)
x = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 10)) + rng.normal(size=(400, 10))  # three factors

selection = me.select(x, ["factor-analysis"], components=range(1, 7))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
selection.plot(ax)
print("chosen:", selection.choice)
figure.savefig("factors.png", dpi=110)
