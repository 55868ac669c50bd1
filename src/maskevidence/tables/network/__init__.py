"""A network that sees some cells of a row and answers a distribution for every hidden cell."""
