"""One command for a table: what its columns are, what stood in its holes, and what in it may be wrong."""
