from .image_files import Images as Images
from .image_files import read_images as read_images
from .table import Table as Table
from .table_files import digits as digits
from .table_files import read_table as read_table
from .text_files import Texts as Texts
from .text_files import read_texts as read_texts
