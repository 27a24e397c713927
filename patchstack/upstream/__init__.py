"""What upstream does to a series. Reads history, changes nothing."""
