"""Options of masked language models and their texts."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from maskevidence.command.options import BatchTokens, Device, IdColumn, Option, Revision, Sample

GLUE = ("ax", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
Long = Literal["error", "split", "truncate"]
DiffusionName = Literal["llada", "dream", "mdlm", "sedd", "bd3lm"]
RecipeName = Literal["mdlm", "llada", "sedd", "bd3lm"]
WeightsDtype = Literal["float32", "tf32", "float64", "bfloat16", "float16", "auto"]

Text = Annotated[str | None, Option("Column of the texts; two columns make pairs.", "COLUMN[,COLUMN]")]

BlockSize = Annotated[
    int | None,
    Option("Pack running text into blocks of this many tokens.", min=1),
]

Tokenizer = Annotated[
    str | None, Option("The model's tokenizer, if it is not stored with the model.", "FOLDER|NAME")
]

AllowUnknown = Annotated[bool, Option("Accept more than 20 % unknown letters.")]

SkipEmpty = Annotated[bool, Option("Leave out rows without text, and say how many.")]

Upper = Annotated[bool, Option("Make small letters capital: soft-masked proteins and DNA.")]

Pattern = Annotated[
    str | None,
    Option(
        "Regular expression of a token, such as '.', to read a plain vocab.txt.",
        "REGEX",
    ),
]


@dataclass(frozen=True)
class CheckpointOptions:
    """Options to load a masked language model and its tokenizer, and to choose its device."""

    panel: ClassVar[str] = "Model"

    revision: Revision = None
    tokenizer: Tokenizer = None
    pattern: Pattern = None
    mask_id: Annotated[
        int | None, Option("Id of the mask token, if neither tokenizer nor model says.", "ID", min=0)
    ] = None
    diffusion: Annotated[
        DiffusionName | None,
        Option("Family of a diffusion model, if its configuration does not say."),
    ] = None
    model_class: Annotated[
        str | None,
        Option("Class of the model in an installed package, for one outside transformers.", "MODULE:CLASS"),
    ] = None
    bf16: Annotated[bool, Option("Compute under bfloat16 autocast.")] = False
    attn_implementation: Annotated[
        str | None, Option("Attention of transformers: eager, sdpa or flash_attention_2.", "NAME")
    ] = None
    trust_remote_code: Annotated[bool, Option("Run code that comes with the model.")] = False
    device: Device = None
    dtype: Annotated[
        WeightsDtype | None,
        Option(
            "Precision of the weights, and tf32 of products on a GPU; by default float32, and auto (the "
            "checkpoint's) for diffusion.",
        ),
    ] = None
    batch_tokens: BatchTokens = None


@dataclass(frozen=True)
class TextOptions(Sample):
    """Options to load a masked language model, and to read and encode the texts to score."""

    kind: ClassVar[str] = "texts"
    panel: ClassVar[str] = "Texts"

    id_column: IdColumn = None
    text: Text = None
    context_field: Annotated[
        str | None, Option("Column of prompts: always visible, never scored.", "COLUMN")
    ] = None
    pair: Annotated[
        bool, Option("Put the separator of pairs ([SEP]) between prompt and text; by default a blank.")
    ] = False
    block_size: BlockSize = None
    long: Annotated[Long | None, Option("What to do with texts that are too long; by default error.")] = None
    whole_words: Annotated[bool, Option("With leave-one-out: hide whole words.")] = False
    word_l2r: Annotated[bool, Option("With leave-one-out: hide later pieces of the word, too.")] = False
    allow_unknown: AllowUnknown = False
    skip_empty: SkipEmpty = False
    upper: Upper = False
    recipe: Annotated[
        RecipeName | None,
        Option("Texts, tokens and masks as the public evaluation of these diffusion models has them."),
    ] = None
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)

    @property
    def hides_words(self) -> str | None:
        """The flag that hides other pieces of the same word, or None."""
        return "--whole-words" if self.whole_words else "--word-l2r" if self.word_l2r else None


@dataclass(frozen=True)
class ScoredTextOptions(TextOptions):
    """`TextOptions`, plus the second texts of pairs."""

    against: Annotated[
        str | None,
        Option("Column of second texts: which text of each pair is more probable.", "COLUMN"),
    ] = None
    by: Annotated[
        str | None,
        Option(
            "With --against: column of groups, such as phenomena, each with its share of pairs.", "COLUMN"
        ),
    ] = None
