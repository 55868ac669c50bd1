"""Small BERTs on the English text that comes with Python, for comparisons anywhere."""

from dataclasses import dataclass
from typing import Any

import torch

from maskevidence.data.python_topics import python_topics
from maskevidence.integrations.huggingface.masked_lm_training import train_masked_lm
from maskevidence.integrations.huggingface.recipe import Recipe
from maskevidence.masks import MaskDesign
from maskevidence.models.text.frequencies import frequency_score
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.models.text.new_bert import SIZES, new_bert, word_pieces
from maskevidence.tokens import Tokens

HELD_OUT = 0.1


@dataclass(frozen=True)
class EmbeddedText:
    """The text in blocks of 64 tokens, with a tokenizer made from it.

    Attributes:
        tokenizer: by default 2,048 word pieces, made from the training part.
        train: the first nine tenths of the lines.
        held_out: the last tenth of the lines.
        device: where models are made and trained; None for new models on the processor, trained on the
            fastest device.
    """

    tokenizer: Any
    train: Tokens
    held_out: Tokens
    device: torch.device | None = None

    def new_model(self, seed: int = 0) -> MaskedLM:
        """A BERT with 2 layers of width 128 and random weights."""
        model = new_bert(self.tokenizer, seed=seed)
        return model if self.device is None else model.to(self.device)

    def trained(self, design: MaskDesign, recipe: Recipe) -> MaskedLM:
        """A new model trained with the masks of a design; the seed of the recipe also sets its weights."""
        model = self.new_model(recipe.seed)
        train_masked_lm(model, self.train, design, recipe, device=self.device)
        return model

    def unigram_score(self) -> float:
        """Mean log-probability of a held-out token by its frequency in the other part, nats."""
        return frequency_score(self.train, self.held_out, len(self.tokenizer))


def embedded_text(vocabulary_size: int | None = None) -> EmbeddedText:
    """Read the text and cut it into blocks.

    Args:
        vocabulary_size: the number of word pieces; by default 2,048.

    Raises:
        InputError: this Python was installed without the text.

    Example:
        >>> text = embedded_text(vocabulary_size=512)
        >>> text.train.width, len(text.train) > 5 * len(text.held_out)
        (64, True)
    """
    lines = python_topics()
    n_train = len(lines) - round(len(lines) * HELD_OUT)
    size = SIZES["small"]
    tokenizer = word_pieces(lines[:n_train], vocabulary_size or size.vocabulary_size)
    model = new_bert(tokenizer)
    train, held_out = (
        model.tokens(part, block_size=size.block_size) for part in (lines[:n_train], lines[n_train:])
    )
    return EmbeddedText(tokenizer, train, held_out)
