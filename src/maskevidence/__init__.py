"""Log evidence of any model that predicts hidden tokens from visible ones, with error bars one can trust.

The public names are declared in `__init__.pyi`, and each is imported when it is first used.
"""

from maskevidence.core.support.public_names import lazy_names

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, check=True)
