from .model import MaskedEvidenceLM as MaskedEvidenceLM
from .values import ScoredValue as ScoredValue
