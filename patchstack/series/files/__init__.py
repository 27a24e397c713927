"""How a series is kept on disk: file names, formats, order."""
