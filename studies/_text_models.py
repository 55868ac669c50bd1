"""One small BERT: trained by one way to mask, with its criteria and what they are to predict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import maskevidence as me
from _fine_tuning import EPOCHS, fine_tuned_accuracy, probed_accuracy
from _text_sets import TASKS, Corpus, corpus, drawn
from maskevidence.huggingface.collator import MaskSizeCollator
from maskevidence.huggingface.recipe import Recipe, TrainingOrder
from maskevidence.huggingface.trainer import EvidenceCallback, EvidenceTrainer
from maskevidence.huggingface.training import TrainerOptions, run_trainer
from maskevidence.core.masks.sizes import size_of_rate
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.new_bert import frequency_score, new_modern_bert

RANDOM, REPLACED = "random sizes", "15 %, 80-10-10"
RATES = {f"{round(100 * rate)} %": rate for rate in (0.15, 0.25, 0.40, 0.60, 0.75)}
WAYS: Mapping[str, me.MaskDesign] = {
    **{name: me.FixedRate(rate, 1) for name, rate in RATES.items()},
    RANDOM: me.RandomSize(1, 1),
    REPLACED: me.FixedRate(0.15, 1),
}
RECIPE = Recipe(batch_size=8, learning_rate=1e-3, warmup=100)
POINTS = 4  # of a learning curve, besides its start
AREA, SCORE_15 = me.RandomSize(8), me.FixedRate(0.15, 4)
WATCHED_BLOCKS, WATCHED_AREA, WATCHED_15 = 48, me.RandomSize(8), me.FixedRate(0.15, 2)
PLL_BLOCKS = 32
ORDERS = me.Orderings(8, bound="importance")


@dataclass(frozen=True)
class Amount:
    """How much of everything one model gets; less in a quick run.

    Attributes:
        blocks: of held-out text that is scored.
        sentences: to fine-tune on and to classify.
        epochs: of fine-tuning.
    """

    blocks: int | None = None
    sentences: tuple[int, int] = (2000, 1000)
    epochs: int = EPOCHS


QUICK = Amount(blocks=16, sentences=(400, 300), epochs=1)


def text_model(
    seed: int, group: str, way: str, width: int, steps: int, amount: Amount | None = None
) -> dict[str, Any]:
    """Train a BERT and measure it.

    Args:
        seed: of the weights, the order of the text, the masks, and the sentences that are classified.
        group: what the model is compared with; not used here.
        way: one of `WAYS`.
        width: of the states.
        steps: of training, each with 8 blocks.
        amount: how much is scored; None for all of it.

    Returns:
        The criteria and targets of claims.toml; and `frequencies`, what word frequencies alone give in place
        of the area.
    """
    text, amount = corpus(), Amount() if amount is None else amount
    n_tokens = int(text.held_out.n_tokens[0])
    model = new_modern_bert(text.tokenizer, width, seed=seed)
    watched = text.held_out[: min(WATCHED_BLOCKS, amount.blocks or WATCHED_BLOCKS)]
    recipe = replace(RECIPE, steps=steps, warmup=min(RECIPE.warmup, steps // 2), seed=seed)
    callbacks = trained(model, text, way, recipe, watched)
    model.eval()
    courses = {
        f"course_{name}": [estimate.log_evidence for _, estimate in callback.estimates]
        for name, callback in callbacks.items()
    }
    return {
        "frequencies": n_tokens * frequency_score(text.train, text.held_out, len(text.tokenizer)),
        "n_predicted": steps * RECIPE.batch_size * n_hidden(way, n_tokens),
        **_criteria(model, text, amount),
        **_targets(model, amount, seed),
        "course_steps": [step for step, _ in callbacks["area"].estimates],
        **courses,
        "area_half_way": courses["course_area"][len(courses["course_area"]) // 2],
    }


def n_hidden(way: str, n_tokens: int) -> float:
    """How many tokens a mask hides on average.

    Example:
        >>> n_hidden("15 %", 62), n_hidden(RANDOM, 62)
        (9.0, 31.5)
    """
    if way == RANDOM:
        return (n_tokens + 1) / 2
    return float(size_of_rate(RATES.get(way, 0.15), np.array([n_tokens]))[0])


def trained(
    model: MaskedLM, text: Corpus, way: str, recipe: Recipe, watched: me.Tokens
) -> dict[str, EvidenceCallback]:
    """Train in place, and return the learning curves of the area and of D·S at 15 %."""
    shares = (0.8, 0.1) if way == REPLACED else (1.0, 0.0)
    collator = MaskSizeCollator(
        model.tokenizer,
        WAYS[way],
        mask_replace_prob=shares[0],
        random_replace_prob=shares[1],
        seed=recipe.seed,
    )
    curves: dict[str, EvidenceCallback] = {}

    def watch(name: str, design: me.MaskDesign) -> Callable[[Any], EvidenceCallback]:
        def callback(trainer: Any) -> EvidenceCallback:
            every = max(1, recipe.steps // POINTS)
            curves[name] = EvidenceCallback(trainer, watched, design, every=every, prefix=name)
            return curves[name]

        return callback

    def make(arguments: Any) -> Any:
        return EvidenceTrainer(
            model=model.network,
            args=arguments,
            data_collator=collator,
            train_dataset=TrainingOrder(text.train, recipe.steps * recipe.batch_size, recipe.seed),
            processing_class=model.tokenizer,
        )

    callbacks = [watch("area", WATCHED_AREA), watch("score_15", WATCHED_15)]
    n_tokens = float(text.train.n_tokens.double().mean())
    run_trainer(
        make,
        recipe,
        TrainerOptions(None, 1, "none", callbacks, "cpu"),
        unit="nats per token",
        loss_scale=n_tokens,
    )
    return curves


def _criteria(model: MaskedLM, text: Corpus, amount: Amount) -> dict[str, float | None]:
    """Area, D·S at 15 %, PLL and the bound on the order mixture, nats per block or sentence."""
    held_out, elsewhere = (part[: amount.blocks] for part in (text.held_out, text.elsewhere))
    n_few = max(2, PLL_BLOCKS * len(held_out) // len(text.held_out))
    found: dict[str, float | None] = {}
    for name, data, design in (
        ("area", held_out, AREA),
        ("score_15", held_out, SCORE_15),
        ("area_elsewhere", elsewhere, AREA),
        ("score_15_elsewhere", elsewhere, SCORE_15),
        ("pll", held_out[:n_few], me.LeaveOneOut()),
        ("mixture", text.sentences[:n_few], ORDERS),
    ):
        estimate = me.estimate_evidence(model, data, design, check=False, per_token=design is AREA)
        found[name] = estimate.log_evidence
        if design in (AREA, ORDERS):
            found[f"{name}_se"] = estimate.mask_se
        if name == "mixture" and estimate.bracket is not None and estimate.order_spread is not None:
            found["area_of_sentences"] = estimate.bracket.area
            found["spread_of_orders"] = float(np.sqrt(estimate.order_spread.within))
    return found


def _targets(model: MaskedLM, amount: Amount, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in TASKS:
        train, test = drawn(name, seed, amount.sentences)
        found[f"fine_tuned_{name}"] = fine_tuned_accuracy(model, train, test, epochs=amount.epochs, seed=seed)
        found[f"probed_{name}"] = probed_accuracy(model, train, test)
        found[f"majority_{name}"] = float(max(test.labels.mean(), 1 - test.labels.mean()))
    for way in ("fine_tuned", "probed"):
        found[way] = float(np.mean([found[f"{way}_{name}"] for name in TASKS]))
    return found
