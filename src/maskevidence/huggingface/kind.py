"""Kinds of `train` for transformers."""

from collections.abc import Mapping
from typing import Any

from maskevidence.core.kind import Kind, ModelWord
from maskevidence.huggingface.training_options import MASKED_LM, TextTraining


class MaskedLMTraining(Kind):
    """Train new masked language models."""

    name = MASKED_LM
    nouns = "masked language models"
    examples: Mapping[str, str] = {"train": MASKED_LM}
    options: Mapping[str, type] = {"train": TextTraining}

    def claims(self, word: ModelWord) -> bool:
        return word.text == MASKED_LM

    def train(self, model: str, data: str, options: Any) -> Any:
        from maskevidence.huggingface.masked_lm_training import train_texts

        return train_texts(data, options)

    def training_page(self, content: Mapping[str, Any]) -> Any:
        from maskevidence.huggingface.masked_lm_training import page_of_text_training

        return page_of_text_training(content)


training = MaskedLMTraining()
