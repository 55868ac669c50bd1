from .parts import Page as Page
from .parts import Table as Table
from .terminal import print_page as print_page
