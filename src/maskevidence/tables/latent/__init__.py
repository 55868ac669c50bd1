"""Models with a latent space: Bernoulli PCA and VAEs."""
