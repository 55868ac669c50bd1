from .ask import Answer as Answer
from .ask import Asker as Asker
from .ask import Contexts as Contexts
from .ask import MaskedRows as MaskedRows
from .ask import Reads as Reads
