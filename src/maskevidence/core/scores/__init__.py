"""Ask models for log-probabilities, and turn the answers into scores of masks.

The public names are declared in `__init__.pyi`, and each is imported when it is first used.
"""

from maskevidence.core.support.public_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
