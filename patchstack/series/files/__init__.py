"""Read the files of a series on disk: names, formats and order."""
