"""Texts: masked language models, readers, encodings and published designs."""
