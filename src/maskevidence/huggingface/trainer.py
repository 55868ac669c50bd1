"""transformers' Trainer with an evidence loss, and a callback that estimates held-out evidence."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from maskevidence import EvidenceEstimate, MaskDesign, RandomSize, Tokens, estimate_evidence
from maskevidence.core.errors import InputError, import_extra
from maskevidence.huggingface.collator import NOT_SCORED, WEIGHT, MaskSizeCollator
from maskevidence.huggingface.processes import is_main_process, join_processes
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.network_calls import evaluating

_transformers = import_extra("transformers", "hf", "training by transformers")


class BaseTrainer(_transformers.Trainer):  # type: ignore[misc, name-defined]
    """`transformers.Trainer` for losses that are means over the observations of a batch.

    A step that accumulates batches of n_k observations with losses L_k has the loss and gradient of a single
    batch of all its observations, over all processes:

        loss = Σ_k n_k · L_k / Σ_k n_k

    The Trainer takes the mean of the L_k, which is wrong if the last batch of an epoch is shorter.
    """

    data_collator: Any
    # `compute_loss` returns a batch's mean times its share, which averages 1 over the accumulated batches;
    # the Trainer divides by their number.
    loss_is_scaled_for_ga = False

    def __init__(self, model: Any = None, args: Any = None, *others: Any, **keywords: Any) -> None:
        if args is not None:
            join_processes(args)
        super().__init__(model, args, *others, **keywords)
        self.model_accepts_loss_kwargs = False  # for versions without `loss_is_scaled_for_ga`

    def get_batch_samples(self, *args: Any, **keywords: Any) -> tuple[list[Any], float | None]:
        """A step's batches, and the mean number of observations per batch over all processes."""
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
        """The loss of a batch; in training, weighted by its share of the step's observations."""
        loss, outputs = self.mean_loss(model, inputs)
        if num_items_in_batch is not None:
            loss = loss * (n_observations(inputs) / num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def mean_loss(self, model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """The mean loss over a batch's observations, and the outputs for evaluation."""
        raise NotImplementedError


def n_observations(batch: Mapping[str, Tensor]) -> int:
    """The number of observations in a batch."""
    return len(next(iter(batch.values())))


class EvidenceTrainer(BaseTrainer):
    """`transformers.Trainer` for batches of `MaskSizeCollator`: the loss is the weighted sum of scores.

        loss = -(1/B) Σ_i weight_i · S_i    nats per text, the mean over the texts of a batch

    The vocabulary head is computed at the hidden positions only. Everything else is the Trainer's:
    optimizers, schedules, accumulation, mixed precision, checkpoints, several devices and machines. However a
    step is split into accumulated batches and processes, its gradient is the gradient of the mean over all
    its texts. Gradients are in nats per text: multiply the usual `max_grad_norm` by the number of tokens of a
    text.

    The collator is told the number of each epoch, so that texts with an "id" get new masks in each epoch.
    Evaluations use the masks of the first epoch.

    The arguments are the Trainer's; `data_collator` is a `MaskSizeCollator`, and `args.remove_unused_columns`
    must be False if texts have an "id".

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
        if self.compute_metrics is not None:
            raise InputError(
                "compute_metrics needs a prediction for each token, which this loss does not make; leave it "
                "out, and add an EvidenceCallback for numbers of the evaluation"
            )
        self._masked_lm = MaskedLM(self.model, tokenizer)
        self._train_collator = self.data_collator
        if isinstance(self.data_collator, MaskSizeCollator):
            self._train_collator = self.data_collator.at_epoch(0)
            self.add_callback(_Epochs(self._train_collator))

    def get_train_dataloader(self) -> Any:
        """The Trainer's loader, with a collator that follows the epochs."""
        self._say_what_is_seen_twice()
        collator, self.data_collator = self.data_collator, self._train_collator
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collator

    def _say_what_is_seen_twice(self) -> None:
        """Warn if accelerate repeats texts to fill the last batches of an epoch."""
        data, arguments = self.train_dataset, self.args
        if not hasattr(data, "__len__") or arguments.world_size == 1 or arguments.dataloader_drop_last:
            return
        together = self._train_batch_size * arguments.world_size
        n_twice = -len(data) % together
        if n_twice and is_main_process():
            warnings.warn(
                f"the last step of an epoch sees {n_twice} of the {len(data)} texts again, so that each of "
                f"the {arguments.world_size} processes has a full batch; for the steps of one process, give "
                f"a multiple of {together} texts, or dataloader_drop_last=True",
                stacklevel=3,
            )

    def mean_loss(self, model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """Minus the weighted scores, averaged over the texts of the batch, nats per text."""
        arguments = dict(inputs)
        if WEIGHT not in arguments or "labels" not in arguments:
            raise InputError(f"the batch has no {WEIGHT!r}; make batches with a MaskSizeCollator")
        labels, weight = arguments.pop("labels"), arguments.pop(WEIGHT)
        loss = evidence_loss(self._masked_lm, arguments, labels, weight, model)
        return loss, {"loss": loss}


class _Epochs(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Set the epoch of a collator."""

    def __init__(self, collator: MaskSizeCollator) -> None:
        self.collator = collator
        self.epoch = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        self.epoch = int(state.epoch or 0)  # whole epochs before the checkpoint, when training resumes

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        self.collator.set_epoch(self.epoch)
        self.epoch += 1


def evidence_loss(
    masked_lm: MaskedLM, inputs: Mapping[str, Tensor], labels: Tensor, weight: Tensor, network: Any = None
) -> Tensor:
    """-(1/B) Σ_i weight_i · S_i of a `MaskSizeCollator` batch, nats per text, for your own training loop.

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


class EvidenceCallback(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Estimate and log the log evidence at the start, at regular steps and at the end of training.

        trainer.add_callback(EvidenceCallback(trainer, held_out))

    `trainer.log`, and therefore everything that `report_to` names, receives `evidence_log_evidence` (the area
    under the curve, nats per observation), `evidence_mask_se`, `evidence_data_se`, `evidence_per_token` and
    `evidence_seconds`; an error that is not known is left out. The estimates themselves, with their curves,
    are in `estimates`.

    If the Trainer evaluates (`eval_strategy`), each evaluation has these numbers as well, of the same step:
    `metric_for_best_model="evidence_log_evidence"` keeps the best model by the evidence. To stop early by it,
    add transformers' `EarlyStoppingCallback` after this one.

    Each estimate costs design.n_draws forward passes per observation, without gradients, on
    the main process only. All estimates use the same masks, so that differences come from the model. The
    estimate does not change the training: dropout is off, no random number is drawn, and the model's mode is
    restored.

    Args:
        trainer: the Trainer to which the callback is added.
        data: the observations to score.
        design: how masks are drawn; by default `RandomSize(8)`, or more draws for few observations, so that
            the error of the masks is known.
        model: the `MaskedModel` to score; by default `MaskedLM` of the trainer's model and its tokenizer.
        every: steps between two estimates; by default 5 % of the training, but at least 1.
        seed: seed of the masks.

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
        fewest = RandomSize(RandomSize(8).enough_draws(data.n_tokens.cpu().numpy(), "own"))
        self.design = fewest if design is None else design
        self.every = every
        self.seed = seed
        self.estimates: list[tuple[int, EvidenceEstimate]] = []
        self._latest: EvidenceEstimate | None = None  # of the current weights, or None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Estimate before the first step, or the first step after a checkpoint."""
        self._estimate(state)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Drop the estimate, because this step changes the weights."""
        self._latest = None

    def on_train_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Drop the last estimate, because the Trainer may have reloaded the best checkpoint."""
        self._latest = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        """Estimate at every `every` steps and at the last step."""
        every = self.every or max(1, state.max_steps // 20)
        if state.global_step % every == 0 or state.global_step == state.max_steps:
            self._estimate(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_keywords: Any) -> None:
        """Add the current estimate to the metrics of an evaluation, on every process."""
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
        start = time.perf_counter()
        with evaluating(self.model), torch.no_grad():
            estimate = estimate_evidence(self.model, self.data, self.design, seed=self.seed)
        self.estimates.append((state.global_step, estimate))
        self._latest = estimate
        seconds = {"evidence_seconds": time.perf_counter() - start}
        # `log` clears this flag on the main process only; the other processes would wait for its losses
        # forever
        should_log = self.trainer.control.should_log
        self.trainer.log(self._values(estimate) | seconds)
        self.trainer.control.should_log = should_log

    def _values(self, estimate: EvidenceEstimate) -> dict[str, float]:
        """The numbers to log; unknown errors are left out."""
        values = {
            "log_evidence": estimate.log_evidence,
            "mask_se": estimate.mask_se,
            "data_se": estimate.data_se,
            "per_token": estimate.per_token,
        }
        return {f"evidence_{name}": value for name, value in values.items() if value is not None}
