"""Scores of mutants of a sequence under a masked language model."""
