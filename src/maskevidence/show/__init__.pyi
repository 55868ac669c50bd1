from .parts import Page as Page
from .parts import Table as Table
from .pictures import Histogram as Histogram
from .shown import Columns as Columns
from .shown import Shown as Shown
from .terminal import print_page as print_page
from .words import count as count
from .words import typeset as typeset
