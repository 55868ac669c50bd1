"""Mask designs."""
