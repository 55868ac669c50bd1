from maskevidence.lm_eval.model import MaskedEvidenceLM as MaskedEvidenceLM
from maskevidence.lm_eval.values import ScoredValue as ScoredValue
