"""The state of a series for `status` and `show`: next step, surface, metadata."""
