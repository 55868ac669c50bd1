"""Models side by side, and filled tables."""
