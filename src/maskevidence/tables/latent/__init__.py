"""Linear Bernoulli models, by integration over the latent space."""
