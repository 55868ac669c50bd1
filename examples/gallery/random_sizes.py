"""Train a model by hiding random numbers of tokens: it reaches the maximum likelihood; one rate does not."""

import matplotlib.pyplot as plt
import torch

import maskevidence as me

torch.manual_seed(0)
x = me.models.PPCA.from_parameters(2 * torch.rand(8, 2, dtype=torch.float64), 0.5).sample(300, seed=1)
x = x**3 / 10  # not a normal distribution: the model is wrong
best = me.models.PPCA(n_features=8, n_components=2).fit(x).score_samples(x).mean()

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, design in {"random sizes": me.RandomSize(1, 1), "one of eight": me.FixedRate(0.125, 1)}.items():
    model = me.models.PPCA(n_features=8, n_components=2, seed=2)
    objective, tokens = me.MaskedObjective(design), me.Tokens.from_array(x)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    evidence = []
    for _ in range(1000):
        optimizer.zero_grad()
        torch.autograd.backward(objective(model, tokens))
        optimizer.step()
        evidence.append(model.score_samples(x).mean())
    ax.plot(evidence, label=f"{name}: {best - evidence[-1]:.2f} nats below")
ax.axhline(best, color="0.5", ls="--", label="maximum likelihood")
ax.set(xlabel="steps", ylabel="log p(x), nats per row", ylim=(best - 4, best + 0.3))
ax.legend()
figure.savefig("random_sizes.png", dpi=110)
