"""What was observed, by key, and what was decided because of it."""
