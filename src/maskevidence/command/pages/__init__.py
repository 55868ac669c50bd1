"""Pages of reports: self-contained, on one or more runs."""
