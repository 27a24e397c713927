"""Compute memory sizes and lower bounds of times, from a model's header and the figures of a machine. Runs no model."""
