"""Small helpers for every layer: files, progress, random numbers, versions, the hub, lazy imports."""
