"""Determine the state of a series for `status` and `show`: the next step, the surface, and the metadata."""
