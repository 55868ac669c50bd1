"""Tables: readers, models of rows, and the commands that only tables have."""
