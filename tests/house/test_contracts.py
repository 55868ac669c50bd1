"""The contracts between the layers hold, and each is broken by an import that it forbids."""

import json
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

grimp = pytest.importorskip("grimp")
layers = pytest.importorskip("importlinter.contracts.layers")
forbidden = pytest.importorskip("importlinter.contracts.forbidden")
pytest.importorskip("importlinter.configuration").configure()

LINTER = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["importlinter"]
SEEDED = {  # the importing and the imported module, by the first words of the contract
    "A floor imports only": [
        ("core.model", "runs.manifest"),
        ("core.kind", "tables.kind"),
        ("runs.prepared", "command.options"),
        ("command.score", "tables.rows"),
        ("tables.rows", "texts.recipes"),
        ("images.kind", "sklearn.densities"),
        ("ray.engine", "lm_eval.model"),
    ],
    "The floors of the core": [
        ("core.tokens", "core.model"),
        ("core.masks.design", "core.scores.record"),
        ("core.scores.ask", "core.evidence.result"),
        ("core.comparing.comparison", "core.check.findings"),
    ],
    "A bridge to scikit-learn": [("sklearn.densities", "texts.masked_lm")],
    "Bridges of texts": [("proteins.variants", "tables.rows"), ("lm_eval.model", "images.kind")],
    "Transformers' bridge": [("huggingface.trainer", "tables.base")],
    "Ray knows no kind": [("ray.engine", "texts.masked_lm")],
    "The package does not know": [("core.model", "paper.figure_2")],
    "Scores of mutants": [("proteins.mutants", "core.masks.design")],
}


@pytest.fixture(scope="module")
def graph() -> Any:
    return grimp.build_graph(*LINTER["root_packages"], cache_dir=None)


def kept(contract: dict[str, Any], graph: Any) -> bool:
    kind = {"layers": layers.LayersContract, "forbidden": forbidden.ForbiddenContract}[contract["type"]]
    options = json.loads(json.dumps(contract).replace(": true", ': "True"'))
    session = {"root_packages": LINTER["root_packages"]}
    checked = kind(name=contract["name"], session_options=session, contract_options=options)
    return checked.check(graph, verbose=False).kept


@pytest.mark.parametrize("contract", LINTER["contracts"], ids=lambda contract: contract["name"][:24])
def test_each_contract_holds_and_is_broken_by_a_seeded_import(contract: dict[str, Any], graph: Any) -> None:
    assert kept(contract, deepcopy(graph))
    (seeds,) = (seeds for words, seeds in SEEDED.items() if contract["name"].startswith(words))
    for pair in seeds:
        importer, imported = (name if name.startswith("paper.") else f"maskevidence.{name}" for name in pair)
        changed = deepcopy(graph)
        assert {importer, imported} <= changed.modules
        changed.add_import(importer=importer, imported=imported)
        assert not kept(contract, changed), pair
