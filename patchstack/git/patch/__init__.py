"""Read the text of patches: mail, trailers, diffs, hunks and anchored patches. No other package does so."""
