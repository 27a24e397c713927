"""What was seen, keyed by everything that can change it, and what was decided because of it."""
