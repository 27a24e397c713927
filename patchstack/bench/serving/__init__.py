"""A run against a server: its record, its figures, and whether they are valid."""
