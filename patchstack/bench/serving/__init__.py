"""Read the record of a run against a server, compute its figures, and check whether they are valid."""
