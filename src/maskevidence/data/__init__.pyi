from .images import Images as Images
from .images import read_images as read_images
from .table import Table as Table
from .table_files import digits as digits
from .table_files import read_table as read_table
from .texts import Texts as Texts
from .texts import read_texts as read_texts
