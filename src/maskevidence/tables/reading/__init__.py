"""Read the cells of a table as people write them: numbers, dates, words and cells that are none of these."""
