"""Score every single mutant of a protein: log p(mutant) − log p(wild type) by a model of its family."""

import matplotlib.pyplot as plt
import numpy as np

import maskevidence as me
from maskevidence.huggingface import Recipe, new_bert, train_masked_lm
from maskevidence.texts.vocabulary import letter_tokenizer

# A small model of a made-up family; ESM-2: me.models.MaskedLM.from_pretrained("facebook/esm2_t12_35M_UR50D")
residues, rng = "ACDEFGHIKLMNPQRSTVWY", np.random.default_rng(0)
sites = ["M", "KR", "ILV", "DE", residues, "G", "FWY", "ST", "NQ", "ILV", "C", residues]
family = ["".join(rng.choice(list(site)) for site in sites) for _ in range(400)]
model = new_bert(letter_tokenizer([residues]))
train_masked_lm(model, model.tokens(family), recipe=Recipe(steps=300, learning_rate=3e-3))

wild_type = "MKIEAGFSNLCT"
mutants = [f"{w}{j}{b}" for j, w in enumerate(wild_type, 1) for b in residues if b != w]
found = dict(zip(mutants, me.variants(model, wild_type, mutants)["joint"], strict=True))
scores = np.array([[found.get(f"{w}{j}{b}", 0) for j, w in enumerate(wild_type, 1)] for b in residues])
figure, ax = plt.subplots(figsize=(5, 5.5), layout="constrained")
image = ax.imshow(scores, cmap="RdBu", vmin=-8, vmax=8)
ax.set(xticks=range(12), xticklabels=wild_type, yticks=range(20), yticklabels=residues)
ax.set(xlabel="wild type", ylabel="mutant", title=f"highest: {max(found, key=lambda each: found[each])}")
figure.colorbar(image, label="score of the mutant, nats")
figure.savefig("mutants.png", dpi=110)
