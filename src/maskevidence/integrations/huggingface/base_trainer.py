"""What the trainers of this package add to transformers' Trainer, whatever their loss is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import import_extra
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
        place = str(self.args.device)
        self.devices += [] if place in self.devices else [place]
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
