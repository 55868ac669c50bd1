"""Choose a model of rows by held-out evidence."""
