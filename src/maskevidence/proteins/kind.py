"""The kind that adds the variants command and its page."""

from collections.abc import Mapping

from maskevidence.core.kind import Kind


class Mutants(Kind):
    """The variants command and its page."""

    commands: Mapping[str, str] = {"variants": "maskevidence.proteins.variants:variants_command"}
    folders: Mapping[str, tuple[str, str]] = {
        "variants.json": ("table of mutants", "maskevidence.proteins.variants_page:read_variants")
    }


mutants = Mutants()
