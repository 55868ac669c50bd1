from maskevidence.core.table import Table as Table
from maskevidence.images.image_files import Images as Images
from maskevidence.images.image_files import read_images as read_images
from maskevidence.tables.table_files import digits as digits
from maskevidence.tables.table_files import read_table as read_table
from maskevidence.texts.text_files import Texts as Texts
from maskevidence.texts.text_files import read_texts as read_texts
