"""The words that options may take, in a module that does not import torch."""

from typing import Literal

Long = Literal["error", "split", "truncate"]
DensityName = Literal["gaussian", "discretised"]
PatchStatistics = Literal["visible"]
DtypeName = Literal["float32", "float64"]
WeightsDtype = Literal["float32", "float64", "bfloat16", "float16", "auto"]
DiffusionName = Literal["llada", "dream", "mdlm", "sedd", "bd3lm"]
RecipeName = Literal["mdlm", "llada", "sedd", "bd3lm"]
Convention = Literal[
    "wild-type-fill",
    "mutant-fill",
    "match-fill",
    "mask-fill",
    "unmasked",
    "joint",
    "joint-mixture",
    "pll",
    "whole",
]
