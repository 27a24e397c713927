"""Read the text of patches, and place their hunks. No other package reads the text of patches."""
