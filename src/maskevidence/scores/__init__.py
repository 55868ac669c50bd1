"""What a model is asked, and the scores of masks that its answers give."""
