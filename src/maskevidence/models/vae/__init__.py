"""Variational autoencoders and the estimators of their evidence."""
