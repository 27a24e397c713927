"""The state of a series, and the next step."""
