from .images import Images as Images
from .images import read_images as read_images
from .table import Table as Table
from .tabular import digits as digits
from .tabular import read_table as read_table
from .text import Texts as Texts
from .text import read_texts as read_texts
