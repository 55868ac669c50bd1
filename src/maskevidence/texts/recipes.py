"""The conventions behind published perplexities of diffusion language models: texts, tokens and masks.

A recipe gives defaults to options that exist without it; options that the user gives win. Where a convention
is biased, the result says by how much (`MaskDesign.weight_by_size`).
"""

from dataclasses import dataclass
from typing import Any

from maskevidence.texts.text_options import RecipeName

_TIMES = "eps=0.001,noise-eps=0.001"


@dataclass(frozen=True)
class PublishedRecipe:
    """The convention of one repository.

    Attributes:
        source: the repository and its files.
        design: the word of the masks.
        number: what the repository calls its number; None if it has no perplexity.
        per: what the perplexity is per.
        block_size: tokens of a block; None for one observation per text.
        ends: whether a block begins and ends with special tokens, which are scored.
        visible: how many first tokens of a block are not scored.
        apart: in what its own number differs from ours on the same masks; empty where in nothing.
    """

    source: str
    design: str
    number: str | None = None
    per: str = ""
    block_size: int | None = None
    ends: bool = False
    visible: int = 0
    apart: str = ""

    def to_dict(self, name: str) -> dict[str, Any]:
        """The recipe's entries in a result, as JSON values."""
        return {"name": name, "source": self.source, "number": self.number, "per": self.per}


RECIPES: dict[RecipeName, PublishedRecipe] = {
    "mdlm": PublishedRecipe(
        "kuleshov-group/mdlm, dataloader.py and diffusion.py",
        f"random-time:8,{_TIMES}",
        "perplexity bound",
        "token, separators and ends of blocks included",
        1024,
        ends=True,
    ),
    "llada": PublishedRecipe("ML-GSAI/LLaDA, eval_llada.py", "llada:128,batch=32"),
    "sedd": PublishedRecipe(
        "louaaron/Score-Entropy-Discrete-Diffusion, data.py and losses.py",
        f"random-time:8,{_TIMES}",
        "perplexity bound",
        "token, separators included",
        1024,
        apart="SEDD's own number is its score entropy, which is larger where scores are not normalised",
    ),
    "bd3lm": PublishedRecipe(
        "kuleshov-group/bd3lms, dataloader.py and diffusion.py",
        "random-time:4,eps=0.001,blocks=4,offset=1",
        "perplexity bound",
        "token, separators included, the first of a block not",
        1024,
        visible=1,
    ),
}
