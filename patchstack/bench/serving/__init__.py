"""What a run against a server shows: its record, the figures, and whether they can be used."""
