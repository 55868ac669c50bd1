"""What results look like: plain parts of a page, and one renderer each for terminal, notebook and picture."""
