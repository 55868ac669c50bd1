"""Masked training with transformers: the collator, the trainer, the callback, and a training from start to
end."""

from maskevidence.integrations.callback import EvidenceCallback
from maskevidence.integrations.collator import MaskSizeCollator
from maskevidence.integrations.pretraining import Recipe, Trained, train_masked_lm
from maskevidence.integrations.small_bert import load_tokenizer, new_bert, word_pieces
from maskevidence.integrations.trainer import EvidenceTrainer, evidence_loss

__all__ = [
    "EvidenceCallback",
    "EvidenceTrainer",
    "MaskSizeCollator",
    "Recipe",
    "Trained",
    "evidence_loss",
    "load_tokenizer",
    "new_bert",
    "train_masked_lm",
    "word_pieces",
]
