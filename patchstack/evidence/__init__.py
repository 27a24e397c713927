"""Observations by key, and the decisions that rest on them."""
