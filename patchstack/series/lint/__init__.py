"""Lint: what can be wrong with a series that applies. A rule a file; `runner` gathers them."""
