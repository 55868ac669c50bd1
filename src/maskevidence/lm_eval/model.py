"""The model class for the lm-evaluation-harness."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.model import fingerprint
from maskevidence.core.support.files import check_place, write_json
from maskevidence.lm_eval.answering import Answerer, ScoredContinuation, Settings, whole_word
from maskevidence.lm_eval.harness import (
    AnswerCache,
    calling_tasks,
    evidence_report,
    write_errors,
)
from maskevidence.lm_eval.texts import Decoding
from maskevidence.lm_eval.values import ScoredValue
from maskevidence.texts.masked_lm import MaskedLM

_harness: Any = import_extra("lm_eval.api.model", "lm-eval", "the lm-evaluation-harness")
_registry: Any = import_extra("lm_eval.api.registry", "lm-eval", "the lm-evaluation-harness")
NAME = "maskevidence"
_OF_HARNESS = "cuda:0"  # the harness's default device


@_registry.register_model(NAME)
class MaskedEvidenceLM(_harness.LM):  # type: ignore[misc]
    """A masked or diffusion language model for EleutherAI's lm-evaluation-harness.

    The value of a continuation is the log evidence of its tokens given the context, which is visible and
    never scored: a lower bound on the log-probability of the mixture over orders, in nats. A decision between
    choices uses as few masks as possible (see `maskevidence.lm_eval.race`), and values have Monte-Carlo
    errors (`ScoredValue`). A continuation is greedy if unmasking the most confident token first, one by one,
    reproduces it.

    Args:
        pretrained: a folder, OWNER/NAME on the hub, or a `MaskedLM`.
        score: "evidence"; "mixture", the log of the mean probability over orders (up to 12 tokens); "pll",
            the pseudo-log-likelihood; "llada", LLaDA's estimator.
        target: "decision", or "decision:0.995" with the probability that the best choice is kept in the
            race; or a number of masks for every continuation.
        masks: the largest number of masks of a continuation where it is raced, and the number of masks
            where the task reads the values themselves.
        seed: of the masks. They depend on it and on the text of the context, not on batches or on order.
        evidence: a JSON file for the errors of the metrics, written when the evaluation ends.
        batch_size: masked texts in one call; "auto" leaves it to the model.
        max_batch_size: the largest batch_size.
        max_length: the longest text that the model reads, special tokens included.
        max_gen_toks: tokens of a generated text; this and the next three are defaults, which a task can set.
        steps: passes of a generated text; by default one for each token.
        block_length: tokens of a block of a generated text; by default one block.
        temperature: of generated text.
        loading: device, device_map, dtype, tokenizer, revision, mask_id, diffusion and trust_remote_code,
            as for `MaskedLM.from_pretrained`.

    Attributes:
        latest: the errors of the tasks of the latest evaluation in this process; None before one.

    Raises:
        InputError: words or numbers that are not known, or a model that cannot be loaded.
        MissingExtraError: lm-eval is not installed.
    """

    latest: ClassVar[dict[str, Any] | None] = None

    def __init__(
        self,
        pretrained: Any,
        *,
        score: str = "evidence",
        target: str | int = "decision",
        masks: int = 64,
        seed: int = 0,
        evidence: str | Path | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        steps: int | None = None,
        block_length: int | None = None,
        temperature: float = 0.0,
        **loading: Any,
    ) -> None:
        super().__init__()
        self.settings = Settings.parse(score=score, target=target, masks=masks, seed=seed)
        self.decoding = Decoding(max_gen_toks, block_length, steps, temperature)
        size = _batch_size(batch_size, max_batch_size)
        self.evidence = None if evidence is None else Path(evidence)
        if self.evidence is not None:
            check_place(self.evidence)
        self.model = pretrained if isinstance(pretrained, MaskedLM) else _load(pretrained, loading)
        if self.model.tokenizer is None:
            raise InputError("the model has no tokenizer; give one")
        limits = [limit for limit in (self.model.max_tokens, max_length) if limit is not None]
        self.max_length = min(limits, default=None)
        self.tokenizer = self.model.tokenizer
        self.answerer = Answerer(self.model, self.settings, size, self.max_length)
        self._device = self.model.device
        self._tasks: dict[str, Any] = {}

    def loglikelihood(self, requests: Sequence[Any], **_: Any) -> list[ScoredContinuation]:
        """Each continuation's value given its context, and whether it is greedy."""
        self._tasks |= calling_tasks()
        return self.answerer.continuations(requests, self._tasks)

    def loglikelihood_rolling(self, requests: Sequence[Any], **_: Any) -> list[ScoredValue]:
        """The log evidence of whole texts, in windows that score each token once."""
        self._tasks |= calling_tasks()
        return self.answerer.texts(requests)

    def generate_until(self, requests: Sequence[Any], **_: Any) -> list[str]:
        """Generate text after each context, up to the first stop sequence."""
        self._tasks |= calling_tasks()
        return self.answerer.written(requests, self.decoding)

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Use the harness's answer cache; refuse it if its answers are from another model, score or seed.

        Raises:
            InputError: it does.
        """
        super().set_cache_hook(cache_hook)
        self.answerer.cache = AnswerCache(cache_hook, self._depends_on())

    def _depends_on(self) -> dict[str, str]:
        """The model and settings that determine the answers."""
        return {
            "model": fingerprint(self.model) or "",
            **self.settings.described(),
            "max_length": str(self.max_length),
            "decoding": repr(self.decoding),
        }

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Format a conversation as text by the tokenizer's template.

        Raises:
            InputError: the tokenizer has none.
        """
        if not getattr(self.tokenizer, "chat_template", None):
            raise InputError("the tokenizer has no chat template; leave out --apply_chat_template")
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The tokenizer's template, for the harness's record; selected by name if there are several."""
        templates = getattr(self.tokenizer, "chat_template", None)
        if isinstance(templates, dict):
            return templates.get(chat_template if isinstance(chat_template, str) else "default")
        return templates

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's name, part of the key of the harness's request cache."""
        return str(getattr(self.tokenizer, "name_or_path", "")).replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """The metrics' errors, to be written into the harness's results."""
        self._tasks |= calling_tasks()
        network = type(self.model.network).__name__
        report = evidence_report(
            self._tasks, self.answerer, {"network": network, **self.settings.described()}
        )
        write_errors(self._tasks)
        type(self).latest = report["tasks"]
        if self.evidence is not None:
            write_json(self.evidence, report)
        return {"maskevidence": report}


def _load(name: Any, loading: dict[str, Any]) -> MaskedLM:
    allowed = (
        *("device", "device_map", "dtype", "tokenizer", "revision", "mask_id", "diffusion"),
        "trust_remote_code",
    )
    unknown = sorted(set(loading) - set(allowed))
    if unknown:
        raise InputError(
            f"model argument {unknown[0]!r} is not known; known besides those of MaskedEvidenceLM are "
            f"{', '.join(allowed)}"
        )
    asked = {key: value for key, value in loading.items() if value is not None}
    if asked.get("device") == _OF_HARNESS and not torch.cuda.is_available():
        asked["device"] = "auto"
    return MaskedLM.from_pretrained(str(name), **asked)


def _batch_size(size: int | str | None, largest: int | None) -> int | None:
    """Texts per call; None leaves the choice to the model."""
    if size is None or str(size).startswith("auto"):
        return largest
    number = whole_word("batch_size", size, 1, "auto or")
    return number if largest is None else min(number, largest)
