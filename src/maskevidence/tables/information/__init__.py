"""What one group of columns tells about another."""
