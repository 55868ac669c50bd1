"""Tables: readers, models of rows, and the commands select, impute and cells."""
