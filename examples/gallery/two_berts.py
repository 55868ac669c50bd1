"""Two small BERTs, trained with 15 % hidden tokens and with random sizes: which describes the text better?"""

import matplotlib.pyplot as plt

import maskevidence as me
from maskevidence.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces

texts = me.data.read_texts("python-topics", running=True)["text"]
first, last = texts[: 9 * len(texts) // 10], texts[9 * len(texts) // 10 :]
tokenizer = word_pieces(first, vocabulary_size=1024)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
estimates = {}
for name, design in {"15 %": me.FixedRate(0.15), "random sizes": me.RandomSize(1)}.items():
    model = new_modern_bert(tokenizer)
    recipe = Recipe(steps=700, batch_size=16, learning_rate=5e-3)
    train_masked_lm(model, model.tokens(first, block_size=64), design, recipe)
    held_out = model.tokens(last, block_size=64)[:60]
    estimates[name] = me.estimate_evidence(model, held_out, me.Rates((0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 1.0)))
    area = f"{estimates[name].log_evidence:.0f}".replace("-", "−")
    estimates[name].plot(ax, label=f"{name}: {area} nats")
behind = me.compare(estimates).behind[0]
ax.set(title=f"{behind.first}: ahead by {behind.difference:.1f} ± {behind.standard_error:.1f} nats per block")
figure.savefig("two_berts.png", dpi=110)
