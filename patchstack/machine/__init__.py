"""The machine that a build or a gate runs on: its hardware, its tools, and what is missing."""
