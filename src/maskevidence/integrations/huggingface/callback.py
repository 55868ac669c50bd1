"""The evidence of held-out texts, or of any data, while transformers' Trainer runs."""

import time
from typing import Any

import torch

from maskevidence.errors import InputError, import_extra
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.masks import MaskDesign, RandomSize
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.tokens import Tokens

_transformers = import_extra("transformers", "hf", "a callback of transformers' Trainer")


class EvidenceCallback(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Estimates the log evidence at the start, every so many steps and at the end, and logs it.

        trainer.add_callback(EvidenceCallback(trainer, held_out))

    Logged by `trainer.log`, and so by whatever `report_to` names: `evidence_log_evidence` (the area under the
    curve, nats per observation), `evidence_mask_se`, `evidence_data_se`, `evidence_per_token` and
    `evidence_seconds`. The estimates themselves, with their curves, are in `estimates`.

    It costs design.n_draws forward passes per observation each time (8 with the default), without
    gradients, on the main process alone. The masks are the same each time, so that changes are the model's;
    dropout is off while it runs, no random number is drawn, and the model's mode is put back: training goes
    on as if it had not been.

    Args:
        trainer: the Trainer that it is added to.
        data: the observations to score.
        design: how masks are drawn; by default `RandomSize(8)`.
        model: the `MaskedModel` to score; by default `MaskedLM` of the trainer's model and its tokenizer.
        every: steps between two estimates; by default 5 % of the training, and 1 at least.
        seed: of the masks.
        prefix: of the names that are logged.

    Attributes:
        estimates: (step, estimate) of each, in order.

    Raises:
        InputError: `every` below 1, or no tokenizer.
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

    def on_train_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """An estimate before the first step (or before the next one, after a checkpoint)."""
        self._estimate(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """An estimate where one is due."""
        every = self.every or max(1, state.max_steps // 20)
        if state.global_step % every == 0 or state.global_step == state.max_steps:
            self._estimate(state)

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
        values = {
            "log_evidence": estimate.log_evidence,
            "mask_se": estimate.mask_se,
            "data_se": estimate.data_se,
            "per_token": estimate.per_token,
            "seconds": time.perf_counter() - start,
        }
        self.trainer.log({f"{self.prefix}_{name}": v for name, v in values.items() if v is not None})
