"""Masked image models."""
