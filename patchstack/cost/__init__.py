"""Compute memory sizes and lower bounds of times.

The inputs are the header of a model and the figures of a machine. No model is run.
"""
