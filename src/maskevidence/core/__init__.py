"""The identity and its errors: tokens, models, masks, scores, evidence, comparison, checks and training; knows no kind of data."""
