"""From scores to a number with its errors."""
