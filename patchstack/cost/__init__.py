"""Compute the least costs of a model from its header, a machine and numbers. Runs nothing."""
