"""The text of patches: mail, diffs, hunks, trailers, anchored patches."""
