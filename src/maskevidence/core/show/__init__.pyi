from maskevidence.core.show.parts import Page as Page
from maskevidence.core.show.parts import Table as Table
from maskevidence.core.show.pictures import Histogram as Histogram
from maskevidence.core.show.shown import Columns as Columns
from maskevidence.core.show.shown import Shown as Shown
from maskevidence.core.show.terminal import print_page as print_page
from maskevidence.core.show.words import count as count
from maskevidence.core.show.words import typeset as typeset
