"""Compute memory sizes, and lower bounds for execution times.

The inputs are the header of a model and the figures of a machine. No model is run.
"""
