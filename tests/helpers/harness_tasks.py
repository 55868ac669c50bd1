"""Tasks of the lm-evaluation-harness on local data: the harness's own task files, and one with long
choices.
"""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

PAGES = ["the rain falls on the roof and the dog sleeps . " * 2, "a cat and a dog in the sun ."]
CHOICES = [
    "the cat falls on the sun and sings",
    "a dog sleeps in the rain",
    "who said it is in the sun and on it",
]


def write_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def local(config: dict[str, Any], file: Path) -> dict[str, Any]:
    """Point a task's configuration to a local file."""
    config = {name: value for name, value in config.items() if name not in ("dataset_name", "tag")}
    config |= {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}}
    return config | {"training_split": None, "validation_split": None, "test_split": "test"}


def installed(place: str) -> dict[str, Any]:
    """Read a task file of the installed harness, without its includes."""
    import lm_eval
    from lm_eval.tasks._yaml_loader import load_yaml

    return load_yaml(Path(lm_eval.__file__).parent / "tasks" / place)


def real_tasks(folder: Path, limit: int) -> list[dict[str, Any]]:
    """QNLI and MRPC on GLUE's data, WikiText's perplexity and TriviaQA's generation, on a few texts."""
    glue = Path(os.environ["MASKEVIDENCE_DATA"]) / "glue"
    tasks = []
    for name, part in (("qnli", "validation"), ("mrpc", "test")):
        rows = pq.read_table(glue / name / f"{part}-00000-of-00001.parquet").slice(0, limit).to_pylist()
        tasks.append(
            local(installed(f"glue/{name}/default.yaml"), write_lines(folder / f"{name}.jsonl", rows))
        )
    pages = write_lines(folder / "pages.jsonl", [{"page": page} for page in PAGES])
    tasks.append(local(installed("wikitext/wikitext.yaml"), pages))
    asked = [{"question": "who is it that sings", "answer": {"aliases": ["the cat", "cat"]}}]
    trivia = local(installed("triviaqa/default.yaml"), write_lines(folder / "trivia.jsonl", asked))
    trivia["generation_kwargs"] = {**trivia["generation_kwargs"], "max_gen_toks": 6}
    return [*tasks, trivia]


def choice_task(
    folder: Path, contexts: list[str], metrics: list[str], name: str = "sentences"
) -> dict[str, Any]:
    """A multiple-choice task with three sentences of different lengths."""
    rows = [{"q": context, "choices": CHOICES, "gold": n % 3} for n, context in enumerate(contexts)]
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(write_lines(folder / f"{name}.jsonl", rows))}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_target": "gold",
        "doc_to_choice": "choices",
        "metric_list": [{"metric": metric} for metric in metrics],
    }
