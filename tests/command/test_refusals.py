"""Whatever is wrong ends in one line: bad input with exit code 2, a fault of ours with 70."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import maskevidence as me
from command_line import CommandLine, files_in
from image_models import random_images, saved, small_vit_mae, write_images
from maskevidence.command import app
from maskevidence.images.reconstruction import image_summary
from protein_models import protein_model
from text_models import save_bert, small_tokenizer

LONG = "x" * 300
WILD_TYPE = "--wild-type MSIQHFRVALIPFF"
# What each file of the folder holds, beside those of small_world.py.
FILES = {
    "red.csv": "a,b\n" + "1,2\n" * 9 + "3,red\n",
    "same.csv": "a,b,c\n" + "1,2,3\n" * 20,
    "one-row.csv": "a,b\n1,2\n",
    "four-rows.csv": "a,b,c,d,e,f\n1,2,3,4,5,7\n2,1,3,5,4,9\n0,1,1,2,8,3\n5,7,2,1,1,4\n",
    "quotes.csv": 'a,b,r\n1,2,p\n2,5,q\n3,1,"x\n4,,""\n',
    "words.csv": "colour,sick,n\n" + "red,0,1.5\nblue,1,2.5\nred,1,0.5\n" * 9,
    "qa.csv": 'prompt,answer,label\n"who, or what?",a dog,1\nwho sings?,the rain,0\n',
    "pairs.csv": "good,bad,id\na dog,a cat,p0\nthe rain,the sun,p1\n",
    "pairs-empty.csv": "good,bad\na dog,a cat\nrain, \n",
    "pairs-unequal.jsonl": '{"good": "a dog", "bad": "a cat"}\n{"good": "rain"}\n',
    "pairs-none.csv": "good,bad\n",
    "holes.txt": "one\n\nthree\n",
    "empty.txt": "",
    "blank.txt": "\n \n\n",
    "two.txt": "one\ntwo\n",
    "wt.fasta": ">wild type\nMSIQHFRVALIPFF\n",
    "two.fasta": ">a\nMK\n>b\nMK\n",
    "dms.csv": "mutant,effect\nM24G,1\n",
    "both.csv": "mutant,mutated_sequence\nM1G,GSIQHFRVALIPFF\nS2G,GSIQHFRVALIPFF\n",
    "effect.csv": "mutant,effect\nM1G,high\n",
    "few.csv": "mutant,effect\nM1G,1\nS2A,\n",
    "equal.csv": "mutant,effect\nM1G,0.5\nS2A,0.5\nI3A,0.5\n",
    "gap.csv": "mutant\nM1G\nM1-\n",
    "gaps.csv": "mutated_sequence\nM-IQHFRVALIPFF\n",
    "digits.csv": "mutant,effect\nM1G,1\nS2A,1_000\n",
    "thesis/chapter.tex": "Once upon a time",
    "bad-images/02.png": "no image",
    "deep/config.json": '{"model_type": "bert", "num_hidden_layers": 10000000}',
}


@pytest.fixture(scope="module")
def place(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid data and models, and files with a fault."""
    folder = shutil.copytree(world, tmp_path_factory.mktemp("refusals") / "world")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "loop").symlink_to("loop")
    save_bert(folder / "bert-12", max_position_embeddings=12)
    tokenizer = small_tokenizer()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder / "maskless")
    saved(small_vit_mae(num_channels=3), folder / "colour")
    saved(small_vit_mae(image_size=16), folder / "larger")
    saved(small_vit_mae(norm_pix_loss=True), folder / "normalised")
    (folder / "protein").mkdir()
    protein_model("Bert", folder / "protein").save(folder / "protein")
    write_images(folder / "wide", np.zeros((12, 8, 12), dtype=np.uint8))
    return folder


# By command, MODEL and DATA: more words, and what is said.
REFUSED: dict[str, dict[str, str]] = {
    "score ppca:2 data/table.csv": {
        "--design orderngs": "unknown design 'orderngs'; did you mean 'orderings'",
        "--design random-size:1000000000": "masks need about",
        "--design policy:order=/dev/zero": "is not a file",
        "--design policy:confidence": "has no log_distributions",
        "--test-fraction 0": "leaves no row to train on",
        "--test-fraction nan": "nan",
        "--batch-size 0": "batch-size",
        "--limit 0": "limit",
        "--threads 0": "threads",
        "--threads 1000000": "threads",
        "--seed x": "seed",
        "--seed -1": "seed",
        "--seed 999999999999999999999999": "seed",
        "--nonsense": "No such option: --nonsense",
        "--text a": "--text belongs to masked language models",
        "--against a": "--against belongs to masked language models",
        "--density gaussian": "--density belongs to masked image models",
        "--revision main": "--revision belongs to",
        "--dtype bfloat16": "'bfloat16' is not one of 'float32', 'float64'",
        "--device meta": "device 'meta' cannot be used: ",
        "--device cuda:x": "give cpu, cuda, cuda:N, mps or auto (this machine has cpu",
    },
    "score ppca:2 red.csv": {  # before it is read, which would refuse its word
        f"--out {LONG}": "File name too long",
        "--json thesis": "'thesis' is a folder; give a file",
        "--json red.csv": "'red.csv' exists; give another file, or --overwrite to replace it",
        "--seed 1 --seed 2": "--seed is given twice (1 and 2); give it once",
        "--seed 1 --seed 1": "--seed is given twice (1 and 1); give it once",
        "--cells --cells": "--cells is given twice; give it once",
        "--drop a --drop b --drop a": "--drop names 'a' twice; name it once",
        "--json red.csv/a.json": "red.csv' is a file; give another place",
        "--json new/t/../../red.csv/b/a.json": "red.csv' is a file; give another place",
        f"--json {LONG}": "cannot be written (File name too long)",
        "--out a/b --json a/b": "--json 'a/b' is the place of --out 'a/b'; give another file",
        "--out a/b --json a/../a/b": "is the place of --out 'a/b'; give another file",
        "--out loop/x --json a.json": "Too many levels of symbolic links",
        "--out thesis": "'thesis' holds files that belong to no run ('chapter.tex'); give a new folder",
        "--out thesis --overwrite": "('chapter.tex'); give a new folder",
        "--out a --shard 3/2": "3/2",
        "--out a --shard half": "half",
    },
    "score": {
        "ppca:2": "Missing argument 'DATA': give MODEL DATA. Try: maskevidence score",
        "ppca:5 data/table.csv": "n_components",
        "ppca:4 four-rows.csv": "rows",
        "gaussian four-rows.csv": "rows",
        "ppca:1 red.csv": "has text in column 'b', line 11: 'red'",
        "ppca:1 same.csv": "every column of",
        "ppca:1 one-row.csv": "leaves no row to train on or none to score",
        "models/ppca four-rows.csv": "the data have 6 columns, the model has 5 features",
        "ppca:2 digits --design exhaustive": "masks, too many to enumerate",
        "ppca:2 mnist --drop a": "--drop belongs to tables",
        f"ppca:1 {LONG}": "File name too long",
        f"{LONG} data/table.csv": "File name too long",
        "ppca:1 hub:../../x": "is not the name of a data set",
        "ppca:1 hub:a/b/c/d": "is not the name of a data set",
        "masked-net:8 words.csv": "lacks its width and layers; write masked-net:256x2",
        "gaussian words.csv": "the model auto takes words as they are",
        "gaussian words.csv --drop colour --categories sick": "--categories is for models that take words",
        "masked-net words.csv --binarise threshold": "--binarise takes numbers",
        "masked-net words.csv --limit 1": "leaves no row to train on",
        "masked-net digits --categories pixel_0_0": "belongs to files of tables",
    },
    "score models/bert": {
        "holes.txt": "the text in line 2 is empty",
        "none.txt": "there is no file",
        "qa.csv": "choose with --text",
        "qa.csv --text question": "has no column 'question'; it has prompt, answer, label",
        "qa.csv --text prompt,answer,label": "names 3 columns",
        "qa.csv --text answer --context-field answer": "is scored too",
        "qa.csv --text answer --pair": "--pair belongs to --context-field",
        "qa.csv --text answer --context-field hint": "has no column 'hint'",
        "two.txt --whole-words": "belongs to --design leave-one-out",
        "two.txt --design orderings:per-token": "belongs to random-size",
        "two.txt --block-size 2": "leaves no room beside 2 special tokens",
        "two.txt --test-fraction 0.5": "--test-fraction belongs to models of rows",
        "two.txt --drop a": "--drop belongs to models of rows",
        "two.txt --batch-size 7": "--batch-size belongs to models of rows",
        "two.txt --long cut": "--long",
        "two.txt --revision main": "is of a model on the hub, and 'models/bert' is a folder; leave it out",
        "pairs.csv --against bad": "name the first ones, too: --text COLUMN",
    },
    "score models/bert pairs.csv --text good --against": {
        "worse": "has no column 'worse'; it has good, bad, id",
        "good": "give two different columns",
        "bad --block-size 9": "--block-size is not for pairs",
        "bad --target-se 0.1": "--target-se is not for pairs",
        "bad --design leave-one-out:per-token": "per-token is not for pairs",
        "bad --word-l2r": "--word-l2r belongs to --design leave-one-out",
        "bad --out thesis": "files that belong to no pairs",
    },
    "score models/bert --text good --against bad": {
        "pairs-empty.csv": "an empty text in column 'bad', line 3",
        "pairs-unequal.jsonl": "has nothing in column 'bad', line 2",
        "pairs-none.csv": "has no rows",
    },
    "score models/vit-mae": {
        "bad-images": "02.png",
        "data/images --density laplace": "'laplace' is not one of 'gaussian', 'discretised'",
        "data/images --calibration-fraction 1": "--calibration-fraction 1 of 24 images",
        "data/images --limit 1": "of 1 images leaves none",
        "data/images --binarise threshold": "--binarise belongs to models of rows",
        "data/images --text a": "--text belongs to masked language models",
        "data/images --patch-statistics visible": "leave patch_statistics",
        "data/images --revision main": "is a folder; leave it out",
        "none": "unknown image data 'none'",
    },
    "score --seed 0": {
        "colour data/images": "the images are grey (1 channel), the model reads in colour",
        "larger data/images": "have 8×8 pixels, the model reads 16×16; resize them (--resize 16)",
        "normalised data/images --density discretised": "have no levels",
        "deep two.txt": "num_hidden_layers=10000000",
    },
    "impute ppca:2 red.csv --drop b": {
        "--out f.xlsx": "'f.xlsx' has to end in .csv, .tsv, .parquet, .feather",
        "--out same.csv": "'same.csv' exists; give another file, or --overwrite",
        "--out f.csv --draws 0": "--draws 0; give 1 or more",
        "--out f.csv --delimiter ab": "give one character",
        "--out f.csv --columns a,,b": "--columns 'a,,b' lacks a word",
        "--out f.csv --columns a,a": "--columns names 'a' twice",
    },
    "impute": {
        "ppca:2 red.csv --out f.csv": "has text in column 'b', line 11: 'red'",
        "google-bert/bert red.csv --out f.csv": "is no model of rows; impute fills tables",
        "ppca:9 data/table.csv --out f.csv": "n_components=9 with n_features=5",
        "ppca:2 digits --out f.csv --id-column a": "--id-column belongs to files of tables",
        "gaussian quotes.csv --drop r --out f.csv": "it has quotes that are not closed",
    },
    "select": {
        "pca data/table.csv": "unknown family 'pca'",
        "ppca red.csv": "has text in column 'b'",
        "ppca data/table.csv --components 1-": "--components '1-'",
        "ppca data/table.csv --folds 1": "--folds 1; give 2 or more",
        "ppca no.csv": "there is no file 'no.csv'",
        "ppca data/table.csv --design every": "unknown design 'every'",
        "ppca,gaussian words.csv": "--one-hot colour encodes a category, the model auto takes",
        "bernoulli-pca,masked-net words.csv --drop colour": "cannot be compared",
    },
    "train --out m": {
        "ppca:1 data/table.csv --learning-rate 0": "learning_rate=0.0",
        "ppca:1 data/table.csv --epochs 0": "epochs=0",
        "ppca:1 data/table.csv --seed -1": "seed",
        "ppca:1 data/table.csv --threads 1000000": "threads",
        "ppca:1 data/table.csv --device gpu": "device 'gpu' cannot be used: ",
        "vae:1 data/table.csv --objective random-size:1000000000": "masks need about",
        "vae:1 data/table.csv --objective iwae:1000000000": "iwae:1000000000",
        "ppca:1 data/table.csv --patience 3 --test-fraction 0": "--patience needs held-out rows",
        "ppca:1 data/table.csv --steps 3": "--steps belongs to masked language models; 'ppca:1' is",
        "ppca:1 data/table.csv --json thesis": "'thesis' is a folder; give a file",
        "masked-net words.csv --objective likelihood": "leave --objective out",
        "kernel-gaussian data/table.csv": "fits it and saves it in DIR/model",
    },
    "train masked-lm --out m": {
        "empty.txt": "is empty",
        "blank.txt": "has no word to train on",
        "none.txt": "there is no file",
        "no.txt --device mps": "device 'mps' cannot be used: ",
        "two.txt --objective fixed-rate:1.5": "mask rate 1.5",
        "two.txt --objective likelihood": "no closed form",
        "two.txt --objective random-size:shared": "leave shared out of --objective",
        "two.txt --tokenizer maskless": "has no mask token",
        "two.txt --tokenizer nothing": "there is no tokenizer",
        "two.txt --tokenizer bert-12 --vocabulary-size 60": "leave --vocabulary-size out",
        "two.txt --config bert-12 --block-size 16": "the model reads 12 tokens",
        "two.txt --config ./nothing": "there is no folder",
        "two.txt --test-fraction 1": "--test-fraction 1",
        "two.txt --learning-rate 0": "learning_rate=0",
        "two.txt --block-size 2": "leaves no room beside",
        "two.txt --dtype float32": "--dtype belongs to models of rows",
        "two.txt --epochs 3": "--epochs belongs to models of rows",
    },
    "train ppca:1 data/table.csv": {"--out models/bert": "holds another model", "": "--out"},
    "check": {
        "ppca digits": "lacks its number of components",
        "ppca:2 nothing.csv": "nothing.csv",
        "ppca:2 digits --per-token": "No such option: --per-token",
        "ppca:2 digits --density gaussian": "--density belongs to masked image models",
    },
    f"variants protein {WILD_TYPE}": {
        "dms.csv": "line 2, 'M24G': there is no site 24",
        "both.csv": "line 3, 'S2G': its mutated sequence",
        "wt.fasta": "neither a column 'mutant' nor 'mutated_sequence'",
        "none.csv": "there is no file",
        "effect.csv --measured effect": "'high' in column 'effect', line 2",
        "digits.csv --measured effect": "'1_000' in column 'effect', line 3",
        "effect.csv --measured dms": "has no column 'dms'",
        "few.csv --measured effect": "has 1 numbers in column 'effect'",
        "equal.csv --measured effect": "has one number alone in column 'effect', 0.5",
        "gap.csv": "line 3, 'M1-': 'M1-' is not a substitution",
        "gaps.csv": "line 2, 'M-IQHFRVALIPFF': '-' is no letter",
        "effect.csv --given a": "--given is compared with --measured",
        "effect.csv --conventions wt": "'wt'",
        "effect.csv --out thesis": "holds files that belong to no",
    },
    "variants": {
        "protein dms.csv --wild-type two.fasta": "has 2 records",
        "protein dms.csv --wild-type no.fasta": "there is no file",
        "protein dms.csv --wild-type 12": "neither a FASTA file nor a sequence",
        f"ppca:2 dms.csv {WILD_TYPE}": "is no masked language model",
    },
    "summarize missing": {
        "--json thesis": "'thesis' is a folder; give a file",
        "--out same.csv": "same.csv",
        "--out thesis --overwrite": "('chapter.tex'); give a new folder",
        "--out a/b --json a": "is the place of --out 'a/b'",
    },
    "compare missing-a missing-b": {
        "--json thesis": "'thesis' is a folder; give a file",
        "--json red.csv": "'red.csv' exists; give another file, or --overwrite to replace it",
    },
    "score gaussian": {"'https://[::1'": "'https://[::1' is not an address (Invalid IPv6 URL); check it"},
    "check gaussian red.csv": {"--json red.csv": "'red.csv' exists; give another file, or --overwrite"},
    "train gaussian red.csv --out m": {"--json red.csv": "'red.csv' exists; give another file, or"},
    "impute gaussian red.csv": {"--json red.csv": "'red.csv' exists; give another file, or --overwrite"},
    "report": {
        "loop": "there is no run in 'loop'",
        "missing --out red.csv/report.html": "red.csv/report.html",
        f"missing --out {LONG}.html": LONG,
        "missing --out thesis": "is a folder; give a file",
        "missing --out thesis/chapter.tex": "'thesis/chapter.tex' exists; give another file, or --overwrite",
        "missing --out thesis/chapter.tex --overwrite": "is not an .html file",
        "missing --observations -1": "--observations -1; give 0 or more",
        "": "Missing argument",
    },
    "": {"scor": "No such command 'scor'"},
}
CASES = [(f"{words} {more}", message) for words, cases in REFUSED.items() for more, message in cases.items()]


@pytest.mark.parametrize(("words", "message"), CASES, ids=[words[:60] for words, _ in CASES])
def test_one_line_that_says_what_is_wrong(
    place: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(place)
    before = files_in(place)
    assert message in run(*shlex.split(words)).error
    assert files_in(place) == before


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a table of numbers."""
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 4)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", [None, 0, 3])
def test_a_fault_of_ours_is_one_line_with_its_place_and_debug_shows_the_traceback(
    folder: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, place: int | None
) -> None:
    def divide(*_: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("maskevidence.tables.rows.prepare_rows", divide)
    words = ["score", "ppca:1", "t.npy"]
    if place is not None:
        words.insert(place, "--debug")
    result = run(*words)
    assert result.code == 70
    *traceback, line = result.err.splitlines()
    assert traceback[:1] == ([] if place is None else ["Traceback (most recent call last):"])
    assert line.startswith("internal error, please report: ZeroDivisionError in maskevidence")
    assert "kind.py, line " in line
    assert ": division by zero" in line
    assert app.DEBUG in run("--help").out


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 9 PiB"), RuntimeError("CUDA out of memory. Tried")]
)
def test_no_memory(folder: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def allocate(*_: Any) -> None:
        raise error

    monkeypatch.setattr("maskevidence.tables.rows.prepare_rows", allocate)
    assert run("score", "ppca:1", "t.npy").error.startswith("there is not enough memory (")


def test_standard_output_and_devices_are_places(folder: Path, run: CommandLine) -> None:
    for target in ("-", "/dev/null", "new/folder/a.json"):
        result = run("score", "gaussian", "t.npy", "--json", target, "--limit", 12, "--threads", 1)
        assert result.code == 0, result.err
    assert (folder / "new" / "folder" / "a.json").exists()


def test_a_pipe_among_images_is_refused_or_listed(folder: Path, run: CommandLine) -> None:
    write_images(folder / "images", random_images(10, 2))
    os.mkfifo(folder / "images" / "pipe.png")
    assert "pipe.png" in run("score", "ppca:1", "images", "--json", "-").error
    result = run("score", "ppca:1", "images", "--json", "-", "--skip-bad")
    assert json.loads(result.out)["n_observations"] == 2
    assert "pipe.png" in result.err


def _two_dtypes(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {"loadings": weights["loadings"].float()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: {name: value * float("nan") for name, value in weights.items()}, "NaN or infinity"),
        (lambda weights: {name: value.half() for name, value in weights.items()}, "torch.float16"),
        (lambda weights: {name: value.to(torch.complex64) for name, value in weights.items()}, "complex64"),
        (lambda weights: {name: value.long() for name, value in weights.items()}, "torch.int64"),
        (_two_dtypes, "'loadings' is in float32 and others are in float64"),
    ],
)
def test_weights_of_a_saved_model(folder: Path, run: CommandLine, change: Any, words: str) -> None:
    me.models.PPCA(4, 2).save("model")
    file = "model/model.safetensors"
    save_file(change(load_file(file)), file)
    assert words in run("score", "model", "t.npy").error


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": [1, 2]},
        {"arguments": None},
        {"arguments": {"n_features": "4", "n_components": 2}},
        {"arguments": {"n_features": True, "n_components": 2}},
        {"arguments": {"n_features": 10**9, "n_components": 2}},
        {"arguments": {"n_features": 4, "n_components": None}},
        {"columns": 3},
        {"columns": [1, 2, 3, 4]},
        {"columns": ["a"]},
    ],
)
def test_configuration_of_a_saved_model(folder: Path, run: CommandLine, change: dict[str, Any]) -> None:
    me.models.PPCA(4, 2).save("model")
    file = Path("model/config.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert "config.json" in run("score", "model", "t.npy").error


@pytest.mark.parametrize(
    ("model", "file", "change", "message"),
    [
        ("bert", "config.json", {"hidden_size": [[]]}, "StrictDataclassFieldValidationError"),
        ("vit-mae", "config.json", {"mask_ratio": "/dev/null"}, "StrictDataclassFieldValidationError"),
        ("bert", "config.json", {"model_type": None}, "cannot be loaded"),
        ("bert", "tokenizer_config.json", {"model_max_length": "1"}, "cannot be loaded from 'bert'"),
    ],
)
def test_configuration_of_a_transformer(
    world: Path, folder: Path, run: CommandLine, model: str, file: str, change: dict[str, Any], message: str
) -> None:
    shutil.copytree(world / "models" / model, model)
    content = json.loads(Path(model, file).read_text())
    Path(model, file).write_text(json.dumps(content | change))
    data = world / "data" / ("images" if model == "vit-mae" else "texts.jsonl")
    assert message in run("score", model, data).error


def test_a_pipe_or_a_folder_in_place_of_a_file(folder: Path, run: CommandLine) -> None:
    """Nobody writes into a pipe, so that reading it would wait without end."""
    assert run("score", "ppca:1", "t.npy", "--out", "whole").code == 0
    scores = next(Path("whole/scores").iterdir()).relative_to("whole")
    for file in ("run.json", scores, "model/config.json", "model/model.safetensors"):
        shutil.rmtree("run", ignore_errors=True)
        pipe = shutil.copytree("whole", "run") / Path(file)
        pipe.unlink()
        os.mkfifo(pipe)
        words = ("score", "run/model", "t.npy") if "model" in str(file) else ("summarize", "run")
        assert Path(file).name in run(*words).error
    Path("whole/estimate.json").unlink()
    Path("whole/estimate.json").mkdir()
    before = files_in(Path("whole"))
    assert "is a folder; give a file" in run("summarize", "whole").error
    assert files_in(Path("whole")) == before


@pytest.mark.parametrize("details", [{"colour": 1}, {"pixel_density": 5}])
def test_foreign_details_of_a_run_of_images(details: dict[str, Any]) -> None:
    ones = np.ones(1)
    curve = me.Curve(2, ones, ones / 2, ones, ones, ones, ones, ones.astype(np.int64))
    with pytest.raises(me.InputError, match=r"the details of the images in run\.json cannot be used"):
        image_summary(details, -1.0, curve)
