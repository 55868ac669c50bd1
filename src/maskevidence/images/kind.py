"""The kind "images"; imports torch only when needed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskevidence.core.kind import Kind, ModelWord
from maskevidence.images.image_options import ImageOptions


class ImageKind(Kind):
    """Images and masked image models."""

    name = "images"
    nouns = "masked image models"
    precedence = 2
    data = ("mnist:test",)
    data_sets = ("mnist", "fashion-mnist", "cifar100", "tiny-imagenet")
    files = ("a folder of images",)
    examples: Mapping[str, str] = {"score": "facebook/vit-mae-base", "check": "facebook/vit-mae-base"}
    options: Mapping[str, type] = {"score": ImageOptions, "check": ImageOptions}

    def claims(self, word: ModelWord) -> bool:
        if word.on_hub and word.config is None:
            return re.search(r"vit|mae", word.text.lower()) is not None
        return isinstance(word.config, dict) and "image_size" in word.config and "class" not in word.config

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        from maskevidence.images.prepared_images import prepare_images

        return prepare_images(model, data, options, out=out)

    def summary(self, details: Mapping[str, Any], log_evidence: float, curve: Any) -> dict[str, Any]:
        if "pixel_density" not in details:
            return {}
        from maskevidence.images.reconstruction import image_summary

        return image_summary(details, log_evidence, curve)

    def read_again(self, manifest: Any, ids: Any) -> Any:
        from maskevidence.command.pages.reported_runs import ImageContent
        from maskevidence.images.prepared_images import reopen_images

        images = reopen_images(manifest.data, manifest.seed)
        if images.fingerprint() != manifest.data.fingerprint:
            return None
        place = {int(number): row for row, number in enumerate(images.ids)}
        return lambda number: ImageContent(images.pixels[place[number]]) if number in place else None

    def gives_rows(self, data: str) -> bool:
        from maskevidence.images.image_files import is_image_source

        return is_image_source(data)

    def read_table(self, data: str, reading: Any, limit: int | None) -> Any:
        from maskevidence.images.prepared_images import read_images_of

        return read_images_of(data, reading, limit=limit).table()


images = ImageKind()
