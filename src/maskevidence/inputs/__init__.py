"""The kinds of models that commands know: models of rows, masked language models and masked image models.

Each has a module with `read`, `prepare` and `reopen`, and a second one with `train`. The modules are imported
when they are first used, so that a command says its options without torch.
"""

from maskevidence.support.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
