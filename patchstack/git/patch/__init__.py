"""Read the text of patches: mail, trailers, diffs, hunks, anchored patches. Nothing else reads patch text."""
