"""Masked evidence inside other libraries; each module imports its own when it is asked for."""
