"""The kind "texts"; imports torch only when needed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.kind import Kind, ModelWord
from maskevidence.texts.text_options import GLUE, ScoredTextOptions, TextOptions

_IN_BFLOAT16 = 0.05  # relative to 1 + |answer|


class TextKind(Kind):
    """Texts and masked language models."""

    name = "texts"
    nouns = "masked language models"
    data = ("glue/qnli:validation",)
    data_sets = (*(f"glue/{name}" for name in GLUE), "tiny-shakespeare", "python-topics")
    files = ("a .txt or .jsonl file",)
    examples: Mapping[str, str] = {
        "score": "google-bert/bert-base-uncased",
        "check": "google-bert/bert-base-uncased",
    }
    options: Mapping[str, type] = {"score": ScoredTextOptions, "check": TextOptions}
    folders: Mapping[str, tuple[str, str]] = {
        "pairs.json": ("folder of pairs of texts", "maskevidence.texts.score_pairs:read_pairs")
    }
    tells_tokens = True
    precedence = 1
    designs: Mapping[str, str] = {
        "random-time": "maskevidence.texts.published:RandomTime",
        "llada": "maskevidence.texts.published:LLaDA",
    }
    checks = (
        "maskevidence.texts.text_checks:n_bytes",
        "maskevidence.texts.text_checks:scored_tokens",
        "maskevidence.texts.text_checks:unknown",
        "maskevidence.texts.text_checks:length_limit",
        "maskevidence.texts.high_rates:high_rates",
    )

    def claims(self, word: ModelWord) -> bool:
        if word.is_folder and word.config is None:
            named = ("tokenizer_config.json", "adapter_config.json")  # an adapter is refused by its name
            return any((Path(word.text) / name).exists() for name in named)
        if word.is_folder:  # other folders than those of models that this package has saved
            return isinstance(word.config, dict) and not {"class", "image_size"} & word.config.keys()
        return word.on_hub

    def design_for(self, options: Any) -> str:
        if options.recipe is None:
            return self.design
        from maskevidence.texts.recipes import RECIPES

        return RECIPES[options.recipe].design

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        from maskevidence.texts.prepared_texts import prepare_texts

        return prepare_texts(model, data, design, options)

    def score(self, model: str, data: str, design: Any, options: Any, run: Any) -> Any:
        if getattr(options, "against", None) is None:
            if getattr(options, "by", None) is not None:
                raise InputError("--by groups pairs; name the second texts, too: --against COLUMN")
            return None
        from maskevidence.texts.score_pairs import score_pairs

        return score_pairs(model, data, design, options, run)

    def check_with(self, options: Any) -> tuple[str, float | None]:
        design = "leave-one-out" if options.hides_words else "random-size"
        return design, _IN_BFLOAT16 if options.checkpoint.bf16 else None

    def token_scores(self, prepared: Any, scores: Any) -> list[dict[str, Any]]:
        from maskevidence.texts.prepared_texts import token_scores

        return token_scores(prepared, scores)

    def read_again(self, manifest: Any, ids: Any) -> Any:
        from maskevidence.texts.shown_texts import read_texts_again

        return read_texts_again(manifest)

    def remarks(self, *, has_scores: bool, coloured: bool) -> list[str]:
        if not has_scores:
            return ["Tokens have scores of their own only with --design leave-one-out:per-token."]
        if coloured:
            return []
        return [
            "The run keeps no tokens. Run its command again with --design leave-one-out:per-token, which "
            "writes them and scores nothing again."
        ]


texts = TextKind()
