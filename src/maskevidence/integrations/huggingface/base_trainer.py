"""What the trainers of this package add to transformers' Trainer, whatever their loss is."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import import_extra
from maskevidence.support.files import read_json, write_json

_transformers = import_extra("transformers", "hf", "training by transformers")


class BaseTrainer(_transformers.Trainer):  # type: ignore[misc, name-defined]
    """`transformers.Trainer` whose logged loss does not depend on interruptions.

    The loss of a log is the mean over the steps since the previous log. The Trainer forgets the losses before
    a checkpoint when it resumes; this class saves their sum with the random state of each process.
    """

    # The loss is a mean over a batch; the Trainer divides it by the number of accumulated batches.
    loss_is_scaled_for_ga = False

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._losses: tuple[Tensor, int] | None = None  # their sum since a step; None before the first
        super().__init__(*args, **keywords)
        self.model_accepts_loss_kwargs = False  # for versions without the attribute above

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
        self._losses = None
        checkpoint = keywords.get("resume_from_checkpoint")
        if checkpoint is not None and self._losses_file(checkpoint).exists():
            saved = read_json(self._losses_file(checkpoint))
            self._losses = (torch.tensor(float(saved["sum"]), device=self.args.device), saved["since_step"])
        return super()._inner_training_loop(*args, **keywords)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        step = self.state.global_step
        total, since = self._losses or (torch.tensor(0.0), step)
        write_json(self._losses_file(output_dir), {"sum": repr(total.item()), "since_step": since})

    def _losses_file(self, checkpoint: str) -> Path:
        return Path(checkpoint) / f"losses_{self.args.process_index}.json"
