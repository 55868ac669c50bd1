"""The identity and its errors, for models of any kind of data."""
