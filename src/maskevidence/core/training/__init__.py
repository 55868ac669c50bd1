"""Training: objectives, the loop, and checkpoints."""
