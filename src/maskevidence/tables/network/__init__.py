"""Masked networks: a distribution for every hidden cell given the visible cells of its row."""
