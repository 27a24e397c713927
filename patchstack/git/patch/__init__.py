"""The text of patches: mail, trailers, diffs, hunks, anchored patches. The only reader of patch text."""
