"""The kind "rows", for tables of numbers and words; imports torch only when needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maskevidence.command.options import own_file
from maskevidence.core.kind import Kind, ModelWord
from maskevidence.tables.table_options import RowOptions, RowTraining, ScoredRowOptions


class RowKind(Kind):
    """Tables, and models of their rows."""

    name = "rows"
    nouns = "models of rows"
    models = (
        "auto",
        "masked-net",
        "mixture-transition",
        "gaussian",
        "kernel-gaussian",
        "ppca:8",
        "factor-analysis:8",
        "bernoulli-pca:2",
        "vae:20",
    )
    data = ("digits",)
    data_sets = ("digits",)
    files = ("a .csv, .parquet or .npy table or its address",)
    examples: Mapping[str, str] = {"score": "ppca:8", "check": "ppca:8", "train": "ppca:8"}
    options: Mapping[str, type] = {"score": ScoredRowOptions, "check": RowOptions, "train": RowTraining}
    design = "every-size"
    may_race = True
    precedence = 0  # after all others: it takes every word, and says what the words are
    commands: Mapping[str, str] = {
        "look": "maskevidence.tables.look:look_command",
        "select": "maskevidence.tables.select:select_command",
        "impute": "maskevidence.tables.impute:impute_command",
        "cells": "maskevidence.tables.cells:cells",
        "information": "maskevidence.tables.information.information_command:information_command",
    }
    folders: Mapping[str, tuple[str, str]] = {
        "selection.json": ("selection", "maskevidence.tables.selection_page:read_selection"),
        "cells.json": ("table of wrong cells", "maskevidence.tables.cells:read_page"),
        "information.json": (
            "table of information",
            "maskevidence.tables.information.information_command:read_information",
        ),
    }

    def claims(self, word: ModelWord) -> bool:
        return True

    def check_words(self, model: str | None, data: str) -> None:
        from maskevidence.tables.by_name import parse_model

        if model is not None and own_file(model) is None and not Path(model).exists():
            parse_model(model)  # before the readers are imported
        from maskevidence.tables.table_files import check_file

        if not Path(data).is_dir():  # a folder holds images, whatever its name
            check_file(data)

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        from maskevidence.tables.rows import prepare_rows

        return prepare_rows(model, data, options)

    def train(self, model: str, data: str, options: Any) -> Any:
        self.check_words(model, data)
        from maskevidence.tables.train_rows import train_rows

        return train_rows(model, data, options)

    def training_page(self, content: Mapping[str, Any]) -> Any:
        from maskevidence.tables.train_rows import page_of_training

        return page_of_training(content)

    def read_again(self, manifest: Any, ids: Any) -> Any:
        from maskevidence.tables.shown_rows import read_rows_again

        return read_rows_again(manifest, ids)

    def cell_scores(self, run: Any, ids: Sequence[int]) -> dict[int, Any]:
        from maskevidence.tables.outlying import cell_scores

        return cell_scores(run, ids)

    def unlikely_cells(self, run: Any, places: Sequence[int], values: Any) -> dict[int, str]:
        from maskevidence.tables.outlying import unlikely_cells

        return unlikely_cells(run, places, values)


rows = RowKind()
