"""Estimates of the log evidence and their standard errors, from scores."""
