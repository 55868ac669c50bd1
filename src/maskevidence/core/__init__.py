"""Models, masks, scores and evidence for any kind of data."""
