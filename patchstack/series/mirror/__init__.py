"""Write a series from its fork, and recreate the fork or a source directory from the series."""
