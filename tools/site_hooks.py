"""What mkdocs cannot do by itself: the version in the footer, and the references of names and commands."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r"\A# .+?<!-- include (\S+) -->\n", re.S)
COMMANDS = "<!-- commands -->"
NAMES = re.compile(r"<!-- names (\S+) (\S+) -->")
API = re.compile(r"<!-- api (\S+)(?: (\S+))? -->")
PUBLIC = re.compile(r"^from (\.*)([\w.]*) import (\w+) as \3$", re.M)
EXAMPLE = re.compile(r"<!-- example (\w+) -->")
# Words of users that lead to a page in the site's search, whether it has them or not.
SEARCHED = {
    "any_table.md": "categorical, categories, mixed types, words, counts, auto",
    "check.md": "bugs, validate a model, leakage, data leak",
    "cluster.md": "cluster, Ray, workers, several machines, SLURM",
    "concepts.md": "marginal likelihood, evidence, ELBO, masks, standard error, confidence interval",
    "devices.md": "GPU, CUDA, MPS, bfloat16, out of memory, precision",
    "hidden_rows.md": "Bayes factor, Gaussian process, regression, posterior, prior, Bayesian",
    "information.md": "mutual information, correlation, dependence, feature selection, synergy",
    "lm_eval.md": "lm-eval, lm-evaluation-harness, benchmark",
    "look.md": "profile, explore, data quality, clean a table, overview",
    "masked_image.md": "images, MAE, vision, pixels",
    "masked_lm.md": "BERT, language model, diffusion language model, LLaDA, MDLM, hub, tokenizer",
    "models.md": "VAE, PPCA, factor analysis, Gaussian, density",
    "own_model.md": "custom model, own network, PyTorch, subclass",
    "plugins.md": "plugin, entry point, extend",
    "proteins.md": "ESM2, ESM-2, protein variants, mutants, mutation effect, DNA, SMILES, ProteinGym",
    "runs.md": "resume, interrupted, compare runs, model comparison, shards, reproducible",
    "sentence_score.md": "perplexity, pseudo-perplexity, minimal pairs, BLiMP, surprisal, PLL",
    "sklearn.md": "scikit-learn, sklearn, pipeline, GridSearchCV, imputer",
    "tables.md": "missing values, NaN, multiple imputation, impute, holes, Excel, CSV, number of factors",
    "training.md": "train, fit, objective, loss, checkpoint",
    "training_language_models.md": "Trainer, fine-tune, pre-train, MLM, collator, callback",
    "wrong_cells.md": "typos, typing errors, outliers, anomalies, spelling mistakes, wrong units",
}
VERSION = re.compile(r'^version = "(.+)"$', re.M)


def on_config(config: Any, **_keywords: Any) -> Any:
    """Say in the footer which version the site describes, and draw the formulas in ```math blocks."""
    found = VERSION.search((ROOT / "pyproject.toml").read_text())
    assert found is not None
    config.copyright = f"maskevidence {found[1]} · MIT license"
    formulas = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [formulas]
    return config


def on_files(files: Any, config: Any, **_keywords: Any) -> Any:
    """Add a page for each tutorial that is a notebook, and for each public name."""
    from mkdocs.structure.files import File, InclusionLevel

    sys.path.insert(0, str(ROOT / "tools"))
    from site_notebooks import pages

    for name, content in pages(ROOT / "docs" / "tutorials").items():
        files.append(File.generated(config, f"tutorials/{name}.md", content=content))
    for name, path, _ in declared("maskevidence"):
        options = f"heading: me.{name}\n      heading_level: 1"
        content = f"---\ntitle: me.{name}\n---\n::: {path}.{name}\n    options:\n      {options}\n"
        page = File.generated(
            config, f"reference/names/{name}.md", content=content, inclusion=InclusionLevel.NOT_IN_NAV
        )
        files.append(page)
    return files


def formula(source: str, language: str, css_class: str, options: Any, md: Any, **_keywords: Any) -> str:
    """TeX as MathML, which browsers draw by themselves; the signature is that of superfences."""
    return f'<div class="{css_class}">{convert(source.strip(), display="block")}</div>'


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any, **_keywords: Any) -> str:
    """Put a file, names, an example or all commands where a page asks; link to the pages of notebooks."""
    if page is not None and page.file.src_uri in SEARCHED:
        page.meta["tags"] = SEARCHED[page.file.src_uri].split(", ")
    if included := INCLUDE.match(markdown):
        markdown = (ROOT / included[1]).read_text().replace("](docs/", "](") + markdown[included.end() :]
    markdown = re.sub(r"(\]\(tutorials/\w+)\.ipynb\)", r"\1.md)", markdown)
    markdown = NAMES.sub(lambda match: listed_names(match[1], match[2], markdown), markdown)
    markdown = API.sub(lambda match: public_names(match[1], match[2], markdown), markdown)
    markdown = EXAMPLE.sub(lambda match: example(match[1]), markdown)
    if COMMANDS not in markdown:
        return markdown
    sys.path.insert(0, str(ROOT / "src"))
    import typer

    from maskevidence.command.app import app

    return markdown.replace(COMMANDS, "\n".join(described("maskevidence", typer.main.get_command(app))))


def example(name: str) -> str:
    """A script of the gallery as a block of code."""
    return f"```python\n{(ROOT / 'examples' / 'gallery' / f'{name}.py').read_text()}```\n"


def public_names(package: str, shown: str | None, page: str) -> str:
    """The names that a package's `__init__.pyi` declares, each to be filled in from its docstring.

    Those that the page names in code come first, in its order.
    Modules that are declared there, such as `me.models`, have pages of their own.
    """
    first = {name: place for place, name in enumerate(dict.fromkeys(re.findall(r"`(\w+)`", page)))}
    blocks = []
    for name, path, _ in sorted(declared(package), key=lambda each: first.get(each[0], len(first))):
        heading = f"{shown}.{name}" if shown else name
        blocks.append(f"::: {path}.{name}\n    options:\n      heading: {heading}\n      toc_label: {name}\n")
    return "\n".join(blocks)


def declared(package: str) -> list[tuple[str, str, str]]:
    """The name, the module and the first line of the docstring of each public name of a package."""
    folder = ROOT / "src" / Path(*package.split("."))
    found = []
    for dots, module, name in PUBLIC.findall((folder / "__init__.pyi").read_text()):
        parent = package.split(".")[: len(package.split(".")) - len(dots) + 1] if dots else []
        path = ".".join([*parent, *filter(None, [module])])
        place = ROOT / "src" / Path(*path.split("."))
        if (place / name).is_dir() or (place / f"{name}.py").exists():
            continue  # a module, which has a page of its own
        file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
        nodes = [node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") == name]
        said = ast.get_docstring(nodes[0]) if nodes else None  # type: ignore[arg-type]
        found.append((name, path, " ".join((said or "").split("\n\n")[0].split())))
    return found


def listed_names(package: str, shown: str, page: str) -> str:
    """A line for each name with a link to its page, in the groups of the page's table of jobs."""
    lines = {
        name: f"- [`{shown}.{name}`](names/{name}.md): {in_markdown(said)}"
        for name, _, said in declared(package)
    }
    parts = []
    for job, use in re.findall(r"^\| (?!to \|)(?!---)(.+?) \| (.+) \|$", page, re.M):
        of_job = [lines.pop(name) for name in re.findall(r"`(\w+)`", use) if name in lines]
        parts += [f"**To {job}**", "", *of_job, ""] if of_job else []
    return "\n".join([*parts, "**Further names**", "", *lines.values(), ""])


def described(path: str, command: Any) -> list[str]:
    """A command and those below it as Markdown: usage, help, arguments and options."""
    lines: list[str] = []
    nested = dict(getattr(command, "commands", {}))
    context = command.context_class(command, info_name=path)
    if path != "maskevidence":
        depth = "#" * (1 + len(path.split()))
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"{depth} {path}", "", f"```\n{path} {usage}\n```", "", *paragraphs(command.help or ""), ""]
        rows = [row for parameter in command.params if (row := option(parameter))]
        if rows:
            lines += ["| option | what it does |", "| --- | --- |", *rows, ""]
    for name, each in sorted(nested.items()):
        lines += described(f"{path} {name}", each)
    return lines


def paragraphs(text: str) -> list[str]:
    """A command's help as Markdown, with its examples together in one block of code."""
    lines: list[str] = []
    examples: list[str] = []
    for part in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        rows = [row.strip() for row in part.strip().splitlines()]
        if rows[0].startswith("maskevidence "):
            examples += rows
        else:
            lines += [in_markdown(" ".join(rows)), ""]
    return [*lines, "```", *examples, "```", ""] if examples else lines


def option(parameter: Any) -> str | None:
    """An option or an argument as the row of a table; None for one that is hidden."""
    if getattr(parameter, "hidden", False):
        return None
    words = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        words = f"`{parameter.metavar or parameter.name.upper()}`"
    elif parameter.metavar:
        words += f" `{parameter.metavar}`"
    said = in_markdown(parameter.help or "")
    if not parameter.required and parameter.default not in (None, False, "", ...):
        said += f" Default: `{parameter.default}`."
    return f"| {words} | {said} |"


def in_markdown(text: str) -> str:
    """A help text as Markdown: what would be markup outside of code is shown as it is."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part if part.startswith("`") else re.sub(r"([|<>*_\[\]])", r"\\\1", part) for part in parts
    )
