"""Self-contained report pages on one or more runs."""
