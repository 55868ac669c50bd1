"""Comparisons of models."""
