"""EvidenceCallback: what it logs during a training, what it costs, and that training does not change."""

from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from maskevidence.huggingface import (
    EvidenceCallback,
    EvidenceTrainer,
    MaskSizeCollator,
    Recipe,
    TrainerOptions,
    train_masked_lm,
)
from text_models import SENTENCES, small_bert, small_tokenizer

RECIPE = Recipe(steps=6, batch_size=4, warmup=0, learning_rate=1e-3)


def new_model(**options: Any) -> me.models.MaskedLM:
    tokenizer = small_tokenizer()
    return me.models.MaskedLM(
        small_bert(tokenizer, hidden_size=16, intermediate_size=16, **options), tokenizer
    )


def trained(model: me.models.MaskedLM, *, out: Path | None = None, **options: Any) -> list[EvidenceCallback]:
    made: list[EvidenceCallback] = []

    def make(trainer: Any) -> EvidenceCallback:
        made.append(EvidenceCallback(trainer, model.tokens(SENTENCES[:3]), **options))
        return made[0]

    report = "none" if out is None else "tensorboard"
    where = TrainerOptions(out, report_to=report, callbacks=[make])
    train_masked_lm(model, model.tokens(SENTENCES), recipe=RECIPE, options=where)
    return made


def test_the_area_goes_to_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    model = new_model()
    design = me.RandomSize(16)
    (callback,) = trained(model, out=tmp_path, every=2, design=design)
    assert [step for step, _ in callback.estimates] == [0, 2, 4, 6]
    folder = next(path.parent for path in tmp_path.rglob("events.out.tfevents.*"))
    events = EventAccumulator(str(folder)).Reload()
    logged = {
        name: events.Scalars(f"train/evidence_{name}") for name in ("log_evidence", "mask_se", "data_se")
    }
    for name, values in logged.items():
        assert [value.step for value in values] == [0, 2, 4, 6], name
        expected = [getattr(estimate, name) for _, estimate in callback.estimates]
        assert [value.value for value in values] == pytest.approx(expected, rel=1e-6)
    last = me.estimate_evidence(model, model.tokens(SENTENCES[:3]), design)
    assert callback.estimates[-1][1].log_evidence == pytest.approx(last.log_evidence, rel=1e-6)
    assert callback.estimates[0][1].log_evidence != callback.estimates[-1][1].log_evidence


def test_the_error_of_the_masks_is_known_by_default() -> None:
    (callback,) = trained(new_model())
    assert callback.design.draws > 8
    assert all(estimate.mask_se is not None for _, estimate in callback.estimates)


def test_training_is_the_same_as_without_it() -> None:
    """Dropout draws random numbers; an estimate in between draws none, and leaves dropout on."""
    models = [new_model(hidden_dropout_prob=0.3) for _ in range(2)]
    trained(models[0], every=1)
    train_masked_lm(models[1], models[1].tokens(SENTENCES), recipe=RECIPE)
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_it_costs_what_its_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model()
    rows: list[int] = []
    whole = type(model)._calls

    def counted(*arguments: Any) -> Any:
        for call in whole(*arguments):
            rows.append(len(call.shown))
            yield call

    monkeypatch.setattr(type(model), "_calls", counted)
    (callback,) = trained(model, every=3, design=me.RandomSize(4))
    assert len(callback.estimates) == 3  # at 0, 3 and 6
    assert sum(rows) == 3 * 4 * 3  # texts, masks, times
    assert len(rows) == sum(estimate.n_model_calls for _, estimate in callback.estimates)


def test_the_best_model_by_the_evidence_is_kept(tmp_path: Path) -> None:
    """The learning rate spoils the model after its first steps; the Trainer goes back to the best one."""
    import transformers

    model = new_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=6,
        learning_rate=0.3,
        lr_scheduler_type="constant",
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="best",
        load_best_model_at_end=True,
        metric_for_best_model="evidence_log_evidence",
        remove_unused_columns=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    texts = [dict(model.tokenizer(text)) for text in SENTENCES]
    trainer = EvidenceTrainer(
        model=model.network,
        args=arguments,
        train_dataset=texts,
        eval_dataset=texts[:2],
        data_collator=MaskSizeCollator(model.tokenizer),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    held_out = model.tokens(SENTENCES[:3])
    callback = EvidenceCallback(trainer, held_out, me.RandomSize(4), every=2)
    trainer.add_callback(callback)
    trainer.train()
    found = dict(callback.estimates)
    assert list(found) == list(
        range(7)
    )  # one estimate for a step, whether or not it is a multiple of `every`
    best = max((step for step in found if step), key=lambda step: found[step].log_evidence)
    assert trainer.state.best_global_step == best != 6
    assert trainer.state.best_metric == found[best].log_evidence
    now = me.estimate_evidence(model, held_out, me.RandomSize(4))
    assert now.log_evidence == pytest.approx(found[best].log_evidence, rel=1e-6)
    assert trainer.evaluate()["eval_evidence_log_evidence"] == now.log_evidence  # not that of the last step


def test_what_it_refuses() -> None:
    class NoTrainer:
        processing_class = None
        data_collator = None
        model = None

    model = new_model()
    tokens = model.tokens(SENTENCES[:1])
    with pytest.raises(me.InputError, match="no tokenizer"):
        EvidenceCallback(NoTrainer(), tokens)
    with pytest.raises(me.InputError, match="every=0"):
        EvidenceCallback(NoTrainer(), tokens, model=model, every=0)
