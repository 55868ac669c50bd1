"""Which tokens are hidden, and what each score weighs."""
