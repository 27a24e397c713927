"""Write a series from its fork, and recreate the fork from the series."""
