"""The kind that adds the variants command and its page."""

from maskevidence.core.kind import Kind

mutants = Kind()
mutants.commands = {"variants": "maskevidence.proteins.variants:variants_command"}
mutants.folders = {"variants.json": ("table of mutants", "maskevidence.proteins.variants_page:read_variants")}
