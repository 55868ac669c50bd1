"""Training masked language models from Python, by `train masked-lm`, and in two processes."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import maskevidence as me
from command_line import CommandLine, files_in
from forked import exit_code, in_two_processes
from killed_commands import begin
from maskevidence.huggingface import (
    EvidenceTrainer,
    MaskSizeCollator,
    Recipe,
    TrainerOptions,
    new_bert,
    train_masked_lm,
    word_pieces,
)
from maskevidence.huggingface.processes import is_main_process
from maskevidence.huggingface.recipe import TrainingOrder
from maskevidence.huggingface.training import newest_checkpoint
from text_models import SENTENCES, small_bert, small_tokenizer

RECIPE = Recipe(steps=9, batch_size=4, warmup=2, learning_rate=1e-2, seed=3)


def new_model(**options: Any) -> me.models.MaskedLM:
    tokenizer = small_tokenizer()
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return me.models.MaskedLM(small_bert(tokenizer, **shape | options), tokenizer)


def weights(model: me.models.MaskedLM) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def largest_difference(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def stop_at(step: int) -> Any:
    """A callback that interrupts the training as Ctrl-C does."""
    import transformers

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_keywords: Any) -> None:
            if state.global_step == step:
                raise KeyboardInterrupt

    return lambda _trainer: Stop()


def test_it_learns_a_text_and_leaves_the_random_state_alone(unchecked: None) -> None:
    """Run-time type checks are off, since they draw random numbers."""
    model = new_model()
    tokens = model.tokens(SENTENCES)
    start = me.estimate_evidence(model, tokens, me.RandomSize(8)).log_evidence
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]
    trained = train_masked_lm(
        model, tokens, recipe=Recipe(steps=60, batch_size=8, warmup=5, learning_rate=2e-2)
    )
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index]
    end = me.estimate_evidence(model, tokens, me.RandomSize(8)).log_evidence
    assert end > 0.75 * start
    assert not model.network.training
    assert [entry["step"] for entry in trained.history] == [50]
    assert trained.to_csv().splitlines()[0] == "step,loss,grad_norm,learning_rate"
    assert torch.equal(before[0], after[0])
    assert (before[1] == after[1]).all()
    assert before[2] == after[2]


def test_the_order_of_training_consists_of_whole_permutations() -> None:
    order = TrainingOrder(me.Tokens.from_array(np.arange(7.0)[:, None]), length=20, seed=1).order
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7))
    assert order[:7].tolist() != order[7:14].tolist()


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    """Bit by bit, with dropout. An incomplete checkpoint of a killed process is ignored."""
    whole = new_model(hidden_dropout_prob=0.2)
    tokens = whole.tokens(SENTENCES)
    train_masked_lm(whole, tokens, recipe=RECIPE, options=TrainerOptions(tmp_path / "a", 3))
    stopped = new_model(hidden_dropout_prob=0.2)
    options = TrainerOptions(tmp_path / "b", 3)
    with pytest.raises(KeyboardInterrupt):
        train_masked_lm(stopped, tokens, None, RECIPE, replace(options, callbacks=[stop_at(5)]))
    half = tmp_path / "b" / "checkpoint-4"
    half.mkdir()
    (half / "trainer_state.json").write_text('{"epoch"')
    assert newest_checkpoint(tmp_path / "b") == tmp_path / "b" / "checkpoint-3"
    fresh = new_model(hidden_dropout_prob=0.2)
    resumed = train_masked_lm(fresh, tokens, None, RECIPE, options)
    assert resumed.resumed_from == 3
    assert largest_difference(weights(whole), weights(fresh)) == 0.0
    again = train_masked_lm(new_model(), tokens, None, RECIPE, options)  # nothing is left to do
    assert again.resumed_from == 9


def test_checkpoints_are_in_the_named_folder_and_not_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell has left a "~" as it is, as in --out=~/run."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    model = new_model()
    recipe = replace(RECIPE, steps=1)
    train_masked_lm(model, model.tokens(SENTENCES), recipe=recipe, options=TrainerOptions("~/run"))
    assert Path("~", "run", "checkpoint-1").is_dir()
    assert not files_in(tmp_path / "home")


@pytest.fixture
def often_logged(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A training of twelve steps, logs at every second one, for checkpoints at every fourth."""
    monkeypatch.setattr("maskevidence.huggingface.training.LOG_EVERY", 3)
    return replace(RECIPE, steps=12)


_WHOLE: list[Any] = []  # the history of the uninterrupted training


@pytest.mark.parametrize("last_step", [2, 6, 9])
def test_the_history_does_not_depend_on_interruptions(
    tmp_path: Path, last_step: int, often_logged: Recipe
) -> None:
    """Interrupted between two logs, and between a log and a checkpoint."""
    tokens, options = new_model().tokens(SENTENCES), TrainerOptions(tmp_path, 4)
    if not _WHOLE:
        whole = TrainerOptions(checkpoint_every=4)
        _WHOLE.append(train_masked_lm(new_model(), tokens, None, often_logged, whole).history)
    assert [entry["step"] for entry in _WHOLE[0]] == [2, 4, 6, 8, 10, 12]
    stopped = replace(options, callbacks=[stop_at(last_step)])
    with pytest.raises(KeyboardInterrupt):
        train_masked_lm(new_model(), tokens, None, often_logged, stopped)
    resumed = train_masked_lm(new_model(), tokens, None, often_logged, options)
    assert resumed.resumed_from == ((last_step - 1) // 4 * 4 or None)
    assert resumed.history == _WHOLE[0]


def test_accumulated_steps_are_one_step_with_the_whole_batch(tmp_path: Path) -> None:
    import transformers

    outcomes = []
    for size, accumulated in ((8, 1), (2, 4)):
        model = new_model()
        model.double()  # Adam turns rounding errors of gradients that are 0, such as a key bias, into steps
        args = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=3,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulated,
            learning_rate=1e-2,
            train_sampling_strategy="sequential",
            remove_unused_columns=False,
            use_cpu=True,
            dataloader_pin_memory=False,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
        )
        data = TrainingOrder(model.tokens(SENTENCES), 24, seed=0)
        trainer = EvidenceTrainer(
            model=model.network,
            args=args,
            train_dataset=data,
            eval_dataset=data,
            data_collator=MaskSizeCollator(model.tokenizer),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        with torch.random.fork_rng():
            trainer.train()
        outcomes.append((weights(model), trainer.evaluate()["eval_loss"]))
    assert largest_difference(outcomes[0][0], outcomes[1][0]) < 1e-5
    assert outcomes[0][1] == pytest.approx(outcomes[1][1], rel=1e-4)


def test_a_loss_that_is_not_finite_ends_training() -> None:
    model = new_model()
    with torch.no_grad():
        next(iter(model.parameters())).fill_(float("nan"))
    with pytest.raises(me.NumericalError, match="the loss is nan at step 9"):
        train_masked_lm(model, model.tokens(SENTENCES), recipe=RECIPE)


def test_settings_and_texts_that_cannot_be_trained_with() -> None:
    for name, value in (("steps", 0), ("warmup", -1), ("weight_decay", float("nan")), ("learning_rate", 0.0)):
        with pytest.raises(me.InputError, match=name):
            Recipe(**{name: value})
    model = new_model()
    with pytest.raises(me.InputError, match="no texts to train on"):
        train_masked_lm(model, model.tokens(SENTENCES)[:0], recipe=RECIPE)


@pytest.mark.slow
def test_a_vocabulary_is_the_same_in_each_process(tmp_path: Path) -> None:
    texts = [
        " ".join(random.Random(i).choices(["rain", "falls", "roof", "sings", "dog"], k=9)) for i in range(50)
    ]
    code = (
        "from maskevidence.texts.new_bert import word_pieces\n"
        f"print(sorted(word_pieces({texts!r}, 60).get_vocab().items()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(word_pieces(texts, 60).get_vocab().items()))


def test_new_berts_differ_by_seed_alone() -> None:
    tokenizer = word_pieces(SENTENCES * 3, 60)
    a, b, c = (new_bert(tokenizer, seed=seed) for seed in (0, 0, 1))
    assert largest_difference(weights(a), weights(b)) == 0.0
    assert largest_difference(weights(a), weights(c)) > 0.01


def train_and_save(out: Path) -> None:
    """What each of two processes does."""
    model = new_model()
    model.double()
    trained = train_masked_lm(model, model.tokens(SENTENCES), recipe=RECIPE)
    if is_main_process():
        model.save(out)
        (out / "loss").write_text(repr(trained.history[-1]["loss"]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    assert in_two_processes(partial(train_and_save, tmp_path)) == [0, 0]
    model = new_model()
    model.double()
    trained = train_masked_lm(model, model.tokens(SENTENCES), recipe=RECIPE)
    theirs, ours = load_file(tmp_path / "model.safetensors"), dict(model.network.state_dict())
    assert max(float((ours[name] - value).abs().max()) for name, value in theirs.items()) < 1e-5
    assert float((tmp_path / "loss").read_text()) == pytest.approx(trained.history[-1]["loss"], rel=1e-5)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("".join(f"{SENTENCES[i % 4]}\n" for i in range(200)))
    return file


OPTIONS = (
    "--steps",
    "6",
    "--batch-size",
    "4",
    "--block-size",
    "16",
    "--vocabulary-size",
    "60",
    "--threads",
    "1",
)


def test_train_writes_a_model_that_score_reads(run: CommandLine, text: Path, tmp_path: Path) -> None:
    out, target = tmp_path / "run", tmp_path / "a.json"
    command = ["train", "masked-lm", text, *OPTIONS, "--out", out, "--json", target]
    result = run(*command)
    assert result.code == 0, result
    assert "held out" in result.out
    written = json.loads(target.read_text())
    assert written["held_out"]["kind"] == "lower_bound"
    assert written["held_out"]["mask_se"] > 0
    assert written["held_out"]["per_token"] < written["held_out"]["frequencies_per_token"] < -2
    assert "it has not learnt from the context; give more --steps" in " ".join(result.out.split())
    assert {"config.json", "model.safetensors", "tokenizer.json", "history.csv"} <= files_in(out)
    assert not list(out.glob("checkpoint-*"))
    scored = run("score", out, text, "--block-size", 16, "--limit", 40, "--json", "-")
    assert scored.code == 0, scored.err
    again = run(*command[:-1], tmp_path / "again.json")
    assert "was finished before" in " ".join(again.out.split())
    assert json.loads((tmp_path / "again.json").read_text()) == written
    other = run("train", "masked-lm", text, *OPTIONS, "--out", out, "--objective", "fixed-rate:0.15")
    assert "belongs to another training (objective random-size instead of fixed-rate:0.15)" in other.error
    replaced = run("train", "masked-lm", text, *OPTIONS, "--out", out, "--seed", 1, "--overwrite")
    assert replaced.code == 0, replaced.err
    onwards = run("train", "masked-lm", text, "--config", out, "--steps", 40, "--out", tmp_path / "onwards")
    assert onwards.code == 0, onwards.err
    assert "the frequencies of tokens alone give" in onwards.out
    assert "learnt from the context" not in onwards.out
    assert (
        "--vocabulary-size belongs to new models"
        in run("train", "masked-lm", text, *OPTIONS, "--config", out, "--out", tmp_path / "x").error
    )


def test_the_same_command_resumes_after_a_kill(run: CommandLine, text: Path, tmp_path: Path) -> None:
    from maskevidence.huggingface import masked_lm_training as module

    command = ["train", "masked-lm", text, *OPTIONS, "--checkpoint-every", 2, "--out"]
    assert run(*command, tmp_path / "whole").code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.MaskedLM, "save", interrupted)  # after training, before anything is saved
        assert run(*command, tmp_path / "killed").code == 130
    resumed = run(*command, tmp_path / "killed")
    assert "resumed from the checkpoint after step 6" in " ".join(resumed.out.split())
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_a_kill_leaves_nothing_behind(
    run: CommandLine, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the folder nor in the system's folder for temporary files."""
    command = ("train", "masked-lm", text, *OPTIONS[2:-2], "--steps", 2000, "--checkpoint-every", 2)
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setattr(tempfile, "tempdir", None)
    out = tmp_path / "killed"
    process = begin(command, out)
    deadline = time.monotonic() + 60
    while not list(out.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    assert exit_code(process) == -signal.SIGKILL
    assert not list(elsewhere.iterdir())
    (out / ".train.json.abc.tmp").touch()
    (out / "training.json").unlink()
    assert run("train", "masked-lm", text, *OPTIONS, "--overwrite", "--out", out).code == 0
    assert not [name for name in files_in(out) if name.endswith(".tmp") or "checkpoint" in name]
    (out / "checkpoint-6").mkdir()  # killed between the result and the removal of the checkpoints
    assert "was finished before" in " ".join(
        run("train", "masked-lm", text, *OPTIONS, "--out", out).out.split()
    )
    assert not list(out.glob("checkpoint-*"))


def interrupted(*_arguments: Any) -> None:
    raise KeyboardInterrupt
