"""Proteins: scores of mutants under a masked language model."""
