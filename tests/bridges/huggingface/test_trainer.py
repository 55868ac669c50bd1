"""EvidenceTrainer: accumulated steps of unequal batches, epochs, two processes, and what it refuses."""

import json
import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from forked import in_two_processes
from maskevidence.huggingface import EvidenceCallback, EvidenceTrainer, MaskSizeCollator
from maskevidence.huggingface.collator import WEIGHT
from maskevidence.huggingface.processes import end_processes, is_main_process
from maskevidence.huggingface.trainer import evidence_loss
from text_models import SENTENCES, small_bert, small_tokenizer

LOGGED = "evidence_log_evidence"
TEXTS = [SENTENCES[i % len(SENTENCES)] for i in range(13)]


def new_model() -> me.models.MaskedLM:
    tokenizer = small_tokenizer()
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return me.models.MaskedLM(small_bert(tokenizer, **shape).double(), tokenizer)


def features(model: me.models.MaskedLM, n_texts: int) -> list[dict[str, Any]]:
    return [dict(model.tokenizer(text), id=i) for i, text in enumerate(TEXTS[:n_texts])]


def trainer_of(model: me.models.MaskedLM, data: Any, out: Path, **options: Any) -> EvidenceTrainer:
    import transformers

    settings: dict[str, Any] = {
        "num_train_epochs": 1,
        "learning_rate": 1e-2,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_strategy": "no",
    }
    trainer = EvidenceTrainer(
        model=model.network,
        args=transformers.TrainingArguments(output_dir=str(out), **settings | options),
        train_dataset=data,
        eval_dataset=data,
        data_collator=MaskSizeCollator(model.tokenizer),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def watch(trainer: EvidenceTrainer, step: Any) -> None:
    """Call a function before each step of the optimizer."""
    import transformers

    class Watch(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, _args: Any, _state: Any, _control: Any, **_keywords: Any) -> None:
            step()

    trainer.add_callback(Watch())


@pytest.mark.parametrize(("accumulated", "n_texts"), [(2, 5), (2, 7), (3, 9), (3, 10)])
def test_an_accumulated_step_is_that_of_one_batch_of_its_texts(
    tmp_path: Path, accumulated: int, n_texts: int
) -> None:
    """Value and gradient of each step of an epoch in batches of 4, 4, ... and a short last one."""
    model, fresh = new_model(), new_model()
    data = features(model, n_texts)
    trainer = trainer_of(
        model,
        data,
        tmp_path,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulated,
        max_grad_norm=0.0,
        learning_rate=0.0,
    )
    gradients: list[list[torch.Tensor]] = []
    watch(
        trainer,
        lambda: gradients.append([p.grad.clone() for p in model.network.parameters() if p.grad is not None]),
    )
    with torch.random.fork_rng():
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    per_step = 4 * accumulated
    parts = [data[start : start + per_step] for start in range(0, n_texts, per_step)]
    assert len(parts) == len(gradients) == len(losses)
    for part, gradient, loss in zip(parts, gradients, losses, strict=True):
        batch = MaskSizeCollator(fresh.tokenizer)(part)
        labels, weight = batch.pop("labels"), batch.pop(WEIGHT)
        whole = evidence_loss(fresh, batch, labels, weight)
        parameters = [p for p in fresh.network.parameters() if p.requires_grad]
        expected = [g for g in torch.autograd.grad(whole, parameters, allow_unused=True) if g is not None]
        assert loss == pytest.approx(whole.item(), rel=1e-6)
        for found, wanted in zip(gradient, expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


def test_each_epoch_has_its_masks_and_a_resumed_training_the_same(tmp_path: Path) -> None:
    outcomes = []
    for stopped in (False, True):
        model = new_model()
        data = features(model, 8)
        options: dict[str, Any] = {"num_train_epochs": 3, "per_device_train_batch_size": 2}
        options |= {"save_strategy": "steps", "save_steps": 4, "logging_steps": 2}
        trainer = trainer_of(model, data, tmp_path / str(stopped), **options)
        if stopped:
            steps: list[None] = []

            def interrupt(steps: list[None] = steps) -> None:
                steps.append(None)
                if len(steps) == 8:  # in the second epoch
                    raise KeyboardInterrupt

            watch(trainer, interrupt)
            with torch.random.fork_rng(), pytest.raises(KeyboardInterrupt):
                trainer.train()
            model = new_model()
            trainer = trainer_of(model, data, tmp_path / str(stopped), **options)
        with torch.random.fork_rng():
            trainer.train(resume_from_checkpoint=stopped or None)
        history = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        evaluated = trainer.evaluate()["eval_loss"]
        assert evaluated == trainer.evaluate()["eval_loss"]
        batch = trainer.data_collator(data[:2])  # the collator that was given stays in the first epoch
        assert torch.equal(batch["labels"], MaskSizeCollator(model.tokenizer)(data[:2])["labels"])
        outcomes.append(([p.detach() for p in model.network.parameters()], history, evaluated))
    assert outcomes[0][1:] == outcomes[1][1:]
    assert all(torch.equal(a, b) for a, b in zip(outcomes[0][0], outcomes[1][0], strict=True))


def test_the_trainer_draws_new_masks_in_each_epoch(tmp_path: Path) -> None:
    model = new_model()
    trainer = trainer_of(model, features(model, 8), tmp_path, num_train_epochs=2)
    seen: list[torch.Tensor] = []
    loss = trainer.mean_loss

    def recorded(network: Any, inputs: Any) -> Any:
        seen.append(inputs["labels"])
        return loss(network, inputs)

    trainer.mean_loss = recorded  # type: ignore[method-assign]
    with torch.random.fork_rng():
        trainer.train()
    assert len(seen) == 2
    assert (seen[0] != seen[1]).any(1).sum() >= 6
    expected = MaskSizeCollator(model.tokenizer)(features(model, 8))["labels"]
    assert torch.equal(seen[0], expected)


def train_with_evidence(out: Path, n_texts: int, batch_size: int) -> None:
    """Write the losses and evidences that a Trainer logs, and what it warns of."""
    model = new_model()
    options: dict[str, Any] = {"num_train_epochs": 2, "per_device_train_batch_size": batch_size}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer = trainer_of(model, features(model, n_texts), out, **options, use_cpu=False)
        trainer.add_callback(EvidenceCallback(trainer, model.tokens(TEXTS[:3]), me.RandomSize(4), every=1))
        trainer.train()
    history = trainer.state.log_history
    logged = {name: [entry[name] for entry in history if name in entry] for name in ("loss", LOGGED)}
    if is_main_process():
        warned = [str(one.message) for one in said if "texts again" in str(one.message)]
        (out / "logged.json").write_text(json.dumps(logged | {"warned": warned}))
    trainer.callback_handler.callbacks.clear()
    del trainer
    end_processes()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("n_texts", [8, 9])
def test_losses_are_logged_beside_the_evidence_in_one_and_in_two_processes(
    tmp_path: Path, n_texts: int
) -> None:
    """Without an accelerator, and without use_cpu; the last step of an epoch has full batches."""
    with torch.random.fork_rng():
        train_with_evidence(tmp_path, n_texts, 4)
    one = json.loads((tmp_path / "logged.json").read_text())
    assert in_two_processes(partial(train_with_evidence, tmp_path, n_texts, 2)) == [0, 0]
    two = json.loads((tmp_path / "logged.json").read_text())
    n_steps = 2 * -(-n_texts // 4)
    for logged in (one, two):
        assert len(logged["loss"]) == n_steps
        assert len(logged[LOGGED]) == n_steps + 1  # one before the first step
    equal = n_steps if n_texts == 8 else 2  # of the steps until two processes see texts again
    assert two["loss"][:equal] == pytest.approx(one["loss"][:equal], rel=1e-5)
    assert two[LOGGED][: equal + 1] == pytest.approx(one[LOGGED][: equal + 1], rel=1e-5)
    assert not one["warned"]
    assert [text[:57] for text in two["warned"]] == (
        [] if n_texts == 8 else ["the last step of an epoch sees 3 of the 9 texts again, so"]
    )


def test_options_for_another_loss_are_refused(tmp_path: Path) -> None:
    model = new_model()
    with pytest.raises(me.InputError, match="label_smoothing_factor is 0"):
        trainer_of(model, features(model, 4), tmp_path, label_smoothing_factor=0.1)
    with pytest.raises(me.InputError, match="compute_metrics needs a prediction for each token"):
        EvidenceTrainer(
            model.network,
            train_dataset=features(model, 4),
            data_collator=MaskSizeCollator(model.tokenizer),
            compute_metrics=lambda _: {},
        )
