from . import images as images
from . import prepare as prepare
from . import rows as rows
from . import texts as texts
