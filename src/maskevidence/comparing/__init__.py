"""Models side by side, the bias of single mask rates, and filled tables."""
