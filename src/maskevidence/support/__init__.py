"""Small things that every layer uses: files, progress, random numbers, the hub."""
