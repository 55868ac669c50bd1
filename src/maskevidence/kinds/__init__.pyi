from . import images as images
from . import images_training as images_training
from . import prepare as prepare
from . import rows as rows
from . import rows_training as rows_training
from . import texts as texts
from . import texts_training as texts_training
