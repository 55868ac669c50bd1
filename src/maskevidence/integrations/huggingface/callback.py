"""The log evidence of held-out data while transformers' Trainer runs."""

import time
from typing import Any

import torch

from maskevidence import EvidenceEstimate, MaskDesign, RandomSize, Tokens, estimate_evidence
from maskevidence.errors import InputError, import_extra
from maskevidence.models import MaskedLM

_transformers = import_extra("transformers", "hf", "a callback of transformers' Trainer")


class EvidenceCallback(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Estimates and logs the log evidence at the start, at regular steps and at the end.

        trainer.add_callback(EvidenceCallback(trainer, held_out))

    `trainer.log`, and therefore everything that `report_to` names, receives `evidence_log_evidence` (the area
    under the curve, nats per observation), `evidence_mask_se`, `evidence_data_se`, `evidence_per_token` and
    `evidence_seconds`; an error that is not known is left out. The estimates themselves, with their curves,
    are in `estimates`.

    If the Trainer evaluates (`eval_strategy`), each evaluation has these numbers as well, of the same step:
    `metric_for_best_model="evidence_log_evidence"` keeps the best model by the evidence. To stop early by it,
    add transformers' `EarlyStoppingCallback` after this one.

    Each estimate costs design.n_draws forward passes per observation (8 by default), without gradients, on
    the main process alone. The masks are always the same, so that differences come from the model. Dropout
    is switched off meanwhile, no random number is drawn, and the model's mode is restored: the callback does
    not change the training.

    Args:
        trainer: the Trainer to which the callback is added.
        data: the observations to score.
        design: how masks are drawn; by default `RandomSize(8)`.
        model: the `MaskedModel` to score; by default `MaskedLM` of the trainer's model and its tokenizer.
        every: steps between two estimates; by default 5 % of the training, but at least 1.
        seed: seed of the masks.
        prefix: prefix of the logged names.

    Attributes:
        estimates: (step, estimate) of each estimate, in order.

    Raises:
        InputError: `every` is below 1, or there is no tokenizer.
    """

    def __init__(
        self,
        trainer: Any,
        data: Tokens,
        design: MaskDesign | None = None,
        *,
        model: Any = None,
        every: int | None = None,
        seed: int = 0,
        prefix: str = "evidence",
    ) -> None:
        if every is not None and every < 1:
            raise InputError(f"every={every}; give a number of steps, 1 or more")
        tokenizer = getattr(trainer, "processing_class", None)
        tokenizer = tokenizer or getattr(trainer.data_collator, "tokenizer", None)
        if model is None and tokenizer is None:
            raise InputError(
                "the trainer has no tokenizer; give it processing_class=tokenizer, or give model="
            )
        self.trainer = trainer
        self.model = MaskedLM(trainer.model, tokenizer) if model is None else model
        self.data = data
        self.design = RandomSize(8) if design is None else design
        self.every = every
        self.seed = seed
        self.prefix = prefix
        self.estimates: list[tuple[int, EvidenceEstimate]] = []
        self._latest: EvidenceEstimate | None = None  # of the weights as they are now, if there is one

    def on_train_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Estimate before the first step, or before the next one after a checkpoint."""
        self._estimate(state)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Forget the estimate of the weights that this step changes."""
        self._latest = None

    def on_train_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Forget the estimate of the last step: the Trainer may have gone back to the best one."""
        self._latest = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Estimate if it is time."""
        every = self.every or max(1, state.max_steps // 20)
        if state.global_step % every == 0 or state.global_step == state.max_steps:
            self._estimate(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_keywords: Any) -> None:
        """Add the numbers of this step to the numbers of an evaluation, on every process."""
        if self._latest is None:
            self._estimate(state)
        values = [None if self._latest is None else self._values(self._latest)]
        if args.world_size > 1:
            utils = import_extra("accelerate.utils", "hf", "training on several processes")
            utils.broadcast_object_list(values)
        if metrics is not None:
            metrics.update({f"eval_{name}": value for name, value in (values[0] or {}).items()})

    def _estimate(self, state: Any) -> None:
        if not state.is_world_process_zero:
            return
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        start = time.perf_counter()
        try:
            with torch.no_grad():
                estimate = estimate_evidence(self.model, self.data, self.design, seed=self.seed)
        finally:
            for module, training in modes:
                module.training = training
        self.estimates.append((state.global_step, estimate))
        self._latest = estimate
        seconds = {f"{self.prefix}_seconds": time.perf_counter() - start}
        self.trainer.log(self._values(estimate) | seconds)

    def _values(self, estimate: EvidenceEstimate) -> dict[str, float]:
        """The logged numbers of an estimate; an unknown error is left out."""
        values = {
            "log_evidence": estimate.log_evidence,
            "mask_se": estimate.mask_se,
            "data_se": estimate.data_se,
            "per_token": estimate.per_token,
        }
        return {f"{self.prefix}_{name}": value for name, value in values.items() if value is not None}
