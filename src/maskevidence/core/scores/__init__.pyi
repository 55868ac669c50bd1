from maskevidence.core.scores.ask import Answer as Answer
from maskevidence.core.scores.ask import Asker as Asker
from maskevidence.core.scores.ask import Contexts as Contexts
from maskevidence.core.scores.ask import MaskedRows as MaskedRows
from maskevidence.core.scores.ask import Reads as Reads
