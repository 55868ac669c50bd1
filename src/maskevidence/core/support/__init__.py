"""Helpers for all layers: files, progress, random numbers, versions, the hub, public names."""
