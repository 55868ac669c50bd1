"""A model of rows by counts, for columns of words."""
