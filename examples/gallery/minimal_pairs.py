"""Minimal pairs: in how many is the right sentence more probable?"""

import matplotlib.pyplot as plt

import maskevidence as me
from maskevidence.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces

# A small model; BERT: me.models.MaskedLM.from_pretrained("google-bert/bert-base-uncased")
subjects = [
    f"the {age} {noun}" for age in ("old", "young", "small") for noun in ("dog", "cat", "dogs", "cats")
]
good = [f"{subject} {'sleep' if subject[-1] == 's' else 'sleeps'}" for subject in subjects]
bad = [f"{subject} {'sleeps' if subject[-1] == 's' else 'sleep'}" for subject in subjects]
model = new_modern_bert(word_pieces(good + bad, vocabulary_size=200))
train = model.tokens(30 * good)
train_masked_lm(model, train, recipe=Recipe(steps=800, batch_size=32, learning_rate=3e-3))

first, second = (me.estimate_evidence(model, model.tokens(each), me.RandomSize(64)) for each in (good, bad))
pairs = me.pair_texts(first, second)

low, high = pairs.interval()
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.errorbar(pairs.difference, range(len(good)), xerr=1.96 * pairs.mask_se, fmt="o")
ax.axvline(0, color="0.7")
ax.set(yticks=range(len(good)), yticklabels=good, xlabel="log p(right) − log p(wrong), nats")
ax.set(title=f"{pairs.accuracy:.0%} of {len(good)} pairs right, 95 % interval {low:.0%} to {high:.0%}")
figure.savefig("minimal_pairs.png", dpi=110)
