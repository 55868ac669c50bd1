"""How surprising each word of a sentence is to a masked language model: −log p(word | the other words)."""

import matplotlib.pyplot as plt

import maskevidence as me
from maskevidence.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces

# A small model; BERT: me.models.MaskedLM.from_pretrained("google-bert/bert-base-uncased")
does = {"dog": "barks", "cat": "sleeps", "bird": "sings"}
texts = 45 * [f"the {age} {noun} {does[noun]}" for age in ("old", "young", "small") for noun in does]
model = new_modern_bert(word_pieces(texts, vocabulary_size=200))
train_masked_lm(model, model.tokens(texts), recipe=Recipe(steps=800, batch_size=32, learning_rate=3e-3))

figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
for ax, sentence in zip(axes, ("the old dog barks", "the old dog sings"), strict=True):
    estimate = me.estimate_evidence(model, model.tokens([sentence]), me.LeaveOneOut())
    surprisals = -estimate.scores.score  # one mask a token, from left to right
    ax.bar(range(len(surprisals)), surprisals)
    ax.set(xticks=range(len(surprisals)), xticklabels=model.tokenizer.tokenize(sentence))
    ax.set(title=f"pseudo-log-likelihood: −{-estimate.log_evidence:.1f} nats")
axes[0].set(ylabel="surprisal, nats")
figure.savefig("surprisals.png", dpi=110)
