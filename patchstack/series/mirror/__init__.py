"""Write a series from its fork. From the series, recreate the fork or a source directory."""
