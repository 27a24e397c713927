"""Read git objects, edit trees in memory, apply patches, and run git."""
