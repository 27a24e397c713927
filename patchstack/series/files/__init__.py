"""How a series is kept on disk."""
