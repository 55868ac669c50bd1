"""Which model of rows: selection by held-out evidence."""
