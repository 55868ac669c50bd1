"""Images: masked image models, readers and pixel densities."""
