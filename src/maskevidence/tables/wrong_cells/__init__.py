"""Which cells of a table are wrong."""
