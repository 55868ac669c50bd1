"""transformers' Trainer with losses that are means over observations, and with the evidence as its loss."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import InputError, import_extra
from maskevidence.integrations.huggingface.collator import NOT_SCORED, WEIGHT, MaskSizeCollator
from maskevidence.models import MaskedLM
from maskevidence.support.files import read_json, write_json

_transformers = import_extra("transformers", "hf", "training by transformers")


class BaseTrainer(_transformers.Trainer):  # type: ignore[misc, name-defined]
    """`transformers.Trainer` for losses that are means over the observations of a batch.

    A step that accumulates batches of n_k observations with the losses L_k has the loss, and the gradient, of
    one batch of all its observations, over all processes:

        loss = Σ_k n_k · L_k / Σ_k n_k

    The Trainer takes the mean of the L_k, which is wrong if the last batch of an epoch is shorter.

    The loss of a log is the mean over the steps since the previous log. The Trainer forgets the losses before
    a checkpoint when it resumes; this class saves their sum with the random state of each process, and the
    devices of the training.
    """

    data_collator: Any
    # `compute_loss` gives the mean over a batch times its share, which has the mean 1 over the accumulated
    # batches; the Trainer divides by their number.
    loss_is_scaled_for_ga = False

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._losses: tuple[Tensor, int] | None = None  # their sum since a step; None before the first
        self.devices: list[str] = []
        super().__init__(*args, **keywords)
        self.model_accepts_loss_kwargs = False  # for versions without the attribute above

    def get_batch_samples(self, *args: Any, **keywords: Any) -> tuple[list[Any], float | None]:
        """The batches of a step, and the mean number of observations in them, over all processes."""
        batches, _ = super().get_batch_samples(*args, **keywords)
        if not batches:
            return batches, None
        total = torch.tensor(sum(map(n_observations, batches)), device=self.args.device)
        return batches, self.accelerator.gather(total).float().mean().item() / len(batches)

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: float | None = None,
    ) -> Any:
        """The loss of a batch; in training, times its share of the step's observations."""
        loss, outputs = self.mean_loss(model, inputs)
        if num_items_in_batch is not None:
            loss = loss * (n_observations(inputs) / num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def mean_loss(self, model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """The mean loss over the observations of a batch, and the outputs for an evaluation."""
        raise NotImplementedError

    def training_step(self, *args: Any, **keywords: Any) -> Tensor:
        """A step of the Trainer, whose loss is added to the sum."""
        loss = super().training_step(*args, **keywords)
        step = self.state.global_step
        total, since = self._losses or (torch.tensor(0.0, device=loss.device), step)
        passed_over = self.args.logging_nan_inf_filter and not loss.isfinite()
        total += total / (1 + step - since) if passed_over else loss  # as the Trainer does it
        self._losses = (total, since)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log numbers; the Trainer's own loss is replaced by the mean since the previous log."""
        if "loss" in logs and start_time is not None and self._losses is not None:
            total, since = self._losses
            mean = self.accelerator.gather(total).mean().item() / (self.state.global_step - since)
            logs = {**logs, "loss": mean}
            self._losses = None
        super().log(logs, start_time)

    def _inner_training_loop(self, *args: Any, **keywords: Any) -> Any:
        self._losses, self.devices = None, []
        checkpoint = keywords.get("resume_from_checkpoint")
        if checkpoint is not None and self._losses_file(checkpoint).exists():
            saved = read_json(self._losses_file(checkpoint))
            self._losses = (torch.tensor(float(saved["sum"]), device=self.args.device), saved["since_step"])
            self.devices = list(saved.get("devices", []))
        device = str(self.args.device)
        self.devices += [] if device in self.devices else [device]
        return super()._inner_training_loop(*args, **keywords)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        step = self.state.global_step
        total, since = self._losses or (torch.tensor(0.0), step)
        state = {"sum": repr(total.item()), "since_step": since, "devices": self.devices}
        write_json(self._losses_file(output_dir), state)

    def _losses_file(self, checkpoint: str) -> Path:
        return Path(checkpoint) / f"losses_{self.args.process_index}.json"


def n_observations(batch: Mapping[str, Tensor]) -> int:
    """The number of observations in a batch."""
    return len(next(iter(batch.values())))


class EvidenceTrainer(BaseTrainer):
    """`transformers.Trainer` for the batches of a `MaskSizeCollator`: the loss is the weighted sum of scores.

        loss = -(1/B) Σ_i weight_i · S_i    nats per text, the mean over the texts of a batch

    The vocabulary head is computed at the hidden positions only. Everything else is the Trainer's:
    optimizers, schedules, accumulation, mixed precision, checkpoints, several devices and machines. However
    a step is split into accumulated batches and processes, its gradient is that of the mean over all its
    texts. Gradients are in nats per text: multiply the usual `max_grad_norm` by the number of tokens of a
    text.

    The collator is told the number of each epoch, so that texts with an "id" get new masks in each epoch.
    Evaluations use the masks of the first epoch.

    The arguments are those of the Trainer; `data_collator` is a `MaskSizeCollator`, and
    `args.remove_unused_columns` must be False if texts have an "id".

    Raises:
        InputError: a different collator, or options for another loss.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        tokenizer = getattr(self.data_collator, "tokenizer", None)
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise InputError(
                f"data_collator is {type(self.data_collator).__name__}; give a MaskSizeCollator, whose "
                "batches have the weights of the loss"
            )
        if self.args.label_smoothing_factor:
            raise InputError(
                f"label_smoothing_factor is {self.args.label_smoothing_factor:g}, but a loss with smoothed "
                "labels is not the evidence; leave it at 0"
            )
        if self.compute_loss_func is not None:
            raise InputError("compute_loss_func is another loss than the evidence; leave it out")
        self._masked_lm = MaskedLM(self.model, tokenizer)
        self._train_collator = self.data_collator
        if isinstance(self.data_collator, MaskSizeCollator):
            self._train_collator = self.data_collator.at_epoch(0)
            self.add_callback(_Epochs(self._train_collator))

    def get_train_dataloader(self) -> Any:
        """The Trainer's loader, with a collator of its own that follows the epochs."""
        collator, self.data_collator = self.data_collator, self._train_collator
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collator

    def mean_loss(self, model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """Minus the weighted scores, mean over the texts of the batch, nats per text."""
        arguments = dict(inputs)
        if WEIGHT not in arguments or "labels" not in arguments:
            raise InputError(f"the batch has no {WEIGHT!r}; make batches with a MaskSizeCollator")
        labels, weight = arguments.pop("labels"), arguments.pop(WEIGHT)
        loss = evidence_loss(self._masked_lm, arguments, labels, weight, model)
        return loss, {"loss": loss}


class _Epochs(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Sets the number of the epoch in a collator."""

    def __init__(self, collator: MaskSizeCollator) -> None:
        self.collator = collator
        self.epoch = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        self.epoch = int(state.epoch or 0)  # whole epochs before the checkpoint from which training resumes

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        self.collator.set_epoch(self.epoch)
        self.epoch += 1


def evidence_loss(
    masked_lm: MaskedLM, inputs: Mapping[str, Tensor], labels: Tensor, weight: Tensor, network: Any = None
) -> Tensor:
    """-(1/B) Σ_i weight_i · S_i of a batch of a `MaskSizeCollator`, nats per text; for your own loops.

    Args:
        masked_lm: the model.
        inputs: the arguments of its transformer: input_ids, attention_mask, ...
        labels: shape (B, L); the ids of the hidden tokens, -100 elsewhere.
        weight: shape (B,).
        network: the transformer in a wrapper of distributed training, if it is wrapped.
    """
    hidden = labels != NOT_SCORED
    log_probs = masked_lm.hidden_log_probs(inputs, labels, hidden, network)
    row = hidden.nonzero()[:, 0]
    total = torch.zeros_like(weight, dtype=log_probs.dtype).index_add(0, row, log_probs)
    return -(weight.to(total.dtype) * total / hidden.sum(1)).mean()
