"""Gaussian densities: PPCA, factor analysis, and any covariance."""
