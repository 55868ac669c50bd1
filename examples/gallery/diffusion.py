"""The perplexity bound of a masked diffusion language model, by the estimates that papers print."""

import matplotlib.pyplot as plt
import numpy as np

import maskevidence as me
from maskevidence.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces

texts = me.data.read_texts("python-topics", running=True)["text"]
first, last = texts[: 9 * len(texts) // 10], texts[9 * len(texts) // 10 :]
# A small model, trained here; models of the hub: me.models.MaskedLM.from_pretrained(NAME)
model = new_modern_bert(word_pieces(first, vocabulary_size=1024))
train = model.tokens(first, block_size=64)
train_masked_lm(model, train, recipe=Recipe(steps=500, batch_size=16, learning_rate=5e-3))
held_out = model.tokens(last, block_size=64)[:60]
designs = {
    "random sizes": "random-size:8",
    "random times (MDLM)": "random-time:8,eps=0.001",
    "LLaDA": "llada:32,batch=8",
    "one rate, 15 %": "fixed-rate:0.15,masks-per-size=8",
}
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for row, design in enumerate(designs.values()):
    found = me.estimate_evidence(model, held_out, design)
    perplexity = np.exp(-np.array([found.log_evidence, *found.interval()]) * len(held_out) / found.n_tokens)
    ax.errorbar(perplexity[0], row, xerr=abs(perplexity[1:] - perplexity[0])[::-1, None], fmt="o")
ax.set(yticks=range(len(designs)), yticklabels=designs, ylim=(3.5, -0.5))
ax.set(xlabel="exp(−log p / tokens), with the 95 % interval of the masks")
figure.savefig("diffusion.png", dpi=110)
