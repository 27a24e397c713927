"""The machine that a build or a gate runs on: what it has, and what it lacks."""
